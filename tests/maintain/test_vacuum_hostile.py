"""Accidents by which vacuum could delete a file that somebody needs."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import time_machine
from deltalake import write_deltalake

import lakeward as lw
from lakeward.context import LakeContext, context_of
from lakeward.errors import (
    AlreadyExists,
    Conflict,
    InvalidInput,
    StoreError,
    TableNotFound,
    VersionNotFound,
)
from lakeward.log import retired
from lakeward.log.database import Session
from lakeward.maintain.vacuum import behind, kept
from lakeward.model import steps
from lakeward.model.commit import Head
from lakeward.write.transaction import moved, resolve
from lakeward.write.transaction.member import Member
from tests.behaviour.iceberg.strangers import Stranger
from tests.maintain.test_vacuum import ALL, data_files, drop, grown
from tests.support.s3 import on_disk


@pytest.fixture
def store() -> str:
    """None of this depends on the store; R10 runs on each."""
    return "sqlite"


STORES = pytest.mark.parametrize(
    "store",
    [
        "sqlite",
        pytest.param("postgres", marks=pytest.mark.postgres),
        pytest.param("s3", marks=pytest.mark.s3),
    ],
)
BOTH = pytest.mark.parametrize("table_format", ["delta", "iceberg"])
DELTA = pytest.mark.parametrize("table_format", ["delta"])
ICEBERG = pytest.mark.parametrize("table_format", ["iceberg"])


@contextmanager
def when(step: str, act: Callable[[], Any]) -> Generator[None]:
    """Do something the first time that a step is reached."""
    left = [act]

    def look(reached: str) -> None:
        if reached == step and left:
            left.pop()()

    steps.observe(look)
    try:
        yield
    finally:
        steps.observe(None)
    assert not left, f"{step} was not reached"


@BOTH
def test_a_restore_between_plan_and_deletion_keeps_its_files(lake: lw.Lake) -> None:
    table = grown(lake)
    then = table.at(version=2).timestamp

    with when("vacuum.planned", lambda: lake.restore(at=then)):
        table.vacuum(**ALL)

    assert table.to_arrow().to_pylist() == [{"n": 1}]
    assert lake.doctor().healthy


@BOTH
def test_whoever_holds_a_version_between_plan_and_deletion_comes_first_or_is_refused(
    lake: lw.Lake,
) -> None:
    table = grown(lake, 6)
    stack = ExitStack()
    times = {v: table.at(version=v).timestamp for v in range(1, 6)}

    def hold() -> None:
        lake.tag("tagged", at=times[1])
        pinned.append(stack.enter_context(lake.snapshot(at=times[3])))

    pinned: list[lw.LakeSnapshot] = []
    with stack, when("vacuum.planned", hold):
        table.vacuum(**ALL)

        assert table.at(tag="tagged").to_arrow().to_pylist() == [{"n": 0}]
        assert pinned[0].table("t").to_arrow().to_pylist() == [{"n": 2}]

    def hold_too_late() -> None:
        for late in (
            lambda: lake.tag("late", at=times[3]),
            lambda: lake.clone("t", "late", version=3),
            lambda: lake.restore(at=times[3]),
            lambda: lake.snapshot(at=times[3]).__enter__(),
        ):
            with pytest.raises(VersionNotFound, match="vacuumed"):
                late()

    with when("vacuum.retired", hold_too_late):
        table.vacuum(**ALL)
    assert table.to_arrow().to_pylist() == [{"n": 5}]


@BOTH
def test_a_file_that_is_taken_in_before_its_batch_is_deleted_stays(lake: lw.Lake) -> None:
    table = grown(lake, 2)
    old = table.at(version=1).files()[0].path
    copy = on_disk(table.location) / "taken-in.parquet"
    shutil.copy(on_disk(table.location) / old, copy)

    def take_in() -> None:
        with lake.transaction() as tx:
            tx.add_files("t", [copy.name])

    with when("vacuum.retired", take_in):
        table.vacuum(**ALL, unknown=True)

    assert sorted(r["n"] for r in table.to_arrow().to_pylist()) == [0, 1]


@DELTA
def test_a_file_that_an_adopted_table_uses_before_its_batch_is_deleted_stays(
    lake: lw.Lake, tmp_path: Path
) -> None:
    table = lake.create("t", {"n": "int64"}, guard=False)
    table.append([{"n": 0}])
    place, clone = on_disk(table.location), tmp_path / "clone"
    shutil.copytree(place / "_delta_log", clone / "_delta_log")
    for log in (clone / "_delta_log").glob("*.json"):
        text = log.read_text().replace('"path":"part', f'"path":"file://{place}/part')
        log.write_text(text)
    table.overwrite([{"n": 1}])

    with when("vacuum.retired", lambda: lake.adopt("u", clone, guard=False)):
        table.vacuum(**ALL)

    assert lake.table("u").to_arrow().to_pylist() == [{"n": 0}]


@DELTA
def test_a_transaction_that_only_read_says_that_its_version_was_vacuumed(lake: lw.Lake) -> None:
    table = grown(lake, 2)
    tx = lake.transaction()
    assert tx.read("t").to_pylist() == [{"n": 1}]
    table.overwrite([{"n": 9}])
    table.vacuum(**ALL)

    with pytest.raises(VersionNotFound, match="has only read holds no version"):
        tx.read("t")

    assert not tx.is_open


@BOTH
def test_a_transaction_that_read_before_the_vacuum_cannot_put_deleted_files_back(
    lake: lw.Lake,
) -> None:
    table = lake.create("t", {"n": "int64"})
    for n in range(4):
        table.append([{"n": n}])
    tx = lake.transaction()
    tx.read("t")
    first = table.files()[0].path
    table.optimize()
    table.vacuum(**ALL)

    tx.remove_files("t", [first])
    with pytest.raises(Conflict, match="vacuumed"):
        tx.commit()

    assert sorted(r["n"] for r in table.to_arrow().to_pylist()) == [0, 1, 2, 3]


@BOTH
def test_files_that_were_deleted_while_a_compaction_is_undone_are_not_put_back(
    lake: lw.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The vacuum comes after the change was rebased onto the compaction, before it is ratified."""
    table = lake.create("t", {"n": "int64"})
    for n in range(4):
        table.append([{"n": n}])
    tx, first = lake.transaction(), table.files()[0].path
    tx.read("t")
    table.optimize()
    now = [f.path for f in table.files()]
    # A vacuum keeps what was the newest version some time before a transaction was registered.
    monkeypatch.setattr(kept, "CLOCKS_DIFFER_MS", 0)
    time.sleep(0.01)
    tx.remove_files("t", [first])

    def carried(member: Member, version: int) -> bool:
        done = moved.carry_over(member, version)
        table.vacuum(**ALL)
        return done

    monkeypatch.setattr(resolve, "carry_over", carried)
    with pytest.raises(Conflict, match="put back"):
        tx.commit()

    assert [f.path for f in table.files()] == now
    assert sorted(r["n"] for r in table.to_arrow().to_pylist()) == [0, 1, 2, 3]


