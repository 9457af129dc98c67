"""Parquet files that others wrote, taken into a table, and files let go by name."""

from __future__ import annotations

from datetime import date

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeward as lw
from lakeward.errors import (
    AlreadyExists,
    Conflict,
    ConstraintViolation,
    FileMissing,
    InvalidInput,
    SchemaMismatch,
    StorageError,
)
from tests.behaviour.files_by_hand.by_hand import add, put
from tests.behaviour.lakes import append, ids, unchanged
from tests.support.s3 import on_disk


def _remove(lake: lw.Lake, name: str, *paths: str) -> None:
    with lake.transaction() as tx:
        tx.remove_files(name, paths)


def test_files_of_others_become_rows(shared_lake: lw.Lake, name: str) -> None:
    table = shared_lake.create(name, {"id": "int64", "v": "string"})
    append(shared_lake, name, [{"id": 1, "v": "ours"}])
    first = put(table, "in/one.parquet", pa.table({"id": [2, 3], "v": ["a", "b"]}))
    second = put(table, "two words.parquet", pa.table({"v": ["c"], "id": [4]}))

    add(shared_lake, name, first, second)

    assert ids(shared_lake, name) == [1, 2, 3, 4]
    assert table.version == 2
    assert ids(shared_lake, name, where="v = 'c'") == [4]
    assert {f.path for f in table.files(where="id = 3")} == {first}
    assert table.history(limit=1)[0].operation == "ADD FILES"


def test_a_file_may_lack_a_nullable_column(shared_lake: lw.Lake, name: str) -> None:
    table = shared_lake.create(name, {"id": "int64", "v": "string"})
    path = put(table, "short.parquet", pa.table({"id": [1]}))

    add(shared_lake, name, path)

    assert table.to_arrow().to_pylist() == [{"id": 1, "v": None}]
    assert table.to_arrow(where="v IS NULL").num_rows == 1


@pytest.mark.formats("delta")
def test_partition_values_come_from_the_path(shared_lake: lw.Lake, name: str) -> None:
    table = shared_lake.create(
        name, {"id": "int64", "day": "date", "kind": "string"}, partition_by=["day", "kind"]
    )
    one = put(table, "day=2026-01-02/kind=a%2Fb/x.parquet", pa.table({"id": [1]}))
    none = "day=__HIVE_DEFAULT_PARTITION__/kind= /x.parquet"
    two = put(table, none, pa.table({"id": [2]}))

    add(shared_lake, name, one, two)

    assert table.to_arrow().sort_by("id").to_pylist() == [
        {"id": 1, "day": date(2026, 1, 2), "kind": "a/b"},
        {"id": 2, "day": None, "kind": " "},
    ]
    assert [f.path for f in table.files(where="day = '2026-01-02'")] == [one]


def test_added_files_do_not_conflict_with_appends(shared_lake: lw.Lake, name: str) -> None:
    table = shared_lake.create(name, {"id": "int64"})
    path = put(table, "x.parquet", pa.table({"id": [1]}))

    with shared_lake.transaction() as tx:
        tx.add_files(name, [path])
        append(shared_lake, name, [{"id": 2}])

    assert ids(shared_lake, name) == [1, 2]


def test_the_same_file_is_added_once(shared_lake: lw.Lake, name: str) -> None:
    table = shared_lake.create(name, {"id": "int64"})
    path = put(table, "x.parquet", pa.table({"id": [1]}))
    add(shared_lake, name, path)

    with unchanged(shared_lake), pytest.raises(AlreadyExists, match=r"x\.parquet"):
        add(shared_lake, name, path)
    other = put(table, "y.parquet", pa.table({"id": [1]}))
    with unchanged(shared_lake), pytest.raises(AlreadyExists, match=r"y\.parquet"):
        add(shared_lake, name, other, other)
    for other_spelling in (f"./{path}", f"in/../{path}"):
        with unchanged(shared_lake), pytest.raises(InvalidInput):
            add(shared_lake, name, other_spelling)


def test_a_file_that_two_transactions_add_is_added_once(shared_lake: lw.Lake, name: str) -> None:
    table = shared_lake.create(name, {"id": "int64"})
    path = put(table, "x.parquet", pa.table({"id": [1]}))
    tx = shared_lake.transaction()
    tx.add_files(name, [path])
    add(shared_lake, name, path)

    with pytest.raises(Conflict):
        tx.commit()

    assert ids(shared_lake, name) == [1]
    assert (on_disk(table.location) / path).exists()


def test_files_that_were_not_added_stay_where_they_are(shared_lake: lw.Lake, name: str) -> None:
    table = shared_lake.create(name, {"id": "int64"})
    path = put(table, "x.parquet", pa.table({"id": [1]}))

    with shared_lake.transaction() as tx:
        tx.add_files(name, [path])
        tx.rollback()

    assert (on_disk(table.location) / path).exists()
    assert table.version == 0


def test_a_removed_file_can_be_added_again(shared_lake: lw.Lake, name: str) -> None:
    table = shared_lake.create(name, {"id": "int64"})
    append(shared_lake, name, [{"id": 1}])
    (file,) = table.files()

    _remove(shared_lake, name, file.path)
    assert ids(shared_lake, name) == []
    add(shared_lake, name, file.path)

    assert ids(shared_lake, name) == [1]
    assert [table.at(version=v).to_arrow().num_rows for v in range(4)] == [0, 1, 0, 1]


