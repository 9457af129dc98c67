"""A client of the lake in a process of its own: runs random transactions and tells what it sees.

What it means to write is told before it is done and what it reads right after, so that a history
can be put together even when the process is killed between any two instructions.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing.connection import Connection
from typing import Final, TypeAlias

import pyarrow as pa

import lakeward as lw
from lakeward.errors import Conflict, OutcomeUnknown, StoreUnavailable
from tests.faults.isolation.history import Append, Level, Operation, Read, Replace
from tests.faults.isolation.workload import Add, Look, Plan, Step, Update, plans
from tests.support import processes
from tests.support.target import LakeTarget

_LONGEST_PAUSE_SECONDS: Final = 0.02
_WHILE_THE_STORE_IS_GONE_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class Begun:
    """A transaction was begun; all that follows is its own, until it has ended."""

    label: str
    called: int
    level: Level = Level.SERIALIZABLE


@dataclass(frozen=True, slots=True)
class Ended:
    """What the client was told of the outcome; `committed` is None when nobody could tell."""

    committed: bool | None
    returned: int
    versions: Mapping[str, int] = field(default_factory=dict)


Message: TypeAlias = Begun | Operation | Ended


@dataclass(frozen=True, slots=True)
class Task:
    """What a client is to do.

    Attributes:
        target: The lake.
        number: The client's own, so that it writes values that no other one does.
        tables: Those it works on.
        keys: How many there are in each.
        levels: At one of which each transaction runs.
        transactions: How many.
        die: The step at which it kills itself, and at which time of reaching it.
    """

    target: LakeTarget
    number: int
    tables: tuple[str, ...]
    keys: int
    levels: tuple[Level, ...]
    transactions: int
    die: tuple[str, int] | None = None


def work(pipe: Connection, task: Task) -> None:
    """Do the task; every message goes through the pipe, and the last one is None."""
    if task.die is not None:
        processes.kill_myself_at(*task.die)
    lake = task.target.open()
    choose = random.Random(task.number)
    endless = plans(choose, task.number, task.tables, task.keys)
    for number, plan in enumerate(islice(endless, task.transactions)):
        if plan.from_snapshot:
            _look_at_snapshot(lake, pipe, f"look-{task.number}-{number}", plan)
        else:
            _run(lake, pipe, choose.choice(task.levels), plan, choose)
    pipe.send(None)
    lake.close()


def _run(lake: lw.Lake, pipe: Connection, level: Level, plan: Plan, choose: random.Random) -> None:
    tx = lake.transaction(isolation=level.word)
    pipe.send(Begun(tx.transaction_id, time.monotonic_ns(), level))
    try:
        for step in plan.steps:
            _do(tx, pipe, step)
            # Room for others between any two steps, however few processors there are.
            time.sleep(choose.choice([0, 0, _LONGEST_PAUSE_SECONDS]) * choose.random())
        if plan.give_up:
            tx.rollback()
            pipe.send(Ended(committed=False, returned=time.monotonic_ns()))
            return
        versions = dict(tx.commit().versions)
    except (Conflict, StoreUnavailable) as error:
        tx.rollback()
        pipe.send(Ended(committed=False, returned=time.monotonic_ns()))
        if isinstance(error, StoreUnavailable):
            time.sleep(_WHILE_THE_STORE_IS_GONE_SECONDS)
    except OutcomeUnknown:
        pipe.send(Ended(committed=None, returned=time.monotonic_ns()))
    else:
        pipe.send(Ended(committed=True, returned=time.monotonic_ns(), versions=versions))


def _do(tx: lw.Transaction, pipe: Connection, step: Step) -> None:
    if isinstance(step, Look):
        called = time.monotonic_ns()
        pipe.send(_read(step, tx.read(step.table, where=_where(step)), called))
    elif isinstance(step, Add):
        pipe.send(Append(step.table, step.key, step.value))
        tx.append(step.table, _rows(step.key, [step.value]))
    else:
        _update(tx, pipe, step)


def _update(tx: lw.Transaction, pipe: Connection, step: Update) -> None:
    look = Look(step.table, step.key, step.key)
    called = time.monotonic_ns()
    read = _read(look, tx.read(step.table, where=_where(look)), called)
    pipe.send(read)
    kept = read.seen.get(step.key, ())
    pipe.send(Replace(step.table, step.key, kept, step.value))
    rows = _rows(step.key, [*kept, step.value])
    if step.by_delete:
        tx.delete(step.table, where=_where(look))
        tx.append(step.table, rows)
    else:
        tx.overwrite(step.table, rows, where=_where(look))


def _look_at_snapshot(lake: lw.Lake, pipe: Connection, label: str, plan: Plan) -> None:
    called = time.monotonic_ns()
    pipe.send(Begun(label, called))
    with suppress(StoreUnavailable), lake.snapshot() as snapshot:
        for step in plan.steps:
            assert isinstance(step, Look)
            # The cut was taken when the snapshot was asked for, whenever it is looked at.
            found = snapshot.table(step.table).to_arrow(where=_where(step))
            pipe.send(_read(step, found, called))
    pipe.send(Ended(committed=True, returned=time.monotonic_ns()))


def _read(step: Look, found: pa.Table, called: int) -> Read:
    seen: dict[int, tuple[int, ...]] = {}
    pairs = zip(found.column("key").to_pylist(), found.column("value").to_pylist(), strict=True)
    for key, value in pairs:
        seen[key] = (*seen.get(key, ()), value)
    return Read(step.table, step.first, step.last, seen, called)


def _rows(key: int, values: list[int]) -> list[dict[str, int]]:
    return [{"key": key, "value": value} for value in values]


def _where(step: Look) -> str:
    if step.first == step.last:
        return f"key = {step.first}"
    return f"key >= {step.first} AND key <= {step.last}"
