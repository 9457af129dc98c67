"""Scans rows in an order; the first ones are read from the files that can have them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.engines.arrow.scanner import Columns, StreamScanner
from lakeward.model.schema import Schema
from lakeward.model.sorting import SortKey
from lakeward.model.types import Decimal, Primitive

First: TypeAlias = Callable[[int | None], pa.Table]
"""Returns as many of the first rows, or all when None."""


class OrderedScanner(StreamScanner):
    """A scanner of ordered rows, which reads no more for the first ones than it needs."""

    def __init__(self, schema: pa.Schema, first: First, columns: Columns) -> None:
        """Prepare to read.

        Args:
            schema: The schema of the rows, for the columns.
            first: Returns rows in order, filtered.
            columns: The columns of the result.
        """
        super().__init__(schema, lambda: first(None).to_reader(), columns, None)
        self._first = first

    def head(self, num_rows: int) -> pa.Table:
        """Return the first rows."""
        return self._until(num_rows).to_table()

    def take(self, indices: Any) -> pa.Table:
        """Return the rows at the given positions."""
        last = pc.max(pa.array(indices)).as_py()
        return self._until(0 if last is None else last + 1).to_table().take(indices)

    def _until(self, limit: int) -> StreamScanner:
        most = max(limit, 0)
        return StreamScanner(
            self.dataset_schema, lambda: self._first(most).to_reader(), self._columns, None
        )


def keys_of(sorting: Any, schema: Schema, **options: Any) -> list[SortKey] | None:
    """Return the keys of an order of pyarrow, in which NaN and nulls come last, or both first.

    Returns None for an order by anything but columns that are not nested.
    """
    # Raises what pyarrow raises for an order that is wrong.
    schema.to_arrow().empty_table().sort_by(sorting, **options)
    found = []
    for term in [(sorting, "ascending")] if isinstance(sorting, str) else sorting:
        name, how, *placed = term
        field = schema.by_name.get(name) if isinstance(name, str) else None
        if field is None or name.startswith(".") or not isinstance(field.type, Primitive | Decimal):
            return None
        first = (options.get("null_placement") or (*placed, "at_end")[0]) == "at_start"
        found.append(SortKey(field, how == "descending", nulls_first=first, nan_first=first))
    return found
