"""Iceberg partitions on doubles: with all their digits, or as pyiceberg rounds them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.transforms import IdentityTransform

import lakeward as lw
from tests.behaviour.iceberg.theirs import their_catalog

VALUES = [0.1, 30.4, 5e-324, 1e308, None, 1.5]


def _adopted(catalog: SqlCatalog, lake: lw.Lake, *, delete: str | None = None) -> lw.Table:
    """A table with one row in each partition."""
    rows = pa.table({"id": pa.array(range(6), pa.int64()), "p": pa.array(VALUES, pa.float64())})
    catalog.create_namespace("space")
    made = catalog.create_table("space.table", rows.schema)
    with made.update_spec() as spec:
        spec.add_field("p", IdentityTransform(), "p_part")
    made.append(rows)
    if delete is not None:
        made.delete(delete)
        # Without the first snapshot, whose manifest has all digits.
        made.maintenance.expire_snapshots().by_id(made.snapshots()[0].snapshot_id).commit()
    return lake.adopt("space.table", made.metadata_location)


def test_no_digit_of_a_partition_value_is_lost(tmp_path: Path) -> None:
    with their_catalog(tmp_path / "theirs") as catalog, lw.open(tmp_path / "lake") as lake:
        table = _adopted(catalog, lake)
        assert table.to_arrow().sort_by("id")["p"].to_pylist() == VALUES
        for number, value in enumerate(VALUES):
            where = f"p <=> CAST('{value}' AS DOUBLE)" if value is not None else "p IS NULL"
            assert table.to_arrow(where=where)["id"].to_pylist() == [number]


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("p = 30.4", [1]),
        ("p IN (0.1, 30.4)", [0, 1]),
        ("p >= 30.4", [1, 3]),
        ("p <= 0.1", [0, 2]),
        ("p < 0.1", [2]),
        ("p > 0", [0, 1, 2, 3]),
        ("p = 30.399999618530273", []),
        ("p < CAST('Infinity' AS DOUBLE)", [0, 1, 2, 3]),
    ],
)
def test_rounded_partition_values_hide_no_row(tmp_path: Path, where: str, found: list[int]) -> None:
    """A delete by pyiceberg writes the manifest again, with the values rounded to four bytes."""
    with their_catalog(tmp_path / "theirs") as catalog, lw.open(tmp_path / "lake") as lake:
        table = _adopted(catalog, lake, delete="p == 1.5")
        assert sorted(table.to_arrow(where=where)["id"].to_pylist()) == found
        with lake.transaction() as tx:
            tx.delete("space.table", where=where)
        left = sorted(table.to_arrow()["id"].to_pylist())
        assert left == sorted({0, 1, 2, 3, 4} - set(found))