@DELTA
def test_a_table_cannot_be_adopted_around_the_warehouse(lake: lw.Lake, tmp_path: Path) -> None:
    table = grown(lake)
    write_deltalake(tmp_path, pa.table({"n": [1]}))

    with pytest.raises(InvalidInput, match="warehouse"):
        lake.adopt("around", tmp_path, guard=False)

    assert table.count() == 1


@BOTH
def test_the_table_that_took_over_the_files_of_a_dropped_one_keeps_them(lake: lw.Lake) -> None:
    table = grown(lake)
    place, name = table.location, "u" if table.format == "delta" else "t"
    lake.tag("held", at=table.at(version=2).timestamp)
    drop(lake)
    heir = lake.adopt(name, place, take_over=True)
    heir.append([{"n": 9}])

    lake.vacuum(**ALL)

    assert sorted(r["n"] for r in heir.to_arrow().to_pylist()) == [3, 9]
    assert lake.snapshot(at="held").table("t").to_arrow().to_pylist() == [{"n": 1}]
    assert len(data_files(lake, name)) == 3, "what nobody needs is deleted"
    if name == "u":
        with pytest.raises(TableNotFound, match="vacuumed"):
            lake.undrop("t")


@BOTH
def test_hidden_files_that_the_lake_did_not_write_survive_a_dropped_table(lake: lw.Lake) -> None:
    mine = on_disk(grown(lake).location) / "_mine" / "notes.txt"
    mine.parent.mkdir()
    mine.write_text("mine")
    drop(lake)

    told = lake.vacuum(**ALL)

    assert mine.exists()
    assert told.plan.facts["tables"][-1]["unknown_files"] == ["_mine/notes.txt"]
    assert [p for p in mine.parents[1].rglob("*") if p.is_file()] == [mine]


