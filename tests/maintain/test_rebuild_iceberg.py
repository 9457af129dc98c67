"""A lost store comes back from Iceberg metadata, too, and with what was ratified alone."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.errors import AlreadyExists
from tests.behaviour.iceberg.strangers import Stranger, agree
from tests.behaviour.lakes import append, delete, ids, overwrite
from tests.support.iceberg import stranger_catalog
from tests.support.processes import kill_myself_at, start

NAME = "sales.orders"
_COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False, metadata={"comment": "the key"}),
        pa.field("at", pa.timestamp("ms", "UTC")),
        pa.field("day", pa.date32()),
        pa.field("price", pa.float64()),
        pa.field("parts", pa.list_(pa.struct([("n", pa.timestamp("ms"))]))),
    ]
)


def _rows(*numbers: int) -> pa.Table:
    rows = [
        {"id": n, "at": n * 1000, "day": n, "price": n / 2, "parts": [{"n": n * 1000}, None]}
        for n in numbers
    ]
    return pa.Table.from_pylist(rows, _COLUMNS)


def _lose_store(directory: Path) -> None:
    for path in directory.glob("lakeward.db*"):
        path.unlink()


def _rebuilt(directory: Path) -> tuple[lw.Lake, Any]:
    _lose_store(directory)
    lake = lw.open(directory, take_over=True)
    return lake, lake.rebuild()


def _picture(lake: lw.Lake, name: str) -> dict[str, Any]:
    """All that a table tells of itself but what only its store knew."""
    table = lake.table(name)
    definition = table.definition
    return {
        "definition": definition,
        "uuid": table.uuid,
        "history": [
            (
                v.version,
                v.timestamp,
                v.transaction_id,
                v.operation,
                v.parameters,
                v.metrics,
                v.actor,
                v.engine,
                v.message,
                v.members,
                v.attempts,
            )
            for v in table.history()
        ],
        "files": [
            {(f.path, f.size, f.rows, f.file.stats and f.file.stats.minimum.__repr__()) for f in at}
            for at in (table.at(version=v.version).files() for v in table.history())
        ],
        "rows": [table.at(version=v.version).to_arrow().sort_by("id") for v in table.history()],
        "app": table.app_version("loader"),
        "location": table.location,
    }


def test_everything_that_the_lake_committed_comes_back(tmp_path: Path) -> None:
    with lw.open(tmp_path) as lake:
        lake.create(
            NAME,
            _COLUMNS,
            format="iceberg",
            partition_by=["day(at)", "bucket(4, id)"],
            constraints={"positive": "id > 0"},
            properties={"owner": "me"},
            comment="orders of all kinds",
        )
        lake.create("plain", _COLUMNS)
        with lake.transaction(message="both at once") as tx:
            tx.append(NAME, _rows(1, 2, 3))
            tx.append("plain", _rows(1))
            tx.record(NAME, "loader", 7)
        append(lake, NAME, _rows(4))
        delete(lake, NAME, "id = 2")
        with lake.transaction() as tx:
            tx.overwrite(NAME, _rows(5), where="id = 5 OR id = 1")
            tx.record(NAME, "loader", 8)
        before = _picture(lake, NAME)
        shared = tx.transaction_id

    lake, rebuilt = _rebuilt(tmp_path)

    with lake, Stranger(stranger_catalog(lake)) as stranger:
        assert rebuilt.tables == {"plain": 1, NAME: 4}
        assert (rebuilt.skipped, rebuilt.incomplete) == ({}, [])
        assert _picture(lake, NAME) == before
        assert lake.outcome(shared).versions == {NAME: 4}
        both = lake.table("plain").history(limit=1)[0].transaction_id
        assert lake.outcome(both).versions == {"plain": 1, NAME: 1}
        assert agree(stranger, lake.table(NAME)) == 3
        with pytest.raises(lw.errors.ConstraintViolation):
            append(lake, NAME, _rows(-1))
        append(lake, NAME, _rows(6))
        assert agree(stranger, lake.table(NAME)) == 4
        assert lake.doctor().healthy


def test_versions_keep_their_numbers_though_some_left_no_snapshot(tmp_path: Path) -> None:
    with lw.open(tmp_path) as lake, Stranger(stranger_catalog(lake)) as stranger:
        lake.create(NAME, {"id": "int64"}, format="iceberg")
        append(lake, NAME, {"id": [1]})
        with stranger.table(NAME).transaction() as foreign:
            foreign.set_properties(owner="them")
        append(lake, NAME, {"id": [2]})
        theirs = stranger.table(NAME)
        theirs.manage_snapshots().rollback_to_snapshot(theirs.history()[0].snapshot_id).commit()
        append(lake, NAME, {"id": [3]})
        stranger.append(NAME, [{"id": 4}])
        append(lake, NAME, {"id": [5]})
        before = [(v.version, v.transaction_id, v.operation) for v in lake.table(NAME).history()]

    lake, _ = _rebuilt(tmp_path)

    with lake:
        table = lake.table(NAME)
        after = [(v.version, v.transaction_id, v.operation) for v in table.history()]
        # The change of properties left nothing but its number.
        assert [b for b, a in zip(before, after, strict=True) if b != a] == [before[-3]]
        assert before[-3][2] == "SET TABLE"
        found = [sorted(table.at(version=v).to_arrow()["id"].to_pylist()) for v in range(8)]
        assert found == [[], [1], [1], [1, 2], [1], [1, 3], [1, 3, 4], [1, 3, 4, 5]]


def test_an_adopted_table_comes_back_once_the_lake_has_written_it(tmp_path: Path) -> None:
    with lw.open(tmp_path) as lake, Stranger(stranger_catalog(lake)) as stranger:
        stranger.catalog.create_namespace("sales")
        for name in ("sales.written", "sales.untouched"):
            made = stranger.catalog.create_table(name, pa.schema([("id", pa.int64())]))
            made.append(pa.table({"id": [1]}))
            lake.adopt(name, name, catalog="lakeward")
        append(lake, "sales.written", {"id": [2]})

    lake, rebuilt = _rebuilt(tmp_path)

    with lake:
        assert rebuilt.tables == {"sales.written": 1}
        assert list(rebuilt.skipped.values()) == ["it was not made by a lake"]
        assert ids(lake, "sales.written") == [1, 2]


_AFTER = {
    # Until it is ratified, nothing of it is true.
    "ratify.locked": False,
    "iceberg.prepared": False,
    "iceberg.swapped": False,
    "ratify.inserted": False,
    # Ratified, and published nowhere: lost with the store, all of it.
    "ratify.committed": False,
    "publish.written": False,
    # Published in one format: so it happened, in both.
    "publish.done": True,
    "publish.hinted": True,
    "commit.acknowledged": True,
}


@pytest.mark.parametrize("step", _AFTER)
def test_a_transaction_cut_off_comes_back_whole_or_not_at_all(tmp_path: Path, step: str) -> None:
    with lw.open(tmp_path) as lake:
        for name, kind in (("a", "iceberg"), ("b", "delta"), ("c", "iceberg")):
            lake.create(name, {"id": "int64"}, format=kind)
            append(lake, name, {"id": [1]})

    worker = start(_commit_and_die, str(tmp_path), step)
    worker.finish()
    assert worker.killed
    lake, rebuilt = _rebuilt(tmp_path)

    with lake, Stranger(stranger_catalog(lake)) as stranger:
        expected = [1, 2] if _AFTER[step] else [1]
        assert {name: ids(lake, name) for name in "abc"} == dict.fromkeys("abc", expected)
        assert rebuilt.incomplete == []
        for name in "ac":
            assert sorted(stranger.rows(name)["id"].to_pylist()) == expected
            append(lake, name, {"id": [3]})
            assert sorted(stranger.rows(name)["id"].to_pylist()) == [*expected, 3]
        assert lake.doctor().healthy


def _commit_and_die(pipe: Connection, directory: str, step: str) -> None:
    with lw.open(directory) as lake:
        pipe.send("ready")
        tx = lake.transaction()
        for name in "abc":
            tx.append(name, {"id": [2]})
        kill_myself_at(step, 1)
        tx.commit()


def test_a_document_of_a_commit_that_failed_does_not_win_over_later_ones(tmp_path: Path) -> None:
    with lw.open(tmp_path) as lake:
        lake.create("a", {"id": "int64"}, format="iceberg")
        append(lake, "a", {"id": [1]})
    worker = start(_append_and_die, str(tmp_path), "iceberg.prepared")
    worker.finish()
    with lw.open(tmp_path) as lake:
        append(lake, "a", {"id": [3]})
    documents = sorted((tmp_path / "a" / "metadata").glob("00002-*.metadata.json"))
    assert len(documents) == 2

    lake, rebuilt = _rebuilt(tmp_path)

    with lake:
        assert ids(lake, "a") == [1, 3]
        assert len(rebuilt.skipped) == 1
        (path,) = rebuilt.skipped
        assert "never acknowledged" in rebuilt.skipped[path]


def _append_and_die(pipe: Connection, directory: str, step: str) -> None:
    with lw.open(directory) as lake:
        pipe.send("ready")
        tx = lake.transaction()
        tx.append("a", {"id": [2]})
        kill_myself_at(step, 1)
        tx.commit()


def test_a_table_whose_making_was_cut_off_does_not_come_back(tmp_path: Path) -> None:
    with lw.open(tmp_path) as lake:
        lake.create("a", {"id": "int64"}, format="iceberg")
    worker = start(_create_and_die, str(tmp_path), "iceberg.prepared")
    worker.finish()
    assert worker.killed

    lake, rebuilt = _rebuilt(tmp_path)

    with lake:
        assert rebuilt.tables == {"a": 0}
        assert len(rebuilt.skipped) >= 1
        lake.create("half", {"id": "int64"}, format="iceberg")
        append(lake, "half", {"id": [1]})


def _create_and_die(pipe: Connection, directory: str, step: str) -> None:
    with lw.open(directory) as lake:
        pipe.send("ready")
        kill_myself_at(step, 1)
        lake.create("half", {"id": "int64"}, format="iceberg")


def _torn(metadata: Path) -> None:
    (metadata / f"99999-{'0' * 8}-0000-0000-0000-{'0' * 12}.metadata.json").write_text('{"form')


def _foreign(metadata: Path) -> None:
    (metadata / "readme.metadata.json").write_text("not a document")


@pytest.mark.parametrize("litter", [_torn, _foreign])
def test_litter_among_documents_is_passed_over(
    tmp_path: Path, litter: Callable[[Path], None]
) -> None:
    with lw.open(tmp_path) as lake:
        lake.create("a", {"id": "int64"}, format="iceberg")
        append(lake, "a", {"id": [1]})
        overwrite(lake, "a", {"id": [2]})
    litter(tmp_path / "a" / "metadata")

    lake, rebuilt = _rebuilt(tmp_path)

    with lake:
        assert rebuilt.tables == {"a": 2}
        assert ids(lake, "a") == [2]
        with pytest.raises(AlreadyExists):
            lake.rebuild()


def test_what_others_committed_last_comes_back(tmp_path: Path) -> None:
    with lw.open(tmp_path) as lake, Stranger(stranger_catalog(lake)) as stranger:
        lake.create("a", {"id": "int64"}, format="iceberg")
        append(lake, "a", {"id": [1]})
        stranger.append("a", [{"id": 2}])
        theirs = stranger.table("a")
        theirs.manage_snapshots().create_tag(theirs.history()[0].snapshot_id, "first").commit()

    lake, rebuilt = _rebuilt(tmp_path)

    with lake, Stranger(stranger_catalog(lake)) as stranger:
        assert rebuilt.tables == {"a": 2}
        assert ids(lake, "a") == [1, 2]
        assert "first" in stranger.table("a").refs()
