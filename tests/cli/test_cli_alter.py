"""`lakeward alter` and `lakeward schema`."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakeward as lw
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


def test_constraints_say_what_happens_to_rows(own_shop: Path) -> None:
    table = "sales.orders"
    clauses = [
        "ALTER COLUMN id SET NOT NULL",
        "ADD CONSTRAINT has_id NOT NULL (id) ON VIOLATION QUARANTINE",
        "ADD CONSTRAINT one UNIQUE (id) ON VIOLATION WARN",
    ]
    ask("alter", table, *clauses, "--lake", own_shop)
    with lw.open(own_shop) as lake:
        found = lake.table(table).constraints
        assert found["has_id"] == lw.NotNull("id", on_violation="quarantine")
        assert found["one"] == lw.Unique("id", on_violation="warn")


def test_features_are_enabled_by_their_properties(own_shop: Path) -> None:
    properties = {"delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true"}
    clauses = [f"SET TBLPROPERTIES ('{k}' = '{v}')" for k, v in properties.items()]
    ask("alter", "sales.orders", *clauses, "--lake", own_shop)
    with lw.open(own_shop) as lake:
        table = lake.table("sales.orders")
        assert properties.items() <= table.properties.items()
        assert {"columnMapping", "typeWidening"} <= set(table.definition.protocol["writerFeatures"])
        assert table.count() > 0


@pytest.mark.parametrize(
    ("clause", "word"),
    [
        ("DROP COLUMN nosuch", "nosuch"),
        ("FORGET IT", "cannot be understood"),
        ("ADD CONSTRAINT c NOT NULL (id) ON VIOLATION WARN", "cannot only be warned of"),
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
