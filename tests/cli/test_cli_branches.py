"""`lakeward branch …` and `lakeward clone`."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

import lakeward as lw
from tests.cli.console import ask, run, tell

ORDERS = "sales.orders"


def _copy_a_row(shop: Path, location: str) -> None:
    with lw.open(shop) as lake:
        row = lake.table(ORDERS).to_arrow().slice(0, 1)
    plain = pa.Table.from_pylist(row.to_pylist(), row.schema)
    write_deltalake(location, plain, mode="append")


def test_a_branch_is_made_shown_compared_and_published(own_shop: Path) -> None:
    rows = ask("show", ORDERS, "--lake", own_shop)["rows"]
    assert ask("branch", "list", "--lake", own_shop) == {"branches": []}
    made = ask("branch", "create", "audit", ORDERS, "--lake", own_shop)
    (table,) = made["tables"]
    assert (made["branch"], table["table"]) == ("audit", ORDERS)
    _copy_a_row(own_shop, table["location"])

    (listed,) = ask("branch", "list", "--lake", own_shop)["branches"]
    shown = ask("branch", "show", "audit", "--lake", own_shop)
    (told,) = ask("branch", "diff", "audit", "--lake", own_shop)["tables"]
    text = tell("branch", "diff", "audit", "--lake", own_shop)
    done = ask("branch", "publish", "audit", "-m", "why", "--lake", own_shop)

    assert listed == shown == made
    assert (told["files_added"], told["rows_added"], told["conflict"]) == (1, 1, None)
    assert "WRITE" in text
    assert "+1" in text
    assert done["versions"] == {ORDERS: table["base_version"] + 1}
    assert ask("show", ORDERS, "--lake", own_shop)["rows"] == rows + 1
    assert tell("branch", "list", "--lake", own_shop).strip() == "The lake has no branches."


def test_a_branch_is_dropped_and_is_not_found_any_more(own_shop: Path) -> None:
    ask("branch", "create", "audit", ORDERS, "--lake", own_shop)
    assert "audit" in tell("branch", "list", "--lake", own_shop)
    assert run("branch", "create", "audit", ORDERS, "--lake", own_shop).code == 4

    assert ask("branch", "drop", "audit", "--lake", own_shop) == {"branch": "audit"}

    assert run("branch", "show", "audit", "--lake", own_shop).code == 3
    assert run("branch", "create", "a/b", ORDERS, "--lake", own_shop).code == 2


def test_a_clone_is_made_of_a_version(own_shop: Path) -> None:
    made = ask("clone", ORDERS, "lab.orders", "--version", "1", "--lake", own_shop)

    assert (made["table"], made["source_version"]) == ("lab.orders", 1)
    then = ask("show", ORDERS, "--version", "1", "--lake", own_shop)["rows"]
    assert ask("show", "lab.orders", "--lake", own_shop)["rows"] == then
    assert run("clone", ORDERS, "lab.orders", "--lake", own_shop).code == 4
    assert run("clone", ORDERS, "x", "--version", "99", "--lake", own_shop).code == 3
