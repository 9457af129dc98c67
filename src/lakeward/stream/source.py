"""What a consumer loop asks of a source.

A source gives its rows in portions, each with the position right behind it. The position is
committed with the rows, and the source goes on behind it the next time: so each row is taken once,
whatever happens between.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
            progress: As `Portion.position` told it, or None for the beginning.
            schema: What rows shall look like.
            table: For whom, to name in errors.
        """

    @abstractmethod
    def portions(self) -> Iterator[Portion]:
        """The rows from there on, until there are no more."""

    def committed(self, position: Mapping[str, Any]) -> None:  # noqa: B027  few need it
        """Learn that everything before a position is in the lake."""

    def close(self) -> None:  # noqa: B027  few need it
        """Let go of files and connections."""


class ReadOnce(Source):
    """A stream that is read once, such as standard input.

    Args:
        stream: To read bytes from.
        replay: The stream is the same as the last time, from its beginning; what was committed of
            it is skipped.
    """

    rewinds = False

    def __init__(self, stream: BinaryIO, *, replay: bool = False) -> None:
        self._stream = stream
        self._replay = replay

    def _to_skip(self, progress: Any, unit: str) -> int:
        """How much of the stream was committed before, by a position that counts in a unit."""
        known = progress.get(unit, 0) if isinstance(progress, Mapping) else 0
        return int(known) if self._replay else 0
