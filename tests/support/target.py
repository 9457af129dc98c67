"""Where a test's lake is: picklable, so that other processes can open it too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import lakeward as lw
from tests.support.formatted import FormattedLake
from tests.support.s3 import S3Server


@dataclass(frozen=True, slots=True)
class LakeTarget:
    """A store and a warehouse.

    Attributes:
        url: What `lw.open` takes: a directory or a PostgreSQL URL.
        warehouse: The directory of the tables' files; of an S3 server's, where it keeps them.
        table_format: Of the tables that a test makes without naming one.
        place: What `lw.open` takes as the warehouse, where that is no directory.
        options: What it takes as storage options.
        through_service: Whether the lake is read by `lw.connect` through a service.
    """

    url: str
    warehouse: Path
    table_format: str = "delta"
    place: str | None = None
    options: Mapping[str, str] | None = None
    through_service: bool = False

    @property
    def is_postgres(self) -> bool:
        """Whether the log is in PostgreSQL."""
        return self.url.startswith("postgresql://")

    def open(self, **options: Any) -> lw.Lake:
        """Open the lake, as `lw.open` does."""
        lake = FormattedLake(
            self.url,
            warehouse=self.place or self.warehouse,
            table_format=self.table_format,
            **{"storage_options": self.options, **options},
        )
        if self.through_service:
            from tests.support.through_service import ReadThrough

            return cast("lw.Lake", ReadThrough(lake))
        return lake


def s3_target(server: S3Server, directory: Path, table_format: str) -> LakeTarget:
    """A lake whose warehouse is on an S3 server, which serves the directory as a bucket."""
    place = f"s3://{server.bucket(directory)}/wh"
    url = str(directory / "lake")
    return LakeTarget(url, directory / "wh", table_format, place, server.options())
