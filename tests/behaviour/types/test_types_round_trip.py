"""What was written is what is read: every type, at its edges, by every way of reading."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lakeward as lw
from tests.behaviour.lakes import append
from tests.behaviour.samples import KINDS, NARROW, everything, exact_rows, sample


@pytest.mark.parametrize("kind", KINDS)
def test_values_and_types_come_back_exactly(shared_lake: lw.Lake, name: str, kind: str) -> None:
    _check_that_all_comes_back(shared_lake, name, sample(kind))


@pytest.mark.formats("delta")
@pytest.mark.parametrize("kind", NARROW)
def test_narrow_numbers_come_back_exactly_where_the_format_has_them(
    shared_lake: lw.Lake, name: str, kind: str
) -> None:
    _check_that_all_comes_back(shared_lake, name, sample(kind))


@pytest.mark.parametrize("kind", KINDS)
def test_python_values_come_back_exactly(shared_lake: lw.Lake, name: str, kind: str) -> None:
    data = sample(kind)
    table = shared_lake.create(name, data.schema)
    append(shared_lake, name, data.to_pylist())

    assert exact_rows(table.to_arrow()) == exact_rows(data)


def test_columns_of_all_types_live_side_by_side(
    shared_lake: lw.Lake, table_format: str, name: str
) -> None:
    data = everything(table_format)
    table = shared_lake.create(name, data.schema)
    append(shared_lake, name, data)
    append(shared_lake, name, data.to_pylist())

    assert exact_rows(table.to_arrow().slice(0, data.num_rows)) == exact_rows(data)
    assert exact_rows(table.to_arrow().slice(data.num_rows)) == exact_rows(data)
    names = ["deep", "id", "timestamp_ms"]
    assert table.to_arrow(columns=names).column_names == names


def test_rows_survive_being_rewritten(shared_lake: lw.Lake, table_format: str, name: str) -> None:
    data = everything(table_format)
    table = shared_lake.create(name, data.schema)
    append(shared_lake, name, data)

    with shared_lake.transaction() as tx:
        tx.delete(name, where="id = 0")

    assert exact_rows(table.to_arrow()) == exact_rows(data.slice(1))


def test_a_column_of_nulls_has_its_type(shared_lake: lw.Lake, name: str) -> None:
    table = shared_lake.create(name, {"id": "int64", "x": "date"})
    append(shared_lake, name, pa.table({"id": [1, 2], "x": pa.nulls(2)}))

    assert table.to_arrow().schema.field("x").type == pa.date32()
    assert table.to_arrow()["x"].null_count == 2


def test_a_column_of_another_zone_is_the_same_moments(shared_lake: lw.Lake, name: str) -> None:
    table = shared_lake.create(name, {"id": "int64", "x": "timestamp"})
    moments = pa.array([0, 1_700_000_000_123_456], pa.timestamp("us", "Asia/Tokyo"))
    append(shared_lake, name, pa.table({"id": [1, 2], "x": moments}))

    assert table.to_arrow()["x"].cast(pa.int64()).to_pylist() == [0, 1_700_000_000_123_456]
    assert table.to_arrow(where="x > '2023-11-14 22:13:20.123455'")["id"].to_pylist() == [2]


def test_a_wide_schema_works(shared_lake: lw.Lake, name: str) -> None:
    names = [f"c{n}" for n in range(1000)]
    table = shared_lake.create(name, dict.fromkeys(names, "int64"))
    append(shared_lake, name, {n: [p, p + 1] for p, n in enumerate(names)})

    assert table.to_arrow(where="c999 = 999")["c0"].to_pylist() == [0]
    assert len(table.to_arrow().column_names) == 1000


@pytest.mark.parametrize(
    "column",
    [
        "with space",
        "Ünïcode 🦆",
        "a.b",
        "quote'd",
        'double"d',
        "back`tick",
        "semi;colon",
        "a=b/c",
        "select",
        "_metadata",
        "%41",
        "{x}",
        "a,b",
    ],
)
def test_column_names_may_hold_anything_printable(
    shared_lake: lw.Lake, name: str, column: str
) -> None:
    table = shared_lake.create(name, {"id": "int64", column: "string"})
    append(shared_lake, name, [{"id": 1, column: "x"}, {"id": 2, column: "y"}])

    quoted = "`" + column.replace("`", "``") + "`"
    assert table.to_arrow(where=f"{quoted} = 'y'")["id"].to_pylist() == [2]
    assert table.to_arrow(columns=[column])[column].to_pylist() == ["x", "y"]


def _check_that_all_comes_back(lake: lw.Lake, name: str, data: pa.Table) -> None:
    table = lake.create(name, data.schema)
    append(lake, name, data)

    found = table.to_arrow()

    assert found.schema == table.schema.to_arrow()
    assert exact_rows(found) == exact_rows(data)
    assert exact_rows(table.to_reader().read_all()) == exact_rows(data)
