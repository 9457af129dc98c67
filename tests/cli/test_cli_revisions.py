"""`lakeward restore` and `lakeward undo`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeward as lw
from tests.cli.console import ask, run, tell

ORDERS = "sales.orders"


def test_tables_are_restored_and_the_restore_is_undone(own_shop: Path) -> None:
    now = ask("show", ORDERS, "--lake", own_shop)
    past = ask("show", ORDERS, "--version", "1", "--lake", own_shop)
    moment = past["timestamp"]
    planned = ask("restore", "--at", moment, "--dry-run", "--lake", own_shop)
    assert planned["dry_run"]
    assert ORDERS in [t["table"] for t in planned["tables"]]
    assert "Nothing was changed." in tell(
        "restore", "--at", moment, "--dry-run", "--lake", own_shop
    )
    assert ask("show", ORDERS, "--lake", own_shop) == now

    done = ask("restore", ORDERS, "--version", "1", "-m", "why", "--lake", own_shop)
    assert done["versions"] == {ORDERS: now["version"] + 1}
    assert ask("show", ORDERS, "--lake", own_shop)["rows"] == past["rows"]
    assert ask("undo", done["transaction_id"], "--dry-run", "--lake", own_shop)["dry_run"]
    assert "Committed" in tell("undo", done["transaction_id"], "--lake", own_shop)
    assert ask("show", ORDERS, "--lake", own_shop)["rows"] == now["rows"]
    assert run("undo", done["transaction_id"], "--lake", own_shop).code == 5


def test_wrong_places_end_with_their_codes(own_shop: Path) -> None:
    assert run("restore", "--lake", own_shop).code == 2
    assert run("restore", "--version", "1", "--lake", own_shop).code == 2
    assert run("restore", ORDERS, "--version", "99", "--lake", own_shop).code == 3
    assert run("restore", "--at", "nothing", "--lake", own_shop).code == 3
    assert run("undo", "nothing", "--lake", own_shop).code == 3


def test_a_version_is_restored_whatever_became_of_other_tables(own_shop: Path) -> None:
    with lw.open(own_shop) as lake:
        other = lake.create("other", {"id": "int64"})
        other.append({"id": [1]})
        lake.table(ORDERS).append(lake.table(ORDERS).to_arrow())
        version = lake.table(ORDERS).version
        other.overwrite(pa.table({"id": [2]}))
        lake.table(ORDERS).delete(where="true")
        other.vacuum(retention="0 seconds", force=True)
    given = ("restore", ORDERS, "--version", str(version), "--lake", own_shop)

    planned, done, again = ask(*given, "--dry-run"), ask(*given), ask(*given)

    assert planned["tables"] == done["tables"]
    assert [t["to_version"] for t in done["tables"]] == [version]
    assert (again["tables"], again["unchanged"]) == ([], [ORDERS])


def test_what_a_restore_did_is_shown_and_not_what_was_planned(
    own_shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    restore, other = lw.Table.restore, own_shop
    with lw.open(own_shop) as lake:
        before = lake.table(ORDERS).version

    def late(table: lw.Table, **given: Any) -> Any:
        with lw.open(other) as lake:
            lake.table(ORDERS).append(lake.table(ORDERS).to_arrow())
        return restore(table, **given)

    monkeypatch.setattr(lw.Table, "restore", late)
    done = ask("restore", ORDERS, "--version", "1", "--lake", own_shop)

    assert [t["version"] for t in done["tables"]] == [before + 1]
    assert done["versions"] == {ORDERS: before + 2}
