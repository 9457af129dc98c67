"""R1 for compactions, also automatic ones, and for migrations.

A process that is killed at any step changes no row and loses none.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeward as lw
from lakeward.maintain.optimize import automatic
from lakeward.model import steps
from lakeward.write.transaction import publishing
from tests.faults.test_kill import happened
from tests.support import processes
from tests.support.invariants import check_lake
from tests.support.leases import run_out
from tests.support.sizes import sizes
from tests.support.target import LakeTarget

pytestmark = [pytest.mark.crash, pytest.mark.slow]

_SHORT: Final = ("move.written", "move.staged", "ratify.inserted", "ratify.committed")
_SHORTEST: Final = ("move.staged", "ratify.inserted")
_APPENDS: Final = 12
_SCHEMA: Final = {"id": "int64", "v": "string"}


@sizes("points", short=_SHORT, full=(*steps.MOVE_STEPS, *steps.STEPS))
@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_a_killed_compaction_changes_no_row_and_the_next_one_finishes_it(
    lake_target: LakeTarget, make_lake: Callable[[], lw.Lake], form: str, points: tuple[str, ...]
) -> None:
    lake = make_lake()
    lake.create("t", _SCHEMA, format=form)
    killed = 0
    for number, step in enumerate(points):
        table = lake.table("t")
        for n in range(3):
            table.append({"id": [number * 10 + n], "v": ["x"]})
        before, version = sorted(table.to_arrow()["id"].to_pylist()), table.version
        lake.close()
        worker = processes.start(optimize_until_killed, lake_target, step)
        worker.finish()
        killed += worker.killed
        lake = make_lake()
        table = lake.table("t")
        assert sorted(table.to_arrow()["id"].to_pylist()) == before, step
        assert table.version in (version, version + 1), step
        # The dead process holds its part of the table until its lease has run out.
        for transaction in lake.transactions(state="open"):
            run_out(lake, transaction.transaction_id)
        table.optimize()
        assert sorted(table.to_arrow()["id"].to_pylist()) == before, step
        assert len(table.files()) == 1, step
        check_lake(lake, ["t"], since=version)
    assert killed >= len(_SHORT)
    print(f"\nR1 {form}: {killed} compactions killed, no row lost")


def optimize_until_killed(pipe: Connection, target: LakeTarget, step: str) -> None:
    """Compact the table, and be killed at a step."""
    lake = target.open()
    table = lake.table("t")
    processes.kill_myself_at(step, 1)
    table.optimize()
    lake.close()
    pipe.send("done")


@sizes("points", short=_SHORTEST, full=(*steps.MOVE_STEPS, *steps.STEPS))
@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_a_kill_in_a_compaction_of_the_background_loses_no_row(
    lake_target: LakeTarget, make_lake: Callable[[], lw.Lake], form: str, points: tuple[str, ...]
) -> None:
    """The policy `auto_compaction` compacts beside the appends that the process goes on with."""
    lake = make_lake()
    lake.create("t", _SCHEMA, format=form, policy={"auto_compaction": True})
    killed = 0
    expected: list[int] = []
    for number, step in enumerate(points):
        version = lake.table("t").version
        lake.close()
        worker = processes.start(append_until_killed, lake_target, step, number * 100)
        said = worker.finish()
        killed += worker.killed
        lake = make_lake()
        table = lake.table("t")
        expected += sorted({i for i in said if happened(lake, f"append-{i}")})
        assert sorted(table.to_arrow()["id"].to_pylist()) == expected, step
        # Each id is said before its commit and after it.
        assert {i for i in said if said.count(i) == 2} <= set(expected), step
        for transaction in lake.transactions(state="open"):
            run_out(lake, transaction.transaction_id)
        table.optimize()
        assert sorted(table.to_arrow()["id"].to_pylist()) == expected, step
        assert len(table.files()) == 1, step
        check_lake(lake, ["t"], since=version)
    assert killed >= len(_SHORTEST)
    print(f"\nR1 {form}: {killed} compactions in the background killed, no row lost")


def append_until_killed(pipe: Connection, target: LakeTarget, step: str, first: int) -> None:
    """Append rows, with small files compacted in the background, and be killed at a step of it."""
    publishing._COMPACTED_EVERY = automatic.ENOUGH = 3  # type: ignore[misc]

    def observer(reached: str) -> None:
        if reached == step and threading.current_thread() is not threading.main_thread():
            os.kill(os.getpid(), signal.SIGKILL)

    steps.observe(observer)
    lake = target.open()
    for number in range(first, first + _APPENDS):
        pipe.send(number)
        with lake.transaction(transaction_id=f"append-{number}") as tx:
            tx.append("t", {"id": [number], "v": ["x"]})
        pipe.send(number)
    lake.close()


@pytest.mark.parametrize("step", ["migrate.created", "ratify.inserted", "migrate.taken"])
def test_a_killed_migration_is_continued_and_has_every_row_once(
    lake_target: LakeTarget, make_lake: Callable[[], lw.Lake], tmp_path: Path, step: str
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for n in range(4):
        pq.write_table(pa.table({"id": [n]}), source / f"{n}.parquet")
    make_lake().close()
    worker = processes.start(migrate_until_killed, lake_target, str(source), step)
    worker.finish()
    assert worker.killed

    done = make_lake().migrate(source, "t")

    assert done.is_verified
    assert sorted(make_lake().table("t").to_arrow()["id"].to_pylist()) == [0, 1, 2, 3]


def migrate_until_killed(pipe: Connection, target: LakeTarget, source: str, step: str) -> None:
    """Migrate file by file, and be killed at a step."""
    from lakeward.maintain.migrate import run

    run._BATCH_FILES = 1  # type: ignore[misc]
    lake = target.open()
    processes.kill_myself_at(step, 1 if step == "migrate.created" else 2)
    lake.migrate(source, "t")
    pipe.send("done")
