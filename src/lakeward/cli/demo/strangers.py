"""Asking strangers: engines that are not ours, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from lakeward.cli.demo import stranger
from lakeward.errors import LakewardError

_PATIENCE_SECONDS: Final = 60


def read_with_all(location: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """What each engine reads from a table's directory, all of them at once."""
    asked = [(engine, _ask("read", engine, location)) for engine in stranger.READERS]
    for engine, process in asked:
        yield engine, _answer(engine, process)


def write_to(location: str) -> dict[str, Any]:
    """What deltalake is told when it tries to write past the lake."""
    return _answer("deltalake", _ask("write", "deltalake", location))


def _ask(task: str, engine: str, location: str) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603  our own script
        [_python(engine), "-I", stranger.__file__, task, engine, location],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )


def _answer(engine: str, process: subprocess.Popen[str]) -> dict[str, Any]:
    try:
        out, err = process.communicate(timeout=_PATIENCE_SECONDS)
    except subprocess.TimeoutExpired as error:
        process.kill()
        process.communicate()
        what = f"{engine} did not answer within {_PATIENCE_SECONDS} seconds."
        raise LakewardError(what) from error
    if process.returncode:
        what = f"{engine} failed: {err.strip().splitlines()[-1] if err.strip() else 'no reason'}"
        raise LakewardError(what)
    answer: dict[str, Any] = json.loads(out)
    return answer


def _python(engine: str) -> str:
    """DuckDB's extensions want an environment of their own; `make peers` makes it beside ours."""
    peers = Path(sys.prefix).parent / ".venv-peers" / "bin" / "python"
    return str(peers) if engine == "DuckDB" and peers.exists() else sys.executable
