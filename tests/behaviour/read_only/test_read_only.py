"""A lake that is opened with `read_only=True` answers every question and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

import lakeward as lw
from lakeward.errors import InvalidInput, LakeNotFound, ReadOnlyLake
from lakeward.log import heads
from lakeward.model.names import TableName
from tests.behaviour.lakes import append, ids, unchanged
from tests.support.inside import context_of
from tests.support.target import LakeTarget

WRITES: dict[str, Callable[[lw.Lake, Path], Any]] = {
    "create": lambda lake, _: lake.create("new", {"id": "int64"}),
    "create iceberg": lambda lake, _: lake.create("new", {"id": "int64"}, format="iceberg"),
    "drop": lambda lake, _: lake.drop("t"),
    "clone": lambda lake, _: lake.clone("t", "copy"),
    "adopt": lambda lake, path: lake.adopt("x", path),
    "branch": lambda lake, _: lake.branch("b", tables=["t"]),
    "append": lambda lake, _: lake.run(lambda tx: tx.append("t", [{"id": 2}])),
    "overwrite": lambda lake, _: lake.run(lambda tx: tx.overwrite("t", [{"id": 2}])),
    "delete": lambda lake, _: lake.run(lambda tx: tx.delete("t", where="id = 77")),
    "update": lambda lake, _: lake.run(lambda tx: tx.update("t", set={"id": "id + 1"})),
    "merge": lambda lake, _: lake.run(lambda tx: tx.merge("t", [{"id": 1}], on="id")),
    "record": lambda lake, _: lake.run(lambda tx: tx.record("t", "app", 1)),
    "lock": lambda lake, _: lake.run(lambda tx: tx.lock("t")),
    "locks": lambda lake, _: lake.transaction(locks={"t": "write"}),
    "staging": lambda lake, _: lake.run(lambda tx: tx.staging("t")),
    "sink": lambda lake, _: lake.sink("t", writer_id="w"),
    "publish": lambda lake, _: lake.publish(),
    "rebuild": lambda lake, _: lake.rebuild(),
    "import": lambda lake, path: lake.import_store(path / "none.zip"),
    "doctor": lambda lake, _: lake.doctor(fix=True),
}


@pytest.fixture
def reader(make_lake: Callable[..., lw.Lake]) -> lw.Lake:
    """A read-only lake with a table `t` of one row."""
    lake = make_lake()
    lake.create("t", {"id": "int64"})
    append(lake, "t", [{"id": 1}])
    return make_lake(read_only=True)


@pytest.mark.before_the_store
@pytest.mark.parametrize("write", WRITES)
def test_every_write_is_refused_before_anything_is_written(
    reader: lw.Lake, tmp_path: Path, write: str
) -> None:
    with unchanged(reader), pytest.raises(ReadOnlyLake) as caught:
        WRITES[write](reader, tmp_path)

    assert "read_only=True" in str(caught.value)
    assert ids(reader, "t") == [1]


def test_a_reader_answers_as_the_writer_does_and_sees_its_commits(
    reader: lw.Lake, make_lake: Callable[..., lw.Lake], tmp_path: Path
) -> None:
    writer = make_lake()
    with unchanged(reader):
        assert (reader.read_only, writer.read_only) == (True, False)
        with reader.transaction() as tx:
            assert tx.read("t").num_rows == 1
        with reader.snapshot() as cut:
            assert cut.versions == {"t": 1}
        assert reader.doctor().findings == writer.doctor().findings
        assert reader.stats() == writer.stats()
        newest = reader.table("t").history()[0]
        assert reader.outcome(newest.transaction_id).versions == {"t": 1}
        assert reader.snapshot(at=newest.timestamp).versions == {"t": 1}
        assert reader.export_store(tmp_path / "copy.zip").rows["lakeward_head"] == 1
        assert list(reader.table("t").audit())

    append(writer, "t", [{"id": 2}])

    assert ids(reader, "t") == [1, 2]


@pytest.mark.local
def test_a_reader_publishes_nothing_and_rolls_nothing_back(
    lake_target: LakeTarget, make_lake: Callable[..., lw.Lake]
) -> None:
    writer = make_lake()
    writer.create("t", {"id": "int64"})
    tx = writer.transaction()
    tx.append("t", [{"id": 1}])
    with unchanged(writer):
        lake_target.open(read_only=True).close()

    tx.commit()


@pytest.mark.empty_store
def test_without_a_lake_none_is_made(lake_target: LakeTarget) -> None:
    with pytest.raises(LakeNotFound):
        lake_target.open(read_only=True)

    assert not lake_target.warehouse.exists()


@pytest.mark.before_the_store
def test_read_only_is_a_flag(lake_target: LakeTarget) -> None:
    with pytest.raises(InvalidInput, match="read_only"):
        lake_target.open(read_only="yes")


@pytest.mark.formats("delta")
@pytest.mark.local
def test_a_cut_of_a_moment_waits_for_the_commit_under_way(
    reader: lw.Lake, make_lake: Callable[..., lw.Lake]
) -> None:
    moment, done = reader.table("t").at().timestamp, Event()
    context = context_of(make_lake())

    def look() -> None:
        reader.snapshot(at=moment)
        done.set()

    thread = Thread(target=look)
    with context.database.write() as session:
        head = heads.get(session, TableName.parse("t"))
        heads.lock(session, head.table_id, head.name)
        thread.start()
        assert not done.wait(0.2)
    thread.join(30)
    assert done.is_set()


@pytest.mark.formats("delta")
@pytest.mark.local
def test_what_others_committed_to_an_open_table_is_not_taken_over(
    make_lake: Callable[..., lw.Lake],
) -> None:
    import deltalake

    lake = make_lake()
    table = lake.create("t", {"id": "int64"}, guard=False)
    append(lake, "t", [{"id": 1}])
    reader = make_lake(read_only=True)
    deltalake.write_deltalake(table.location, table.to_arrow(), mode="append")

    with unchanged(lake):
        assert reader.table("t").version == 1
    assert lake.table("t").version == 2
    assert reader.table("t").version == 2
