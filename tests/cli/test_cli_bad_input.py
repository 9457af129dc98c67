"""What is wrong is told clearly, in both forms, with the right code, and changes nothing."""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import orjson
import pyarrow as pa
import pytest
from deltalake import write_deltalake

import lakeward as lw
from tests.cli.console import ask, clean_environment, make_shop, run, tell
from tests.support.inside import context_of

READING = ("show", "history", "versions", "diff", "read")
BAD_NAMES = ("a'b", 'a"b', "a/b", "../up", "..", "a..b", "a.b.c", "", "a b", "a;b", "x" * 200)


def _picture(place: Path) -> dict[str, str]:
    """Every file of a directory with its contents, the store's own aside."""
    return {
        str(p.relative_to(place)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(place.rglob("*"))
        if p.is_file() and ".lakeward" not in p.parts and not p.name.startswith("lakeward.db")
    }


def _refused(code: int, kind: str, *arguments: str | Path) -> str:
    """Run a command that must be refused, in both forms; the message."""
    answer = run(*arguments, "--json")
    assert (answer.code, answer.error["type"]) == (code, kind), answer
    assert answer.err == ""
    text = run(*arguments)
    assert text.code == code
    assert text.out == ""
    assert "Traceback" not in text.err
    message: str = answer.error["message"]
    assert f"error: {message}" in text.err
    if answer.error["hint"]:
        assert answer.error["hint"] in text.err
    return message


@pytest.mark.parametrize("command", READING)
def test_an_unknown_table(shop: Path, command: str) -> None:
    message = _refused(3, "TableNotFound", command, "no.such", "--lake", shop)
    assert message == "The lake has no table no.such."


def test_doctor_of_an_unknown_table(shop: Path) -> None:
    _refused(3, "TableNotFound", "doctor", "no.such", "--lake", shop)


@pytest.mark.parametrize("name", BAD_NAMES)
@pytest.mark.parametrize("command", ["show", "read"])
def test_a_name_that_is_no_name(shop: Path, command: str, name: str) -> None:
    _refused(2, "InvalidName", command, name, "--lake", shop)


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_table_cannot_be_made_under_such_a_name(own_shop: Path, name: str) -> None:
    before = _picture(own_shop.parent)
    _refused(2, "InvalidName", "create", name, "id int64", "--lake", own_shop)
    assert _picture(own_shop.parent) == before


def test_a_name_that_is_no_unicode(shop: Path) -> None:
    name = os.fsdecode(b"\xff\xfe")
    answer = run("show", name, "--lake", shop, "--json")
    assert answer.code == 2
    assert answer.error["type"] == "InvalidName"
    assert run("show", name, "--lake", shop).code == 2


@pytest.mark.parametrize(
    "where",
    ["id = =", "id >", "nosuch = 1", "id = 'text'", "1; DROP TABLE x", "id IN (SELECT 1)", "id"],
)
def test_a_condition_that_cannot_be_understood(shop: Path, where: str) -> None:
    _refused(2, "InvalidExpression", "read", "sales.orders", "--where", where, "--lake", shop)


def test_a_column_that_is_not_there(shop: Path) -> None:
    arguments = ("read", "sales.orders", "--columns", "id,nix", "--lake", shop)
    assert "'nix'" in _refused(2, "InvalidInput", *arguments)


def test_a_version_that_is_not_there(shop: Path) -> None:
    for command in ("read", "show"):
        arguments = (command, "sales.orders", "--version", "99", "--lake", shop)
        assert "no version 99" in _refused(3, "VersionNotFound", *arguments)
    _refused(3, "VersionNotFound", "diff", "sales.orders", "0", "99", "--lake", shop)


def test_a_moment_before_the_table_was_made(shop: Path) -> None:
    arguments = ("read", "sales.orders", "--timestamp", "2001-01-01T00:00:00Z", "--lake", shop)
    _refused(3, "VersionNotFound", *arguments)


@pytest.mark.parametrize("moment", ["yesterday", "2026-13-01", ""])
def test_a_moment_that_is_none(shop: Path, moment: str) -> None:
    if moment:
        _refused(2, "InvalidInput", "read", "audit", "--timestamp", moment, "--lake", shop)
    _refused(2, "InvalidInput", "versions", "audit", "--since", moment, "--lake", shop)


def test_a_version_and_a_moment_together(shop: Path) -> None:
    moment = "2026-01-01T00:00:00Z"
    arguments = ("read", "audit", "--version", "1", "--timestamp", moment, "--lake", shop)
    assert "Give only one of" in _refused(2, "InvalidInput", *arguments)


def test_a_transaction_that_nobody_knows(shop: Path) -> None:
    _refused(3, "TransactionNotFound", "outcome", "nobody", "--lake", shop)


@pytest.mark.parametrize(
    "arguments",
    [
        ("read",),
        ("read", "audit", "--limit", "-1"),
        ("read", "audit", "--limit", "many"),
        ("read", "audit", "--version", "-1"),
        ("history", "audit", "--limit", "0"),
        ("tables", "--nosuch"),
        ("nosuch",),
        ("store",),
        ("store", "nosuch"),
        ("diff", "audit", "one"),
        ("tables", "one", "two"),
    ],
)
def test_wrong_usage(shop: Path, arguments: tuple[str, ...]) -> None:
    _refused(2, "UsageError", *arguments, "--lake", shop)


def test_wrong_usage_tells_how_it_is_used(shop: Path) -> None:
    text = run("read", "--lake", shop).err
    assert text.startswith("Usage: lakeward read [OPTIONS]")
    assert "`lakeward read --help`" in text


@pytest.mark.parametrize(
    "command",
    [
        ("tables",),
        ("show", "t"),
        ("history", "t"),
        ("versions", "t"),
        ("diff", "t"),
        ("read", "t"),
        ("create", "t", "id int64"),
        ("adopt", "t", "somewhere"),
        ("publish",),
        ("doctor",),
        ("doctor", "--fix"),
        ("outcome", "x"),
        ("backup", "copy.db"),
        ("store", "export", "copy.zip"),
        ("rebuild",),
    ],
)
@pytest.mark.parametrize("there", ["nothing", "an empty directory", "somebody's directory"])
def test_no_lake_is_an_error_and_leaves_no_trace(
    tmp_path: Path, command: tuple[str, ...], there: str
) -> None:
    place = tmp_path / "place"
    if there != "nothing":
        place.mkdir()
    if there == "somebody's directory":
        (place / "letter.txt").write_text("dear")
    before = sorted(tmp_path.rglob("*"))
    _refused(3, "LakeNotFound", *command, "--lake", place)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_file_of_the_store_s_name_that_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "lakeward.db").write_bytes(b"this is no database, but a letter to a friend " * 50)
    _refused(7, "StoreCorrupt", "tables", "--lake", tmp_path)
    _refused(7, "StoreCorrupt", "doctor", "--lake", tmp_path)


