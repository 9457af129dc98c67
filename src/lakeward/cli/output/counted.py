"""A source that counts the rows of another source, for the progress bar."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakeward.cli.output.base import Advance, show_nothing
from lakeward.stream.source import Files, Portion, Source

if TYPE_CHECKING:
    from lakeward.stream.row_estimate import RowEstimate


class Counted(Source):
    """Yields the rows of another source, and counts them.

    Args:
        source: The source of the rows.
        advance: Called with the rows so far, and about how many rows come in all; None if that is
            unknown, as for standard input and topics.
    """

    def __init__(self, source: Source, advance: Advance) -> None:
        self.rewinds = source.rewinds
        self._source = source
        self._advance = advance
        self._position: Mapping[str, Any] = {}
        self._estimate: RowEstimate | None = None

    def start(self, progress: Any, schema: pa.Schema, table: str) -> None:
        """Set the position from which `portions` reads."""
        self._source.start(progress, schema, table)
        self._position = progress if isinstance(progress, Mapping) else {}
        if isinstance(self._source, Files) and self._advance is not show_nothing:
            from lakeward.stream.row_estimate import RowEstimate

            self._estimate = RowEstimate(self._source.files, self._source.form, progress)

    def portions(self) -> Iterator[Portion]:
        """Yield the same portions, and report their rows."""
        rows = 0
        for portion in self._source.portions():
            rows += portion.count
            self._advance(rows, self._total(portion))
            yield portion

    def places(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> Sequence[str]:
        """Return the files from which rows between two positions were taken."""
        return self._source.places(before, after)

    def unfinished(self) -> Sequence[str]:
        """Return the files whose last line was left out."""
        return self._source.unfinished()

    def committed(self, position: Mapping[str, Any]) -> None:
        """Tell the source that everything before a position has been committed."""
        self._source.committed(position)

    def close(self) -> None:
        """Close files and connections."""
        self._source.close()

    def _total(self, portion: Portion) -> int | None:
        """Return about how many rows come in all, None if it is unknown."""
        before, self._position = self._position, portion.position
        if self._estimate is None:
            return None
        for place in self._source.places(before, portion.position):
            return self._estimate.add(place, portion.count)
        return None