@BOTH
def test_a_table_that_comes_back_and_is_dropped_again_has_a_new_grace_period(
    lake: lw.Lake,
) -> None:
    lake.create("t", {"n": "int64"}, policy={"retention": "1h"}).append([{"n": 1}])
    drop(lake)

    def again() -> None:
        lake.undrop("t")
        lake.table("t").append([{"n": 2}])
        drop(lake)

    with when("vacuum.planned", again):
        lake.vacuum(**ALL)

    lake.undrop("t")
    assert sorted(r["n"] for r in lake.table("t").to_arrow().to_pylist()) == [1, 2]


@BOTH
@pytest.mark.parametrize("accident", ["undropped", "cloned", "other table", "went on"])
def test_nothing_is_deleted_after_an_old_backup_of_the_store(
    lake: lw.Lake, tmp_path: Path, accident: str, make_lake: Callable[..., lw.Lake]
) -> None:
    table = grown(lake)
    other = lake.create("other", {"n": "int64"})
    place = on_disk(table.location)
    if accident == "undropped":
        drop(lake)
    lake.backup(tmp_path / "old.db")
    match accident:
        case "undropped":
            lake.undrop("t")
            table.append([{"n": 5}])
        case "cloned":
            lake.clone("t", "c", version=2)
        case "other table":
            other.append([{"n": 1}])
        case _:
            table.append([{"n": 5}])
    lake.close()
    put_back(tmp_path / "old.db", tmp_path / "lake")
    old = make_lake()
    if accident == "went on" and old.table("t").format == "iceberg":
        old.table("t").append([{"n": 6}])
    before = set(place.rglob("*.parquet"))

    with pytest.raises(StoreError, match="older than the warehouse"):
        old.vacuum(**ALL, unknown=True)

    assert set(place.rglob("*.parquet")) == before


@BOTH
@pytest.mark.parametrize("operation", ["vacuum", "expire"])
def test_a_commit_meanwhile_is_no_sign_of_an_old_store(
    lake: lw.Lake,
    make_lake: Callable[..., lw.Lake],
    monkeypatch: pytest.MonkeyPatch,
    operation: str,
) -> None:
    table, writer = grown(lake), make_lake()
    look, looks = behind.unknown_commit, []

    def commit_and_look(context: LakeContext, session: Session, head: Head) -> str | None:
        looks.append(head)
        if len(looks) == 1:
            # The session that looks began before this.
            writer.table("t").append([{"n": 9}])
        return look(context, session, head)

    monkeypatch.setattr(behind, "unknown_commit", commit_and_look)
    getattr(table, operation)(retention="0s", force=True)

    assert looks
    assert sorted(r["n"] for r in table.to_arrow().to_pylist()) == [3, 9]


