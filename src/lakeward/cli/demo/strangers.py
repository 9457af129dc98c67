"""Asking strangers: engines that are not ours, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from lakeward.cli.demo import stranger

_PATIENCE_SECONDS: Final = 60


def read_with_all(location: str) -> list[tuple[str, dict[str, Any]]]:
    """What each engine reads from a table's directory, all of them at once."""
    with ExitStack() as stack:
        asked = [(engine, _ask(stack, "read", engine, location)) for engine in stranger.READERS]
        return [(engine, _answer(process)) for engine, process in asked]


def write_to(location: str) -> dict[str, Any]:
    """What deltalake is told when it tries to write past the lake."""
    with ExitStack() as stack:
        return _answer(_ask(stack, "write", "deltalake", location))


def _ask(stack: ExitStack, task: str, engine: str, location: str) -> subprocess.Popen[str]:
    process = stack.enter_context(
        subprocess.Popen(  # noqa: S603  our own script
            [_python(engine), "-I", stranger.__file__, task, engine, location],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )
    )
    # Nobody waits for an answer when something else went wrong; one that has ended stays ended.
    stack.callback(process.kill)
    return process


def _answer(process: subprocess.Popen[str]) -> dict[str, Any]:
    try:
        out, err = process.communicate(timeout=_PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        return {"failed": f"no answer within {_PATIENCE_SECONDS} seconds"}
    if process.returncode:
        return {"failed": err.strip().rpartition("\n")[2] or f"code {process.returncode}"}
    answer: dict[str, Any] = json.loads(out)
    return answer


def _python(engine: str) -> str:
    """DuckDB's extensions want an environment of their own; `make peers` makes it beside ours."""
    peers = Path(sys.prefix).parent / ".venv-peers" / "bin" / "python"
    return str(peers) if engine == "DuckDB" and peers.exists() else sys.executable