def test_an_empty_file_of_the_store_s_name_is_not_made_a_store(tmp_path: Path) -> None:
    place = tmp_path / "lakeward.db"
    place.touch()
    _refused(3, "LakeNotFound", "tables", "--lake", tmp_path)
    with sqlite3.connect(place) as connection:
        assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
    connection.close()


def test_a_damaged_store(own_shop: Path) -> None:
    store = own_shop / "lakeward.db"
    data = bytearray(store.read_bytes())
    data[100:4000] = b"\x00" * 3900
    store.write_bytes(data)
    _refused(7, "StoreCorrupt", "tables", "--lake", own_shop)


def test_a_store_with_a_damaged_row(own_shop: Path) -> None:
    with sqlite3.connect(own_shop / "lakeward.db") as connection:
        connection.execute("UPDATE lakeward_definition SET body = '{'")
    connection.close()
    assert "damaged" in _refused(7, "StoreCorrupt", "show", "audit", "--lake", own_shop)
    answer = run("doctor", "--lake", own_shop, "--json")
    assert answer.code == 12
    assert "definition-unreadable" in {f["code"] for f in answer.json["findings"]}


def test_a_store_of_a_newer_lakeward(own_shop: Path) -> None:
    with sqlite3.connect(own_shop / "lakeward.db") as connection:
        connection.execute("UPDATE lakeward_store SET value = '999' WHERE key = 'schema_version'")
    connection.close()
    for command in ("tables", "doctor", "init"):
        assert "999" in _refused(7, "StoreTooNew", command, "--lake", own_shop)


