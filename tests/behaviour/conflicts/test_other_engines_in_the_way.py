"""Commits that another engine made past the log count like any other when conflicts are settled."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.errors import Conflict
from tests.behaviour.lakes import append, ids
from tests.support.iceberg import stranger_catalog

pytestmark = pytest.mark.formats("iceberg")


@pytest.fixture
def table(shared_lake: lw.Lake, name: str) -> str:
    shared_lake.create(name, {"id": "int64", "v": "string"})
    append(shared_lake, name, {"id": [1, 2], "v": ["ours", "ours"]})
    return name


def _append_as_stranger(lake: lw.Lake, name: str, number: int) -> None:
    catalog = stranger_catalog(lake)
    catalog.load_table(name).append(pa.table({"id": [number], "v": ["theirs"]}))
    catalog.engine.dispose()


def _values(lake: lw.Lake, name: str) -> list[tuple[int, str]]:
    return sorted((r["id"], r["v"]) for r in lake.table(name).to_arrow().to_pylist())


def test_read_committed_sees_what_another_engine_committed_meanwhile(
    shared_lake: lw.Lake, table: str
) -> None:
    with shared_lake.transaction(isolation="read_committed") as tx:
        before = tx.read(table).num_rows
        _append_as_stranger(shared_lake, table, 3)
        assert (before, tx.read(table).num_rows) == (2, 3)


def test_read_committed_deletes_what_another_engine_added_meanwhile(
    shared_lake: lw.Lake, table: str
) -> None:
    tx = shared_lake.transaction(isolation="read_committed")
    tx.delete(table, where="id >= 2")
    _append_as_stranger(shared_lake, table, 3)

    assert tx.commit().attempts == 2
    assert ids(shared_lake, table) == [1]


def test_the_last_writer_wins_over_another_engine_too(shared_lake: lw.Lake, table: str) -> None:
    tx = shared_lake.transaction(on_conflict=lw.LastWriterWins(key=("id",)))
    tx.overwrite(table, [{"id": 2, "v": "mine"}], where="id = 2")
    _append_as_stranger(shared_lake, table, 2)
    _append_as_stranger(shared_lake, table, 3)

    tx.commit()

    assert _values(shared_lake, table) == [(1, "ours"), (2, "mine"), (3, "theirs")]


def test_a_snapshot_is_not_moved_by_another_engine(shared_lake: lw.Lake, table: str) -> None:
    tx = shared_lake.transaction()
    before = tx.read(table).num_rows
    _append_as_stranger(shared_lake, table, 3)

    assert tx.read(table).num_rows == before
    tx.delete(table, where="id = 3")
    with pytest.raises(Conflict):
        tx.commit()
    assert ids(shared_lake, table) == [1, 2, 3]
