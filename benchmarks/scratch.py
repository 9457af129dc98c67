"""A directory on a real disk for one run, gone afterwards.

ext4 is slow to hand out inodes where files were deleted within the last minutes, up to a
millisecond a file: a run would pay for the clean-up of the one before it, and one side for
another's. Directories are therefore spread over the disk, and nothing is deleted before the run
ends.
"""

from __future__ import annotations

import array
import fcntl
import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from benchmarks.machine import file_system

_GET_FLAGS: Final = 0x80086601
_SET_FLAGS: Final = 0x40086602
_SPREAD: Final = 0x00020000
"""Linux: directories made in this one go where there is room, not where their parent is."""
_IN_MEMORY: Final = ("tmpfs", "ramfs")


@contextmanager
def scratch(parent: Path, *, keep: bool) -> Generator[Path]:
    """A new directory below `parent`.

    Raises:
        SystemExit: It would be in memory, where a sync costs nothing.
    """
    parent.mkdir(parents=True, exist_ok=True)
    if file_system(parent) in _IN_MEMORY:
        message = (
            "The scratch directory is in memory, where a sync costs nothing: choose --scratch."
        )
        raise SystemExit(message)
    _spread(parent)
    place = Path(tempfile.mkdtemp(prefix="run-", dir=parent))
    _spread(place)
    try:
        yield place
    finally:
        if not keep:
            shutil.rmtree(place, ignore_errors=True)


def fresh(place: Path) -> Path:
    """A directory whose own directories are spread too."""
    place.mkdir()
    _spread(place)
    return place


def _spread(directory: Path) -> None:
    """Ask for it; a file system that cannot is fine."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        flags = array.array("l", [0])
        with suppress(OSError):
            fcntl.ioctl(handle, _GET_FLAGS, flags, True)
            flags[0] |= _SPREAD
            fcntl.ioctl(handle, _SET_FLAGS, flags, True)
    finally:
        os.close(handle)
