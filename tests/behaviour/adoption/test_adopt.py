"""Tables that others made, taken into the lake where they lie, with their history."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

import lakeward as lw
from lakeward.errors import (
    AlreadyExists,
    ConstraintViolation,
    CorruptTable,
    ForeignCommit,
    InvalidInput,
    TableNotFound,
    UnsupportedFeature,
)
from lakeward.log import heads
from tests.behaviour.lakes import append, delete, ids, overwrite, unchanged
from tests.support.inside import context_of
from tests.support.s3 import on_disk


def _delta_rs_history(where: Path) -> list[list[int]]:
    """A table by delta-rs with a few versions; the ids of each."""
    columns: dict[str, list[Any]] = {
        "id": [1, 2, 3],
        "day": [date(2026, 1, 1), None, date(2026, 1, 2)],
        "parts": [{"n": [1]}, None, {"n": []}],
    }
    write_deltalake(where, pa.table(columns), partition_by=["day"])
    write_deltalake(where, pa.table(columns), mode="append")
    DeltaTable(where).delete("id = 2")
    DeltaTable(where).optimize.compact()
    return [[1, 2, 3], [1, 1, 2, 2, 3, 3], [1, 1, 3, 3], [1, 1, 3, 3]]


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    where = tmp_path / "theirs"
    _delta_rs_history(where)
    return where


def test_every_version_reads_as_it_did_before(lake: lw.Lake, tmp_path: Path) -> None:
    expected = _delta_rs_history(tmp_path / "theirs")

    table = lake.adopt("taken", tmp_path / "theirs")

    found = [sorted(table.at(version=v).to_arrow()["id"].to_pylist()) for v in range(4)]
    assert found == expected
    assert [v.adopted for v in table.versions()] == [True] * 4 + [False]
    assert table.partition_by == ["day"]
    assert table.to_arrow(where="day IS NULL").num_rows == 0
    assert table.at(version=1).to_arrow(where="day = '2026-01-02'")["id"].to_pylist() == [3, 3]


def test_an_adopted_table_is_guarded_from_then_on(lake: lw.Lake, theirs: Path) -> None:
    table = lake.adopt("taken", theirs)

    assert table.guarded
    assert table.version == 4
    with unchanged(lake), pytest.raises(CommitFailedError):
        DeltaTable(theirs).delete("id = 1")
    assert append(lake, "taken", [{"id": 9, "day": None, "parts": None}]) == 5
    delete(lake, "taken", "id = 1")
    assert ids(lake, "taken") == [3, 3, 9]
    theirs_now = DeltaTable(theirs).to_pyarrow_table()["id"].to_pylist()
    assert sorted(theirs_now) == [3, 3, 9]


def test_an_open_table_takes_commits_from_both_sides(lake: lw.Lake, theirs: Path) -> None:
    table = lake.adopt("taken", theirs, guard=False)
    row = pa.table(
        {
            "id": [7],
            "day": pa.array([None], pa.date32()),
            "parts": pa.array([None], pa.struct([("n", pa.list_(pa.int64()))])),
        }
    )

    assert append(lake, "taken", row) == 4
    write_deltalake(theirs, row, mode="append")
    assert table.version == 5
    overwrite(lake, "taken", row, where="id = 7")
    DeltaTable(theirs).delete("id = 3")

    assert ids(lake, "taken") == [1, 1, 7]
    assert [v.adopted for v in table.versions(since=table.at(version=4).timestamp)] == [
        False,
        True,
        False,
        True,
    ]
    assert sorted(DeltaTable(theirs).to_pyarrow_table()["id"].to_pylist()) == [1, 1, 7]


def test_an_open_table_may_refuse_what_others_commit(lake: lw.Lake, theirs: Path) -> None:
    lake.adopt("taken", theirs, guard=False, drift="refuse")
    DeltaTable(theirs).delete("id = 3")

    with unchanged(lake), pytest.raises(ForeignCommit) as caught:
        append(lake, "taken", [{"id": 9, "day": None, "parts": None}])
    assert (caught.value.table, caught.value.version) == ("taken", 4)
    assert ids(lake, "taken") == [1, 1, 3, 3]


def test_an_open_table_commits_alone(lake: lw.Lake, theirs: Path) -> None:
    lake.adopt("taken", theirs, guard=False)
    lake.create("other", {"id": "int64"})

    with unchanged(lake), pytest.raises(UnsupportedFeature) as caught:
        _both(lake)
    assert caught.value.table == "taken"


def _both(lake: lw.Lake) -> None:
    with lake.transaction() as tx:
        tx.append("other", {"id": [1]})
        tx.append("taken", [{"id": 9, "day": None, "parts": None}])


def test_constraints_of_others_are_kept(lake: lw.Lake, tmp_path: Path) -> None:
    where = tmp_path / "theirs"
    write_deltalake(where, pa.table({"id": [1]}))
    DeltaTable(where).alter.add_constraint({"positive": "id > 0"})
    lake.adopt("taken", where)

    with unchanged(lake), pytest.raises(ConstraintViolation) as caught:
        append(lake, "taken", {"id": [-1]})
    assert caught.value.constraint == "positive"
    append(lake, "taken", {"id": [2]})


def test_a_table_below_the_warehouse_moves_with_it(lake: lw.Lake) -> None:
    where = on_disk(lake.warehouse) / "by" / "hand"
    write_deltalake(where, pa.table({"id": [1]}))

    table = lake.adopt("taken", where)

    assert on_disk(table.location) == where
    with context_of(lake).database.read() as session:
        assert [h.location for h in heads.all_heads(session)] == ["by/hand"]


def test_a_table_is_adopted_once(lake: lw.Lake, theirs: Path) -> None:
    lake.adopt("taken", theirs)

    with unchanged(lake), pytest.raises(AlreadyExists):
        lake.adopt("again", theirs)
    with unchanged(lake), pytest.raises(AlreadyExists):
        lake.adopt("taken", theirs)


@pytest.mark.parametrize("place", ["nowhere", "empty", "file"])
def test_what_is_no_table_is_not_adopted(lake: lw.Lake, tmp_path: Path, place: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("text")
    if place == "file" and context_of(lake).storage.is_remote:
        pytest.skip("the server keeps directories, and would not let a file be one")

    with unchanged(lake), pytest.raises(TableNotFound) as caught:
        lake.adopt("taken", tmp_path / place)
    assert caught.value.hint


def test_the_warehouse_itself_is_no_table(lake: lw.Lake) -> None:
    with unchanged(lake), pytest.raises(InvalidInput):
        lake.adopt("taken", lake.warehouse)


def test_a_drift_policy_must_be_known(lake: lw.Lake, theirs: Path) -> None:
    with unchanged(lake), pytest.raises(InvalidInput):
        lake.adopt("taken", theirs, guard=False, drift="maybe")


def _garbage(log: Path) -> None:
    (log / f"{1:020d}.json").write_bytes(b"\x00\xff not json at all\n")


def _torn(log: Path) -> None:
    path = log / f"{1:020d}.json"
    path.write_bytes(path.read_bytes()[:-30])


def _gap(log: Path) -> None:
    (log / f"{1:020d}.json").unlink()


def _empty(log: Path) -> None:
    (log / f"{0:020d}.json").write_bytes(b"")


def _no_schema(log: Path) -> None:
    path = log / f"{0:020d}.json"
    path.write_text(
        path.read_text().replace('\\"type\\":\\"struct\\"', '\\"type\\":\\"nonsense\\"')
    )


def _climbs(log: Path) -> None:
    path = log / f"{0:020d}.json"
    path.write_text(path.read_text().replace('"path":"', '"path":"../../../'))


@pytest.mark.parametrize("damage", [_garbage, _torn, _gap, _empty, _no_schema, _climbs])
def test_a_damaged_log_is_refused_and_nothing_changed(
    lake: lw.Lake, theirs: Path, damage: Callable[[Path], None]
) -> None:
    damage(theirs / "_delta_log")
    before = {p: p.read_bytes() for p in sorted(theirs.rglob("*")) if p.is_file()}

    with unchanged(lake), pytest.raises(CorruptTable) as caught:
        lake.adopt("taken", theirs)

    assert theirs.name in str(caught.value) or "_delta_log" in str(caught.value)
    assert {p: p.read_bytes() for p in sorted(theirs.rglob("*")) if p.is_file()} == before
