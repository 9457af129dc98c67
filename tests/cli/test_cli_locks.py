"""`lakeward locks`: who holds what, and who waits."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

import lakeward as lw
from tests.behaviour.locks.waiting import until_waits
from tests.cli.console import ask, run, tell

ORDERS = "sales.orders"


def test_a_lake_without_locks_says_so(shop: Path) -> None:
    assert ask("locks", "--lake", shop) == {"locks": []}
    assert tell("locks", "--lake", shop).strip() == "No table is locked."


def test_locks_tell_who_holds_and_who_waits(shop: Path) -> None:
    with lw.open(shop, actor="ada") as lake, ThreadPoolExecutor(1) as pool:
        holder = lake.transaction(transaction_id="holder", locks={ORDERS: "read", "audit": "write"})
        waiter = lake.transaction(transaction_id="waiter")
        waiting = pool.submit(waiter.lock, ORDERS)
        until_waits(lake, ORDERS, "waiter")

        audit, orders = ask("locks", "--lake", shop)["locks"]
        text = tell("locks", "--lake", shop)

        holder.rollback()
        waiting.result()
        waiter.rollback()
    assert (audit["table"], audit["mode"], audit["waiters"]) == ("audit", "write", [])
    assert (orders["table"], orders["mode"]) == (ORDERS, "read")
    assert (orders["transaction_id"], orders["actor"]) == ("holder", "ada")
    assert orders["process"].endswith(f":{os.getpid()}")
    assert 0 < orders["lease_left_seconds"] <= 60
    (wait,) = orders["waiters"]
    assert (wait["transaction_id"], wait["mode"], wait["actor"]) == ("waiter", "write", "ada")
    assert datetime.fromisoformat(wait["since"]) >= datetime.fromisoformat(orders["since"])
    lines = [line.split()[:5] for line in text.splitlines() if line.strip()][2:]
    assert lines == [
        ["audit", "held", "write", "holder", "ada"],
        [ORDERS, "held", "read", "holder", "ada"],
        [ORDERS, "waits", "write", "waiter", "ada"],
    ]


def test_looking_at_locks_changes_nothing(shop: Path) -> None:
    with lw.open(shop) as lake:
        tx = lake.transaction(locks={ORDERS: "write"})
        ask("locks", "--lake", shop)
        assert [lock.transaction_id for lock in lake.locks()] == [tx.transaction_id]
        tx.append("audit", [])
        tx.rollback()


def test_locks_of_no_lake_are_not_found(tmp_path: Path) -> None:
    assert run("locks", "--lake", tmp_path / "none").code == 3
