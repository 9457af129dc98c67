"""Policies that are set while processes are killed, and while others write."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection

import pytest

import lakeward as lw
from lakeward.errors import Conflict, ConstraintViolation
from lakeward.log import audit
from lakeward.model.steps import POLICY_STEPS
from tests.support import processes
from tests.support.inside import context_of
from tests.support.sizes import sizes
from tests.support.target import LakeTarget

pytestmark = pytest.mark.slow

_POSITIVE = {"constraints": {"positive": "id > 0"}}
_MOST_APPENDS = 10_000


@pytest.mark.crash
def test_a_policy_is_set_for_all_tables_or_for_none_when_its_process_is_killed(
    lake_target: LakeTarget, make_lake: Callable[[], lw.Lake]
) -> None:
    lake = make_lake()
    names = ["gold.a", "gold.b"]
    for name, form in zip(names, ("delta", "iceberg"), strict=True):
        lake.create(name, {"id": "int64"}, format=form)
    for step in POLICY_STEPS:
        lake.set_policy("gold.*", None)
        lake.close()
        worker = processes.start(set_until_killed, lake_target, step)
        worker.finish()
        assert worker.killed, step

        lake = make_lake()
        is_set = step == "policy.committed"
        assert [p.pattern for p in lake.policies()] == (["gold.*"] if is_set else []), step
        context = context_of(lake)
        for name in names:
            head = lake.table(name).at().log_head
            assert lake.policy(name).policy == lw.Policy.of(_POSITIVE if is_set else {}), step
            with context.database.read() as session:
                assert audit.broken_at(session, head) is None
            if is_set:
                with pytest.raises(ConstraintViolation), lake.transaction() as tx:
                    tx.append(name, [{"id": -1}])
            with lake.transaction() as tx:
                tx.append(name, [{"id": 1}])
    assert [f for f in lake.doctor().findings if f.code != "reclaimable"] == []


def set_until_killed(pipe: Connection, target: LakeTarget, step: str) -> None:
    """Set a policy, and die at a step of it."""
    lake = target.open()
    processes.kill_myself_at(step, 1)
    lake.set_policy("gold.*", _POSITIVE)
    pipe.send("not killed")


@sizes("appends", short=25, full=400)
@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_no_row_that_a_policy_refuses_is_committed_after_it_was_set(
    lake_target: LakeTarget, make_lake: Callable[[], lw.Lake], form: str, appends: int
) -> None:
    lake = make_lake()
    table = lake.create("t", {"id": "int64"}, format=form)

    with processes.started(3, write_both_kinds, lake_target, appends) as workers:
        set_when_it_holds(lake)
        said = [worker.finish()[-1] for worker in workers]

    first = next(v for v in range(table.version + 2) if v > table.version or is_set(table, v))
    assert sum(refused for refused, _ in said) > 0
    for version in range(first, table.version + 1):
        assert table.at(version=version).to_arrow(where="id <= 0").num_rows == 0, version
    rows = table.to_arrow()["id"].to_pylist()
    assert sorted(rows) == sorted(key for _, kept in said for key in kept)


def is_set(table: lw.Table, version: int) -> bool:
    return table.at(version=version).policy.policy.constraints is not None


def set_when_it_holds(lake: lw.Lake) -> None:
    """Set the policy; rows that violate it are deleted until it can be set."""
    while True:
        try:
            lake.set_policy("*", _POSITIVE)
        except (ConstraintViolation, Conflict):
            lake.run(lambda tx: tx.delete("t", where="id <= 0"))
        else:
            return


def write_both_kinds(pipe: Connection, number: int, target: LakeTarget, appends: int) -> None:
    """Append rows that the policy allows and rows that it refuses; tell how many it refused.

    Go on until the policy is set: on a busy machine that can take longer than the appends.
    """
    lake = target.open()
    refused, kept = 0, []
    pipe.send("ready")
    pipe.recv()
    for n in range(_MOST_APPENDS):
        if n >= appends and refused:
            break
        good = number * _MOST_APPENDS + n + 1
        for key in (good, -good):
            try:
                lake.run(partial(append, key))
            except ConstraintViolation:
                refused += 1
            else:
                kept += [key] if key > 0 else []
    pipe.send((refused, kept))


def append(key: int, tx: lw.Transaction) -> None:
    """Append one row; the policy may be set between the check of the row and the commit."""
    tx.append("t", [{"id": key}])
    time.sleep(0.02)
