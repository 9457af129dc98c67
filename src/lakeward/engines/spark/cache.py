"""The cache directory, which keeps jars and a Java home between sessions.

A directory appears in the cache complete: it is made under a temporary name and renamed, so that
no process sees an incomplete directory of another.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

VARIABLE: Final = "LAKEWARD_CACHE"


def cache_directory() -> Path:
    """Return the user's cache directory: `LAKEWARD_CACHE`, or `lakeward` in the system's cache.

    If that cannot be written, it is a directory in the temporary directory.
    """
    named = os.environ.get(VARIABLE)
    if named:
        return _made(Path(named).expanduser().absolute())
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        return _made(Path(base).expanduser() / "lakeward")
    except (OSError, RuntimeError):
        return _made(Path(tempfile.gettempdir()) / f"lakeward-{os.getuid()}")


def kept(name: str, make: Callable[[Path], None]) -> Path:
    """Return the directory of a name in the cache; if it is missing, `make` fills it first."""
    cache = cache_directory()
    found = cache / name
    if found.is_dir():
        return found
    with _turn(cache / f"{name}.lock"):
        if found.is_dir():
            return found
        unfinished = Path(tempfile.mkdtemp(prefix=f"{name}.", dir=cache))
        try:
            make(unfinished)
            unfinished.chmod(0o755)
            unfinished.rename(found)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return found


def _made(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    if not os.access(directory, os.W_OK | os.X_OK):
        raise PermissionError(directory)
    return directory


@contextmanager
def _turn(lock: Path) -> Generator[None]:
    with lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
