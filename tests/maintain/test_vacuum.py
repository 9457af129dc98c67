"""Vacuum deletes what nobody needs, and nothing else."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import time_machine

import lakeward as lw
from lakeward.context import context_of
from lakeward.errors import (
    AlreadyExists,
    InvalidInput,
    StoreError,
    TableNotFound,
    TransactionClosed,
    VersionNotFound,
)
from lakeward.log import heads, retired, shrinking
from lakeward.log.binding import put_setting
from lakeward.log.statement import Statement
from lakeward.maintain.vacuum import run as vacuum_run
from lakeward.model.file import LIVE
from lakeward.model.inputs import Cursor
from lakeward.model.maintenance import JobState
from lakeward.model.names import TableName
from lakeward.pipeline.plan import NewVersions, Way, way_to_read
from tests.support.leases import run_out
from tests.support.s3 import on_disk

ALL: dict[str, Any] = {"retention": "0s", "force": True}
PAST = 0.02
"""Seconds until versions are past whose times are later than the clock, as several in one
millisecond get them."""


@pytest.fixture(params=["delta", "iceberg"])
def table_format(request: pytest.FixtureRequest) -> str:
    """Of the tables that tests make without naming one."""
    return str(request.param)


def data_files(lake: lw.Lake, name: str = "t") -> set[str]:
    """The data files and vectors that lie in a table's directory."""
    place = on_disk(lake.table(name).location)
    return {
        str(p.relative_to(place))
        for p in place.rglob("*")
        if p.suffix in (".parquet", ".bin") and not {"_delta_log", "metadata"} & set(p.parts)
    }


def grown(lake: lw.Lake, versions: int = 4, name: str = "t") -> lw.Table:
    """A table that was overwritten so often."""
    table = lake.create(name, {"n": "int64"})
    for n in range(versions):
        table.overwrite([{"n": n}])
    time.sleep(PAST)
    return table


def drop(lake: lw.Lake) -> None:
    """Drop the table, and wait until that is past."""
    lake.drop("t")
    time.sleep(PAST)


def test_files_of_old_versions_go_and_the_newest_stays(lake: lw.Lake) -> None:
    table = grown(lake)
    before = data_files(lake)

    done = table.vacuum(**ALL)

    assert len(before) == 4
    assert len(data_files(lake)) == 1
    assert done.job is not None
    assert (done.job.state, done.job.done.files) == (JobState.DONE, 3)
    assert table.to_arrow().to_pylist() == [{"n": 3}]
    assert lake.doctor().healthy
    assert [j.kind for j in lake.jobs()] == ["vacuum"]
    assert table.vacuum(**ALL).state == "nothing"


def test_a_dry_run_plans_the_same_and_changes_nothing(lake: lw.Lake) -> None:
    table = grown(lake)
    before = data_files(lake)

    planned = table.vacuum(**ALL, dry_run=True)

    assert data_files(lake) == before
    assert planned.job is None
    assert planned.state == "planned"
    assert lake.jobs() == []
    assert table.at(version=2).to_arrow().to_pylist() == [{"n": 1}]
    assert planned.plan.files == table.vacuum(**ALL).plan.files == 3


def test_the_log_is_pruned_after_a_vacuum_that_was_stopped(lake: lw.Lake) -> None:
    table = grown(lake)
    table_id = table.at().log_head.table_id
    assert table.vacuum(**ALL, budget="0s").state == "stopped"
    assert len(data_files(lake)) == 1
    assert _logged(lake, table_id) == 4

    assert table.vacuum(**ALL, dry_run=True).plan.units
    again = table.vacuum(**ALL)

    assert again.state == "done"
    # What the oldest kept version removed stays known.
    assert _logged(lake, table_id) == 2
    assert table.to_arrow().to_pylist() == [{"n": 3}]
    assert table.vacuum(**ALL).state == "nothing"


def test_a_dropped_table_is_forgotten_after_a_vacuum_that_was_stopped(lake: lw.Lake) -> None:
    table_id = grown(lake).at().log_head.table_id
    drop(lake)
    # Each run deletes one batch of files; then there are none left.
    while lake.vacuum(**ALL, budget="0s").plan.files:
        pass

    lake.vacuum(**ALL)
    assert _logged(lake, table_id) == 0
    assert lake.vacuum(**ALL).state == "nothing"


