"""`lakeward restore` and `lakeward undo`."""

from __future__ import annotations

from pathlib import Path

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
