"""The change feed of tables that ask for one: what changed, as delta-rs reads it."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import lakeward as lw
from tests.behaviour.lakes import append, data_files
from tests.support.tables import table_of

pytestmark = [pytest.mark.formats("delta"), pytest.mark.local]

_FEED = {"delta.enableChangeDataFeed": "true"}
_COLUMNS = {"id": "int64", "v": "int64", "p": "string"}
Told = list[tuple[str, int, int, str]]

_TABLE = (
    table_of(_COLUMNS)
    .options(properties=_FEED)
    .rows({"id": [1, 2, 3], "v": [10, 20, 30], "p": ["a", "a", "b"]})
)


def _done(lake: lw.Lake, name: str, do: Callable[[lw.Transaction], object]) -> Told:
    """What the feed tells of one transaction."""
    with lake.transaction() as tx:
        do(tx)
    version = tx.commit().versions[name]
    reader = DeltaTable(lake.table(name).location).load_cdf(version, version)
    rows = pa.table(reader.read_all()).to_pylist()
    return sorted((r["_change_type"], r["id"], r["v"], r["p"]) for r in rows)


@pytest.mark.parametrize("partition_by", [(), ("p",)])
def test_each_operation_tells_the_rows_that_it_changes(
    shared_lake: lw.Lake, name: str, partition_by: tuple[str, ...]
) -> None:
    _TABLE.make(shared_lake, name, partition_by=partition_by)

    updated = _done(shared_lake, name, lambda tx: tx.update(name, set={"p": "'b'"}, where="id = 1"))
    merged = _done(
        shared_lake,
        name,
        lambda tx: tx.merge(
            name,
            {"id": [2, 9], "v": [-2, -9], "p": ["a", "c"]},
            on="id",
            not_matched_by_source=lw.When("target.id = 3", "delete"),
        ),
    )
    deleted = _done(shared_lake, name, lambda tx: tx.delete(name, where="v < -5 OR id = 7"))

    assert updated == [("update_postimage", 1, 10, "b"), ("update_preimage", 1, 10, "a")]
    assert merged == [
        ("delete", 3, 30, "b"),
        ("insert", 9, -9, "c"),
        ("update_postimage", 2, -2, "a"),
        ("update_preimage", 2, 20, "a"),
    ]
    assert deleted == [("delete", 9, -9, "c")]


def test_rows_deleted_from_a_file_that_others_stay_in(shared_lake: lw.Lake, name: str) -> None:
    _TABLE.make(shared_lake, name)
    append(shared_lake, name, {"id": [2], "v": [0], "p": ["z"]})

    told = _done(shared_lake, name, lambda tx: tx.delete(name, where="id = 2"))

    assert told == [("delete", 2, 0, "z"), ("delete", 2, 20, "a")]


def test_several_operations_tell_what_they_came_to(shared_lake: lw.Lake, name: str) -> None:
    _TABLE.make(shared_lake, name)

    def several(tx: lw.Transaction) -> None:
        tx.append(name, {"id": [7, 8], "v": [7, 8], "p": ["x", "x"]})
        tx.update(name, set={"v": "0"}, where="id IN (1, 7)")
        tx.update(name, set={"v": "10"}, where="id = 1")
        tx.delete(name, where="id IN (2, 8)")

    assert _done(shared_lake, name, several) == [("delete", 2, 20, "a"), ("insert", 7, 0, "x")]


def test_what_added_and_removed_files_tell_is_told_once(shared_lake: lw.Lake, name: str) -> None:
    _TABLE.make(shared_lake, name)
    new = {"id": [1], "v": [10], "p": ["a"]}

    told = _done(shared_lake, name, lambda tx: tx.overwrite(name, new))

    assert [t[:2] for t in told] == [("delete", 1), ("delete", 2), ("delete", 3), ("insert", 1)]
    assert not any("_change_data" in path for path in data_files(shared_lake, name))


def test_an_upsert_tells_the_rows_that_differ(shared_lake: lw.Lake, name: str) -> None:
    _TABLE.make(shared_lake, name)

    with shared_lake.sink(name, mode="upsert", key=["id"], writer_id="w") as sink:
        sink.write({"id": [1, 3, 9], "v": [-1, 30, -9], "p": ["a", "b", "c"]})
        version = sink.commit_epoch(0).versions[name]

    reader = DeltaTable(shared_lake.table(name).location).load_cdf(version, version)
    rows = pa.table(reader.read_all()).to_pylist()
    assert sorted((r["_change_type"], r["id"], r["v"]) for r in rows) == [
        ("delete", 1, 10),
        ("insert", 1, -1),
        ("insert", 9, -9),
    ]


def test_rows_with_nested_values_are_told_apart(shared_lake: lw.Lake, name: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("n", pa.struct([("a", pa.list_(pa.int64()))]))])
    shared_lake.create(name, schema, properties=_FEED)
    rows = [{"id": n, "n": {"a": [n]}} for n in range(4)]
    append(shared_lake, name, pa.Table.from_pylist(rows, schema=schema))

    with shared_lake.transaction() as tx:
        tx.delete(name, where="id = 0")
        tx.update(name, set={"id": "30"}, where="id = 3")
    version = tx.commit().versions[name]

    reader = DeltaTable(shared_lake.table(name).location).load_cdf(version, version)
    told = pa.table(reader.read_all()).to_pylist()
    assert sorted((r["_change_type"], r["id"]) for r in told) == [
        ("delete", 0),
        ("delete", 3),
        ("insert", 30),
    ]


def test_a_change_made_again_on_a_newer_version_tells_that_one(
    shared_lake: lw.Lake, name: str
) -> None:
    _TABLE.make(shared_lake, name)

    def late(tx: lw.Transaction) -> None:
        tx.update(name, set={"v": "v + 1"}, where="id <= 2")
        with shared_lake.transaction() as other:
            other.update(name, set={"v": "100"}, where="id = 2")

    with shared_lake.transaction(isolation="read_committed") as tx:
        late(tx)
    version = tx.commit().versions[name]

    reader = DeltaTable(shared_lake.table(name).location).load_cdf(version, version)
    told = pa.table(reader.read_all()).to_pylist()
    assert sorted((r["_change_type"], r["id"], r["v"]) for r in told) == [
        ("update_postimage", 1, 11),
        ("update_postimage", 2, 101),
        ("update_preimage", 1, 10),
        ("update_preimage", 2, 100),
    ]
    staged = {p for p in data_files(shared_lake, name) if tx.transaction_id in p}
    assert len([p for p in staged if "_change_data" in p]) == 1


def test_a_rollback_leaves_no_change_files(shared_lake: lw.Lake, name: str) -> None:
    _TABLE.make(shared_lake, name)
    before = data_files(shared_lake, name)

    tx = shared_lake.transaction()
    tx.update(name, set={"v": "0"})
    assert data_files(shared_lake, name) > before
    tx.rollback()

    assert data_files(shared_lake, name) == before
