"""Where a test's lake is: picklable, so that other processes can open it too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lakeward as lw
from tests.support.formatted import FormattedLake
from tests.support.s3 import S3Server, on_disk


@dataclass(frozen=True, slots=True)
class LakeTarget:
    """A store and a warehouse.

    Attributes:
        url: What `lw.open` takes: a directory or a PostgreSQL URL.
        warehouse: The directory of the tables' files; of an S3 server's, where it keeps them.
        table_format: Of the tables that a test makes without naming one.
        place: What `lw.open` takes as the warehouse, where that is no directory.
        options: What it takes as storage options.
    """

    url: str
    warehouse: Path
    table_format: str = "delta"
    place: str | None = None
    options: Mapping[str, str] | None = None

    @property
    def is_postgres(self) -> bool:
        """Whether the log is in PostgreSQL."""
        return self.url.startswith("postgresql://")

    def open(self, **options: Any) -> lw.Lake:
        """Open the lake, as `lw.open` does."""
        return FormattedLake(
            self.url,
            warehouse=self.place or self.warehouse,
            table_format=self.table_format,
            **{"storage_options": self.options, **options},
        )


def s3_target(server: S3Server, url: str, table_format: str) -> LakeTarget:
    """A lake whose warehouse is a prefix of a fresh bucket."""
    bucket = server.bucket()
    place = f"s3://{bucket}/wh"
    return LakeTarget(url, on_disk(place), table_format, place, server.options())
