"""The origins of rows in rewritten files, so that a changed row can be restored.

They are recorded only for tables with a constraint whose violation does not fail a transaction. The
origin of a row in a rewritten file is the file of the base version and the position that it had
there, and whether the row was changed. A row that the transaction added has no origin, even if the
transaction changed it later.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lakeward.model.file import LoggedFile

Numbers: TypeAlias = NDArray[np.int64]
COLUMN: Final = "\0origin"
"""The column of origins in tables of rows to be written; it is not written to files."""
NEW: Final = -1
_POSITION_BITS: Final = 40
_POSITION_MASK: Final = (1 << _POSITION_BITS) - 1
_CHANGED: Final = 1


class Kind(IntEnum):
    """What a transaction did to a row; of two rows with the same key, the lower kind stays."""

    KEPT = 0
    CHANGED = 1
    NEW = 2


@dataclass
class Origins:
    """The origins of the rows that one transaction wrote to a table; thread-safe."""

    _files: list[LoggedFile] = field(default_factory=list)
    _numbers: dict[tuple[int, int], int] = field(default_factory=dict)
    _rows: dict[str, Numbers] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of_base(self, file: LoggedFile, positions: Numbers) -> Numbers:
        """Return the origins of unchanged rows of a file of the base version."""
        with self._lock:
            number = self._numbers.setdefault((file.added, file.ordinal), len(self._files))
            if number == len(self._files):
                self._files.append(file)
        return (np.int64(number) << (_POSITION_BITS + 1)) | (positions.astype(np.int64) << 1)

    def of_written(self, path: str, positions: Numbers) -> Numbers:
        """Return the origins of rows of a file that the transaction wrote."""
        known = self._rows.get(path)
        return np.full(len(positions), NEW, np.int64) if known is None else known[positions]

    def note(self, path: str, origins: Numbers) -> None:
        """Record the origins of the rows of a file, in order."""
        self._rows[path] = origins

    def knows(self, path: str) -> bool:
        """Return whether the origins of a file's rows were recorded."""
        return path in self._rows

    def kinds(self, path: str, positions: Iterable[int]) -> NDArray[np.int64]:
        """Return the `Kind` of rows of a file whose origins were recorded."""
        found = self._rows[path][np.fromiter(positions, np.int64)]
        return np.where(found == NEW, np.int64(Kind.NEW), found & _CHANGED)

    def file(self, number: int) -> LoggedFile:
        """Return a file of the base version by its number in `places`."""
        return self._files[number]

    def places(self, paths: Sequence[str], positions: Sequence[int]) -> tuple[Numbers, Numbers]:
        """Return for each row the number of its file in the base version and its position there.

        Rows are given by path and position; none of them may be new.
        """
        each = zip(paths, positions, strict=True)
        found = np.array([self._rows[path][at] for path, at in each], dtype=np.int64)
        return found >> (_POSITION_BITS + 1), (found >> 1) & _POSITION_MASK

    def rows(self, places: Mapping[str, Iterable[int]]) -> list[tuple[LoggedFile, Numbers]]:
        """Return the old rows of changed rows, as files of the base version with positions.

        `places` are positions by the paths of files that the transaction wrote.
        """
        parts = [self._rows[path][np.fromiter(at, np.int64)] for path, at in places.items()]
        found = np.concatenate([np.empty(0, np.int64), *parts])
        found = np.unique(found[(found != NEW) & (found & _CHANGED == _CHANGED)])
        numbers = found >> (_POSITION_BITS + 1)
        positions = (found >> 1) & _POSITION_MASK
        return [(self._files[n], positions[numbers == n]) for n in np.unique(numbers).tolist()]


def changed(origins: Numbers) -> Numbers:
    """Return origins with the mark that the rows were changed; new rows stay new."""
    return np.where(origins == NEW, origins, origins | _CHANGED)
