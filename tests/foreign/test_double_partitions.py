"""Iceberg partitions on doubles, whose values the manifests hold with all their digits."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyiceberg.transforms import IdentityTransform

import lakeward as lw
from tests.behaviour.iceberg.theirs import their_catalog

VALUES = [0.1, 30.4, 5e-324, 1e308, None, 1.5]


def test_no_digit_of_a_partition_value_is_lost(tmp_path: Path) -> None:
    rows = pa.table({"id": pa.array(range(6), pa.int64()), "p": pa.array(VALUES, pa.float64())})
    with their_catalog(tmp_path / "theirs") as catalog, lw.open(tmp_path / "lake") as lake:
        catalog.create_namespace("space")
        made = catalog.create_table("space.table", rows.schema)
        with made.update_spec() as spec:
            spec.add_field("p", IdentityTransform(), "p_part")
        made.append(rows)

        table = lake.adopt("space.table", made.metadata_location)
        assert table.to_arrow().sort_by("id")["p"].to_pylist() == VALUES
        for number, value in enumerate(VALUES):
            where = f"p <=> CAST('{value}' AS DOUBLE)" if value is not None else "p IS NULL"
            assert table.to_arrow(where=where)["id"].to_pylist() == [number]