def test_removed_files_are_there_for_time_travel(shared_lake: lw.Lake, name: str) -> None:
    table = shared_lake.create(name, {"id": "int64"})
    append(shared_lake, name, [{"id": 1}])
    append(shared_lake, name, [{"id": 2}])
    first, second = table.files()

    _remove(shared_lake, name, first.path)

    assert ids(shared_lake, name) == [2]
    assert table.at(version=2).to_arrow()["id"].to_pylist() == [1, 2]
    assert [f.path for f in table.files()] == [second.path]


@pytest.mark.before_the_store
@pytest.mark.parametrize(
    ("data", "error", "column"),
    [
        (pa.table({"id": ["x"]}), SchemaMismatch, "id"),
        (pa.table({"id": pa.array([1], pa.int32())}), SchemaMismatch, "id"),
        (pa.table({"id": [1], "more": [2]}), SchemaMismatch, "more"),
        (pa.table({"v": ["x"]}), SchemaMismatch, "id"),
        (pa.table({"id": [1, None], "v": ["x", "y"]}), ConstraintViolation, "id"),
        (pa.table({"id": [1, -1], "v": ["x", "y"]}), ConstraintViolation, None),
    ],
    ids=["type", "width", "extra", "missing", "null", "check"],
)
def test_files_that_do_not_fit_are_refused(
    shared_lake: lw.Lake, name: str, data: pa.Table, error: type[Exception], column: str | None
) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])
    table = shared_lake.create(name, schema, constraints={"positive": "id > 0"})
    path = put(table, "bad.parquet", data)

    with unchanged(shared_lake), pytest.raises(error) as caught:
        add(shared_lake, name, path)

    assert name in str(caught.value)
    if column is not None:
        assert getattr(caught.value, "column", None) == column
    else:
        assert getattr(caught.value, "constraint", None) == "positive"


@pytest.mark.before_the_store
@pytest.mark.parametrize(
    "path",
    [
        "../x.parquet",
        "/etc/passwd",
        "a/../../x.parquet",
        "s3://bucket/x",
        "file:///etc/passwd",
        "",
        "a\x00b",
    ],
)
def test_paths_outside_the_table_are_refused(shared_lake: lw.Lake, name: str, path: str) -> None:
    table = shared_lake.create(name, {"id": "int64"})
    pq.write_table(pa.table({"id": [1]}), on_disk(table.location).parent / "x.parquet")

    with unchanged(shared_lake), pytest.raises(InvalidInput) as caught:
        add(shared_lake, name, path)

    assert caught.value.hint
    assert name in str(caught.value)


def test_what_is_no_parquet_file_is_refused(shared_lake: lw.Lake, name: str) -> None:
    table = shared_lake.create(name, {"id": "int64"})
    (on_disk(table.location) / "text.parquet").write_text("not parquet at all")
    torn = on_disk(table.location) / put(table, "torn.parquet", pa.table({"id": [1]}))
    torn.write_bytes(torn.read_bytes()[:-20])

    with unchanged(shared_lake), pytest.raises(FileMissing, match="nowhere"):
        add(shared_lake, name, "nowhere.parquet")
    for path in ("text.parquet", "torn.parquet", "_delta_log/00000000000000000000.json"):
        with unchanged(shared_lake), pytest.raises(StorageError) as caught:
            add(shared_lake, name, path)
        assert caught.value.path == path


@pytest.mark.before_the_store
@pytest.mark.formats("delta")
@pytest.mark.parametrize(
    "path", ["x.parquet", "day=nonsense/x.parquet", "day=/x.parquet", "other=2026-01-01/x.parquet"]
)
def test_paths_that_tell_no_partition_are_refused(
    shared_lake: lw.Lake, name: str, path: str
) -> None:
    table = shared_lake.create(name, {"id": "int64", "day": "date"}, partition_by=["day"])
    put(table, path, pa.table({"id": [1]}))

    with unchanged(shared_lake), pytest.raises(InvalidInput) as caught:
        add(shared_lake, name, path)

    assert caught.value.column == "day"


def test_a_file_that_the_table_does_not_have_is_not_removed(
    shared_lake: lw.Lake, name: str
) -> None:
    shared_lake.create(name, {"id": "int64"})
    append(shared_lake, name, [{"id": 1}])

    with unchanged(shared_lake), pytest.raises(InvalidInput, match=r"other\.parquet"):
        _remove(shared_lake, name, "other.parquet")


@pytest.mark.formats("delta")
def test_rows_of_another_partition_than_their_path_are_refused(lake: lw.Lake) -> None:
    table = lake.create("t", {"id": "int64", "p": "int64"}, partition_by=["p"])
    right = put(table, "p=1/right.parquet", pa.table({"id": [1, 2], "p": [1, 1]}))
    add(lake, "t", right)
    assert ids(lake, "t", where="p = 1") == [1, 2]

    wrong = put(table, "p=1/wrong.parquet", pa.table({"id": [3, 4], "p": [1, 2]}))
    text = put(table, "p=1/text.parquet", pa.table({"id": [3], "p": ["x"]}))
    with unchanged(lake):
        with pytest.raises(InvalidInput, match="p is 2, not that of its path"):
            add(lake, "t", wrong)
        with pytest.raises(SchemaMismatch, match="not of type"):
            add(lake, "t", text)
