"""Identity partitions of Iceberg tables on floats that are no ordinary numbers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, FloatType, LongType, NestedField

import lakeward as lw
from tests.behaviour.iceberg.strangers import Stranger
from tests.behaviour.iceberg.theirs import their_catalog
from tests.behaviour.lakes import append, delete, ids
from tests.support.foreign_files import append_file, numbered

_VALUES = [1.5, math.nan, math.inf, -math.inf, None, -0.0]


@pytest.mark.parametrize("in_files", [True, False], ids=["in the files", "not in the files"])
@pytest.mark.parametrize(
    ("kind", "arrow"), [(DoubleType(), pa.float64()), (FloatType(), pa.float32())]
)
def test_partitions_on_nan_and_infinity_are_read_found_and_deleted(
    one_lake: lw.Lake,
    one_stranger: Stranger,
    name: str,
    tmp_path: Path,
    kind: Any,
    arrow: pa.DataType,
    *,
    in_files: bool,
) -> None:
    schema = Schema(
        NestedField(1, "id", LongType(), required=False),
        NestedField(2, "x", kind, required=False),
    )
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "x"))
    with their_catalog(tmp_path / "theirs") as theirs:
        theirs.create_namespace("shop")
        made = theirs.create_table("shop.odd", schema, partition_spec=spec)
        for number, value in enumerate(_VALUES):
            columns = {"id": [number], "x": pa.array([value], arrow)}
            fields = [numbered("id", pa.int64(), 1), numbered("x", arrow, 2)]
            rows = pa.table(columns, schema=pa.schema(fields))
            rows = rows if in_files else rows.select(["id"])
            append_file(made, rows, partition=[value], statistics=False)
        table = one_lake.adopt(name, made.metadata_location)

    found = {r["id"]: r["x"] for r in table.to_arrow().to_pylist()}
    assert list(map(repr, map(found.get, range(6)))) == list(map(repr, _VALUES))
    assert ids(one_lake, name, where="isnan(x)") == [1]
    assert ids(one_lake, name, where="x > 1") == [0, 1, 2]
    assert ids(one_lake, name, where="x < 0") == [3]
    assert ids(one_lake, name, where="x = 0") == [5]
    assert ids(one_lake, name, where="x IS NULL") == [4]
    assert ids(one_lake, name, where="x <> 1.5") == [1, 2, 3, 5]

    delete(one_lake, name, "x = 1.5 OR x < 0")
    assert ids(one_lake, name) == [1, 2, 4, 5]
    theirs_now = {r["id"]: repr(r["x"]) for r in one_stranger.rows(name).to_pylist()}
    assert theirs_now == {1: "nan", 2: "inf", 4: "None", 5: "-0.0"}
    append(one_lake, name, [{"id": 6, "x": 2.0}])
    delete(one_lake, name, "isnan(x)")
    assert ids(one_lake, name) == [2, 4, 5, 6]