def put_back(backup: Path, lake: Path) -> None:
    """Replace a lake's store by a backup."""
    for path in lake.glob("lakeward.db*"):
        path.unlink()
    shutil.copy(backup, lake / "lakeward.db")


@DELTA
def test_paths_that_an_adopted_log_spells_in_another_way_are_known(
    lake: lw.Lake, tmp_path: Path
) -> None:
    write_deltalake(tmp_path / "x", pa.table({"n": [1]}))
    log = tmp_path / "x" / "_delta_log" / f"{0:020d}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            action["add"]["path"] = f".//{action['add']['path']}"
    log.write_text("\n".join(map(json.dumps, actions)))
    table = lake.adopt("x", tmp_path / "x")

    table.vacuum(**ALL, unknown=True)

    assert table.to_arrow().to_pylist() == [{"n": 1}]


@BOTH
def test_names_with_signs_that_urls_escape_are_known(lake: lw.Lake) -> None:
    table = lake.create("t", {"n": "int64", "city": "string"}, partition_by=["city"])
    cities = ["a b", "ä%2Fb", "x/y", "50%", "a#b?c", "..", "a:b", "a=b", "A B"]
    for city in cities:
        table.append([{"n": 1, "city": city}])
    table.append([{"n": 2, "city": city} for city in cities])
    table.delete(where="n = 1")

    done = table.vacuum(**ALL, unknown=True)

    assert done.plan.files == len(cities)
    assert sorted(r["city"] for r in table.to_arrow().to_pylist()) == sorted(cities)


@ICEBERG
@pytest.mark.parametrize("kind", ["tag", "branch"])
def test_what_tags_and_branches_of_other_engines_name_is_kept(
    lake: lw.Lake, stranger: Stranger, kind: str
) -> None:
    table = grown(lake)
    theirs = stranger.catalog.load_table("default.t")
    number = theirs.snapshots()[1].snapshot_id
    manage = theirs.manage_snapshots()
    (manage.create_tag if kind == "tag" else manage.create_branch)(number, "theirs").commit()
    expected = [{"n": 1}]
    if kind == "branch":
        theirs = stranger.catalog.load_table("default.t")
        theirs.append(pa.table({"n": pa.array([99], pa.int64())}), branch="theirs")
        expected = [{"n": 1}, {"n": 99}]
    table.overwrite([{"n": 8}])

    def seen() -> list[dict[str, Any]]:
        found = stranger.catalog.load_table("default.t").scan().use_ref("theirs").to_arrow()
        return sorted(found.to_pylist(), key=lambda r: r["n"])

    assert seen() == expected
    table.vacuum(**ALL, unknown=True)
    assert seen() == expected


@ICEBERG
@pytest.mark.parametrize("kind", ["tag", "branch"])
def test_a_ref_of_another_engine_with_the_name_of_a_tag_of_the_lake_is_kept(
    lake: lw.Lake, stranger: Stranger, kind: str
) -> None:
    table = grown(lake)
    lake.tag("close", at=table.at(version=1).timestamp)
    theirs = stranger.table("t")
    number = theirs.snapshots()[2].snapshot_id
    with theirs.manage_snapshots() as manage:
        manage.remove_tag("close")
    manage = stranger.table("t").manage_snapshots()
    (manage.create_tag if kind == "tag" else manage.create_branch)(number, "close").commit()

    done = table.vacuum(**ALL, unknown=True)

    assert stranger.table("t").scan().use_ref("close").to_arrow().to_pylist() == [{"n": 2}]
    assert table.at(tag="close").to_arrow().to_pylist() == [{"n": 0}], "the lake's own tag"
    assert any("other engines' tags and branches hold files: close" in n for n in done.plan.notes)


