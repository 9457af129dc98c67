"""Where a test's lake is: picklable, so that other processes can open it too."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lakeward as lw
from tests.support.formatted import FormattedLake


@dataclass(frozen=True, slots=True)
class LakeTarget:
    """A store and a warehouse.

    Attributes:
        url: What `lw.open` takes: a directory or a PostgreSQL URL.
        warehouse: The directory of the tables' files.
        table_format: Of the tables that a test makes without naming one.
    """

    url: str
    warehouse: Path
    table_format: str = "delta"

    @property
    def is_postgres(self) -> bool:
        """Whether the log is in PostgreSQL."""
        return self.url.startswith("postgresql://")

    def open(self, **options: Any) -> lw.Lake:
        """Open the lake, as `lw.open` does."""
        return FormattedLake(
            self.url, warehouse=self.warehouse, table_format=self.table_format, **options
        )
