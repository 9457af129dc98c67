"""Files that a test writes itself, and hands to a table."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

import lakeward as lw
from tests.support.s3 import on_disk


def put(table: lw.Table, path: str, data: pa.Table) -> str:
    """Write rows as a file below a table's location; its path there."""
    target = on_disk(table.location) / path
    target.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(data, target)
    return path


def add(lake: lw.Lake, name: str, *paths: str) -> None:
    """Commit files of others to a table."""
    with lake.transaction() as tx:
        tx.add_files(name, paths)
