"""Data with other columns: `schema_mode` adds them, widens types, or replaces the schema."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.errors import InvalidInput, SchemaMismatch
from tests.support.tables import table_of


@pytest.fixture
def made(lake: lw.Lake, name: str, table_format: str) -> lw.Table:
    """A table of one row."""
    schema = "id int32, v string, s struct<a: int32>"
    state = table_of(schema).rows([{"id": 1, "v": "a", "s": {"a": 1}}])
    return state.make(lake, name, format=table_format)


def test_merge_adds_columns_and_widens_types(lake: lw.Lake, made: lw.Table) -> None:
    data = pa.table(
        {
            "id": pa.array([2**40], pa.int64()),
            "v": ["b"],
            "s": pa.array([{"a": 2, "b": "x"}], pa.struct([("a", pa.int32()), ("b", pa.string())])),
            "new": [1.5],
        }
    )
    with pytest.raises(SchemaMismatch):
        made.append(data)
    with lake.transaction() as tx:
        tx.append(made.name, data, schema_mode="merge")
    made.append([{"id": 3, "v": "c", "s": None, "more": 7}], schema_mode="merge")
    made.append([{"id": 4, "v": None, "s": None}], schema_mode="merge")
    assert made.version == 4
    assert [(f.name, str(f.type)) for f in made.schema] == [
        ("id", "int64"),
        ("v", "string"),
        ("s", "struct<a: int32, b: string>"),
        ("new", "double"),
        ("more", "int64"),
    ]
    found = sorted(made.to_arrow().to_pylist(), key=lambda r: r["id"])
    assert found[0] == {"id": 1, "v": "a", "s": {"a": 1, "b": None}, "new": None, "more": None}
    assert found[3] == {"id": 2**40, "v": "b", "s": {"a": 2, "b": "x"}, "new": 1.5, "more": None}


def test_overwrite_replaces_the_schema_with_all_rows(lake: lw.Lake, made: lw.Table) -> None:
    data = pa.table({"w": [1], "v": [2.5], "id": pa.array([7], pa.int32())})
    made.overwrite(data, schema_mode="overwrite")
    assert made.schema.names == ["w", "v", "id"]
    assert made.to_arrow().to_pylist() == [{"w": 1, "v": 2.5, "id": 7}]
    assert made.at(version=1).to_arrow().column_names == ["id", "v", "s"]
    made.append(data)
    assert made.to_arrow(where="v > 2").num_rows == 2


def test_what_schema_mode_cannot_do_is_refused(lake: lw.Lake, made: lw.Table) -> None:
    data = pa.table({"w": [1]})
    with pytest.raises(InvalidInput, match="schema_mode"):
        made.append(data, schema_mode="nosuch")
    with pytest.raises(InvalidInput, match="all rows"):
        made.append(data, schema_mode="overwrite")
    with pytest.raises(InvalidInput, match="all rows"):
        made.overwrite(data, where="id = 1", schema_mode="overwrite")
    with pytest.raises(InvalidInput, match="cannot be told"):
        made.append(iter([data]), schema_mode="merge")
    assert made.version == 1