def test_a_published_commit_of_somebody_else_blocks_publication(own_shop: Path) -> None:
    path = own_shop / "audit" / "_delta_log" / f"{1:020d}.json"
    foreign = path.read_bytes().replace(b"WRITE", b"WROTE")
    path.write_bytes(foreign)
    with lw.open(own_shop, repair=False) as lake, context_of(lake).database.write() as session:
        session.script("UPDATE lakeward_head SET published = 0 WHERE name = 'audit'")
    message = _refused(9, "ForeignCommit", "publish", "--lake", own_shop)
    assert "is not the commit that the log has as version 1 of audit" in message
    assert path.read_bytes() == foreign


def test_what_opening_could_not_repair_is_a_warning_beside_the_answer(own_shop: Path) -> None:
    path = own_shop / "audit" / "_delta_log" / f"{1:020d}.json"
    path.write_bytes(path.read_bytes().replace(b"WRITE", b"WROTE"))
    with lw.open(own_shop, repair=False) as lake, context_of(lake).database.write() as session:
        session.script("UPDATE lakeward_head SET published = 0 WHERE name = 'audit'")
    answer = run("tables", "--lake", own_shop, "--json")
    assert answer.code == 0
    assert answer.err == ""
    assert len(answer.json["tables"]) == 2
    (warning,) = answer.json["warnings"]
    assert warning.startswith("Table audit is not wholly published")
    text = run("tables", "--lake", own_shop)
    assert "warning: Table audit is not wholly published" in text.err


def test_reading_a_table_whose_file_is_gone(own_shop: Path) -> None:
    next((own_shop / "audit").glob("*.parquet")).unlink()
    answer = run("read", "audit", "--lake", own_shop, "--json")
    assert answer.code == 8, answer


def test_adopting_what_is_no_table(own_shop: Path, tmp_path: Path) -> None:
    place = tmp_path / "nothing"
    place.mkdir()
    _refused(3, "TableNotFound", "adopt", "t", place, "--lake", own_shop)


def test_adopting_a_damaged_table(own_shop: Path, tmp_path: Path) -> None:
    place = tmp_path / "damaged"
    write_deltalake(place, pa.table({"id": [1]}))
    (place / "_delta_log" / f"{0:020d}.json").write_text("{not json")
    before = _picture(tmp_path)
    _refused(10, "CorruptTable", "adopt", "t", place, "--lake", own_shop)
    assert _picture(tmp_path) == before
    assert len(ask("tables", "--lake", own_shop)["tables"]) == 2


def test_adopting_a_table_of_another_lake(own_shop: Path, tmp_path: Path) -> None:
    other = make_shop(tmp_path / "other")
    _refused(4, "AlreadyExists", "adopt", "t", other / "audit", "--lake", own_shop)


def test_adopting_under_a_drift_that_is_not_known(own_shop: Path, tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", pa.table({"id": [1]}))
    arguments = ("adopt", "t", tmp_path / "t", "--drift", "ignore", "--lake", own_shop)
    _refused(2, "InvalidInput", *arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        ("t", "id"),
        ("t", "id int65"),
        ("t", "id int64, id string"),
        ("t", ""),
        ("t", "id int64", "--partition-by", "nix"),
        ("t", "id int64", "--check", "nix"),
        ("t", "id int64", "--check", "=id > 1"),
        ("t", "id int64", "--property", "delta.checkpointInterval=often"),
    ],
)
def test_a_table_that_cannot_be_made(own_shop: Path, arguments: tuple[str, ...]) -> None:
    before = _picture(own_shop)
    answer = run("create", *arguments, "--lake", own_shop, "--json")
    assert answer.code == 2
    assert answer.error["type"] == "InvalidInput"
    assert _picture(own_shop) == before


