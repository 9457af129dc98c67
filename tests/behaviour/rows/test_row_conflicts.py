"""What others do meanwhile to the rows that an update or a merge looked at."""

from __future__ import annotations

from typing import Any

import pytest

import lakeward as lw
from lakeward.errors import Conflict, UnsupportedFeature
from tests.behaviour.lakes import append, delete
from tests.support.tables import table_of

_TABLE = table_of(id="int64", v="int64").rows(
    {"id": [1, 2], "v": [10, 20]}, {"id": [11, 12], "v": [110, 120]}
)


def _values(lake: lw.Lake, name: str) -> dict[int, int]:
    return {r["id"]: r["v"] for r in lake.table(name).to_arrow().to_pylist()}


def _update(lake: lw.Lake, name: str, where: str) -> None:
    with lake.transaction() as tx:
        tx.update(name, set={"v": "v + 1"}, where=where)


def test_two_updates_of_one_file_conflict(shared_lake: lw.Lake, name: str) -> None:
    _TABLE.make(shared_lake, name)

    tx = shared_lake.transaction()
    tx.update(name, set={"v": "v + 1"}, where="id = 1")
    _update(shared_lake, name, "id = 2")
    with pytest.raises(Conflict):
        tx.commit()

    assert _values(shared_lake, name) == {1: 10, 2: 21, 11: 110, 12: 120}


def test_changes_of_other_files_pass(shared_lake: lw.Lake, name: str) -> None:
    _TABLE.make(shared_lake, name)

    with shared_lake.transaction() as tx:
        tx.merge(name, {"id": [1], "v": [0]}, on="id")
        _update(shared_lake, name, "id > 10")
        append(shared_lake, name, {"id": [20], "v": [0]})

    assert _values(shared_lake, name) == {1: 0, 2: 20, 11: 111, 12: 121, 20: 0}


def test_a_key_that_others_insert_meanwhile_is_not_inserted_twice(
    shared_lake: lw.Lake, name: str
) -> None:
    _TABLE.make(shared_lake, name)

    tx = shared_lake.transaction()
    tx.merge(name, {"id": [5], "v": [1]}, on="id", matched=None)
    append(shared_lake, name, {"id": [5], "v": [2]})
    with pytest.raises(Conflict):
        tx.commit()

    assert _values(shared_lake, name)[5] == 2


def test_rows_that_come_meanwhile_have_no_partner_either(shared_lake: lw.Lake, name: str) -> None:
    _TABLE.make(shared_lake, name)

    tx = shared_lake.transaction()
    tx.merge(name, {"id": [1], "v": [0]}, on="id", not_matched_by_source="delete")
    append(shared_lake, name, {"id": [50], "v": [2]})
    with pytest.raises(Conflict):
        tx.commit()


def test_a_serializable_merge_conflicts_with_what_it_looked_at(
    shared_lake: lw.Lake, name: str
) -> None:
    _TABLE.make(shared_lake, name)
    clauses: dict[str, Any] = {"on": "id", "matched": None, "not_matched": "insert"}

    for isolation, fails in (("snapshot", False), ("serializable", True)):
        append(shared_lake, name, {"id": [11], "v": [0]})
        tx = shared_lake.transaction(isolation=isolation)
        # It finds a partner and leaves it, because of which nothing is inserted.
        tx.merge(name, {"id": [11], "v": [0]}, **clauses)
        delete(shared_lake, name, "id = 11")
        if fails:
            with pytest.raises(Conflict):
                tx.commit()
        else:
            tx.commit()


def test_read_committed_does_it_again_on_the_newest_version(
    shared_lake: lw.Lake, name: str
) -> None:
    _TABLE.make(shared_lake, name)

    with shared_lake.transaction(isolation="read_committed") as tx:
        tx.merge(name, {"id": [1, 5], "v": [7, 7]}, on="id", matched={"v": "target.v + source.v"})
        _update(shared_lake, name, "id <= 2")
        append(shared_lake, name, {"id": [5], "v": [50]})

    assert _values(shared_lake, name) == {1: 18, 2: 21, 5: 57, 11: 110, 12: 120}
    (last,) = shared_lake.table(name).history(limit=1)
    told = [last.metrics[f"numTargetRows{n}"] for n in ("Inserted", "Updated")]
    assert told == [0, 2]


def test_run_does_it_again_after_a_conflict(shared_lake: lw.Lake, name: str) -> None:
    _TABLE.make(shared_lake, name)
    others = iter([True, False])

    def work(tx: lw.Transaction) -> lw.RowChanges:
        done = tx.update(name, set={"v": "v * 2"}, where="id = 1")
        if next(others):
            _update(shared_lake, name, "id = 1")
        return done

    shared_lake.run(work)

    assert _values(shared_lake, name)[1] == 22


def test_the_last_writer_does_not_win_over_merged_rows(shared_lake: lw.Lake, name: str) -> None:
    _TABLE.make(shared_lake, name)

    tx = shared_lake.transaction(on_conflict=lw.LastWriterWins(key=["id"]))
    with pytest.raises(UnsupportedFeature, match="LastWriterWins"):
        tx.merge(name, {"id": [1], "v": [0]}, on="id")
