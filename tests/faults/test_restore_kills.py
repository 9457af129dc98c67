"""Killed at any step of restoring, undoing and tagging three Delta and two Iceberg tables.

The lake goes back and forth between two states. After every death all tables are in the same one,
published files and the readers of others agree, and what was acknowledged is there.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Final

import pytest

import lakeward as lw
from lakeward.model.steps import STEPS, TAG_STEPS
from tests.support import processes
from tests.support.invariants import Rows, check_lake
from tests.support.sizes import sizes
from tests.support.target import LakeTarget

pytestmark = [pytest.mark.crash, pytest.mark.slow]

TABLES: Final = ("plain", "marked", "parted", "iced", "iced_too")
KILLED_AT: Final = tuple(
    step for step in (*STEPS, *TAG_STEPS[:3]) if not step.startswith("stage.file")
)
"""A restore writes no data files."""
_TURNS: Final = 8
_STATES: Final = ("one", "two")


@sizes("kills", short=len(KILLED_AT), full=300)
def test_killed_at_any_step_of_a_restore_all_tables_are_in_one_state(
    lake_target: LakeTarget, make_lake: Callable[[], lw.Lake], kills: int
) -> None:
    choose = random.Random(11)
    hits: Counter[str] = Counter()
    lake = make_lake()
    states = _make(lake)
    for number in range(kills):
        step = KILLED_AT[number % len(KILLED_AT)]
        lake.close()
        worker = processes.start(
            restore_until_killed, lake_target, number, step, 1 + choose.randrange(3)
        )
        said = worker.finish()
        assert worker.killed, (step, said)
        hits[step] += 1
        lake = make_lake()
        rows = check_lake(lake, TABLES)
        found = [name for name in _STATES if rows == states[name]]
        assert len(found) == 1, (step, rows)
        done = [state for kind, state in said if kind == "done"]
        begun = [state for kind, state in said if kind == "begun"]
        # The last one that was acknowledged, or the one after it.
        possible = {done[-1] if done else None, *begun[len(done) :]}
        assert None in possible or found[0] in possible, (step, said)
        tags = {t.name: t.versions for t in lake.tags()}
        assert {len(v) for v in tags.values()} == {len(TABLES)}, (step, tags)
        for tag in lake.tags():
            for name in TABLES[3:]:
                lake.table(name).at(tag=tag.name)
    assert set(hits) == set(KILLED_AT)
    print(f"\nrestore: {kills} kills, {min(hits.values())} or more at each of {len(hits)} steps")


def _make(lake: lw.Lake) -> dict[str, dict[str, Rows]]:
    """Two tags whose rows differ in every table; the rows of each."""
    for name in TABLES:
        lake.create(
            name,
            {"label": "string", "n": "int64", "part": "int64"},
            format="iceberg" if name.startswith("iced") else "delta",
            partition_by=["part"] if name == "parted" else [],
            policy={}
            if name.startswith("iced")
            else {"checkpoint_interval": 3, "merge_on_read": True, "merge_on_read_fraction": 1},
        )
    out = {}
    for state in _STATES:
        with lake.transaction() as tx:
            for name in TABLES:
                if state == "two":
                    tx.delete(name, where="n = 1")
                tx.append(name, [{"label": state, "n": n, "part": n % 2} for n in range(4)])
        lake.tag(state)
        out[state] = check_lake(lake, TABLES)
    return out


def restore_until_killed(
    pipe: Connection, target: LakeTarget, number: int, step: str, occurrence: int
) -> None:
    lake = target.open()
    now = _state(lake)
    processes.kill_myself_at(step, occurrence)
    for turn in range(_TURNS):
        other = "two" if now == "one" else "one"
        pipe.send(("begun", other))
        if turn % 2:
            # The newest transaction went from the other state to this one.
            lake.undo(lake.table(TABLES[0]).history(limit=1)[0].transaction_id)
        else:
            lake.restore(at=other)
        pipe.send(("done", other))
        now = other
        lake.tag(f"kill-{number}-{turn}", at=now)
        lake.untag(f"kill-{number}-{turn}")
        lake.tag(f"kept-{turn}", at=now, replace=True)


def _state(lake: lw.Lake) -> str:
    count = lake.table(TABLES[0]).count()
    return "one" if count == 4 else "two"
