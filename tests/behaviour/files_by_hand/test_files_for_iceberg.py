"""Files that others wrote, for Iceberg tables: field ids, and partitions that rows tell."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime

import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.errors import Conflict, InvalidInput, SchemaMismatch
from tests.behaviour.files_by_hand.by_hand import add, put
from tests.behaviour.lakes import append, ids, unchanged
from tests.behaviour.published import document
from tests.support.iceberg import stranger_arrow, stranger_catalog

pytestmark = pytest.mark.formats("iceberg")

_NESTED = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])


def _numbered(name: str, kind: pa.DataType, number: int) -> pa.Field:
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})


def test_files_without_field_ids_are_read_by_their_names_by_every_engine(
    shared_lake: lw.Lake, name: str
) -> None:
    table = shared_lake.create(name, {"id": "int64", "x": _NESTED})
    append(shared_lake, name, [{"id": 1, "x": {"a": 1, "b": ["u"]}}])
    rows = pa.table({"x": pa.array([{"a": 2, "b": ["v", None]}], _NESTED), "id": [2]})
    add(shared_lake, name, put(table, "plain.parquet", rows))
    append(shared_lake, name, [{"id": 3, "x": None}])

    expected = [
        {"id": 1, "x": {"a": 1, "b": ["u"]}},
        {"id": 2, "x": {"a": 2, "b": ["v", None]}},
        {"id": 3, "x": None},
    ]
    assert table.to_arrow().sort_by("id").to_pylist() == expected
    assert stranger_arrow(shared_lake, name).sort_by("id").to_pylist() == expected


def test_a_name_mapping_is_made_only_where_it_is_needed_and_is_no_change_of_definition(
    shared_lake: lw.Lake, name: str
) -> None:
    table = shared_lake.create(name, {"id": "int64"})
    append(shared_lake, name, {"id": [1]})
    before = table.definition
    assert "schema.name-mapping.default" not in document(shared_lake, name)["properties"]

    add(shared_lake, name, put(table, "plain.parquet", pa.table({"id": [2]})))

    assert "schema.name-mapping.default" in document(shared_lake, name)["properties"]
    catalog = stranger_catalog(shared_lake)
    catalog.load_table(name).append(pa.table({"id": [3]}))
    catalog.engine.dispose()
    assert ids(shared_lake, name) == [1, 2, 3]
    assert table.definition == before
    assert [v.version for v in table.history()] == [3, 2, 1, 0]


def test_files_with_the_tables_own_field_ids_are_taken(shared_lake: lw.Lake, name: str) -> None:
    table = shared_lake.create(name, {"id": "int64", "v": "string"})
    schema = pa.schema([_numbered("v", pa.string(), 2), _numbered("id", pa.int64(), 1)])
    path = put(table, "numbered.parquet", pa.table({"v": ["x"], "id": [1]}, schema=schema))

    add(shared_lake, name, path)

    assert "schema.name-mapping.default" not in document(shared_lake, name)["properties"]
    assert stranger_arrow(shared_lake, name).to_pylist() == [{"id": 1, "v": "x"}]


@pytest.mark.parametrize(
    "fields",
    [
        [_numbered("id", pa.int64(), 2), _numbered("v", pa.string(), 1)],
        [_numbered("id", pa.int64(), 1), _numbered("v", pa.string(), 9)],
        [_numbered("id", pa.int64(), 1), pa.field("v", pa.string())],
    ],
    ids=["swapped", "of another table", "some without"],
)
def test_files_with_other_field_ids_are_refused(
    shared_lake: lw.Lake, name: str, fields: list[pa.Field]
) -> None:
    """A reader that goes by ids would read another column, or none."""
    table = shared_lake.create(name, {"id": "int64", "v": "string"})
    data = pa.table({"id": [1], "v": ["x"]}, schema=pa.schema(fields))
    path = put(table, "other.parquet", data)

    with unchanged(shared_lake), pytest.raises(SchemaMismatch, match="field id") as caught:
        add(shared_lake, name, path)
    assert caught.value.path == path


def test_partition_values_come_from_the_rows_and_not_from_the_path(
    shared_lake: lw.Lake, name: str
) -> None:
    table = shared_lake.create(
        name, {"id": "int64", "at": "timestamp", "p": "string"}, partition_by=["day(at)", "p"]
    )
    moments = pa.array(
        [datetime(2026, 1, 2, h, tzinfo=UTC) for h in (0, 23)], pa.timestamp("us", "UTC")
    )
    rows = pa.table({"id": [1, 2], "at": moments, "p": ["x", "x"]})
    path = put(table, "p=y/at_day=1999-01-01/two.parquet", rows)
    none = put(table, "none.parquet", pa.table({"id": [3]}))

    add(shared_lake, name, path, none)

    assert [f.path for f in table.files(where="p = 'x'")] == [path]
    assert table.files(where="p = 'y'") == []
    assert [f.path for f in table.files(where="at < '2026-01-03'")] == [path]
    assert table.to_arrow(where="p IS NULL")["id"].to_pylist() == [3]
    catalog = stranger_catalog(shared_lake)
    found = catalog.load_table(name).scan(row_filter="p = 'x'").to_arrow()
    catalog.engine.dispose()
    assert sorted(found["id"].to_pylist()) == [1, 2]


def test_a_file_whose_rows_lie_in_several_partitions_is_refused(
    shared_lake: lw.Lake, name: str
) -> None:
    table = shared_lake.create(name, {"id": "int64", "p": "string"}, partition_by=["p"])
    path = put(table, "p=x/mixed.parquet", pa.table({"id": [1, 2], "p": ["x", "y"]}))

    with unchanged(shared_lake), pytest.raises(InvalidInput, match="several partitions") as caught:
        add(shared_lake, name, path)
    assert (caught.value.path, caught.value.column) == (path, "p")


def test_files_without_field_ids_keep_their_values_after_columns_were_renamed_and_added(
    shared_lake: lw.Lake, name: str
) -> None:
    table = shared_lake.create(name, {"id": "int64", "x": _NESTED})
    first = pa.table({"id": [1], "x": pa.array([{"a": 10, "b": ["u"]}], _NESTED)})
    add(shared_lake, name, put(table, "1.parquet", first))
    table.alter().rename_column("x", "y").rename_column("y.a", "c").commit()
    table.alter().add_column("z", "int64").commit()
    renamed = pa.struct([("c", pa.int64()), ("b", pa.list_(pa.string()))])
    second = pa.table({"id": [2], "y": pa.array([{"c": 20, "b": ["v"]}], renamed), "z": [5]})
    path = put(table, "2.parquet", second)

    with shared_lake.transaction() as tx:
        tx.add_files(name, [path])
        assert tx.read(name, where="z = 5")["id"].to_pylist() == [2]

    expected = [
        {"id": 1, "y": {"c": 10, "b": ["u"]}, "z": None},
        {"id": 2, "y": {"c": 20, "b": ["v"]}, "z": 5},
    ]
    assert table.to_arrow().sort_by("id").to_pylist() == expected
    assert stranger_arrow(shared_lake, name).sort_by("id").to_pylist() == expected
    assert ids(shared_lake, name, where="z = 5") == [2]
    table.optimize()
    assert table.to_arrow().sort_by("id").to_pylist() == expected


def test_a_column_and_a_file_without_field_ids_that_has_it_are_added_in_one_transaction(
    shared_lake: lw.Lake, name: str
) -> None:
    table = shared_lake.create(name, {"id": "int64"})
    add(shared_lake, name, put(table, "1.parquet", pa.table({"id": [1]})))
    path = put(table, "2.parquet", pa.table({"id": [2], "z": [5]}))

    with shared_lake.transaction() as tx:
        tx.alter(name).add_column("z", "int64")
        tx.add_files(name, [path])

    expected = [{"id": 1, "z": None}, {"id": 2, "z": 5}]
    assert table.to_arrow().sort_by("id").to_pylist() == expected
    assert stranger_arrow(shared_lake, name).sort_by("id").to_pylist() == expected


def test_a_name_that_belongs_to_another_column_in_older_files_without_ids_is_refused(
    shared_lake: lw.Lake, name: str
) -> None:
    """A name mapping has one column for a name, so the values would be read as null."""
    table = shared_lake.create(name, {"id": "int64", "x": "int64"})
    add(shared_lake, name, put(table, "1.parquet", pa.table({"id": [1], "x": [10]})))
    table.alter().drop_column("x").commit()
    table.alter().add_column("x", "int64").commit()
    path = put(table, "2.parquet", pa.table({"id": [2], "x": [20]}))

    with unchanged(shared_lake), pytest.raises(SchemaMismatch, match="no field id") as caught:
        add(shared_lake, name, path)
    assert (caught.value.path, caught.value.column) == (path, "x")


def test_a_column_is_renamed_while_a_file_without_field_ids_is_added(
    shared_lake: lw.Lake, name: str
) -> None:
    table = shared_lake.create(name, {"id": "int64", "x": "int64"})
    path = put(table, "1.parquet", pa.table({"id": [1], "x": [10]}))

    with suppress(Conflict), shared_lake.transaction() as tx:
        tx.add_files(name, [path])
        shared_lake.table(name).alter().rename_column("x", "y").commit()

    assert table.to_arrow().to_pylist() in ([], [{"id": 1, "y": 10}])


def test_a_clone_reads_files_without_field_ids_by_their_older_names(
    shared_lake: lw.Lake, name: str
) -> None:
    table = shared_lake.create(name, {"id": "int64", "x": "int64"})
    add(shared_lake, name, put(table, "1.parquet", pa.table({"id": [1], "x": [10]})))
    table.alter().rename_column("x", "y").commit()

    made = shared_lake.clone(name, f"{name}_copy")

    assert made.to_arrow().to_pylist() == [{"id": 1, "y": 10}]
    assert stranger_arrow(shared_lake, f"{name}_copy").to_pylist() == [{"id": 1, "y": 10}]