@ICEBERG
def test_a_ref_that_another_engine_makes_between_plan_and_deletion_is_kept(
    lake: lw.Lake, stranger: Stranger
) -> None:
    table = grown(lake)
    theirs = stranger.catalog.load_table("default.t")
    number = theirs.snapshots()[1].snapshot_id

    def make() -> None:
        theirs.manage_snapshots().create_tag(number, "theirs").commit()

    with when("vacuum.planned", make):
        table.vacuum(**ALL)

    found = stranger.catalog.load_table("default.t").scan(snapshot_id=number).to_arrow()
    assert found.to_pylist() == [{"n": 1}]
    assert len(data_files(lake)) == 2


@DELTA
def test_a_clock_that_was_set_forward_ends_no_pin(lake: lw.Lake) -> None:
    table = grown(lake, 2)
    with lake.snapshot() as pinned:
        table.overwrite([{"n": 9}])
        with time_machine.travel(datetime.now(UTC) + timedelta(hours=1)):
            table.vacuum(**ALL)

        assert pinned.table("t").to_arrow().to_pylist() == [{"n": 1}]


@DELTA
def test_the_version_that_an_open_transaction_reads_is_kept(lake: lw.Lake) -> None:
    table = grown(lake, 2)
    tx = lake.transaction()
    tx.append("t", [{"n": 7}])
    tx.read("t")
    table.overwrite([{"n": 9}])

    table.vacuum(**ALL)

    assert sorted(r["n"] for r in tx.read("t").to_pylist()) == [1, 7]
    tx.rollback()


@DELTA
def test_adopting_the_place_of_a_table_that_is_there_is_refused(lake: lw.Lake) -> None:
    table = grown(lake, 1)
    link = on_disk(table.location).with_name("link")
    link.symlink_to(on_disk(table.location))

    with pytest.raises(AlreadyExists):
        lake.adopt("again", link, take_over=True)


def with_copy(lake: lw.Lake) -> tuple[lw.Table, Path]:
    """A table, and a copy of its data file that nobody knows, older than the floor."""
    table = grown(lake, 3)
    place = on_disk(table.location)
    copied = place / "copied.parquet"
    shutil.copy(place / table.files()[0].path, copied)
    os.utime(copied, (0, 0))
    return table, copied


@STORES
@BOTH
def test_a_file_that_an_open_transaction_adds_by_its_path_is_kept(lake: lw.Lake) -> None:
    table, _ = with_copy(lake)
    tx = lake.transaction()
    tx.add_files("t", ["copied.parquet"])

    assert table.vacuum(**ALL, unknown=True).plan.facts["tables"][0]["unknown"] == 0
    tx.commit()
    table.vacuum(**ALL, unknown=True)

    assert table.to_arrow().to_pylist() == [{"n": 2}, {"n": 2}]


@BOTH
@pytest.mark.parametrize("step", ["vacuum.planned", "vacuum.retired"])
def test_a_file_that_is_added_by_its_path_before_its_batch_is_kept(
    lake: lw.Lake, step: str
) -> None:
    table, copied = with_copy(lake)
    tx = lake.transaction()

    with when(step, lambda: tx.add_files("t", ["copied.parquet"])):
        table.vacuum(**ALL, unknown=True)
    assert copied.exists()
    tx.rollback()
    table.vacuum(**ALL, unknown=True)

    assert not copied.exists()


@BOTH
def test_a_file_that_vanished_before_its_transaction_commits_is_refused(lake: lw.Lake) -> None:
    table, copied = with_copy(lake)
    tx = lake.transaction()
    tx.add_files("t", ["copied.parquet"])
    copied.unlink()

    with pytest.raises(Conflict, match="vacuum"):
        tx.commit()
    assert table.to_arrow().to_pylist() == [{"n": 2}]


