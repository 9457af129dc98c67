"""A lake whose tables are of the format that a test is run with."""

from __future__ import annotations

from typing import Any

import lakeward as lw


class FormattedLake(lw.Lake):
    """A lake that makes tables of one format unless a test asks for another.

    So a scenario is written once, without a word about formats, and holds for each of them.
    """

    def __init__(self, *arguments: Any, table_format: str, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._table_format = table_format

    def create(self, name: str, schema: Any, **options: Any) -> lw.Table:
        """Make an empty table, of the lake's usual format unless said otherwise."""
        return super().create(name, schema, **{"format": self._table_format, **options})
