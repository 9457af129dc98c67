"""`lakeward alter` and `lakeward schema`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.console import ask, run, tell


def test_a_table_is_altered_and_its_schemas_are_listed(own_shop: Path) -> None:
    table = "sales.orders"
    before = ask("schema", table, "--lake", own_shop)["schemas"][0]
    done = ask(
        *("alter", table, "ADD COLUMN currency string DEFAULT 'EUR'"),
        *("ALTER COLUMN currency COMMENT 'ISO 4217'", "-m", "a currency", "--lake", own_shop),
    )
    after = ask("schema", table, "--lake", own_shop)["schemas"]
    assert [s["since"] for s in after] == [done["version"]]
    assert after[0]["number"] == before["number"] + 1
    assert after[0]["message"] == "a currency"
    assert after[0]["columns"][-1]["comment"] == "ISO 4217"
    history = ask("schema", table, "--history", "--lake", own_shop)["schemas"]
    assert [s["number"] for s in history] == [0, 1]
    older = ask("schema", table, "--version", "0", "--lake", own_shop)["schemas"]
    assert older == history[:1]
    shown = tell("schema", table, "--history", "--lake", own_shop)
    assert "schema 1" in shown
    assert "a currency" in shown


@pytest.mark.parametrize(
    ("clause", "word"),
    [
        ("DROP COLUMN nosuch", "nosuch"),
        ("FORGET IT", "cannot be understood"),
        ("ALTER COLUMN id TYPE tinyint", "values"),
        ("SET TBLPROPERTIES ('delta.nosuch' = '1')", "delta.nosuch"),
    ],
)
def test_a_refused_change_ends_with_2_and_changes_nothing(
    own_shop: Path, clause: str, word: str
) -> None:
    before = ask("show", "sales.orders", "--lake", own_shop)
    answer = run("--json", "alter", "sales.orders", clause, "--lake", own_shop)
    assert answer.code == 2
    assert word in str(answer.error)
    assert ask("show", "sales.orders", "--lake", own_shop) == before
