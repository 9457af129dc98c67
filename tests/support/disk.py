"""A disk that is full or failing, for another process.

With `strace` the system calls of a running process fail, whoever makes them: Python, Arrow or
SQLite. Where a machine does not allow that, Python's own calls can fail, and SQLite's cannot.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from lakeward.storage import syncing

CALLS: Final = {
    "write": ("write", "pwrite64", "writev", "ftruncate", "fallocate"),
    "sync": ("fsync", "fdatasync", "io_submit", "io_getevents"),
    "name": (
        *("openat", "linkat", "renameat", "renameat2", "mkdirat", "unlinkat"),
        *("open", "link", "rename", "mkdir", "unlink"),
    ),
}
_PYTHON: Final = {
    "write": ("write",),
    "sync": ("fsync",),
    "name": ("open", "link", "replace", "mkdir", "unlink"),
}
_INJECTED: Final = re.compile(r"^\d+ +(\w+)\(.*\(INJECTED\)$", re.MULTILINE)


@dataclass
class Fault:
    """What fails, and when.

    Attributes:
        group: A key of `CALLS`.
        error: The name of an errno.
        when: As strace takes it: `5` is the fifth call, `5+` every call from the fifth on, `5+3`
            the fifth and then every third.
        hits: The names of the calls that failed, once it is over.
    """

    group: str
    error: str
    when: str
    hits: list[str] = field(default_factory=list)

    def strikes(self, number: int) -> bool:
        """Whether the n-th call fails."""
        first, plus, step = self.when.partition("+")
        if not plus:
            return number == int(first)
        return number >= int(first) and (number - int(first)) % int(step or 1) == 0


@contextmanager
def traced(pid: int, fault: Fault, directory: Path) -> Generator[None]:
    """Let calls of a running process fail, until it ends."""
    # A question mark allows for calls that this kind of machine does not have.
    calls = ",".join(f"?{call}" for call in CALLS[fault.group])
    output = directory / f"strace-{pid}"
    command = ["strace", "-f", "-p", str(pid), "-o", str(output), "-e", f"trace={calls}"]
    inject = f"inject={calls}:error={fault.error}:when={fault.when}"
    strace = subprocess.Popen([*command, "-e", inject], stderr=subprocess.PIPE, text=True)
    assert strace.stderr is not None
    try:
        attached = strace.stderr.readline()
        assert "attached" in attached, attached
        yield
    finally:
        try:
            strace.wait(60)
        finally:
            strace.kill()
            strace.stderr.close()
    fault.hits = _INJECTED.findall(output.read_text())
    output.unlink()


def patched(fault: Fault) -> list[str]:
    """Let calls that Python makes in this process fail from now on; the list of those that did."""
    hits: list[str] = []
    seen = 0

    def failing(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **options: Any) -> Any:
            nonlocal seen
            seen += 1
            if fault.strikes(seen):
                hits.append(name)
                code = getattr(errno, fault.error)
                raise OSError(code, os.strerror(code))
            return call(*args, **options)

        return wrapper

    patch = pytest.MonkeyPatch()
    # What the kernel syncs does not pass through Python.
    patch.setattr(syncing, "KERNEL", None)
    for name in _PYTHON[fault.group]:
        patch.setattr(os, name, failing(name, getattr(os, name)))
    return hits


@cache
def why_not_traced() -> str | None:
    """Why system calls cannot be made to fail here, or None when they can."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            done = subprocess.run(
                ["strace", "-p", str(process.pid), "-e", "inject=fsync:error=EIO:when=1"],
                stderr=subprocess.PIPE,
                text=True,
                timeout=1,
            )
        except subprocess.TimeoutExpired:
            # It attached and waited for the process to do something.
            return None
        finally:
            process.kill()
        return f"strace may not attach to processes: {done.stderr.strip()}"
