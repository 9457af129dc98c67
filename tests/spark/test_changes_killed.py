"""Every change once, however often a pipeline and a stream that follow a table are killed."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import lakeward as lw
from lakeward.log import transactions
from tests.support.changes_driver import SEEN
from tests.support.inside import context_of
from tests.support.leases import run_out
from tests.support.sizes import sizes

pytestmark = pytest.mark.full
STEPS = (
    "changes.staged",
    "pipeline.planned",
    "pipeline.step",
    "pipeline.written",
    "pipeline.committed",
    "ratify.inserted",
    "ratify.committed",
    "stream.written",
    "stream.committed",
)
_SIGNS = {"insert": 1, "update_postimage": 1, "delete": -1, "update_preimage": -1}


def drive(lake: Path, checkpoint: Path, step: str = "", times: int = 1) -> int:
    module = "tests.support.changes_driver"
    told = subprocess.run(
        [sys.executable, "-m", module, str(lake), str(checkpoint), step, str(times)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert told.returncode in (0, -signal.SIGKILL), told.stderr[-3000:]
    return told.returncode


def change(orders: lw.Table, chance: random.Random, number: int) -> None:
    """Commit some versions: rows come, change and go, and are moved."""
    orders.append([{"id": number * 10 + n, "v": 0} for n in range(4)])
    orders.update(set={"v": "v + 1"}, where=f"id % 3 = {chance.randrange(3)}")
    if chance.random() < 0.5:
        orders.optimize()
    orders.delete(where=f"id % 5 = {chance.randrange(5)}")


def _let_leases_end(place: Path) -> None:
    """Let the lease of each transaction that is still open be over, as a minute later."""
    with lw.open(place) as lake:
        with context_of(lake).database.read() as session:
            still_open = [r.transaction_id for r in transactions.still_open(session)]
        for transaction_id in still_open:
            run_out(lake, transaction_id)


@pytest.mark.crash
@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
@sizes("kills", short=2, full=20)
def test_killed_again_and_again_every_change_is_taken_once(
    tmp_path: Path, kills: int, table_format: str
) -> None:
    place, checkpoint = tmp_path / "lake", tmp_path / "checkpoint"
    chance, dead = random.Random(3), 0
    with lw.open(place) as lake:
        orders = lake.create("silver.orders", "id int64 not null, v int64", format=table_format)
        lake.create("gold.seen", SEEN)
        change(orders, chance, 0)
    for number in range(1, kills + 1):
        # The first run takes the table as it is; changes are staged from the second on.
        if number > 1 or not drive(place, checkpoint):
            with lw.open(place) as lake:
                change(lake.table("silver.orders"), chance, number)
        step = "changes.staged" if number == 1 else chance.choice(STEPS)
        dead += drive(place, checkpoint, step, 1 if number == 1 else chance.randint(1, 2)) != 0
        _let_leases_end(place)
        with lw.open(place):
            left = list(place.rglob("scratch/*/*"))
            assert not left, "staged changes of a dead process are left"
    # The first run gives the batch of unknown outcome again, and nothing more.
    assert drive(place, checkpoint) == drive(place, checkpoint) == 0

    with lw.open(place) as lake:
        orders = lake.table("silver.orders")
        now = Counter((r["id"], r["v"]) for r in orders.to_arrow().to_pylist())
        copied = lake.table("gold.orders").to_arrow().to_pylist()
        assert Counter((r["id"], r["v"]) for r in copied) == now
        net: Counter[tuple[int, int]] = Counter()
        for row in lake.table("gold.log").to_arrow().to_pylist():
            net[row["id"], row["v"]] += _SIGNS[row["kind"]]
        assert {k: n for k, n in net.items() if n} == now, "the pipeline took a change twice"
        seen = Counter(tuple(r.values()) for r in lake.table("gold.seen").to_arrow().to_pylist())
        rows = orders.changes(since=0, key="id").read_all().to_pylist()
        told = Counter((r["id"], r["v"], r["_change_type"], r["_commit_version"]) for r in rows)
        assert seen == told, "the stream took a change twice, or not at all"
    print(f"\n{table_format}: the driver killed {dead} times: every change once")
    assert dead
