"""pyiceberg as a contender: its own append through its own SQLite catalog, then a sync."""

from __future__ import annotations

import os
from pathlib import Path
from time import perf_counter
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

from benchmarks.sync import sync_new

NAME = "bench.t"


def create(place: Path, schema: pa.Schema) -> None:
    """Make an empty table in a catalog of its own."""
    place.mkdir(parents=True, exist_ok=True)
    catalog = _catalog(place)
    catalog.create_namespace("bench")
    catalog.create_table(NAME, schema)
    catalog.engine.dispose()


class IcebergWriter:
    """Appends to one table and knows which files each commit wrote.

    Args:
        place: Where `create` made it.
        reuse: Keep one table object over all commits instead of loading it each time.
    """

    def __init__(self, place: Path, *, reuse: bool) -> None:
        self._catalog = _catalog(place)
        self._table = self._catalog.load_table(NAME)
        self._reuse = reuse
        self._directories = [
            Path(self._table.location().removeprefix("file://")) / name
            for name in ("data", "metadata")
        ]
        self._seen = self._files()

    def append(self, data: pa.Table) -> float:
        """Append, commit and sync; the seconds it took."""
        started = perf_counter()
        if not self._reuse:
            self._table = self._catalog.load_table(NAME)
        self._table.append(data)
        taken = perf_counter() - started
        found = self._files()
        new, self._seen = found - self._seen, found
        return taken + sync_new(Path(name) for name in new)

    def refresh(self) -> None:
        """Look at what others committed, as one must before trying again."""
        self._table.refresh()

    def count(self) -> int:
        """How many rows the table has."""
        table: Any = self._catalog.load_table(NAME)
        return int(table.current_snapshot().summary.additional_properties["total-records"])

    def _files(self) -> set[str]:
        return {e.path for d in self._directories if d.exists() for e in os.scandir(d)}


def _catalog(place: Path) -> SqlCatalog:
    return SqlCatalog("bench", uri=f"sqlite:///{place}/catalog.db", warehouse=f"file://{place}")
