"""`transactions`, `snapshot`, and `history` across tables."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakeward as lw
from lakeward.errors import ConstraintViolation
from tests.cli.console import ask, run, tell


def test_transactions_are_listed_newest_first(own_shop: Path) -> None:
    found = ask("transactions", "--lake", own_shop)

    listed = found["transactions"]
    assert not found["more"]
    assert [t["versions"] for t in listed] == [
        {"sales.orders": 3},
        {"audit": 1, "sales.orders": 2},
        {"sales.orders": 1},
        {"audit": 0},
        {"sales.orders": 0},
    ]
    both = listed[1]
    assert (both["transaction_id"], both["state"], both["committed"]) == (
        "both-tables",
        "ratified",
        True,
    )
    assert (both["actor"], both["isolation"], both["message"]) == ("tester", "snapshot", "both")
    assert both["opened"] <= both["ended"] < both["lease_until"]


def test_the_list_is_cut_and_filtered(own_shop: Path) -> None:
    with lw.open(own_shop) as lake:
        tx = lake.transaction(isolation="read_committed", transaction_id="still-open")
        tx.append("audit", [{"note": "x"}])

        found = ask("transactions", "--state", "open", "--lake", own_shop)
        (still,) = found["transactions"]
        assert (still["transaction_id"], still["isolation"]) == ("still-open", "read_committed")
        assert (still["ended"], still["versions"]) == (None, {})
        tx.rollback()

    cut = ask("transactions", "--limit", "2", "--lake", own_shop)
    assert (len(cut["transactions"]), cut["more"]) == (2, True)
    assert ask("transactions", "--state", "expired", "--lake", own_shop)["transactions"] == []
    assert "no such transaction" in tell("transactions", "--state", "expired", "--lake", own_shop)


def test_the_list_for_people_has_what_matters(
    own_shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    text = tell("transactions", "--lake", own_shop, "--limit", "2")

    for word in ("both-tables", "committed", "snapshot", "audit, sales.orders", "--limit"):
        assert word in text


@pytest.mark.parametrize("before", [True, False])
def test_one_transaction_is_shown_with_its_members(shop: Path, *, before: bool) -> None:
    options = ("--lake", shop, "--json")
    answer = (
        run("transactions", *options, "show", "both-tables")
        if before
        else run("transactions", "show", "both-tables", *options)
    )

    assert answer.json["versions"] == {"audit": 1, "sales.orders": 2}
    assert answer.json["state"] == "ratified"
    text = tell("transactions", "show", "both-tables", "--lake", shop)
    for word in ("both-tables", "committed", "tester", "audit", "sales.orders"):
        assert word in text


def test_a_transaction_that_nobody_knows_is_not_found(shop: Path) -> None:
    answer = run("transactions", "show", "nobody", "--lake", shop, "--json")

    assert (answer.code, answer.error["type"]) == (3, "TransactionNotFound")


@pytest.mark.parametrize("arguments", [("--state", "closed"), ("--limit", "0")])
def test_what_makes_no_sense_is_wrong_usage(shop: Path, arguments: tuple[str, str]) -> None:
    assert run("transactions", *arguments, "--lake", shop).code == 2


def test_a_snapshot_is_the_version_of_every_table(shop: Path) -> None:
    now = ask("snapshot", "--lake", shop)
    then = ask("snapshot", "--at", "both-tables", "--lake", shop)

    assert now["moment"] is None
    assert {t["table"]: t["version"] for t in now["tables"]} == {"audit": 1, "sales.orders": 3}
    assert {t["table"]: t["version"] for t in then["tables"]} == {"audit": 1, "sales.orders": 2}
    assert {t["timestamp"] for t in then["tables"]} == {then["moment"]}
    by_time = ask("snapshot", "--at", then["moment"], "--lake", shop)
    assert by_time["tables"] == then["tables"]
    assert "sales.orders" in tell("snapshot", "--lake", shop)
    assert "no table" in tell("snapshot", "--at", "2001-01-01", "--lake", shop)


def test_a_snapshot_at_nonsense_is_not_found(shop: Path) -> None:
    answer = run("snapshot", "--at", "yesterday", "--lake", shop, "--json")

    assert (answer.code, answer.error["type"]) == (3, "TransactionNotFound")


def test_history_tells_what_was_committed_together(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    plain = ask("history", "sales.orders", "--lake", shop)["versions"]
    found = ask("history", "sales.orders", "--transaction", "--lake", shop)["versions"]

    assert [v["members"] for v in plain] == [1, 2, 1, 1]
    assert "tables" not in plain[0]
    assert found[0]["tables"] == {"sales.orders": 3}
    assert found[1]["tables"] == {"audit": 1, "sales.orders": 2}
    text = tell("history", "sales.orders", "--transaction", "--lake", shop)
    assert "together with" in text
    assert "audit 1" in text
    assert "together with" not in tell("history", "sales.orders", "--lake", shop)


def test_violations_are_listed_as_text_and_as_records(own_shop: Path) -> None:
    with lw.open(own_shop) as lake:
        lake.create("keyed", {"id": "int64"}, constraints={"key": lw.Unique("id")})
        with pytest.raises(ConstraintViolation), lake.transaction() as tx:
            tx.append("keyed", {"id": [1, 1]})

    (found,) = ask("violations", "keyed", "--lake", own_shop)["violations"]
    assert (found["constraint"], found["action"], found["count"]) == ("key", "fail", 1)
    assert (found["sample"], found["transaction_id"]) == ([{"id": 1}], tx.transaction_id)
    shown = tell("violations", "--lake", own_shop)
    assert "keyed" in shown
    assert "fail" in shown
    assert "No constraint" in tell("violations", "other", "--lake", own_shop)
