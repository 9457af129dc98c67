"""Directories of symbolic links to the files of a table, in which DataFusion lists files.

The process that makes a directory locks it until it deletes it. A killed process leaves its
directories behind without a lock; the next process that makes one deletes them.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import shutil
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

from lakeward.engines.sql.source import PlainFiles

_PREFIX: Final = "lakeward-sql-"
_NEW_SECONDS: Final = 60
"""A directory that is younger may not be locked yet."""


class Links:
    """A directory of links to files; `path` ends with a slash.

    Partition values are in the names of subdirectories.
    """

    def __init__(self, files: PlainFiles) -> None:
        _delete_abandoned()
        self._root = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_place()))
        self._lock = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.path = f"{self._root}/"
        parts = files.partitions or itertools.repeat(())
        for n, (path, values) in enumerate(zip(files.paths, parts, strict=False)):
            below = self._root.joinpath(*(f"{name}={value}" for name, value in values))
            if values:
                below.mkdir(parents=True, exist_ok=True)
            (below / f"{n:07}.parquet").symlink_to(path)

    def delete(self) -> None:
        """Delete the directory."""
        shutil.rmtree(self._root, ignore_errors=True)
        os.close(self._lock)


@cache
def _delete_abandoned() -> None:
    """Delete the directories of processes that have ended; once in each process."""
    place = Path(_place() or tempfile.gettempdir())
    for found in place.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if time.time() - found.stat().st_mtime > _NEW_SECONDS:
                _delete_if_unlocked(found)


def _delete_if_unlocked(directory: Path) -> None:
    lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(directory, ignore_errors=True)
    finally:
        os.close(lock)


@cache
def _place() -> str | None:
    """Return a directory in memory, if there is one: links on a disk cost more than a query."""
    place = "/dev/shm"  # noqa: S108  links are made in a directory of our own below it
    return place if os.access(place, os.W_OK | os.X_OK) else None
