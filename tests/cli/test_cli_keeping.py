"""The store backed up, exported, imported and rebuilt from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.console import ask, run, tell


def _orders(place: Path) -> list[int]:
    rows = ask("read", "sales.orders", "--limit", "100", "--lake", place)["rows"]
    return sorted(row["id"] for row in rows)


def test_a_backup_put_in_its_place_is_the_lake(own_shop: Path, tmp_path: Path) -> None:
    before = _orders(own_shop)
    copy = tmp_path / "copy.db"
    answer = ask("backup", copy, "--lake", own_shop)
    assert answer["path"] == str(copy)
    assert answer["rows"]["lakeward_commit"] == 6
    for path in own_shop.glob("lakeward.db*"):
        path.unlink()
    copy.rename(own_shop / "lakeward.db")
    assert _orders(own_shop) == before
    assert ask("doctor", "--lake", own_shop)["findings"] == []


def test_a_backup_tells_where_it_is(own_shop: Path) -> None:
    text = tell("backup", "copy.db", "--lake", own_shop)
    assert f"The store is copied to {Path('copy.db').absolute()}" in text


@pytest.mark.parametrize("command", [("backup",), ("store", "export")])
def test_a_file_that_exists_is_not_overwritten(own_shop: Path, command: tuple[str, ...]) -> None:
    Path("there").write_text("precious")
    answer = run(*command, "there", "--lake", own_shop, "--json")
    assert answer.code == 4
    assert answer.error["type"] == "AlreadyExists"
    assert Path("there").read_text() == "precious"


def test_an_export_is_imported_into_a_new_store(own_shop: Path, tmp_path: Path) -> None:
    exported = tmp_path / "store.zip"
    rows = ask("store", "export", exported, "--lake", own_shop)["rows"]
    for path in own_shop.glob("lakeward.db*"):
        path.unlink()
    answer = ask("store", "import", exported, "--lake", own_shop)
    assert answer["rows"] == rows
    assert ask("doctor", "--lake", own_shop)["findings"] == []
    again = run("store", "import", exported, "--lake", own_shop, "--json")
    assert again.code == 4


@pytest.mark.postgres
def test_a_lake_moves_to_postgresql(own_shop: Path, tmp_path: Path, postgres_url: str) -> None:
    before = _orders(own_shop)
    exported = tmp_path / "store.zip"
    tell("store", "export", exported, "--lake", own_shop)
    there = ("--lake", postgres_url, "--warehouse", str(own_shop))
    assert run("tables", *there, "--json").error["type"] == "LakeNotFound"
    early = run("store", "import", exported, *there, "--json")
    assert (early.code, early.error["type"]) == (7, "WrongWarehouse")
    (own_shop / "lakeward.db").rename(tmp_path / "old.db")
    assert "is imported from" in tell("store", "import", exported, *there)
    rows = ask("read", "sales.orders", "--limit", "100", *there)["rows"]
    assert sorted(r["id"] for r in rows) == before
    assert ask("doctor", *there)["findings"] == []


def test_importing_nothing_makes_no_lake(tmp_path: Path) -> None:
    answer = run("store", "import", "nosuch.zip", "--lake", tmp_path / "new", "--json")
    assert answer.code == 3
    assert not (tmp_path / "new").exists()


def test_importing_what_is_no_export_is_refused(tmp_path: Path) -> None:
    Path("letter.zip").write_text("dear")
    answer = run("store", "import", "letter.zip", "--lake", tmp_path / "new", "--json")
    assert answer.code == 7
    assert answer.error["type"] == "StoreCorrupt"


def test_a_lost_store_is_rebuilt_from_what_is_published(own_shop: Path) -> None:
    before = _orders(own_shop)
    history = ask("history", "sales.orders", "--lake", own_shop)["versions"]
    for path in own_shop.glob("lakeward.db*"):
        path.unlink()
    answer = ask("rebuild", "--lake", own_shop)
    assert answer["tables"] == {"audit": 1, "sales.orders": 3}
    assert answer["skipped"] == {}
    assert answer["incomplete"] == []
    assert _orders(own_shop) == before
    after = ask("history", "sales.orders", "--lake", own_shop)["versions"]
    assert [v["transaction_id"] for v in after] == [v["transaction_id"] for v in history]
    assert ask("outcome", "both-tables", "--lake", own_shop)["committed"] is True
    assert ask("doctor", "--lake", own_shop)["findings"] == []


def test_a_rebuilt_store_tells_what_is_missing(own_shop: Path) -> None:
    for path in own_shop.glob("lakeward.db*"):
        path.unlink()
    (own_shop / "audit" / "_delta_log" / f"{1:020d}.json").unlink()
    text = tell("rebuild", "--lake", own_shop)
    assert "is rebuilt with 2 tables" in text
    assert "torn: transaction both-tables has 1 of its 2 tables" in text


def test_a_store_that_is_there_is_not_rebuilt(own_shop: Path) -> None:
    answer = run("rebuild", "--lake", own_shop, "--json")
    assert answer.code == 4


def test_a_damaged_store_must_be_moved_away_before_it_is_rebuilt(own_shop: Path) -> None:
    (own_shop / "lakeward.db").write_bytes(b"no database at all, rather some text" * 100)
    answer = run("rebuild", "--lake", own_shop, "--json")
    assert answer.code == 7
    assert answer.error["hint"].startswith("Move the damaged store away first")
    (own_shop / "lakeward.db").rename(own_shop / "damaged.db")
    for path in own_shop.glob("lakeward.db-*"):
        path.unlink()
    assert set(ask("rebuild", "--lake", own_shop)["tables"]) == {"audit", "sales.orders"}


def test_a_second_store_for_one_warehouse_is_refused(own_shop: Path, tmp_path: Path) -> None:
    second = ("--lake", tmp_path / "second", "--warehouse", own_shop)
    exported = tmp_path / "store.zip"
    tell("store", "export", exported, "--lake", own_shop)

    for command in (("init",), ("rebuild",), ("store", "import", exported)):
        answer = run(*command, *second, "--json")
        assert (answer.code, answer.error["type"]) == (7, "WrongWarehouse")
        assert str(own_shop / "lakeward.db") in answer.error["message"]
    assert not (tmp_path / "second").exists()
    assert ask("doctor", "--lake", own_shop)["findings"] == []


def test_a_forgotten_warehouse_is_the_recorded_one(tmp_path: Path) -> None:
    place = ("--lake", tmp_path / "lake")
    ask("init", *place, "--warehouse", tmp_path / "files")
    ask("create", "t", "id int64", *place)

    assert ask("show", "t", *place)["location"] == str(tmp_path / "files" / "t")
    answer = run("tables", *place, "--warehouse", tmp_path / "other", "--json")
    assert answer.error["facts"]["recorded"] == str(tmp_path / "files")


def test_a_moved_lake_is_relocated(own_shop: Path, tmp_path: Path) -> None:
    ask("create", "ice", "id int64", "--format", "iceberg", "--lake", own_shop)
    before = _orders(own_shop)
    moved = tmp_path / "moved"
    own_shop.rename(moved)
    answer = run("doctor", "--lake", moved, "--json")
    assert (answer.code, {f["code"] for f in answer.json["findings"]}) == (12, {"table-moved"})

    trial = ask("relocate", "--dry-run", "--lake", moved)
    assert (trial["dry_run"], trial["old"], trial["new"]) == (True, str(own_shop), str(moved))
    done = ask("relocate", "--lake", moved)
    assert done == {**trial, "dry_run": False}
    assert (done["tables"], done["iceberg_tables"]) == (3, 1)

    assert _orders(moved) == before
    found = ask("doctor", "--lake", moved)["findings"]
    assert {f["severity"] for f in found} <= {"info"}
    assert "is relocated to" in tell("relocate", "--lake", moved)


def test_relocating_what_is_not_there_is_refused(tmp_path: Path, own_shop: Path) -> None:
    assert run("relocate", "--lake", tmp_path / "none", "--json").code == 3
    away = run("relocate", "--lake", own_shop, "--warehouse", tmp_path / "none", "--json")
    assert (away.code, away.error["type"]) == (8, "FileMissing")
    assert not (tmp_path / "none").exists()
