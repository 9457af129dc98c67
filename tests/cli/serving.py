"""`lakeward serve` as a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.console import clean_environment


@contextmanager
def serving(lake: Path | str, *more: str) -> Generator[tuple[subprocess.Popen[str], str]]:
    """A service as a process of its own, and its address."""
    command = [sys.executable, "-m", "lakeward", "serve", "--lake", str(lake), "--json"]
    process = subprocess.Popen(
        [*command, "--port", "0", *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment(),
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.stderr.read() if process.stderr else ""
        yield process, json.loads(line)["address"]
    finally:
        process.kill()
        process.communicate()
