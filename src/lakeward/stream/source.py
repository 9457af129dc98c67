"""Sources of rows for `sink.consume`.

A source yields rows in portions, each with the position after it. The position is committed with
the rows, and the source continues there the next time, so each row is taken once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from lakeward.engines.arrow.remote import RowFile


@dataclass(frozen=True, slots=True)
class Portion:
    """Some rows of a source.

    Attributes:
        rows: Data in any form that `Sink.write` accepts; None if no rows came for a while.
        count: The number of rows.
        position: The position of the source after these rows, in plain JSON values.
    """

    rows: Any
    count: int
    position: Mapping[str, Any]


class Source(ABC):
    """A source of rows outside of the lake."""

    rewinds: bool = True
    """Whether the source can go back to an older position."""

    @abstractmethod
    def start(self, progress: Any, schema: pa.Schema, table: str) -> None:
        """Set the position from which `portions` reads.

        Args:
            progress: An earlier `Portion.position`, or None for the beginning.
            schema: The schema that rows must have.
            table: The table's name, for errors.
        """

    @abstractmethod
    def portions(self) -> Iterator[Portion]:
        """Yield the rows after the position, in portions, until there are no more."""

    def places(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> Sequence[str]:  # noqa: ARG002
        """Return the files or other addresses, without passwords, of rows between two positions.

        Lineage shows them; the default is none.
        """
        return ()

    def unfinished(self) -> Sequence[str]:
        """Return the files of which `portions` left out the last line, because it has no end yet.

        `Sink.consume` raises an error for them when all other rows are committed.
        """
        return ()

    def committed(self, position: Mapping[str, Any]) -> None:  # noqa: B027  few need it
        """Called when everything before a position has been committed."""

    def close(self) -> None:  # noqa: B027  few need it
        """Close files and connections."""


class Files(Source):
    """Files that are read one after the other, and identified by their full paths."""

    form: str
    """The format of the files: `parquet`, `csv`, `json` or `arrow`."""

    def __init__(self, paths: Sequence[str | Path]) -> None:
        self._paths = [Path(p).expanduser().absolute() for p in paths]
        self._taken: dict[str, int] = {}
        self._unfinished: list[str] = []

    def unfinished(self) -> Sequence[str]:
        """Return the files whose last line was left out."""
        return self._unfinished

    @property
    def files(self) -> Sequence[RowFile]:
        """The files, in the order in which they are read."""
        return self._paths

    def places(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> Sequence[str]:
        """Return the paths of the files from which rows between the two positions were taken."""
        return [
            path
            for unit, taken in after.items()
            for path, count in taken.items()
            if (before.get(unit) or {}).get(path) != count
        ]

    def _continue(self, progress: Any, unit: str) -> None:
        """Set how much of each file was committed, from `progress[unit]`."""
        known = progress.get(unit, {}) if isinstance(progress, Mapping) else {}
        self._taken = dict(known)
        self._unfinished = []


class ReadOnce(Source):
    """A stream that is read once, such as standard input.

    With `replay` it must be the same stream as the last time; its committed part is skipped.
    """

    rewinds = False

    def __init__(self, stream: BinaryIO, *, replay: bool = False) -> None:
        self._stream = stream
        self._replay = replay

    def _to_skip(self, progress: Any, unit: str) -> int:
        """Return how much of the stream to skip: `progress[unit]` with `replay`, otherwise 0."""
        known = progress.get(unit, 0) if isinstance(progress, Mapping) else 0
        return int(known) if self._replay else 0
