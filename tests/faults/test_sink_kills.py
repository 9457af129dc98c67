"""R11: the producer of a stream is killed and replays, and older instances of it come back."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Final

import pytest

import lakeward as lw
from lakeward.errors import Fenced
from lakeward.model.steps import STEPS
from lakeward.stream.sink import SinkGroup
from tests.support import processes
from tests.support.invariants import Rows, check_lake, check_nothing_torn
from tests.support.sizes import sizes
from tests.support.target import LakeTarget

pytestmark = [pytest.mark.crash, pytest.mark.slow]

TABLES: Final = ("stream.events", "stream.totals")
_FORMATS: Final = ("delta", "iceberg")
_SCHEMA: Final = {"epoch": "int64", "n": "int64"}
_WRITER: Final = "producer"
_EPOCHS_UNTIL_KILLED: Final = 12


@dataclass
class Tally:
    """What happened on the way."""

    kills: int = 0
    replays: int = 0
    fenced: int = 0
    zombie_commits: int = 0
    steps: Counter[str] = field(default_factory=Counter)


@sizes("epochs", short=30, full=1000)
def test_every_row_is_there_once_whoever_dies_replays_or_comes_back(
    lake_target: LakeTarget, make_lake: Callable[[], lw.Lake], epochs: int
) -> None:
    choose = random.Random(11)
    tally = Tally()
    lake = make_lake()
    with opened(lake):
        pass
    number = 0
    while done(lake) < epochs:
        zombie = opened(lake)
        last = zombie.last_epoch
        write_epoch(zombie, 0 if last is None else last + 1)
        step = STEPS[number % len(STEPS)] if number % 3 else ""
        worker = processes.start(
            produce, lake_target, epochs, choose.randrange(2**32), step, 1 + choose.randrange(12)
        )
        if not step:
            kill_some_time(worker, choose)
        said = worker.finish()
        tally.kills += worker.killed
        tally.steps[step] += 1
        tally.replays += sum(1 for kind, _ in said if kind == "replayed")
        come_back(zombie, 0 if last is None else last + 1, tally, said)
        check_nothing_torn(lake_target.warehouse / "stream")
        number += 1
    lake.close()

    lake = make_lake()
    rows = check_lake(lake, TABLES)
    assert rows == dict.fromkeys(TABLES, expected(epochs))
    for name in TABLES:
        # One version each beside the first, so nothing was committed twice or in two parts.
        assert lake.table(name).version == epochs
        assert lake.table(name).app_version(_WRITER) == epochs - 1
    assert tally.kills
    assert tally.replays
    assert tally.fenced
    print(
        f"\nR11 {'postgres' if lake_target.is_postgres else 'sqlite'}: {epochs} epochs over"
        f" {len(TABLES)} tables, {tally.kills} kills, {tally.replays} replays,"
        f" {tally.fenced} instances fenced off, {tally.zombie_commits} that committed before"
    )


@sizes("epochs", short=25, full=400)
def test_instances_that_take_over_from_each_other_write_every_row_once(
    lake_target: LakeTarget, make_lake: Callable[[], lw.Lake], epochs: int
) -> None:
    lake = make_lake()
    with opened(lake):
        pass
    with processes.started(2, duel, lake_target, epochs) as workers:
        said = [worker.finish() for worker in workers]
    fenced = sum(1 for one in said for message in one if message == "fenced")
    rows = check_lake(lake, TABLES)
    assert rows == dict.fromkeys(TABLES, expected(epochs))
    assert {lake.table(name).version for name in TABLES} == {epochs}
    assert fenced
    print(f"\nR11: two instances took over from each other {fenced} times in {epochs} epochs")


def opened(lake: lw.Lake) -> SinkGroup:
    return lake.sinks(
        [
            lake.sink(name, writer_id=_WRITER, schema=_SCHEMA, format=kind, flush_rows=3)
            for name, kind in zip(TABLES, _FORMATS, strict=True)
        ]
    )


def rows_of(epoch: int) -> list[dict[str, int]]:
    return [{"epoch": epoch, "n": n} for n in range(1 + epoch % 7)]


def write_epoch(group: SinkGroup, epoch: int) -> None:
    for row in rows_of(epoch):
        for sink in group:
            sink.write([row])


def expected(epochs: int) -> Rows:
    return Counter((r["epoch"], r["n"]) for e in range(epochs) for r in rows_of(e))


def done(lake: lw.Lake) -> int:
    found = lake.table(TABLES[0]).app_version(_WRITER)
    return 0 if found is None else found + 1


def produce(
    pipe: Connection, target: LakeTarget, epochs: int, seed: int, step: str, occurrence: int
) -> None:
    """Write epochs as a producer does that saved nothing: from somewhere before the last one."""
    choose = random.Random(seed)
    if step:
        processes.kill_myself_at(step, occurrence)
    lake = target.open()
    group = opened(lake)
    pipe.send(("opened", group.last_epoch))
    last = group.last_epoch
    epoch = 0 if last is None else max(0, last + 1 - choose.randrange(4))
    # Not for too long, lest few of them are killed.
    epochs = min(epochs, epoch + _EPOCHS_UNTIL_KILLED)
    while epoch < epochs:
        # Some are waited for, and some are committed behind, a few at a time.
        end = min(epochs, epoch + choose.choice((1, 1, 4)))
        submitted = []
        for number in range(epoch, end):
            write_epoch(group, number)
            submitted.append(group.submit_epoch(number, progress={"epoch": number}))
        for number, result in enumerate(submitted, start=epoch):
            told = "replayed" if result.result().replayed else "committed"
            pipe.send((told, number))
        epoch = max(0, end - choose.choice((0, 0, 0, 0, 1, 2, 3)))


def kill_some_time(worker: processes.Worker, choose: random.Random) -> None:
    """Kill it between any two instructions, once it has begun."""
    worker.hear()
    time.sleep(choose.random() * 0.1)
    os.kill(worker.pid, signal.SIGKILL)


def come_back(
    zombie: SinkGroup, epoch: int, tally: Tally, said: list[tuple[str, int | None]]
) -> None:
    """An instance that was asleep meanwhile goes on with what it was about to do."""
    overtaken = any(kind == "opened" for kind, _ in said)
    try:
        zombie.commit_epoch(epoch)
    except Fenced:
        tally.fenced += 1
    else:
        # Only where the one that came after it had died before it could take over.
        assert not overtaken
        tally.zombie_commits += 1
    finally:
        zombie.close()


def duel(pipe: Connection, number: int, target: LakeTarget, epochs: int) -> None:
    lake = target.open()
    pipe.send("ready")
    pipe.recv()
    choose = random.Random(number)
    while done(lake) < epochs:
        group = opened(lake)
        last = group.last_epoch
        epoch = 0 if last is None else last + 1
        try:
            while epoch < epochs:
                write_epoch(group, epoch)
                group.commit_epoch(epoch)
                epoch += 1
        except Fenced:
            pipe.send("fenced")
            # Give the other one a chance, or neither gets anywhere.
            time.sleep(choose.random() * 0.05)
        finally:
            group.close()
