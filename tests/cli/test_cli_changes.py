"""`delete`, `drop` and `audit`: what they do, and that they ask first."""

from __future__ import annotations

import os
import pty
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import lakeward as lw
from tests.cli.console import ask, clean_environment, make_shop, run, tell


@pytest.fixture
def own_shop(tmp_path: Path) -> Path:
    return make_shop(tmp_path / "lake")


def test_delete_says_how_many_rows_went(own_shop: Path) -> None:
    command = ["delete", "sales.orders", "--where", "id < 8", "--lake", str(own_shop)]
    found = ask(*command, "--yes", "--message", "test rows")
    assert (found["table"], found["deleted"], found["version"]) == ("sales.orders", 3, 4)
    assert found["transaction_id"]
    newest = ask("history", "sales.orders", "--limit", "1", "--lake", own_shop)["versions"][0]
    assert (newest["operation"], newest["message"]) == ("DELETE", "test rows")
    assert "Nothing was changed." in tell(*command)
    assert ask("show", "sales.orders", "--lake", own_shop)["version"] == 4


def test_drop_leaves_the_files(own_shop: Path) -> None:
    found = ask("drop", "audit", "--yes", "--lake", own_shop)
    assert found["table"] == "audit"
    assert (Path(found["location"]) / "_delta_log").is_dir()
    assert run("show", "audit", "--lake", own_shop).code == 3
    assert run("drop", "audit", "--yes", "--lake", own_shop).code == 3


@pytest.mark.parametrize("form", [[], ["--json"]])
@pytest.mark.parametrize(
    "command", [["drop", "audit"], ["delete", "sales.orders", "--where", "id < 8"]]
)
def test_where_nobody_can_answer_nothing_is_done(
    own_shop: Path, command: list[str], form: list[str]
) -> None:
    answer = run(*command, *form, "--lake", own_shop)
    assert answer.code == 2
    assert "--yes" in answer.out + answer.err
    with lw.open(own_shop) as lake:
        assert lake.table("audit").version == 1
        assert lake.table("sales.orders").version == 3


@pytest.mark.parametrize(("said", "code", "left"), [("y", 0, 1), ("n", 1, 2)])
def test_a_person_is_asked(own_shop: Path, said: str, code: int, left: int) -> None:
    leader, follower = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "lakeward", "drop", "audit", "--lake", str(own_shop)],
        stdin=follower,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=clean_environment(),
    ) as running:
        os.close(follower)
        os.write(leader, f"{said}\n".encode())
        _, err = running.communicate(timeout=120)
    os.close(leader)
    assert running.returncode == code
    assert b"Drop audit, which is at version 1?" in err
    assert len(ask("tables", "--lake", own_shop)["tables"]) == left


def test_audit_lists_who_did_what(own_shop: Path) -> None:
    found = ask("audit", "sales.orders", "--lake", own_shop)
    assert [e["action"] for e in found["entries"]] == ["CREATE TABLE", "WRITE", "WRITE", "DELETE"]
    assert {e["actor"] for e in found["entries"]} == {"tester"}
    assert [e["version"] for e in found["entries"]] == [0, 1, 2, 3]
    some = ask("audit", "sales.orders", "--limit", "2", "--lake", own_shop)
    assert [e["version"] for e in some["entries"]] == [2, 3]
    assert some["more"] is True
    assert "both-tables" in tell("audit", "sales.orders", "--lake", own_shop)
    assert run("audit", "nosuch", "--lake", own_shop).code == 3
    everything = ask("audit", "--lake", own_shop)
    assert {e["table"] for e in everything["entries"]} == {"sales.orders", "audit"}
    assert ask("audit", "--actor", "nobody", "--lake", own_shop)["entries"] == []


def test_audit_verify_finds_a_changed_entry(own_shop: Path) -> None:
    assert ask("audit", "verify", "--lake", own_shop)["breaks"] == []
    assert "The audit trail is whole" in tell("audit", "verify", "--lake", own_shop)
    with closing(sqlite3.connect(own_shop / "lakeward.db")) as store, store:
        store.execute("UPDATE lakeward_audit SET actor = 'eve' WHERE seq = 2")
    answer = run("audit", "verify", "--lake", own_shop)
    assert answer.code == 7
    assert "at entry 2" in answer.err
