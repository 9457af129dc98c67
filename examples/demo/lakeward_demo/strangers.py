"""Asking strangers: engines that are not ours, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from lakeward_demo import stranger

_PATIENCE_SECONDS: Final = 60


def read_with_all(location: str) -> list[tuple[str, dict[str, Any]]]:
    """What each engine reads from a table's directory, all of them at once."""
    with ExitStack() as stack:
        asked = [
            (engine, ask(stack, stranger, engine, "read", engine, location))
            for engine in stranger.READERS
        ]
        return [(engine, answer(process)) for engine, process in asked]


def write_to(location: str) -> dict[str, Any]:
    """What deltalake is told when it tries to write past the lake."""
    with ExitStack() as stack:
        return answer(ask(stack, stranger, "deltalake", "write", "deltalake", location))


def ask(stack: ExitStack, script: ModuleType, engine: str, *words: str) -> subprocess.Popen[str]:
    """Run a script where an engine is, apart from the lake; its answer can be waited for.

    Args:
        stack: The process is over when it ends.
        script: What to run.
        engine: The one that must be at hand.
        words: What the script is told.
    """
    process = stack.enter_context(
        subprocess.Popen(
            [_python(engine), "-I", str(script.__file__), *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )
    )
    # Nobody waits for an answer when something else went wrong; one that has ended stays ended.
    stack.callback(process.kill)
    return process


def answer(process: subprocess.Popen[str], patience: int = _PATIENCE_SECONDS) -> dict[str, Any]:
    """What a process that was asked says, or why it `failed`."""
    try:
        out, err = process.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        return {"failed": f"no answer within {patience} seconds"}
    if process.returncode:
        return {"failed": err.strip().rpartition("\n")[2] or f"code {process.returncode}"}
    said: dict[str, Any] = json.loads(out)
    return said


def _python(engine: str) -> str:
    """DuckDB's extensions want an environment of their own; `make peers` makes it beside ours."""
    peers = Path(sys.prefix).parent / ".venv-peers" / "bin" / "python"
    return str(peers) if engine.startswith("DuckDB") and peers.exists() else sys.executable
