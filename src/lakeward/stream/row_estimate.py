"""Estimates how many rows a source of files still has, for a progress bar."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from lakeward.engines.arrow.remote import RowFile
from lakeward.engines.arrow.row_estimate import estimated_rows

_UNITS: Final = ("files", "rows", "batches")
"""The positions in files: bytes, rows and batches taken, by path."""


class RowEstimate:
    """Estimates the rows of files while they are read one after the other.

    Rows of the current file are estimated by its beginning, those of later files by their sizes
    and the rows per byte of the files before. Files on object stores are taken to be equally
    large: asking for each size would be a request.

    Args:
        files: The files, in the order in which they are read.
        form: Their format.
        progress: The position at which the source starts, or None for the beginning.
    """

    def __init__(self, files: Sequence[RowFile], form: str, progress: Any) -> None:
        self._form = form
        self._files = {str(file): file for file in files}
        known = progress if isinstance(progress, Mapping) else {}
        self._before = {
            name: (unit, taken) for unit in _UNITS for name, taken in known.get(unit, {}).items()
        }
        self._later = deque((n, _size(f)) for n, f in self._files.items() if n not in self._before)
        self._unread = sum(size or 0 for _, size in self._later)
        self._unsized = sum(size is None for _, size in self._later)
        self._current: str | None = None
        self._rows = self._expected = self._all = 0
        self._sample: tuple[int, int] | None = None
        self._finished = (0, 0)

    def add(self, name: str, rows: int) -> int | None:
        """Count rows of a file; return the estimated number of all rows, None if it is unknown."""
        if name not in self._files:
            return None
        if name != self._current:
            self._begin(name)
        self._rows += rows
        self._all += rows
        if self._sample is None:
            return None
        known, size = self._finished if self._finished[1] else self._sample
        unread = self._unread + self._unsized * self._sample[1]
        rest = unread * known // size if size else 0
        return self._all + max(0, self._expected - self._rows) + rest

    def _begin(self, name: str) -> None:
        """Take a file as the current one; those before it are finished."""
        if self._current is not None and self._current not in self._before and self._sample:
            rows, size = self._finished
            self._finished = (rows + self._rows, size + self._sample[1])
        while name not in self._before and self._later:
            other, own = self._later.popleft()
            self._unread -= own or 0
            self._unsized -= own is None
            if other == name:
                break
        self._current, self._rows = name, 0
        self._expected = self._estimated(name)

    def _estimated(self, name: str) -> int:
        """Return about how many rows of a file are new."""
        file = self._files[name]
        if self._sample is None or isinstance(file, Path):
            try:
                self._sample = estimated_rows(file, self._form)
            except (OSError, ValueError, pa.ArrowException):
                return 0
            rows, size = self._sample
        else:
            size = self._sample[1]
            rows = self._finished[0] * size // max(1, self._finished[1])
        unit, taken = self._before.get(name, ("", 0))
        if unit == "files":
            return rows * (size - int(taken)) // size if size else 0
        return rows - int(taken) if unit in ("rows", "") else 0


def _size(file: RowFile) -> int | None:
    """Return the size of a file of this machine; None for another one."""
    try:
        return file.stat().st_size if isinstance(file, Path) else None
    except OSError:
        return 0
