"""deltalake as a contender: its own calls, then a sync of what it wrote."""

from __future__ import annotations

import uuid
from pathlib import Path
from time import perf_counter
from urllib.parse import unquote

import orjson
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from benchmarks.sync import sync_new


class DeltaWriter:
    """Appends to one deltalake table and knows which files each commit wrote.

    Args:
        location: The table's directory; there must be a table.
        reuse: Keep one `DeltaTable` over all commits instead of naming the directory each time.
    """

    def __init__(self, location: Path, *, reuse: bool) -> None:
        self._location = location
        self._table = DeltaTable(str(location)) if reuse else None
        self._seen = DeltaTable(str(location)).version()

    def append(self, data: pa.Table, *, epoch: int | None = None) -> float:
        """Append, commit and sync; the seconds it took.

        Args:
            data: The rows.
            epoch: A number to record as application transaction.
        """
        mark = uuid.uuid4().hex
        counted = None if epoch is None else [Transaction("bench", epoch)]
        properties = CommitProperties(custom_metadata={"mark": mark}, app_transactions=counted)
        target = str(self._location) if self._table is None else self._table
        started = perf_counter()
        write_deltalake(target, data, mode="append", commit_properties=properties)
        taken = perf_counter() - started
        return taken + sync_new(self._written(mark))

    def _written(self, mark: str) -> list[Path]:
        """The log entry that carries the mark, and the data files that it names."""
        while True:
            entry = self._location / "_delta_log" / f"{self._seen + 1:020d}.json"
            text = entry.read_bytes()
            self._seen += 1
            if mark.encode() in text:
                break
        actions = [orjson.loads(line) for line in text.splitlines()]
        added = [unquote(a["add"]["path"]) for a in actions if "add" in a]
        return [entry, *(self._location / path for path in added)]
