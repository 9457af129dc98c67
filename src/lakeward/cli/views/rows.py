"""A page of a table's rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
from rich.console import RenderableType
from rich.text import Text

from lakeward.cli.output import words
from lakeward.cli.output.base import View
from lakeward.engines.arrow.values import python_rows, python_values
from lakeward.model.types import Field


@dataclass(frozen=True, slots=True)
class RowsView(View):
    """Rows of a version.

    Attributes:
        offset: How many rows come before the page.
        more: Others follow.
    """

    table: str
    version: int
    timestamp: datetime
    columns: tuple[Field, ...]
    rows: pa.Table
    offset: int
    more: bool

    def to_json(self) -> dict[str, Any]:
        """The rows as objects, with the schema that says what they are."""
        return {
            "table": self.table,
            "version": self.version,
            "timestamp": self.timestamp,
            "schema": [
                {"name": f.name, "type": str(f.type), "nullable": f.nullable} for f in self.columns
            ],
            "offset": self.offset,
            "rows": python_rows(self.rows),
            "more": self.more,
        }

    def to_text(self) -> Iterator[RenderableType]:
        """A table of the rows."""
        values = [python_values(column) for column in self.rows.columns]
        lines = ([words.cell(column[n]) for column in values] for n in range(self.rows.num_rows))
        right = [f.name for f in self.rows.schema if _is_number(f.type)]
        yield words.grid(self.rows.schema.names, lines, right=right)
        yield Text(self._where(), style="dim")

    def _where(self) -> str:
        shown = self.rows.num_rows
        if not shown:
            rows = "no rows" if not self.offset else f"no rows after {self.offset:,}"
        else:
            rows = f"rows {self.offset + 1:,} to {self.offset + shown:,}"
        more = "; --limit and --offset show more" if self.more else ""
        return f"{rows} of {self.table} at version {self.version}{more}"


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))
