"""Rows of a CSV file that another program may still write: those that are certainly complete.

A line is complete if it ends with a newline outside of quotes. Arrow takes the end of a file for
the end of a line and of a quoted value. So a row of empty values is read after the last newline:
either it is the last row, or it is swallowed by a quoted value that has no end yet. The last row is
left out in both cases.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Final

import pyarrow as pa

from lakeward.engines.arrow.csv import csv_names, delimiter_of
from lakeward.engines.arrow.files import file_rows
from lakeward.errors import InvalidInput

_BLOCK: Final = 2**20
_ENDS: Final = b"\r\n"


@dataclass(frozen=True, slots=True)
class _Beginning:
    """The first `size` bytes of a CSV file, then the bytes `then`; opened like a `RemoteFile`."""

    path: Path
    size: int
    then: bytes = b""

    def __str__(self) -> str:
        return str(self.path)

    @property
    def suffixes(self) -> list[str]:
        return self.path.suffixes

    @property
    def suffix(self) -> str:
        return self.path.suffix

    def open(self) -> Any:
        return self.open_text()

    def open_text(self) -> BinaryIO:
        return io.BufferedReader(_Bounded(self.path.open("rb"), self.size, self.then), _BLOCK)


class GrowingCsv:
    """The complete rows of a file; `is_finished` is known when all of them were read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.is_finished = True

    def rows(self, schema: pa.Schema, table: str) -> Iterator[pa.Table]:
        """Yield the complete rows, in parts, as `file_rows` does."""
        try:
            size = self._path.stat().st_size
            lines: Any = _Beginning(self._path, _last_end(self._path, size))
            if size and not lines.size:
                self.is_finished = False
                return
            names = csv_names(lines)
        except (OSError, pa.ArrowException, InvalidInput):
            # The ordinary way reports what is wrong with the file.
            yield from file_rows(self._path, schema, table, "csv")
            return
        added = delimiter_of(lines).join(['""'] * len(names)) + "\n"
        held: pa.Table | None = None
        for part in file_rows(replace(lines, then=added.encode()), schema, table, "csv"):
            if held is not None and part.num_rows:
                yield held
            held = part if part.num_rows or held is None else held
        assert held is not None  # noqa: S101  there is the added row
        whole, last = held.slice(0, held.num_rows - 1), held.slice(held.num_rows - 1)
        is_added = all(v in (None, "", b"") for v in last.to_pylist()[0].values())
        self.is_finished = is_added and lines.size == size
        yield whole


def _last_end(path: Path, size: int) -> int:
    """Return the position after the last end of a line in the first bytes of a file; 0 if none."""
    with path.open("rb") as file:
        while size:
            start = max(0, size - _BLOCK)
            file.seek(start)
            block = file.read(size - start)
            found = max(block.rfind(_ENDS[:1]), block.rfind(_ENDS[1:]))
            if found >= 0:
                return start + found + 1
            size = start
    return 0


class _Bounded(io.RawIOBase):
    def __init__(self, file: BinaryIO, size: int, then: bytes) -> None:
        self._file, self._left, self._then = file, size, io.BytesIO(then)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        chunk = self._file.read(min(len(buffer), self._left)) if self._left else b""
        self._left -= len(chunk)
        chunk = chunk or self._then.read(len(buffer))
        buffer[: len(chunk)] = chunk
        return len(chunk)

    def close(self) -> None:
        self._file.close()
        super().close()
