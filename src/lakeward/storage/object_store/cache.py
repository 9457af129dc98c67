"""A cache of byte ranges of files on an object store, in memory and on a local disk.

The key of a range is the file's full name, its ETag and the position in the file, so a range is
never returned for another version of the file. Files whose name has a random id are written once
and never again, by Lakeward and by writers of both formats; for these the name alone is enough, and
opening a cached one needs no request. For all others the ETag is requested at each opening; a file
of a store that gives none is not cached. The memory and the directory are bounded; the least
recently used ranges are dropped. A file in the directory has a checksum: one that a crash left
incomplete is dropped.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from lakeward.model.cache import Cache
from lakeward.storage.object_store.files import ObjectFile

_LARGEST: Final = 4
"""A range is kept in memory if it is at most the memory's size divided by this."""
_ONCE: Final = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LOOKS: Final = 8
"""The directory is listed again when its limit divided by this was written to it."""
_CHECK: Final = 4
_SIZE: Final = 8


def is_written_once(name: str) -> bool:
    """Return whether the name of a file has a random id, so that no other file gets this name."""
    return _ONCE.search(name.rpartition("/")[2]) is not None


class RangeCache:
    """Byte ranges of files by a key, shared by threads."""

    def __init__(self, asked: Cache, count: Callable[[str, int], None]) -> None:
        """Create a cache of the configured sizes; `count` is called for each hit and miss."""
        self._memory = asked.memory
        self._held: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()
        self._disk = None if asked.directory is None else _Disk(Path(asked.directory), asked.disk)
        self._count = count

    def get(self, key: str) -> bytes | None:
        """Return the bytes that are cached under a key; None if there are none."""
        with self._lock:
            found = self._held.get(key)
            if found is not None:
                self._held.move_to_end(key)
        if found is None and self._disk is not None:
            found = self._disk.get(key)
            if found is not None:
                self._remember(key, found)
        self._count("cache_misses" if found is None else "cache_hits", 1)
        if found is not None:
            self._count("cache_hit_bytes", len(found))
        return found

    def put(self, key: str, data: bytes) -> None:
        """Cache bytes under a key, if they fit."""
        self._remember(key, data)
        if self._disk is not None:
            self._disk.put(key, data)

    @property
    def size(self) -> int:
        """The bytes in memory."""
        return self._size

    def _remember(self, key: str, data: bytes) -> None:
        if len(data) * _LARGEST > self._memory:
            return
        with self._lock:
            old = self._held.pop(key, None)
            self._size += len(data) - (0 if old is None else len(old))
            self._held[key] = data
            while self._size > self._memory:
                _, dropped = self._held.popitem(last=False)
                self._size -= len(dropped)


def opened_by(
    cache: RangeCache,
    name: str,
    end: Callable[[], tuple[int, bytes]],
    fetch: Callable[[int, int], Any],
) -> ObjectFile:
    """Open a file whose ranges are cached.

    Args:
        cache: Where the ranges are kept.
        name: Identifies the file and its version.
        end: Fetches the size and the last bytes of the file.
        fetch: Fetches the range from a first to a last position.
    """
    key = f"{name} end"
    known = cache.get(key)
    if known is None:
        size, tail = end()
        cache.put(key, size.to_bytes(_SIZE, "little") + tail)
    else:
        size, tail = int.from_bytes(known[:_SIZE], "little"), known[_SIZE:]

    def through(first: int, last: int) -> bytes:
        own = f"{name} {first}-{last}"
        found = cache.get(own)
        if found is None:
            found = bytes(fetch(first, last))
            cache.put(own, found)
        return found

    return ObjectFile(size, tail, through)


class _Disk:
    """Ranges as files of a directory, which other processes may use at the same time."""

    def __init__(self, directory: Path, limit: int) -> None:
        self._directory = directory.expanduser()
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._limit = limit
        self._lock = threading.Lock()
        self._size = sum(size for _, size, _ in self._listed())
        self._written = 0  # since the directory was listed; others may have written too
        self._trim()

    def get(self, key: str) -> bytes | None:
        path = self._path(key)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        found = data[_CHECK:]
        if zlib.crc32(found).to_bytes(_CHECK, "little") != data[:_CHECK]:
            self._drop(path, len(data))
            return None
        with suppress(OSError):
            os.utime(path)
        return found

    def put(self, key: str, data: bytes) -> None:
        if len(data) + _CHECK > self._limit:
            return
        path = self._path(key)
        new = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
        # A full disk costs speed and nothing else.
        with suppress(OSError):
            new.write_bytes(zlib.crc32(data).to_bytes(_CHECK, "little") + data)
            new.replace(path)
            with self._lock:
                self._size += len(data) + _CHECK
                self._written += len(data) + _CHECK
            self._trim()

    def _trim(self) -> None:
        """Delete the least recently used files while the directory exceeds its limit."""
        with self._lock:
            if self._size <= self._limit and self._written * _LOOKS <= self._limit:
                return
            found = sorted(self._listed())
            self._written = 0
            self._size = sum(size for _, size, _ in found)
            for _, size, path in found:
                if self._size <= self._limit:
                    return
                with suppress(OSError):
                    path.unlink()
                self._size -= size

    def _drop(self, path: Path, size: int) -> None:
        with suppress(OSError):
            path.unlink()
        with self._lock:
            self._size -= size

    def _listed(self) -> list[tuple[float, int, Path]]:
        found = []
        with suppress(OSError), os.scandir(self._directory) as entries:
            for entry in entries:
                with suppress(OSError):
                    about = entry.stat()
                    found.append((about.st_mtime, about.st_size, Path(entry.path)))
        return found

    def _path(self, key: str) -> Path:
        return self._directory / hashlib.sha256(key.encode()).hexdigest()
