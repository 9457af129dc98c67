"""`lakeward tag …`, and reading by a tag or a transaction."""

from __future__ import annotations

from pathlib import Path

from tests.cli.console import ask, run, tell

ORDERS = "sales.orders"


def test_a_tag_is_made_listed_read_by_moved_and_dropped(own_shop: Path) -> None:
    assert tell("tag", "list", "--lake", own_shop).strip() == "The lake has no tags."
    past = ask("show", ORDERS, "--version", "1", "--lake", own_shop)
    first = ask("history", ORDERS, "--lake", own_shop)["versions"][-2]
    moment, transaction = first["timestamp"], first["transaction_id"]
    made = ask("tag", "create", "close", "--at", moment, "-m", "why", "--lake", own_shop)
    assert (made["name"], made["versions"][ORDERS]) == ("close", 1)

    (listed,) = ask("tag", "list", "--lake", own_shop)["tags"]
    assert listed == made
    assert "close" in tell("tag", "list", "--lake", own_shop)
    assert ask("show", ORDERS, "--tag", "close", "--lake", own_shop) == past
    assert ask("show", ORDERS, "--transaction", transaction, "--lake", own_shop) == past
    cut = ask("snapshot", "--at", "close", "--lake", own_shop)
    assert {t["table"]: t["version"] for t in cut["tables"]} == made["versions"]

    assert run("tag", "create", "close", "--lake", own_shop).code == 4
    moved = ask("tag", "create", "close", "--table", ORDERS, "--replace", "--lake", own_shop)
    assert list(moved["versions"]) == [ORDERS]
    assert ask("tag", "drop", "close", "--lake", own_shop) == {"tag": "close"}
    assert run("tag", "drop", "close", "--lake", own_shop).code == 3
    assert run("tag", "create", "12", "--lake", own_shop).code == 2
