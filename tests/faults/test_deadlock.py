"""X7: transactions that wait for each other, and holders of locks that die or fall silent."""

from __future__ import annotations

import os
import signal
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Final

import pytest

import lakeward as lw
from lakeward.errors import Deadlock, LakewardError, Locked, TransactionClosed
from tests.support import processes
from tests.support.invariants import check_lake
from tests.support.leases import run_out
from tests.support.sizes import sizes
from tests.support.target import LakeTarget

pytestmark = pytest.mark.slow

FOUND_SECONDS: Final = 1.0
TABLES: Final = ("one", "two", "three")
_SCHEMA: Final = {"writer": "int64", "round": "int64"}
_HANGS_SECONDS: Final = 30.0
_FOREVER: Final = 3600.0


@sizes("rounds", short=3, full=100)
def test_three_processes_that_wait_for_each_other_are_found_and_one_gives_way(
    lake_target: LakeTarget, make_lake: Callable[[], lw.Lake], rounds: int, store: str
) -> None:
    lake = make_lake()
    for name in TABLES:
        lake.create(name, _SCHEMA)
    took = []
    with processes.started(3, lock_in_a_circle, lake_target, rounds) as workers:
        for _ in range(rounds):
            for worker in workers:
                worker.tell("begin")
            # Each holds its table before anyone asks for the next one's.
            for worker in workers:
                assert hear(worker) == "holds"
            started = time.monotonic()
            for worker in workers:
                worker.tell("go on")
            results = {}
            for number, worker in enumerate(workers):
                said = hear(worker)
                if isinstance(said, Deadlock):
                    took.append(said.found - started)
                    check_victim(lake, said, number)
                    said = hear(worker)
                results[number] = said
            assert sorted(map(str, results.values())) == ["1", "1", "2"]
        for worker in workers:
            worker.finish(_HANGS_SECONDS)
    assert len(took) == rounds
    rows = check_lake(make_lake(), TABLES)
    assert [sum(found.values()) for found in rows.values()] == [2 * rounds] * 3
    assert lake.locks() == []
    assert statistics.median(took) < FOUND_SECONDS
    print(
        f"\nX7 {store}: {rounds} deadlocks of 3 processes over 3 tables, found after"
        f" {statistics.median(took) * 1000:.0f} ms, at worst {max(took) * 1000:.0f} ms;"
        f" one victim each, all 3 committed"
    )


def lock_in_a_circle(pipe: Connection, number: int, target: LakeTarget, rounds: int) -> None:
    """Lock a table, and then the next one's; tell of each deadlock, and the attempts it took."""
    lake = target.open()
    mine, next_one = TABLES[number], TABLES[(number + 1) % 3]
    pipe.send("ready")
    pipe.recv()
    for turn in range(rounds):
        # Nobody begins, and holds a table, before the last round is over for all.
        pipe.recv()
        attempts = 0

        def work(tx: lw.Transaction, turn: int = turn) -> None:
            nonlocal attempts
            attempts += 1
            tx.lock(mine, timeout=_FOREVER)
            if attempts == 1:
                pipe.send("holds")
                pipe.recv()
            try:
                tx.lock(next_one, timeout=_FOREVER)
            except Deadlock as error:
                error.facts["found"] = time.monotonic()
                pipe.send(error)
                raise
            for name in (mine, next_one):
                tx.append(name, [{"writer": number, "round": turn}])

        pipe.send(lake.run(work).attempts)


def check_victim(lake: lw.Lake, error: Deadlock, number: int) -> None:
    """It was the youngest of the three, and the error names them all."""
    registered = {r.transaction_id: r.opened for r in lake.transactions(limit=20)}
    assert len(set(error.cycle)) == 3
    assert error.transaction_id == max((registered[t], t) for t in error.cycle)[1]
    assert sorted(error.tables) == sorted(TABLES)
    assert error.table == TABLES[(number + 1) % 3]
    for part in (*error.cycle, *TABLES):
        assert part in error.what


