"""An engine that knows nothing of the lake works on a branch, and its work is one commit."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake

import lakeward as lw
from lakeward.errors import Conflict, CorruptTable, UnsupportedFeature
from lakeward.formats.delta import branch as branches
from lakeward.write.branch import delta as working
from lakeward.write.branch.delta import DeltaBranch
from tests.behaviour.adoption.vectors import delete_rows
from tests.behaviour.branches.working import (
    begin,
    difference_of,
    everybody_reads,
    feed_of,
    finish,
    merge,
    on_branch,
    upsert,
)
from tests.behaviour.lakes import append, delete, ids, log_files
from tests.support.inside import context_of
from tests.support.invariants import rows_of
from tests.support.s3 import on_disk
from tests.support.tables import numbered, table_of

pytestmark = pytest.mark.formats("delta")

_TABLE = table_of(id="int64", v="string").rows(numbered(0, 1, 2, 3))


def test_an_append_on_a_branch_is_seen_after_the_commit_only(lake: lw.Lake) -> None:
    _TABLE.make(lake)
    tx, branch = begin(lake, "t", blind=True)

    write_deltalake(branch.location, numbered(10, v="new"), mode="append")

    assert DeltaTable(branch.location).version() == 1
    assert ids(lake, "t") == [0, 1, 2, 3]
    version = finish(tx, branch)
    assert [row[0] for row in everybody_reads(lake, "t")] == [0, 1, 2, 3, 10]
    assert lake.table("t").history()[0].operation == "WRITE"
    added = [orjson.loads(line) for line in log_files(lake, "t")[version].read_bytes().splitlines()]
    (path,) = [line["add"]["path"] for line in added if "add" in line]
    assert path.startswith(f"txn-{tx.transaction_id}-")


def test_a_merge_on_a_branch_replaces_the_base_files_that_it_rewrote(lake: lw.Lake) -> None:
    _TABLE.make(lake)
    append(lake, "t", numbered(100))

    with on_branch(lake, "t") as location:
        upsert(location, numbered(2, 50, v="new"))

    assert everybody_reads(lake, "t") == {
        (0, "old"): 1,
        (1, "old"): 1,
        (2, "new"): 1,
        (3, "old"): 1,
        (50, "new"): 1,
        (100, "old"): 1,
    }
    assert lake.doctor().findings == ()


def test_a_blind_append_knows_no_file_of_the_base(lake: lw.Lake) -> None:
    _TABLE.make(lake)

    tx, branch = begin(lake, "t", blind=True)

    assert QueryBuilder().register("t", DeltaTable(branch.location)).execute(
        "SELECT count(*) AS n FROM t"
    ).read_all()["n"].to_pylist() == [0]
    branch.discard()
    tx.rollback()


def test_a_branch_that_was_added_to_can_have_its_base_later(lake: lw.Lake) -> None:
    _TABLE.make(lake)
    tx, branch = begin(lake, "t", blind=True)
    write_deltalake(branch.location, numbered(10), mode="append")

    branch.complete(lake.table("t").files())
    upsert(branch.location, numbered(1, 10, v="new"))

    finish(tx, branch)
    assert everybody_reads(lake, "t") == {
        (0, "old"): 1,
        (1, "new"): 1,
        (2, "old"): 1,
        (3, "old"): 1,
        (10, "new"): 1,
    }


def test_what_came_and_went_on_a_branch_never_was(lake: lw.Lake) -> None:
    _TABLE.make(lake)
    tx, branch = begin(lake, "t")
    for n in range(3):
        merge(branch.location, numbered(0, v=f"step {n}"))
    place = on_disk(branch.location)
    assert len(list(place.rglob("*.parquet"))) == 3

    version = finish(tx, branch)

    assert everybody_reads(lake, "t")[0, "step 2"] == 1
    assert lake.table("t").version == version == 2
    assert len(list(place.rglob("*.parquet"))) == 1
    assert not (place / "_delta_log").exists() or not any((place / "_delta_log").iterdir())


def test_a_discarded_branch_leaves_no_trace(lake: lw.Lake) -> None:
    _TABLE.make(lake)
    before = sorted(on_disk(lake.table("t").location).rglob("*"))
    tx, branch = begin(lake, "t")
    upsert(branch.location, numbered(0, 7, v="new"))

    branch.discard()
    tx.rollback()

    assert sorted(on_disk(lake.table("t").location).rglob("*")) == before
    assert ids(lake, "t") == [0, 1, 2, 3]


def test_a_branch_of_very_many_files_begins_with_a_checkpoint(lake: lw.Lake) -> None:
    lake.create("t", {"id": "int64", "v": "string"}, partition_by=["v"])
    rows = pa.table({"id": list(range(1500)), "v": [f"p{n}" for n in range(1500)]})
    append(lake, "t", rows)

    with on_branch(lake, "t") as location:
        assert (on_disk(location) / "_delta_log" / "_last_checkpoint").exists()
        upsert(location, pa.table({"id": pa.array([7], pa.int64()), "v": ["moved"]}))

    assert len(lake.table("t").files()) == 1500
    found = everybody_reads(lake, "t")
    assert found[7, "moved"] == 1
    assert found[7, "p7"] == 0
    assert found[8, "p8"] == 1


def test_names_that_must_be_escaped_come_back_to_the_same_files(lake: lw.Lake) -> None:
    names = ["a b", "50%", "ü/ö", "x=y", "%20", "quote'd", "plus+", "#?", None]
    lake.create("t", {"id": "int64", "v": "string"}, partition_by=["v"])
    append(lake, "t", pa.table({"id": list(range(len(names))), "v": names}))

    with on_branch(lake, "t") as location:
        upsert(location, pa.table({"id": [0, 1, 2], "v": ["#?", "new %25", "ü/ö"]}))

    expected = [(0, "#?"), (1, "new %25"), *enumerate(names)][:2] + list(enumerate(names))[2:]
    assert everybody_reads(lake, "t") == dict.fromkeys(expected, 1)
    assert lake.doctor().findings == ()


def test_somebody_who_changed_the_same_rows_meanwhile_is_a_conflict(lake: lw.Lake) -> None:
    _TABLE.make(lake)
    tx, branch = begin(lake, "t")
    upsert(branch.location, numbered(0, v="new"))
    delete(lake, "t", "id = 0")

    with pytest.raises(Conflict):
        finish(tx, branch)

    assert ids(lake, "t") == [1, 2, 3]


def test_a_blind_append_conflicts_with_nobody(lake: lw.Lake) -> None:
    _TABLE.make(lake)
    tx, branch = begin(lake, "t", blind=True)
    write_deltalake(branch.location, numbered(10), mode="append")
    delete(lake, "t", "id = 0")

    finish(tx, branch)

    assert ids(lake, "t") == [1, 2, 3, 10]


def test_the_feed_of_several_statements_is_the_difference_of_the_versions(lake: lw.Lake) -> None:
    _TABLE.make(lake, properties={"delta.enableChangeDataFeed": "true"})
    append(lake, "t", numbered(2, 100))

    with on_branch(lake, "t") as location:
        upsert(location, numbered(0, 50, v="new"))
        upsert(location, numbered(1, 50, v="newer"))
        write_deltalake(location, numbered(60, 60, v="twice"), mode="append")

    version = lake.table("t").version
    told = feed_of(lake, "t", version)
    assert told == difference_of(lake, "t", version)
    assert told[60, "twice"] == 2
    assert told[50, "newer"] == 1
    assert (50, "new") not in told
    assert lake.doctor().findings == ()


def test_the_feed_of_one_statement_tells_updates_as_its_engine_did(lake: lw.Lake) -> None:
    _TABLE.make(lake, properties={"delta.enableChangeDataFeed": "true"})

    with on_branch(lake, "t") as location:
        merge(location, numbered(0, 50, v="new"))

    version = lake.table("t").version
    assert feed_of(lake, "t", version) == difference_of(lake, "t", version)
    found = DeltaTable(lake.table("t").location).load_cdf(starting_version=version)
    kinds = set(pa.table(found.read_all()).column("_change_type").to_pylist())
    assert kinds == {"insert", "update_preimage", "update_postimage"}


def test_several_appends_need_no_change_files(lake: lw.Lake) -> None:
    _TABLE.make(lake, properties={"delta.enableChangeDataFeed": "true"})

    with on_branch(lake, "t", blind=True) as location:
        write_deltalake(location, numbered(50), mode="append")
        write_deltalake(location, numbered(51), mode="append")

    version = lake.table("t").version
    assert feed_of(lake, "t", version) == difference_of(lake, "t", version)
    assert "change file" not in [e.action for e in lake.table("t").entries()]


def test_new_columns_are_taken_where_that_is_allowed(lake: lw.Lake) -> None:
    _TABLE.make(lake)
    wider = numbered(10).append_column("w", pa.array([7.5]))
    tx, branch = begin(lake, "t", blind=True)
    write_deltalake(branch.location, wider, mode="append", schema_mode="merge")

    with pytest.raises(UnsupportedFeature, match="columns or properties"):
        branch.net()
    finish(tx, branch, evolve=True)

    assert everybody_reads(lake, "t")[10, "old", 7.5] == 1
    assert lake.table("t").guarded
    assert lake.table("t").schema.names == ["id", "v", "w"]
    append(lake, "t", wider)
    assert lake.doctor().findings == ()


def test_application_numbers_are_taken_over(lake: lw.Lake) -> None:
    from deltalake import CommitProperties, Transaction

    _TABLE.make(lake)
    told = CommitProperties(app_transactions=[Transaction("loader", 7)])

    with on_branch(lake, "t", blind=True) as location:
        write_deltalake(location, numbered(10), mode="append", commit_properties=told)

    assert lake.table("t").app_version("loader") == 7


def test_a_file_that_a_branch_never_had_cannot_be_removed(lake: lw.Lake) -> None:
    _TABLE.make(lake)
    tx, branch = begin(lake, "t")
    gone = {"remove": {"path": "file:/elsewhere/x.parquet", "dataChange": True, "size": 1}}
    log = on_disk(branch.location) / "_delta_log" / f"{1:020}.json"
    log.write_bytes(orjson.dumps(gone) + b"\n")

    with pytest.raises(CorruptTable, match="never had"):
        branch.net()

    tx.rollback()


def test_the_doctor_leaves_the_branch_of_an_open_transaction_alone(lake: lw.Lake) -> None:
    _TABLE.make(lake)
    tx, branch = begin(lake, "t")
    upsert(branch.location, numbered(0, 50, v="new"))

    assert [f.code for f in lake.doctor().findings] == ["transaction-open"]

    tx.rollback()
    assert [f.code for f in lake.doctor().findings] == ["reclaimable"]
    branch.discard()
    assert lake.doctor().findings == ()


@pytest.mark.local
def test_the_quick_way_to_branch_many_files_writes_the_same_log(
    lake: lw.Lake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    names = ["a b", "50%", "ü/ö", "plain", None]
    columns = {"id": "int64", "at": "timestamp", "d": "decimal(9,2)", "day": "date", "v": "string"}
    lake.create("t", columns, partition_by=["v"])
    moment, money = datetime(2024, 5, 6, 7, 8, 9, 1234, UTC), Decimal("12.30")
    rows = [
        {"id": n, "at": moment, "d": money, "day": moment.date() if n % 2 else None, "v": v}
        for n, v in enumerate(names)
    ]
    append(lake, "t", rows)
    place = tmp_path / "with vectors"
    write_deltalake(place, pa.table({"id": [1, 2, 3]}))
    (path,) = [p.name for p in place.glob("*.parquet")]
    delete_rows(place, 1, path, [1])
    lake.adopt("w", str(place))
    monkeypatch.setattr(branches, "IN_ONE_COMMIT", 0)
    monkeypatch.setattr(working, "IN_ONE_COMMIT", 0)
    for name in ("t", "w"):
        tx, slow = begin(lake, name)
        head, definition = slow.head, slow.definition

        quick = DeltaBranch.open(context_of(lake), tx.transaction_id, head, definition)

        first, second = (_checkpoint(b.location) for b in (slow, quick))
        assert first == second
        assert len(first) == len(lake.table(name).files())
        count = pa.table(
            QueryBuilder().register("t", DeltaTable(quick.location)).execute("SELECT * FROM t")
        )
        assert rows_of(count) == rows_of(lake.table(name).to_arrow())
        tx.rollback()


def _checkpoint(location: str) -> list[dict[str, Any]]:
    table = pq.read_table(on_disk(location) / "_delta_log" / f"{1:020}.checkpoint.parquet")
    adds = [row for row in table.column("add").to_pylist() if row is not None]
    return sorted(adds, key=lambda add: str(add["path"]))
