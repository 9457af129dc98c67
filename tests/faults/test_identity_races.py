"""Identity columns while several processes commit at once. R1 has one among its tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from multiprocessing.connection import Connection

import pytest

import lakeward as lw
from tests.support import processes
from tests.support.delta_rows import published
from tests.support.invariants import check_lake
from tests.support.sizes import sizes
from tests.support.target import LakeTarget

pytestmark = pytest.mark.slow
_FEW = 50
"""Up to so many commits, four processes commit; beyond, eight."""
_COLUMNS = "id bigint not null generated always as identity, label string"


@sizes("commits", short=10, full=250)
def test_processes_get_values_that_no_other_gets(
    lake_target: LakeTarget, make_lake: Callable[[], lw.Lake], commits: int
) -> None:
    lake = make_lake()
    lake.create("t", _COLUMNS)

    count = 4 if commits < _FEW else 8
    with processes.started(count, add, lake_target, commits) as workers:
        said = [worker.finish() for worker in workers]

    lake = make_lake()
    rows = lake.table("t").to_arrow()
    assert sorted(rows["label"].to_pylist()) == sorted(
        label for messages in said for label in messages[-1]
    )
    found = rows["id"].to_pylist()
    assert len(found) == len(set(found)) == count * commits * 3
    # One that commits with fewer values than it took gives them back only where it can.
    print(f"\nidentity: {len(found)} values, the last is {max(found)}")
    assert _mark(lake) >= max(found)
    check_lake(lake, ["t"], since=lake.table("t").version - 20)


def add(pipe: Connection, number: int, target: LakeTarget, commits: int) -> None:
    """Add rows of one's own, in batches of different sizes; some transactions are given up."""
    lake = target.open()
    pipe.send("ready")
    pipe.recv()
    done = []
    for commit in range(commits):
        labels = [f"{number}/{commit}/{n}" for n in range(3)]
        tx = lake.transaction()
        tx.append("t", [{"label": label} for label in labels])
        if commit % 5 == 0:
            tx.rollback()
            tx = lake.transaction()
            tx.append("t", [{"label": label} for label in labels])
        tx.commit()
        done += labels
    pipe.send(done)


def _mark(lake: lw.Lake) -> int:
    schema = json.loads(published(lake.table("t"), "metaData")[-1]["schemaString"])
    return int(schema["fields"][0]["metadata"]["delta.identity.highWaterMark"])
