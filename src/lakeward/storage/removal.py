"""Deletes files below one local directory, without ever leaving it.

Every directory on the path is opened relative to its parent and never through a symbolic link, so
neither a path with `..` nor a planted link leads out of the directory.
"""

from __future__ import annotations

import errno
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import repeat
from typing import Final, Self

from lakeward.storage.base import StoredFile
from lakeward.storage.syncing import translated

_ROOT: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_BELOW: Final = _ROOT | os.O_NOFOLLOW
_NO_NAMES: Final = frozenset({"", ".", ".."})


class LocalRemoval(ABC):
    """The part of a local storage that finds and deletes files below a directory."""

    def walk(self, directory: str) -> Iterator[tuple[str, StoredFile | None]]:
        """Yield the names of all regular files below a directory, without metadata.

        To look at each file costs more than to list it.
        """
        return zip(walk(self._full(directory)), repeat(None))

    def look_below(self, directory: str, names: Iterable[str]) -> dict[str, StoredFile]:
        """Return the metadata of files below a directory, by name, from a look at each file."""
        with Directory(self._full(directory)) as below, translated(directory):
            return below.look(names)

    def delete_below(self, directory: str, names: Sequence[str]) -> None:
        """Delete files below a directory, and directories that become empty; follow no link."""
        with Directory(self._full(directory)) as below:
            for name in names:
                below.delete(name)
            for empty in directories_of(names):
                below.delete_empty(empty)

    @abstractmethod
    def _full(self, path: str) -> str:
        """Return the absolute path."""


class Directory:
    """Looks at and deletes files below one directory; a context manager that keeps handles open."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._open: dict[str, int | None] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._open.values():
            if handle is not None:
                os.close(handle)
        self._open.clear()

    def look(self, names: Iterable[str]) -> dict[str, StoredFile]:
        """Return the regular files of some names, without links, directories and missing files.

        Raises `OSError`.
        """
        out: dict[str, StoredFile] = {}
        stat_, is_regular = os.stat, stat.S_ISREG
        for name in names:
            directory, _, own = name.rpartition("/")
            handle = self._handle(directory)
            if handle is None or own in _NO_NAMES:
                continue
            try:
                found = stat_(own, dir_fd=handle, follow_symlinks=False)
            except (FileNotFoundError, NotADirectoryError):
                continue
            if is_regular(found.st_mode):
                out[name] = StoredFile(name, found.st_size, found.st_mtime_ns // 1_000_000)
        return out

    def delete(self, name: str) -> None:
        """Delete a file below the directory; a missing one is no error."""
        directory, _, own = name.rpartition("/")
        handle = self._handle(directory)
        if handle is None or own in _NO_NAMES:
            return
        with translated(name), suppress(FileNotFoundError):
            os.unlink(own, dir_fd=handle)

    def delete_empty(self, name: str) -> None:
        """Delete a subdirectory, if it exists and is empty."""
        above, _, own = name.rpartition("/")
        handle = self._handle(above)
        if handle is not None and own not in _NO_NAMES:
            with suppress(OSError):
                os.rmdir(own, dir_fd=handle)

    def _handle(self, directory: str) -> int | None:
        """Open a subdirectory; return None if it is missing, or a link is on the path."""
        if directory not in self._open:
            self._open[directory] = self._opened(directory)
        return self._open[directory]

    def _opened(self, directory: str) -> int | None:
        with translated(directory):
            try:
                if not directory:
                    return os.open(self._root, _ROOT)
                above, _, own = directory.rpartition("/")
                handle = self._handle(above)
                if handle is None or own in _NO_NAMES:
                    return None
                return os.open(own, _BELOW, dir_fd=handle)
            except (FileNotFoundError, NotADirectoryError):
                return None
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENOTDIR):
                    return None
                raise


def walk(root: str) -> Iterator[str]:
    """Yield the names of all regular files below a directory; links are not followed or listed."""
    stack = [(root, "")]
    while stack:
        directory, prefix = stack.pop()
        with translated(directory):
            try:
                entries = os.scandir(directory)
            except (FileNotFoundError, NotADirectoryError):
                continue
        with translated(directory), entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    stack.append((entry.path, f"{prefix}{entry.name}/"))
                elif entry.is_file(follow_symlinks=False):
                    yield prefix + entry.name


def directories_of(names: Iterable[str]) -> list[str]:
    """Return the directories that contain files of these names, deepest first."""
    found: set[str] = set()
    for name in names:
        above = name.rpartition("/")[0]
        while above and above not in found:
            found.add(above)
            above = above.rpartition("/")[0]
    return sorted(found, key=lambda d: (-d.count("/"), d))