@sizes("turns", short=6, full=100)
def test_a_locked_counter_counts_right_and_its_holders_meet_no_conflict(
    lake_target: LakeTarget, make_lake: Callable[[], lw.Lake], turns: int, store: str
) -> None:
    """Two of the writers take no lock: they wait at their commit and lose their conflicts."""
    lake = make_lake()
    lake.create("counter", {"n": "int64"})
    with lake.transaction() as tx:
        tx.append("counter", [{"n": 0}])
    before = time.perf_counter()
    with processes.started(6, count, lake_target, turns) as workers:
        said = [worker.finish() for worker in workers]
    elapsed = time.perf_counter() - before
    assert [failure for messages in said for failure in messages[-1]] == []
    assert lake.table("counter").to_arrow().to_pylist() == [{"n": 6 * turns}]
    assert lake.table("counter").version == 6 * turns + 1
    assert lake.locks() == []
    check_lake(make_lake(), ["counter"])
    print(f"\nX7 {store}: counted to {6 * turns} by 6 processes in {elapsed:.1f} s, 4 with locks")


def count(pipe: Connection, number: int, target: LakeTarget, turns: int) -> None:
    """Read, add one, write; who locks has one attempt, so that a conflict would be a failure."""
    lake = target.open()
    failures = []
    locks = {"counter": "write"} if number < 4 else None
    retry = lw.Retry(attempts=1) if locks else lw.Retry(attempts=1000)

    def work(tx: lw.Transaction) -> None:
        (row,) = tx.read("counter").to_pylist()
        tx.overwrite("counter", [{"n": row["n"] + 1}])

    pipe.send("ready")
    pipe.recv()
    for _ in range(turns):
        try:
            lake.run(work, retry=retry, locks=locks, lock_timeout=_FOREVER)
        except LakewardError as error:
            failures.append(repr(error))
    pipe.send(failures)


@pytest.mark.crash
@pytest.mark.parametrize("mode", ["read", "write"])
def test_the_lock_of_a_killed_process_is_kept_for_its_lease_and_then_taken(
    lake_target: LakeTarget, make_lake: Callable[[], lw.Lake], mode: str
) -> None:
    lake = make_lake()
    lake.create("t", {"n": "int64"})
    with holder(lake_target, mode) as worker:
        os.kill(worker.pid, signal.SIGKILL)
        worker.process.join()
        dead = worker.said[-1]
        tx = lake.transaction()
        with pytest.raises(Locked) as caught:
            tx.lock("t", timeout=0)
        assert caught.value.holders == [dead]
        run_out(lake, dead)
        tx.lock("t", timeout=0)
        tx.append("t", [{"n": 2}])
        tx.commit()
    assert not lake.outcome(dead).committed
    assert lake.table("t").to_arrow().to_pylist() == [{"n": 2}]


@pytest.mark.crash
def test_a_stopped_process_that_lost_its_lock_cannot_commit_when_it_goes_on(
    lake_target: LakeTarget, make_lake: Callable[[], lw.Lake]
) -> None:
    """Its blind append would meet no conflict: only the lost lock can keep it out."""
    lake = make_lake()
    lake.create("t", {"n": "int64"})
    with holder(lake_target, "write") as worker:
        os.kill(worker.pid, signal.SIGSTOP)
        run_out(lake, worker.said[-1])
        with lake.transaction(locks={"t": "write"}, lock_timeout=0) as tx:
            tx.append("t", [{"n": 2}])
            os.kill(worker.pid, signal.SIGCONT)
            worker.tell("commit")
            assert isinstance(hear(worker), TransactionClosed)
    assert lake.table("t").to_arrow().to_pylist() == [{"n": 2}]


@contextmanager
def holder(target: LakeTarget, mode: str) -> Iterator[processes.Worker]:
    """A process that holds a lock and has staged a row; it has told its transaction's id."""
    worker = processes.start(hold, target, mode)
    try:
        hear(worker)
        yield worker
    finally:
        worker.process.kill()
        worker.process.join()


def hold(pipe: Connection, target: LakeTarget, mode: str) -> None:
    tx = target.open().transaction(locks={"t": mode})
    tx.append("t", [{"n": 1}])
    pipe.send(tx.transaction_id)
    pipe.recv()
    try:
        pipe.send(tx.commit().versions)
    except LakewardError as error:
        pipe.send(error)


def hear(worker: processes.Worker) -> object:
    """The next thing a process says, which must come soon: else it hangs."""
    if not worker.pipe.poll(_HANGS_SECONDS):
        message = f"process {worker.pid} hangs; before, it said {worker.said[-3:]}"
        raise TimeoutError(message)
    return worker.hear()