@STORES
@DELTA
def test_nobody_adds_an_unknown_file_by_its_path_while_it_is_deleted(
    lake: lw.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, _ = with_copy(lake)
    storage, refused = context_of(lake).storage, list[Conflict]()
    delete = storage.delete_below

    def add() -> None:
        try:
            with lake.transaction() as tx:
                tx.add_files("t", ["copied.parquet"])
        except Conflict as error:
            refused.append(error)

    def slow(directory: str, names: list[str]) -> None:
        if "copied.parquet" in names:
            # In a thread, as in another process: this one holds no lock meanwhile.
            thread.start()
            thread.join(5)
        delete(directory, names)

    thread = threading.Thread(target=add)
    monkeypatch.setattr(storage, "delete_below", slow)
    table.vacuum(**ALL, unknown=True)

    assert refused
    assert table.to_arrow().to_pylist() == [{"n": 2}]


@BOTH
def test_a_file_of_a_retired_version_cannot_be_added_by_its_path(lake: lw.Lake) -> None:
    """The vacuum may be about to delete it: it looked at the log before."""
    table = grown(lake, 3)
    path = table.at(version=1).files()[0].path

    def add() -> None:
        tx = lake.transaction()
        tx.add_files("t", [path])
        with pytest.raises(Conflict, match="vacuum"):
            tx.commit()

    with when("vacuum.retired", add):
        table.vacuum(**ALL)
    assert table.to_arrow().to_pylist() == [{"n": 2}]


@BOTH
def test_a_dropped_table_stays_while_a_transaction_that_began_before_is_open(
    lake: lw.Lake,
) -> None:
    grown(lake, 2)
    lake.create("other", {"n": "int64"})
    tx = lake.transaction()
    tx.append("other", [{"n": 1}])
    tx.read("t")
    drop(lake)

    lake.vacuum(**ALL)

    assert tx.read("t").to_pylist() == [{"n": 1}]
    tx.rollback()


@DELTA
def test_a_clock_that_was_set_forward_ends_no_pin_of_a_dropped_table(lake: lw.Lake) -> None:
    grown(lake, 2)
    with lake.snapshot() as pinned:
        drop(lake)
        with time_machine.travel(datetime.now(UTC) + timedelta(hours=1)):
            lake.vacuum(**ALL)

        assert pinned.table("t").to_arrow().to_pylist() == [{"n": 1}]


@DELTA
@pytest.mark.postgres
@pytest.mark.parametrize("store", ["postgres"])
def test_a_table_cannot_come_back_while_its_versions_are_being_retired(
    lake: lw.Lake, make_lake: Callable[..., lw.Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    grown(lake, 2)
    drop(lake)
    retire, other = retired.retire, make_lake()
    refused: list[TableNotFound] = []

    def undrop() -> None:
        try:
            other.undrop("t")
        except TableNotFound as error:
            refused.append(error)

    def slow(*given: Any) -> None:
        retire(*given)
        thread.start()
        thread.join(0.3)

    thread = threading.Thread(target=undrop)
    monkeypatch.setattr(retired, "retire", slow)
    lake.vacuum(**ALL)
    thread.join()

    assert refused


@BOTH
def test_a_version_that_was_looked_up_before_it_was_vacuumed_is_not_read_in_part(
    lake: lw.Lake,
) -> None:
    """The log no longer has rows of its files, so without a check it would seem empty."""
    table = grown(lake, 3)
    newest = table.at(version=3)
    tx, reader = lake.transaction(), lake.transaction(isolation="serializable")
    tx.read("t")
    reader.read("t")
    table.overwrite([{"n": 9}])
    table.delete(where="n = 9")
    with lake.transaction() as other:
        other.record("t", "application", 1)
    table.vacuum(**ALL)

    for read in (newest.to_arrow, newest.count, newest.files):
        with pytest.raises(VersionNotFound, match="vacuumed"):
            read()
    with pytest.raises(VersionNotFound, match="vacuumed"):
        tx.update("t", set={"n": "n + 1"}, where="n >= 0")
    lake.create("u", {"n": "int64"})
    reader.append("u", [{"n": 1}])
    with pytest.raises(Conflict, match="vacuumed"):
        reader.commit()
