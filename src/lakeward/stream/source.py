"""Sources of rows for `sink.consume`.

A source gives rows in portions, each with the position after it. The position is committed with the
rows, and the source continues there the next time, so each row is taken once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Portion:
    """Some rows of a source.

    Attributes:
        rows: Whatever `Sink.write` takes; None when nothing came for a while.
        count: How many.
        position: Where the source is behind them, in plain JSON values.
    """

    rows: Any
    count: int
    position: Mapping[str, Any]


class Source(ABC):
    """Rows from elsewhere."""

    rewinds: bool = True
    """Whether it can go back to an older position."""

    @abstractmethod
    def start(self, progress: Any, schema: pa.Schema, table: str) -> None:
        """Go to a position.

        Args:
            progress: An earlier `Portion.position`, or None for the beginning.
            schema: The schema that rows must have.
            table: The table's name, for errors.
        """

    @abstractmethod
    def portions(self) -> Iterator[Portion]:
        """The rows from there on, until there are no more."""

    def committed(self, position: Mapping[str, Any]) -> None:  # noqa: B027  few need it
        """Called when everything before a position is in the lake."""

    def close(self) -> None:  # noqa: B027  few need it
        """Close files and connections."""


class Files(Source):
    """Files that are read one after the other, and known by their full paths."""

    def __init__(self, paths: Sequence[str | Path]) -> None:
        self._paths = [Path(p).expanduser().absolute() for p in paths]
        self._taken: dict[str, int] = {}

    def _continue(self, progress: Any, unit: str) -> None:
        """Take over how much of each file was committed, by a position that has it in a unit."""
        known = progress.get(unit, {}) if isinstance(progress, Mapping) else {}
        self._taken = dict(known)


class ReadOnce(Source):
    """A stream that is read once, such as standard input.

    With `replay` it is the same stream as the last time, and its committed part is skipped.
    """

    rewinds = False

    def __init__(self, stream: BinaryIO, *, replay: bool = False) -> None:
        self._stream = stream
        self._replay = replay

    def _to_skip(self, progress: Any, unit: str) -> int:
        """How much of the stream to skip, by a position that counts in a unit."""
        known = progress.get(unit, 0) if isinstance(progress, Mapping) else 0
        return int(known) if self._replay else 0
