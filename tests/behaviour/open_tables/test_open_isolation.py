"""Isolation and settled conflicts on a table that others write past the lake."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import lakeward as lw
from lakeward.errors import Conflict
from tests.behaviour.lakes import column, ids
from tests.support.s3 import on_disk


@pytest.fixture
def table(lake: lw.Lake) -> lw.Table:
    made = lake.create("open", {"id": "int64", "v": "string"}, guard=False)
    with lake.transaction() as tx:
        tx.append("open", [{"id": n, "v": "base"} for n in (1, 2)])
    return made


def _stranger_appends(table: lw.Table, number: int) -> None:
    rows = pa.table({"id": [number], "v": ["stranger"]})
    write_deltalake(table.location, rows, mode="append")


def test_a_snapshot_does_not_see_what_a_stranger_commits(lake: lw.Lake, table: lw.Table) -> None:
    tx = lake.transaction()
    assert column(tx.read("open")) == [1, 2]
    _stranger_appends(table, 3)
    assert column(tx.read("open")) == [1, 2]
    tx.rollback()
    assert ids(lake, "open") == [1, 2, 3]


def test_read_committed_sees_what_a_stranger_commits(lake: lw.Lake, table: lw.Table) -> None:
    tx = lake.transaction(isolation="read_committed")
    assert column(tx.read("open")) == [1, 2]
    _stranger_appends(table, 3)
    assert column(tx.read("open")) == [1, 2, 3]
    tx.delete("open", where="id = 1")
    DeltaTable(table.location).delete("id = 2")
    tx.commit()

    assert ids(lake, "open") == [3]


def test_serializable_minds_what_a_stranger_commits(lake: lw.Lake, table: lw.Table) -> None:
    tx = lake.transaction(isolation="serializable")
    tx.append("open", [{"id": tx.read("open").num_rows + 100, "v": "ours"}])
    _stranger_appends(table, 3)

    with pytest.raises(Conflict) as caught:
        tx.commit()
    assert (caught.value.kind, caught.value.other_version) == ("read", 2)
    assert ids(lake, "open") == [1, 2, 3]


def test_a_serializable_consumer_may_only_read_an_open_table(
    lake: lw.Lake, table: lw.Table
) -> None:
    consumer = lake.consumer("c")
    change = next(iter(consumer))
    with consumer.transaction(change, isolation="serializable") as tx:
        tx.read("open")
    assert consumer.position == change.position

    late = next(iter(consumer))
    tx = consumer.transaction(late, isolation="serializable")
    tx.read("open")
    _stranger_appends(table, 3)
    with pytest.raises(Conflict):
        tx.commit()
    assert consumer.position == change.position


def test_a_serializable_transaction_may_read_and_drop_an_open_table(
    lake: lw.Lake, table: lw.Table
) -> None:
    with lake.transaction(isolation="serializable") as tx:
        tx.read(table.name)
        tx.drop(table.name)
    assert lake.tables() == []


def test_the_last_writer_of_a_key_wins_over_a_stranger(lake: lw.Lake, table: lw.Table) -> None:
    tx = lake.transaction(on_conflict=lw.LastWriterWins(key="id"))
    tx.overwrite("open", [{"id": 7, "v": "ours"}], where="id = 7")
    _stranger_appends(table, 7)
    tx.commit()

    found = lake.table("open").to_arrow(where="id = 7").to_pylist()
    assert found == [{"id": 7, "v": "ours"}]
    assert DeltaTable(table.location).to_pyarrow_table().num_rows == 3


UNREADABLE = {
    "malformed": '{"add": ',
    "of a newer protocol": '{"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, '
    '"readerFeatures": ["newer"], "writerFeatures": ["newer"]}}\n',
}


@pytest.mark.parametrize("commit", UNREADABLE)
def test_a_table_with_an_unreadable_commit_of_a_stranger_can_be_dropped(
    lake: lw.Lake, table: lw.Table, commit: str
) -> None:
    unreadable = on_disk(table.location) / "_delta_log" / f"{3:020}.json"
    _stranger_appends(table, 3)
    unreadable.write_text(UNREADABLE[commit])

    lake.drop("open")

    assert [t.name for t in lake.tables()] == []
    unreadable.unlink()
    lake.undrop("open")
    assert ids(lake, "open") == [1, 2, 3]
    lake.table("open").append([{"id": 4, "v": "ours"}])
    assert DeltaTable(table.location).to_pyarrow_table().num_rows == 4
    assert lake.doctor().healthy


def test_a_dropped_table_comes_back_with_what_a_stranger_committed(
    lake: lw.Lake, table: lw.Table
) -> None:
    _stranger_appends(table, 3)

    lake.drop("open")
    lake.undrop("open")

    assert ids(lake, "open") == [1, 2, 3]
    assert sorted(DeltaTable(table.location).to_pyarrow_table()["id"].to_pylist()) == [1, 2, 3]