def test_a_table_that_exists(own_shop: Path) -> None:
    _refused(4, "AlreadyExists", "create", "audit", "id int64", "--lake", own_shop)


def test_a_lake_of_a_kind_that_is_not_known() -> None:
    _refused(2, "InvalidInput", "tables", "--lake", "mysql://host/db")


@pytest.mark.postgres
def test_a_new_lake_on_a_server_needs_a_warehouse(postgres_url: str) -> None:
    _refused(2, "InvalidInput", "init", "--lake", postgres_url)
    _refused(3, "LakeNotFound", "tables", "--lake", postgres_url)


def test_a_server_that_does_not_answer_is_named_without_a_warehouse() -> None:
    _refused(7, "StoreUnavailable", "tables", "--lake", "postgresql://nobody@localhost:1/db")


def test_a_lake_that_may_not_be_written(own_shop: Path) -> None:
    """Root may write everything, unless it gives that power away."""
    tell("tables", "--lake", own_shop)
    for path in (own_shop, *own_shop.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    powerless = _powerless()
    try:
        for command in (["create", "t", "id int64"], ["publish"], ["tables"], ["read", "audit"]):
            result = subprocess.run(
                [*powerless, sys.executable, "-m", "lakeward", *command, "--lake", own_shop],
                capture_output=True,
                text=True,
                env=clean_environment(),
                check=False,
            )
            if command[0] in ("tables", "read"):
                assert (result.returncode, result.stderr) == (0, ""), result
                continue
            assert result.returncode == 7, result
            assert "is open read-only" in result.stderr
            assert "no permission" in result.stderr
    finally:
        for path in (own_shop, *own_shop.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)


@pytest.mark.parametrize("below", ["", "lake"])
def test_a_directory_without_permission_is_an_error_of_the_tree(tmp_path: Path, below: str) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    powerless = _powerless()
    closed.chmod(0)
    try:
        for command in (["tables"], ["init"], ["create", "t", "id int64"]):
            given = [*command, "--json", "--lake", str(closed / below)]
            result = subprocess.run(
                [*powerless, sys.executable, "-m", "lakeward", *given],
                capture_output=True,
                text=True,
                env=clean_environment(),
                check=False,
            )
            error = orjson.loads(result.stdout)["error"]
            assert (result.returncode, error["type"]) == (7, "StoreError"), result
            assert "Permission denied" in error["message"]
            assert "permissions" in error["hint"]
    finally:
        closed.chmod(0o755)


def test_a_lost_store_beside_published_tables_is_rebuilt_and_not_made(own_shop: Path) -> None:
    for path in own_shop.glob("lakeward.db*"):
        path.unlink()
    answer = run("tables", "--lake", own_shop)
    assert answer.code == 3
    assert "the store was lost" in answer.err
    assert "`lakeward rebuild`" in answer.err
    assert "init" not in answer.err
    tell("rebuild", "--lake", own_shop)
    assert len(ask("tables", "--lake", own_shop)["tables"]) == 2


def test_a_wrong_path_makes_no_lake(own_shop: Path, tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text("import lakeward.pipeline as lp\np = lp.Pipeline('p')\n")
    wrong = own_shop.with_name("laek")
    for command in (["tables"], ["create", "t", "id int64"], ["run", tmp_path / "p.py"]):
        answer = run(*command, "--lake", wrong)
        assert answer.code == 3, answer
        assert f"Did you mean {own_shop}?" in answer.err
    assert not wrong.exists()


def _powerless() -> list[str]:
    """What to put before a command so that permissions count for it."""
    if os.geteuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("root without setpriv cannot give up its power over files")
    return [setpriv, "--bounding-set", "-dac_override,-dac_read_search", "--inh-caps", "-all"]
