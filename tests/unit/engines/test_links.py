"""Directories of links, of processes that run and of killed ones."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from lakeward.engines.sql.links import Links
from lakeward.engines.sql.source import PlainFiles

_MADE = """
import os, signal
from lakeward.engines.sql.links import Links
from lakeward.engines.sql.source import PlainFiles
print(Links(PlainFiles(["/a.parquet", "/b.parquet"], [])).path, flush=True)
"""


def _made(then: str) -> Path:
    ran = subprocess.run(
        [sys.executable, "-c", _MADE + then], capture_output=True, text=True, check=False
    )
    return Path(ran.stdout.strip())


def test_directories_of_killed_processes_are_deleted_and_no_others() -> None:
    killed = _made("os.kill(os.getpid(), signal.SIGKILL)")
    assert len(list(killed.iterdir())) == 2
    new = _made("os.kill(os.getpid(), signal.SIGKILL)")
    own = Links(PlainFiles(["/c.parquet"], []))
    try:
        for path in (killed, Path(own.path)):
            os.utime(path, (0, 0))
        other = _made("os.kill(os.getpid(), signal.SIGKILL)")
        assert not killed.exists()
        assert new.exists()  # perhaps its process has not locked it yet
        assert [p.name for p in Path(own.path).iterdir()] == ["0000000.parquet"]
    finally:
        own.delete()
    assert not Path(own.path).exists()
    for path in (new, other):
        os.utime(path, (0, 0))
    last = _made("os.kill(os.getpid(), signal.SIGKILL)")
    assert not new.exists()
    assert not other.exists()
    shutil.rmtree(last)
