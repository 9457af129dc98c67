"""Keeps rows in a temporary file that is mapped into memory.

The file has no name, so the system deletes it when no rows refer to it: after success, failure and
a kill alike. The system decides which of its pages are in memory.
"""

from __future__ import annotations

import mmap
import tempfile
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
import pyarrow.ipc

from lakeward.errors import StorageError

_BATCH: Final = 8 * 2**20
"""Rows are written in batches of at least this many bytes, whatever the size of the given ones."""


class Spill:
    """Collects rows of one schema in a file, and returns them as a memory-mapped table."""

    def __init__(self, schema: pa.Schema, *, at_once: int = _BATCH) -> None:
        self._schema = schema
        self._at_once = at_once
        self._waiting: list[pa.Table] = []
        self._size = 0
        self._map: mmap.mmap | None = None
        with _translated():
            self._file = tempfile.TemporaryFile(prefix="lakeward-")  # noqa: SIM115  held by rows
            self._writer = pa.ipc.new_file(self._file, schema)

    def write(self, rows: pa.Table) -> None:
        """Add rows."""
        self._waiting.append(rows)
        self._size += rows.nbytes
        if self._size >= self._at_once:
            self._flush()

    def finish(self) -> pa.Table:
        """Return all rows, in order, mapped from the file; nothing can be added after that."""
        self._flush()
        with _translated():
            self._writer.close()
            self._file.flush()
            self._map = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
            self._file.close()
        return pa.ipc.open_file(pa.py_buffer(self._map)).read_all()

    def close(self) -> None:
        """Delete the file."""
        self._file.close()

    def release(self) -> None:
        """Drop the file's pages from memory; the system reads them again when needed."""
        if self._map is not None:
            self._map.madvise(mmap.MADV_DONTNEED)

    def _flush(self) -> None:
        rows = pa.concat_tables([self._schema.empty_table(), *self._waiting]).combine_chunks()
        self._waiting, self._size = [], 0
        with _translated():
            self._writer.write_table(rows)


class SpilledNumbers:
    """Byte strings of whole numbers in a temporary file, by key; any thread may use it."""

    def __init__(self) -> None:
        with _translated():
            self._file = tempfile.TemporaryFile(prefix="lakeward-", buffering=0)  # noqa: SIM115
        self._places: dict[object, list[tuple[int, int]]] = {}
        self._end = 0
        self._lock = threading.Lock()

    def add(self, key: object, data: bytes) -> None:
        """Append bytes under a key."""
        with self._lock, _translated():
            self._file.seek(self._end)
            left = memoryview(data)
            while left:
                left = left[self._file.write(left) :]
            self._places.setdefault(key, []).append((self._end, len(data)))
            self._end += len(data)

    def of(self, key: object) -> list[bytes]:
        """Return all byte strings that were added under a key, in order."""
        out = []
        with self._lock, _translated():
            for start, count in self._places.get(key, ()):
                self._file.seek(start)
                found = b""
                # The system may give less than it is asked for.
                while len(found) < count and (more := self._file.read(count - len(found))):
                    found += more
                if len(found) < count:
                    message = f"{count} bytes were written and {len(found)} are left"
                    raise OSError(message)
                out.append(found)
        return out

    def close(self) -> None:
        """Delete the file."""
        self._file.close()


@contextmanager
def _translated() -> Generator[None]:
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        place = tempfile.gettempdir()
        what = f"Rows could not be kept in {place}: {error}."
        hint = "Set TMPDIR to a directory with more space, or give the work more memory."
        raise StorageError(what, hint=hint, path=place) from error
