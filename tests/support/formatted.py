"""A lake whose tables are of the format that a test is run with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lakeward as lw
from tests.support.s3 import as_served


class FormattedLake(lw.Lake):
    """A lake that makes tables of one format unless a test asks for another.

    So a scenario is written once, without a word about formats, and holds for each of them.
    """

    def __init__(self, *arguments: Any, table_format: str, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._table_format = table_format

    def create(self, name: str, schema: Any = None, **options: Any) -> lw.Table:
        """Make an empty table, of the lake's usual format unless said otherwise."""
        return super().create(name, schema, **{"format": self._table_format, **options})

    def adopt(self, name: str, location: str | Path, **options: Any) -> lw.Table:
        """Take a table in, by the name that the lake's own server has for a directory."""
        local = str(location).startswith("/")
        if self.warehouse.startswith("s3://") and local and options.get("catalog") is None:
            location = as_served(Path(location))
        return super().adopt(name, location, **options)
