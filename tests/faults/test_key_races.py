"""Unique and foreign keys while several processes commit at once, and when one is killed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection

import pytest

import lakeward as lw
from lakeward.errors import Conflict, ConstraintViolation
from lakeward.write.keys import index
from tests.support import processes
from tests.support.sizes import sizes
from tests.support.target import LakeTarget

pytestmark = pytest.mark.slow

_STEPS = ("stage.done", "validate.done", "ratify.checked", "ratify.inserted", "ratify.committed")


@sizes("keys", short=20, full=1000)
@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_eight_processes_that_insert_the_same_keys_commit_each_once(
    lake_target: LakeTarget, make_lake: Callable[[], lw.Lake], form: str, keys: int
) -> None:
    lake = make_lake()
    lake.create("t", {"id": "int64"}, format=form, constraints={"key": lw.Unique("id")})

    with processes.started(8, insert, lake_target, keys) as workers:
        said = [worker.finish() for worker in workers]

    won = Counter(key for messages in said for key in messages[-1])
    assert won == Counter(range(keys))
    found = make_lake().table("t").to_arrow()["id"].to_pylist()
    assert sorted(found) == list(range(keys))


def insert(pipe: Connection, number: int, target: LakeTarget, keys: int) -> None:
    """Insert every key, in an order of one's own; tell which were committed."""
    lake = target.open()
    order = list(range(0, keys, 2))
    random.Random(number % 2).shuffle(order)
    pipe.send("ready")
    pipe.recv()
    won = []
    for first in order:
        both = [first, first + 1]
        for some in (both, both[:1], both[1:]):
            try:
                with lake.transaction() as tx:
                    tx.append("t", [{"id": key} for key in some])
            except ConstraintViolation:
                continue
            won += some
            break
    pipe.send(won)


@sizes("rounds", short=12, full=300)
@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_no_child_is_left_without_a_parent_that_others_delete(
    lake_target: LakeTarget, make_lake: Callable[[], lw.Lake], form: str, rounds: int
) -> None:
    lake = make_lake()
    lake.create("parents", {"id": "int64"}, format=form, constraints={"key": lw.Unique("id")})
    foreign = {"parent": lw.ForeignKey("parent", references="parents", key="id")}
    lake.create("children", {"parent": "int64", "n": "int64"}, format=form, constraints=foreign)
    with lake.transaction() as tx:
        tx.append("parents", [{"id": n} for n in range(rounds)])

    with processes.started(4, refer_or_delete, lake_target, rounds) as workers:
        said = [worker.finish() for worker in workers]

    lake = make_lake()
    parents = set(lake.table("parents").to_arrow()["id"].to_pylist())
    children = lake.table("children").to_arrow().to_pylist()
    assert {row["parent"] for row in children} <= parents
    done = [done for messages in said for done in messages[-1]]
    added = Counter(parent for kind, parent in done if kind == "added")
    gone = {parent for kind, parent in done if kind == "deleted"}
    assert Counter(row["parent"] for row in children) == added
    assert parents == set(range(rounds)) - gone


def refer_or_delete(pipe: Connection, number: int, target: LakeTarget, rounds: int) -> None:
    """Add a child to each parent, or delete the parent; tell what was committed."""
    lake = target.open()
    pipe.send("ready")
    pipe.recv()
    done = []
    for parent in range(rounds):
        deletes = (parent + number) % 2
        try:
            with lake.transaction() as tx:
                if deletes:
                    if not tx.read("parents", where=f"id = {parent}").num_rows:
                        continue
                    tx.delete("parents", where=f"id = {parent}")
                else:
                    tx.append("children", [{"parent": parent, "n": number}])
        except (ConstraintViolation, Conflict):
            continue
        done.append(("deleted" if deletes else "added", parent))
    pipe.send(done)


@pytest.mark.crash
@sizes("kills", short=2 * len(_STEPS), full=20 * len(_STEPS))
def test_a_kill_lets_no_duplicate_in_and_refuses_no_legal_key(
    lake_target: LakeTarget, make_lake: Callable[[], lw.Lake], kills: int
) -> None:
    lake = make_lake()
    lake.create("t", {"id": "int64"}, constraints={"key": lw.Unique("id")})
    for number in range(kills):
        worker = processes.start(insert_until_killed, lake_target, _STEPS[number % len(_STEPS)])
        worker.finish()
        assert worker.killed
        lake = make_lake()
        found = lake.table("t").to_arrow()["id"].to_pylist()
        assert len(found) == len(set(found))
        taken = max(found, default=0)
        if found:
            with pytest.raises(ConstraintViolation), lake.transaction() as tx:
                tx.append("t", [{"id": taken}])
        with lake.transaction() as tx:
            tx.append("t", [{"id": taken + 1}])
        lake.close()


def insert_until_killed(pipe: Connection, target: LakeTarget, step: str) -> None:
    # Every commit keeps the index as a file.
    index._FEW_FILES = index._FEW_ROWS = 0  # type: ignore[misc]
    lake = target.open()
    start = max(lake.table("t").to_arrow()["id"].to_pylist(), default=0)
    processes.kill_myself_at(step, 3)
    for number in range(1, 9):
        with lake.transaction() as tx:
            tx.append("t", [{"id": start + number}])
