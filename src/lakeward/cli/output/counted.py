"""A source whose rows are counted as they come, for the progress bar."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from glob import glob
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakeward.cli.output.base import Advance
from lakeward.stream.source import Portion, Source


class Counted(Source):
    """Another source, with its rows counted.

    Args:
        source: Where the rows come from.
        advance: Called with the rows so far, and with how many there are, as far as that is known.
        given: The paths or patterns of files that the user gave.
    """

    def __init__(self, source: Source, advance: Advance, given: Sequence[str]) -> None:
        self.rewinds = source.rewinds
        self._source = source
        self._advance = advance
        paths = [Path(found) for text in given for found in (glob(text, recursive=True) or [text])]  # noqa: PTH207  patterns may be absolute
        self._files = [path for path in paths if path.is_file()]
        self._bytes = sum(path.stat().st_size for path in self._files)
        self._known = _rows_of(self._files)

    def start(self, progress: Any, schema: pa.Schema, table: str) -> None:
        """Go to a position."""
        self._source.start(progress, schema, table)

    def portions(self) -> Iterator[Portion]:
        """The same rows, counted."""
        rows = 0
        for portion in self._source.portions():
            rows += portion.count
            self._advance(rows, self._total(rows, portion.position))
            yield portion

    def committed(self, position: Mapping[str, Any]) -> None:
        """Called when everything before a position is in the lake."""
        self._source.committed(position)

    def close(self) -> None:
        """Close files and connections."""
        self._source.close()

    def _total(self, rows: int, position: Mapping[str, Any]) -> int | None:
        """How many rows there are: by the footers, or by the part of the bytes that was read."""
        offsets = position.get("files")
        if self._known is not None or not isinstance(offsets, Mapping):
            return self._known
        ours = {str(path.absolute()) for path in self._files}
        read = sum(offset for path, offset in offsets.items() if path in ours)
        return max(rows, rows * self._bytes // read) if read else None


def _rows_of(files: Sequence[Path]) -> int | None:
    """The rows of Parquet files, by their footers; None for others."""
    if not files or any(path.suffix != ".parquet" for path in files):
        return None
    from pyarrow.parquet import read_metadata

    with suppress(OSError, pa.ArrowException):
        return sum(read_metadata(path).num_rows for path in files)
    return None
