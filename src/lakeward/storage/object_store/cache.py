"""A cache of byte ranges of files on an object store, in memory and on a local disk.

A range is kept under the file's full name, its ETag and its place in the file, so it is never
returned for another version of the file. Files whose name has a random id are written once and
never again, by Lakeward and by writers of both formats; for these the name alone is enough, and
opening one that is known needs no request. Of all others the ETag is asked for at each opening.

Both parts are bounded, and drop what was not used for longest. A file in the directory has a
checksum: what a crash left incomplete is dropped.
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
"""A range may take this part of the memory at most."""
_ONCE: Final = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_CHECK: Final = 4
_SIZE: Final = 8


def is_written_once(name: str) -> bool:
    """Return whether the name of a file has a random id, so that no other gets it."""
    return _ONCE.search(name.rpartition("/")[2]) is not None


class RangeCache:
    """Ranges of files by a key, shared by threads."""

    def __init__(self, asked: Cache, count: Callable[[str, int], None]) -> None:
        """Keep what is asked for, and count hits and misses."""
        self._memory = asked.memory
        self._held: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()
        self._disk = None if asked.directory is None else _Disk(Path(asked.directory), asked.disk)
        self._count = count

    def get(self, key: str) -> bytes | None:
        """Return what is kept under a key; None if nothing is."""
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
        """Keep data under a key, if it fits."""
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
    """Open a file whose ranges are kept.

    Args:
        cache: Where they are kept.
        name: Identifies the file and its version.
        end: Fetches the size and the last bytes.
        fetch: Fetches a range.
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
            self._trim()

    def _trim(self) -> None:
        """Delete the files that were not used for longest, if there are too many."""
        with self._lock:
            if self._size <= self._limit:
                return
            found = sorted(self._listed())
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
