"""The audit trail: who did what is listed, and a change of it is found, however it was made."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.cli.main import app
from lakeward.log import audit
from lakeward.log.database import Session
from lakeward.log.statement import Statement
from lakeward.model.commit import Head
from tests.support.inside import context_of
from tests.support.target import LakeTarget

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
FORMATS = ("delta", "iceberg")


@pytest.fixture
def target(lake_target: LakeTarget) -> LakeTarget:
    with lake_target.open() as lake:
        for name in FORMATS:
            table = lake.create(f"s.{name}", ROWS.schema, format=name)
            for _ in range(3):
                table.append(ROWS)
            table.delete(where="id = 2")
    return lake_target


def test_what_was_done_is_listed_and_filtered(target: LakeTarget) -> None:
    with target.open() as lake:
        lake.drop("s.iceberg")
        everything = lake.audit()
        assert [e.table for e in everything].count("s.delta") == 5
        assert everything[0].action == "DROP TABLE"
        assert everything == sorted(everything, key=lambda e: e.timestamp, reverse=True)
        deletes = lake.audit(action="delete")
        assert {(e.table, e.version) for e in deletes} == {("s.delta", 4), ("s.iceberg", 4)}
        assert len(lake.audit(table="s.delta", limit=2)) == 2
        assert lake.audit(actor="nobody-else") == []
        assert len(lake.audit(actor=everything[0].actor)) == len(everything)
        last = lake.audit(table="s.delta")[0]
        assert [e.number for e in lake.audit(table="s.delta", since=last.timestamp)] == [5]
        until = lake.audit(table="s.delta", until=last.timestamp)
        assert [e.number for e in until] == [5, 4, 3, 2, 1]


def test_a_whole_trail_is_found_whole(target: LakeTarget) -> None:
    with target.open() as lake:
        found = lake.verify_audit()
        assert found.is_whole
        assert (found.tables, found.entries) == (2, 10)
        # Every commit has its own entry, except the first of an Iceberg table, without a snapshot.
        assert found.anchors == 9
        lake.drop("s.delta")
        lake.drop("s.iceberg")
        assert lake.verify_audit().is_whole


def _renamed(session: Session, table_id: int) -> None:
    session.run(
        Statement("UPDATE lakeward_audit SET actor = 'eve' WHERE table_id = :t AND seq = 3"),
        {"t": table_id},
    )


def _removed(session: Session, table_id: int) -> None:
    session.run(
        Statement("DELETE FROM lakeward_audit WHERE table_id = :t AND seq = 3"), {"t": table_id}
    )
    session.run(
        Statement("UPDATE lakeward_audit SET seq = seq - 1 WHERE table_id = :t AND seq > 3"),
        {"t": table_id},
    )


def _reordered(session: Session, table_id: int) -> None:
    for old, new in ((3, 99), (4, 3), (99, 4)):
        session.run(
            Statement("UPDATE lakeward_audit SET seq = :new WHERE table_id = :t AND seq = :old"),
            {"t": table_id, "old": old, "new": new},
        )


def _computed_anew(session: Session, table_id: int) -> None:
    """Do what somebody does who can write the store: give all entries hashes that fit."""
    previous, number = audit.GENESIS, 0
    for number, entry in enumerate(list(audit.entries(session, table_id)), 1):
        previous = audit._digest(previous, audit._content(entry))
        session.run(
            Statement("UPDATE lakeward_audit SET hash = :h WHERE table_id = :t AND seq = :s"),
            {"h": previous, "t": table_id, "s": number},
        )
    session.run(
        Statement("UPDATE lakeward_head SET audit_hash = :h, audit_seq = :s WHERE table_id = :t"),
        {"h": previous, "s": number, "t": table_id},
    )


@pytest.mark.parametrize("table_format", FORMATS)
@pytest.mark.parametrize("cunning", [False, True], ids=["left as it is", "hashes computed anew"])
@pytest.mark.parametrize("change", [_renamed, _removed, _reordered])
def test_a_change_of_the_trail_is_found(
    target: LakeTarget,
    change: Callable[[Session, int], None],
    table_format: str,
    *,
    cunning: bool,
) -> None:
    name = f"s.{table_format}"
    with target.open(repair=False) as lake:
        context = context_of(lake)
        with context.database.write() as session:
            wanted = Statement("SELECT table_id FROM lakeward_head WHERE name = :name")
            table_id = session.row(wanted, {"name": table_format})[0]
            change(session, table_id)
            if cunning:
                _computed_anew(session, table_id)
        found = lake.verify_audit()
    assert [(b.table, b.entry) for b in found.breaks] == [(name, 3)]


def _adopted(entry: int) -> str:
    return f"""UPDATE lakeward_audit SET action = 'ADOPT TABLE', version = 4
        WHERE table_id = :t AND seq = {entry}"""


@pytest.mark.parametrize("table_format", FORMATS)
@pytest.mark.parametrize(
    "forging",
    [
        (_adopted(5),),
        (_adopted(1),),
        (_adopted(1), "UPDATE lakeward_audit SET version = NULL WHERE table_id = :t AND seq > 1"),
        (_adopted(1), "DELETE FROM lakeward_audit WHERE table_id = :t AND seq > 1"),
    ],
    ids=["last entry", "first entry", "no versions", "no other entry"],
)
def test_a_forged_adoption_does_not_hide_a_change(
    target: LakeTarget, forging: tuple[str, ...], table_format: str
) -> None:
    with target.open(repair=False) as lake:
        with context_of(lake).database.write() as session:
            wanted = Statement("SELECT table_id FROM lakeward_head WHERE name = :name")
            table_id = session.row(wanted, {"name": table_format})[0]
            _renamed(session, table_id)
            for statement in forging:
                session.run(Statement(statement), {"t": table_id})
            _computed_anew(session, table_id)
        assert [b.table for b in lake.verify_audit().breaks] == [f"s.{table_format}"]


def test_a_table_that_is_adopted_again_begins_a_trail_of_its_own(target: LakeTarget) -> None:
    with target.open() as lake:
        for name in FORMATS:
            location = lake.table(f"s.{name}").location
            lake.drop(f"s.{name}")
            lake.adopt(f"s.{name}", location, format=name, take_over=True).append(ROWS)
        assert lake.verify_audit().breaks == ()


def test_the_end_of_a_trail_cannot_be_cut_off(target: LakeTarget) -> None:
    with target.open(repair=False) as lake:
        with context_of(lake).database.write() as session:
            for statement in (
                "DELETE FROM lakeward_audit WHERE seq > 3",
                """UPDATE lakeward_head SET audit_seq = 3, audit_hash =
                    (SELECT hash FROM lakeward_audit a WHERE a.table_id = lakeward_head.table_id
                     AND a.seq = 3)""",
            ):
                session.run(Statement(statement), {})
        found = lake.verify_audit()
    assert {(b.table, b.entry) for b in found.breaks} == {("s.delta", 4), ("s.iceberg", 4)}


@pytest.mark.parametrize("table_format", FORMATS)
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE lakeward_audit SET actor = 'eve' WHERE table_id = :t AND seq = 5",
        "DELETE FROM lakeward_audit WHERE table_id = :t AND seq = 5",
    ],
    ids=["changed", "removed"],
)
def test_the_entry_of_the_newest_commit_is_in_its_own_files(
    target: LakeTarget, change: str, table_format: str
) -> None:
    with target.open(repair=False) as lake:
        with context_of(lake).database.write() as session:
            wanted = Statement("SELECT table_id FROM lakeward_head WHERE name = :name")
            table_id = session.row(wanted, {"name": table_format})[0]
            session.run(Statement(change), {"t": table_id})
            _computed_anew(session, table_id)
        found = lake.verify_audit()
    assert [(b.table, b.entry) for b in found.breaks] == [(f"s.{table_format}", 5)]


def test_commits_that_have_the_entry_before_theirs_are_compared_too(
    target: LakeTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    def older(head: Head, store: str, *_: object) -> str:
        return f"{head.audit_seq}:{head.audit_hash}:{audit.trail_of(store, head.table_id)}"

    monkeypatch.setattr(audit, "anchor_of", older)
    with target.open() as lake:
        lake.table("s.delta").append(ROWS)
        found = lake.verify_audit()
        assert (found.is_whole, found.anchors) == (True, 10)


def test_the_log_and_published_files_agree_on_the_anchors(target: LakeTarget) -> None:
    with target.open(repair=False) as lake:
        assert lake.doctor().findings == ()


def test_a_store_that_was_rebuilt_begins_a_trail_of_its_own(tmp_path: Path) -> None:
    with lw.open(tmp_path / "lake") as lake:
        for name in FORMATS:
            table = lake.create(f"s.{name}", ROWS.schema, format=name)
            table.append(ROWS)
            table.append(ROWS)
    (tmp_path / "lake" / "lakeward.db").unlink()
    with lw.open(tmp_path / "lake", take_over=True) as lake:
        lake.rebuild()
        for name in FORMATS:
            lake.table(f"s.{name}").append(ROWS)
            lake.table(f"s.{name}").append(ROWS)
        found = lake.verify_audit()
    assert found.breaks == ()
    assert found.anchors == 4


def test_bad_input_is_refused(target: LakeTarget) -> None:
    with target.open() as lake:
        with pytest.raises(lw.errors.InvalidInput):
            lake.audit(limit=-1)
        with pytest.raises(lw.errors.InvalidInput):
            lake.audit(since="yesterday")
        with pytest.raises(lw.errors.InvalidName):
            lake.audit(table="../x")


@pytest.mark.parametrize("name", ["trail.jsonl", "trail.csv"])
def test_the_trail_is_exported_whole_with_its_hashes(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with lw.open(tmp_path / "lake") as lake:
        table = lake.create("t", ROWS.schema)
        for _ in range(30):
            table.append(ROWS)
        every = lake.audit(limit=None)
    target = tmp_path / name
    with pytest.raises(SystemExit) as ended:
        app(["--lake", str(tmp_path / "lake"), "audit", "--export", str(target)])
    assert ended.value.code in (0, None)
    assert "31 entries are written" in capsys.readouterr().out
    with target.open(newline="") as file:
        rows = list(csv.DictReader(file) if name.endswith("csv") else map(json.loads, file))
    assert [int(row["number"]) for row in rows] == list(range(1, 32))
    assert [row["hash"] for row in rows] == [entry.hash for entry in every[::-1]]
