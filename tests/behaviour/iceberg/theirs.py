"""Iceberg tables that pyiceberg made in a catalog of its own, to be adopted."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, LongType, NestedField, StringType

SCHEMA = pa.schema([("id", pa.int64()), ("note", pa.string()), ("day", pa.date32())])
_STORED = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "note", StringType(), required=False),
    NestedField(3, "day", DateType(), required=False),
)
BY_DAY = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "day"))


@contextmanager
def their_catalog(where: Path) -> Generator[SqlCatalog]:
    """A catalog of somebody else's below a directory."""
    where.mkdir(exist_ok=True)
    uri = f"sqlite:///{where}/catalog.db"
    found = SqlCatalog("theirs", uri=uri, warehouse=f"file://{where}/warehouse")
    try:
        yield found
    finally:
        found.engine.dispose()


def rows(*numbers: int) -> pa.Table:
    """Rows of the schema above."""
    data = {"id": numbers, "note": [f"note {n}" for n in numbers], "day": list(numbers)}
    return pa.table({k: pa.array(v, SCHEMA.field(k).type) for k, v in data.items()}, SCHEMA)


def eventful(catalog: SqlCatalog, name: str, **options: Any) -> tuple[Any, list[list[int]]]:
    """A table with a few snapshots, and the ids of each, oldest first."""
    catalog.create_namespace_if_not_exists(name.split(".")[0])
    table = catalog.create_table(name, _STORED, **options)
    table.append(rows(1, 2, 3))
    table.append(rows(4))
    table.delete("id = 2")
    table.overwrite(rows(5, 6), overwrite_filter="id = 1")
    return table, [[1, 2, 3], [1, 2, 3, 4], [1, 3, 4], [3, 4], [3, 4, 5, 6]]