def _logged(lake: lw.Lake, table_id: int) -> int:
    """The number of rows of the log about files of a table."""
    count = Statement("SELECT count(*) FROM lakeward_file WHERE table_id = :table_id")
    with context_of(lake).database.read() as session:
        return int(session.row(count, {"table_id": table_id})[0])


@pytest.mark.parametrize("table_format", ["delta"], indirect=True)
def test_change_files_go_with_the_retention_also_beside_a_tag(lake: lw.Lake) -> None:
    properties = {"delta.enableChangeDataFeed": "true"}
    table = lake.create("t", {"n": "int64"}, properties=properties)
    table.append({"n": list(range(10))})
    table.update(set={"n": "n + 100"}, where="n = 3")
    changes = on_disk(table.location) / "_change_data"
    assert list(changes.rglob("*.parquet"))
    lake.tag("kept")
    table.overwrite([{"n": 1}])

    planned = table.vacuum(**ALL).plan

    assert planned.facts["tables"][0]["by_reason"]["changes"] == 1
    assert not list(changes.rglob("*.parquet"))
    assert table.at(version=2).to_arrow().num_rows == 10
    assert lake.doctor().healthy


@pytest.mark.parametrize("table_format", ["delta"], indirect=True)
def test_versions_that_may_not_be_published_are_kept(
    lake: lw.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = grown(lake)
    table_id = table.at().log_head.table_id
    behind = Statement("UPDATE lakeward_head SET published = 1 WHERE table_id = :table_id")
    with context_of(lake).database.write() as session:
        session.run(behind, {"table_id": table_id})
    # Vacuum publishes first; here it cannot.
    monkeypatch.setattr(vacuum_run, "_bring_up_to_date", lambda *_: None)

    planned = table.vacuum(**ALL, dry_run=True)

    assert planned.plan.files == 0
    assert any("may not be published" in note for note in planned.plan.notes)


def test_many_files_are_deleted_in_batches_by_several_threads(
    lake: lw.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vacuum_run, "_BATCH", 2)
    table = grown(lake, 12)

    done = table.vacuum(**ALL)

    assert done.job is not None
    assert done.job.done.files == 11
    assert data_files(lake) == {f.path for f in table.files()}


def test_versions_are_promised_for_ninety_days_unless_set(lake: lw.Lake) -> None:
    table = grown(lake)
    with time_machine.travel(table.history()[0].timestamp.timestamp() + 89 * 86400):
        assert table.vacuum().state == "nothing"
    assert len(data_files(lake)) == 4
    make_old(lake, "t", days=100)
    # The files' own clock and the store's must both say so.
    assert table.vacuum().state == "nothing"


def test_a_retention_below_the_floor_needs_force(lake: lw.Lake) -> None:
    table = grown(lake)

    with pytest.raises(InvalidInput, match="below the floor of 7d"):
        table.vacuum(retention="6d")

    assert len(data_files(lake)) == 4
    assert table.vacuum(retention="7d").state == "nothing"


@pytest.mark.parametrize("wrong", ["soon", "-1d", "90", -5, True, object()])
def test_a_retention_that_is_no_length_of_time_is_refused(lake: lw.Lake, wrong: object) -> None:
    table = grown(lake, 1)

    with pytest.raises(InvalidInput, match="retention"):
        table.vacuum(retention=wrong, force=True)  # type: ignore[arg-type]


def test_the_policy_of_a_table_sets_its_retention(lake: lw.Lake) -> None:
    table = lake.create("t", {"n": "int64"}, policy={"retention": "0s"})
    table.overwrite([{"n": 1}])
    table.overwrite([{"n": 2}])

    assert table.vacuum().state == "nothing"  # The files are too young for the floor.
    make_old(lake, "t", days=8)
    assert table.vacuum().state == "done"
    assert len(data_files(lake)) == 1
    with pytest.raises(InvalidInput, match="retention is 'never'"):
        lake.create("u", {"n": "int64"}, policy={"retention": "never"})


def test_reading_a_vacuumed_version_names_the_oldest_that_works(lake: lw.Lake) -> None:
    table = grown(lake)
    kept = table.at(version=3)
    with lake.snapshot(at=kept.timestamp):
        table.vacuum(**ALL)

    old = table.at(version=2)
    for use in (old.to_arrow, old.files, old.count, old.totals):
        with pytest.raises(VersionNotFound, match="oldest version that can be read is 0"):
            use()
    with pytest.raises(VersionNotFound, match="was vacuumed"):
        lake.clone("t", "u", version=2)
    with pytest.raises(VersionNotFound, match="was vacuumed"), lake.snapshot(at=old.timestamp):
        pass
    with pytest.raises(VersionNotFound) as told:
        old.to_arrow()
    assert "from 0 on were promised, but a vacuum was forced" in str(told.value)
    assert "of versions before 3." in str(told.value)
    assert kept.to_arrow().to_pylist() == [{"n": 2}]


def test_changes_that_were_vacuumed_are_refused_instead_of_told_in_part(lake: lw.Lake) -> None:
    table = grown(lake)
    table.vacuum(**ALL)
    table.overwrite([{"n": 9}])

    with pytest.raises(VersionNotFound, match="from version 5 on"):
        table.changes(since=3).read_all()
    changes = table.changes(since=5).read_all().to_pylist()
    assert sorted((c["n"], c["_change_type"]) for c in changes) == [(3, "delete"), (9, "insert")]


def test_a_pipeline_behind_a_vacuum_takes_no_rewritten_rows_as_new(lake: lw.Lake) -> None:
    """The log lacks the removed files of version 2: all its rows would look like added ones."""
    table = lake.create("t", {"n": "int64", "v": "int64"})
    table.append({"n": list(range(10)), "v": [0] * 10})
    table.update(set={"v": "1"}, where="n = 5")
    table.append({"n": [10], "v": [1]})
    grown = lake.create("only_grown", {"n": "int64"})
    for n in range(3):
        grown.append({"n": [n]})
    lake.vacuum(**ALL)

    with pytest.raises(VersionNotFound, match=r"version 2 of t .*vacuumed.*whole\("):
        _way(lake, "t", seen=1)
    assert _way(lake, "t", seen=2) is Way.FILES
    assert _way(lake, "only_grown", seen=0) is Way.FILES


def test_a_step_of_a_pipeline_is_told_that_rows_were_moved_and_their_files_vacuumed(
    lake: lw.Lake,
) -> None:
    table = grown(lake, 1)
    lake.tag("before")
    table.append({"n": [1]})
    table.optimize()
    table.append({"n": [2]})
    assert table.version == 4
    assert _way(lake, "t", seen=1, later=(2, 4)) is Way.LOG
    assert _way(lake, "t", seen=3) is Way.FILES

    lake.vacuum(**ALL)

    with pytest.raises(VersionNotFound, match=r"version 2 of t .*vacuumed.*whole\("):
        _way(lake, "t", seen=1, later=(2, 4))
    assert _way(lake, "t", seen=3) is Way.FILES


def _way(lake: lw.Lake, name: str, *, seen: int, later: tuple[int, ...] = ()) -> Way:
    """How a step that has read a version reads the later ones."""
    context = context_of(lake)
    with context.database.read() as session:
        head = heads.get(session, TableName.parse(name))
    before = Cursor(head.table_id, seen, "tx")
    later = later or tuple(range(seen + 1, head.version + 1))
    return way_to_read(NewVersions("rows", head, before, later), context)


def test_a_tag_holds_its_versions_and_a_vacuumed_one_cannot_be_tagged(lake: lw.Lake) -> None:
    table = grown(lake, 1)
    lake.tag("first")
    table.overwrite([{"n": 1}])
    old = table.at().timestamp
    table.overwrite([{"n": 2}])

    table.vacuum(**ALL)

    assert table.at(tag="first").to_arrow().to_pylist() == [{"n": 0}]
    with pytest.raises(VersionNotFound, match="next one after 2 is 3"):
        lake.tag("second", at=old)
    lake.untag("first")
    table.vacuum(**ALL)
    assert len(data_files(lake)) == 1


def test_what_tags_branches_clones_and_pins_hold_is_kept(lake: lw.Lake) -> None:
    table = grown(lake, 1)
    branch = lake.branch("b", tables=["t"])
    table.overwrite([{"n": 1}])
    clone = lake.clone("t", "c")
    table.overwrite([{"n": 2}])
    with lake.snapshot() as pinned:
        table.overwrite([{"n": 3}])
        table.overwrite([{"n": 4}])

        table.vacuum(**ALL)

        assert len(data_files(lake)) == 4
        assert pinned.table("t").to_arrow().to_pylist() == [{"n": 2}]
        assert clone.to_arrow().to_pylist() == [{"n": 1}]
        assert branch.table("t").to_arrow().to_pylist() == [{"n": 0}]
    branch.drop()
    table.vacuum(**ALL)
    assert len(data_files(lake)) == 2
    assert clone.to_arrow().to_pylist() == [{"n": 1}]
    lake.drop("c")
    table.vacuum(**ALL)
    assert len(data_files(lake)) == 2
    lake.vacuum(**ALL)
    table.vacuum(**ALL)
    assert len(data_files(lake)) == 1
    assert lake.doctor().healthy


def test_files_of_an_open_transaction_and_what_it_reads_are_kept(lake: lw.Lake) -> None:
    table = grown(lake, 2)
    tx = lake.transaction()
    assert tx.read("t").to_pylist() == [{"n": 1}]
    tx.append("t", [{"n": 7}])
    with lake.transaction() as other:
        other.append("t", [{"n": 8}])
    before = data_files(lake)

    lake.vacuum(**ALL, unknown=True)

    assert data_files(lake) == before
    tx.commit()
    assert sorted(r["n"] for r in table.to_arrow().to_pylist()) == [1, 7, 8]


def test_leftovers_of_transactions_that_are_over_go(lake: lw.Lake) -> None:
    table = grown(lake, 1)
    tx = lake.transaction()
    tx.append("t", [{"n": 7}])
    (left,) = data_files(lake) - {f.path for f in table.files()}
    copy = on_disk(table.location) / left
    kept = copy.read_bytes()
    tx.rollback()
    copy.write_bytes(kept)

    done = table.vacuum(**ALL)

    assert done.plan.facts["tables"][0]["by_reason"] == {"left": 1}
    assert data_files(lake) == {f.path for f in table.files()}


def test_a_transaction_that_died_long_ago_is_rolled_back_and_holds_nothing(lake: lw.Lake) -> None:
    table = grown(lake, 1)
    dead = lake.transaction()
    dead.append("t", [{"n": 7}])
    table.overwrite([{"n": 8}])

    run_out(lake, dead.transaction_id, hours=1)
    assert table.vacuum(**ALL).plan.files == 0, "a clock may be wrong by an hour"
    run_out(lake, dead.transaction_id, hours=3)
    table.vacuum(**ALL)

    assert len(data_files(lake)) == 1
    with pytest.raises(TransactionClosed):
        dead.commit()


def test_unknown_files_are_reported_and_go_only_when_asked_for(lake: lw.Lake) -> None:
    table = grown(lake, 1)
    strange = on_disk(table.location) / "sub" / "strange.parquet"
    strange.parent.mkdir()
    strange.write_bytes(b"x" * 10)
    hidden = on_disk(table.location) / "_mine" / "notes.txt"
    hidden.parent.mkdir()
    hidden.write_bytes(b"x")

    told = table.vacuum(**ALL)

    assert told.state == "nothing"
    assert told.plan.facts["tables"][0]["unknown_files"] == ["sub/strange.parquet"]
    assert "sub/strange.parquet" in told.plan.notes[-1]
    assert strange.exists()
    table.vacuum(unknown=True)
    assert strange.exists(), "younger than the floor"
    if table.format == "iceberg":
        table.vacuum(**ALL, unknown=True)
        assert strange.exists(), "another engine may be about to commit it"
        week = 7 * 86_400 + 60
        os.utime(strange, (time.time() - week, time.time() - week))
    table.vacuum(**ALL, unknown=True)
    assert not strange.exists()
    assert hidden.exists()


def test_nothing_outside_of_the_table_is_deleted_whatever_links_say(
    lake: lw.Lake, tmp_path: Path
) -> None:
    table = grown(lake)
    place = on_disk(table.location)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious.parquet").write_bytes(b"x")
    (place / "link").symlink_to(outside)
    (place / "file.parquet").symlink_to(outside / "precious.parquet")
    old = table.at(version=1).files()[0].path
    moved = outside / "moved.parquet"
    (place / old).rename(moved)
    (place / old).symlink_to(moved)

    table.vacuum(**ALL, unknown=True)

    assert moved.exists()
    assert (outside / "precious.parquet").exists()
    assert (place / "link").is_symlink()


def test_a_dropped_table_comes_back_until_its_grace_period_is_over(lake: lw.Lake) -> None:
    table = grown(lake)
    place = on_disk(table.location)
    with pytest.raises(TableNotFound, match="No dropped table is left"):
        lake.undrop("nonsense")
    drop(lake)
    lake.vacuum()
    lake.undrop("t")
    assert lake.table("t").at(version=2).to_arrow().to_pylist() == [{"n": 1}]
    lake.table("t").append([{"n": 9}])
    with pytest.raises(AlreadyExists, match="lake has a table t"):
        lake.undrop("t")
    drop(lake)

    lake.vacuum(**ALL)

    assert [p for p in place.rglob("*") if p.is_file()] == []
    with pytest.raises(TableNotFound, match="vacuumed"):
        lake.undrop("t")
    with pytest.raises(TableNotFound, match="No table nonsense"):
        lake.undrop("nonsense")
    assert grown(lake, 1).to_arrow().to_pylist() == [{"n": 0}]
    assert lake.doctor().healthy
    assert lake.vacuum(**ALL).state == "nothing"


def test_a_store_that_is_older_than_the_warehouse_is_refused(lake: lw.Lake) -> None:
    table = grown(lake)
    head = on_disk(table.location)
    if table.format == "delta":
        newest = head / "_delta_log" / f"{table.version:020d}.json"
        later = newest.with_name(f"{table.version + 1:020d}.json")
        later.write_bytes(newest.read_bytes())
    else:
        document = Path(str(table.metadata_location).removeprefix("file://"))
        text = document.read_text().replace(table.history()[0].transaction_id, "unknown-to-all")
        document.with_name("99999-00000000-0000-0000-0000-000000000000.metadata.json").write_text(
            text
        )
    before = data_files(lake)

    with pytest.raises(StoreError, match="older than the warehouse"):
        table.vacuum(**ALL)

    assert data_files(lake) == before
    assert table.at(version=1).to_arrow().to_pylist() == [{"n": 0}]


def test_rows_of_deleted_files_are_pruned_and_history_stays(lake: lw.Lake) -> None:
    table = grown(lake)
    table.vacuum(**ALL)

    assert [v.version for v in table.history()] == [4, 3, 2, 1, 0]
    # The file that the newest version removed is still named: its commit tells of it.
    assert lake.stats().entries == 5 + 2
    with lake.transaction() as tx:
        tx.append("t", [{"n": 5}])
    assert sorted(r["n"] for r in table.to_arrow().to_pylist()) == [3, 5]
    assert lake.doctor().healthy


def test_a_read_only_lake_plans_a_vacuum_and_runs_none(
    lake: lw.Lake, make_lake: Callable[..., lw.Lake]
) -> None:
    grown(lake).vacuum(**ALL, dry_run=True)
    reader = make_lake(read_only=True)

    assert reader.table("t").vacuum(**ALL, dry_run=True).plan.files == 3

    with pytest.raises(lw.errors.ReadOnlyLake):
        reader.table("t").vacuum(**ALL)


def make_old(lake: lw.Lake, name: str, *, days: int) -> None:
    """Let the table's files look old to whoever asks the file system."""
    place = on_disk(lake.table(name).location)
    for path in place.rglob("*.parquet"):
        at = path.stat().st_mtime - days * 86400
        os.utime(path, (at, at))


@pytest.mark.parametrize("store", ["sqlite"])
def test_the_store_shrinks_when_rows_are_pruned(
    lake: lw.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shrinking, "_FEW", 2)
    table = lake.create("t", {"n": "int64", "text": "string"}, partition_by=["n"])
    table.append([{"n": n, "text": secrets.token_hex(300)} for n in range(500)])
    for n in range(2):
        table.overwrite([{"n": n, "text": "short"}])
    with context_of(lake).database.write() as session:
        before = session.row(Statement("PRAGMA page_count"))[0]

    table.vacuum(**ALL)

    with context_of(lake).database.write() as session:
        assert session.row(Statement("PRAGMA page_count"))[0] < 0.7 * before
    assert table.count() == 1
    assert lake.doctor().healthy


def _vacuumed_while_dropped(lake: lw.Lake) -> lw.Table:
    """A table that was vacuumed while it was dropped, and brought back because of its tag."""
    grown(lake)
    lake.tag("kept")
    drop(lake)
    lake.vacuum(**ALL)
    lake.undrop("t")
    return lake.table("t")


def test_a_table_that_was_vacuumed_while_it_was_dropped_goes_on(lake: lw.Lake) -> None:
    table = _vacuumed_while_dropped(lake)
    place = on_disk(table.location)
    table.append([{"n": 9}])
    assert [row["n"] for row in table.changes(since=5).read_all().to_pylist()] == [9]
    with pytest.raises(VersionNotFound, match="vacuumed"):
        table.changes(since=2).read_all()
    for path in place.glob("_delta_log/*5.json"):
        path.unlink()
        lake.doctor(fix=True)
        assert path.exists()
    assert lake.doctor().findings == ()
    lake.untag("kept")
    drop(lake)
    lake.vacuum(**ALL)
    assert [p for p in place.rglob("*") if p.is_file()] == []


def test_a_store_in_which_all_versions_counted_as_vacuumed_is_mended(
    make_lake: Callable[..., lw.Lake],
) -> None:
    lake = make_lake()
    table = _vacuumed_while_dropped(lake)
    with context_of(lake).database.write() as session:
        retired.note(session, table.at().log_head.table_id, kept_from=LIVE, pruned_to=LIVE)
        put_setting(session, "schema_version", "32")
    lake.close()
    lake = make_lake()
    lake.table("t").append([{"n": 9}])
    changes = lake.table("t").changes(since=5).read_all()
    assert changes["n"].to_pylist() == [9]


@pytest.mark.parametrize("table_format", ["iceberg"], indirect=True)
def test_a_table_whose_files_must_not_be_collected_is_not_vacuumed(lake: lw.Lake) -> None:
    table = lake.create("t", {"n": "int64"}, properties={"gc.enabled": "false"})
    for n in range(3):
        table.overwrite([{"n": n}])
    grown(lake, 3, "other")

    for dry_run in (True, False):
        with pytest.raises(InvalidInput, match=r"t has gc\.enabled=false"):
            table.vacuum(**ALL, dry_run=dry_run)
    done = lake.vacuum(**ALL)

    assert "t: gc.enabled=false: nothing is deleted." in done.plan.notes
    assert (len(data_files(lake)), len(data_files(lake, "other"))) == (3, 1)
    run = lake.maintain(vacuum_every="0s")
    assert not run.failed
    assert "other" in [d.chore.table for d in run.done if d.chore.kind == "vacuum"]
    table.alter().set_property("gc.enabled", "true").commit()
    assert table.vacuum(**ALL).state == "done"


@pytest.mark.parametrize("table_format", ["iceberg"], indirect=True)
def test_a_dropped_table_whose_files_must_not_be_collected_keeps_them(lake: lw.Lake) -> None:
    table = lake.create("t", {"n": "int64"}, properties={"gc.enabled": "false"})
    table.append([{"n": 1}])
    place = on_disk(table.location)
    drop(lake)

    done = lake.vacuum(**ALL)

    assert "t: gc.enabled=false: nothing is deleted." in done.plan.notes
    assert list(place.rglob("*.parquet"))
    with time_machine.travel(time.time() + 100 * 86_400):
        assert lake.maintain().state == "nothing"
