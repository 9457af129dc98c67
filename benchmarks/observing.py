"""What a commit costs with lineage, metrics and listeners, beside one without them.

Both lakes get the same commits. One records lineage, counts and times its steps, and delivers three
events of each commit to a listener; the other one does none of it, because the parts that do it are
replaced by empty ones.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from time import perf_counter
from typing import Any
from unittest.mock import patch

import lakeward as lw
from benchmarks.data import SCHEMA, rows
from benchmarks.result import Result, Settings, within
from benchmarks.rounds import Contender, by_name, check_arrived, interleave
from benchmarks.scratch import fresh
from lakeward.context import context_of
from lakeward.model.counters import Counters
from lakeward.write.transaction.flows import Flows

ROWS = 100
TURN = 10
COST = 1.15
INSERT = "INSERT INTO u SELECT * FROM s"


class Silent(Counters):
    """Counts nothing."""

    def add(self, name: str, count: int = 1) -> None:
        """Do nothing."""

    def time(self, name: str, seconds: float) -> None:
        """Do nothing."""


def run(settings: Settings) -> Result:
    """Commit rows from memory with declared sources, and rows by SQL, on both lakes in turn."""
    rounds, warm_up = settings.choose(40, 5), settings.choose(2, 1)
    data = rows(ROWS)
    place = fresh(settings.scratch / "observing")
    heard: list[Any] = []
    with ExitStack() as stack:
        on = stack.enter_context(lw.open(place / "on"))
        off = stack.enter_context(lw.open(place / "off"))
        for lake in (on, off):
            for name in ("t", "u", "s"):
                lake.create(name, SCHEMA)
            lake.table("s").append(data)
        for event in ("ratified", "published", "commit"):
            on.on(event, heard.append)
        object.__setattr__(context_of(off), "counters", Silent())

        def declared(lake: lw.Lake) -> None:
            with lake.transaction() as tx:
                tx.append("t", data)
                tx.sources("t", tables=["s"])

        def by_sql(lake: lw.Lake) -> None:
            with lake.transaction() as tx:
                tx.sql(INSERT)

        contenders: dict[str, Contender] = {}
        for what, action in (("append", declared), ("SQL", by_sql)):
            contenders[f"{what}, observed"] = partial(_timed, action, on)
            contenders[f"{what}, not observed"] = partial(_unobserved, action, off)
        series = interleave(contenders, rounds=rounds, warm_up=warm_up, turn=TURN, writes=True)
        counts = [lake.table(name).totals().rows for name in ("t", "u") for lake in (on, off)]
        edges = {(e.source.name, e.target.name) for e in on.lineage().edges}
        if not {("s", "t"), ("s", "u")} <= edges or len(off.lineage().edges) != 3:
            message = "lineage was not recorded on one lake only"
            raise RuntimeError(message)
        on.wait_for_listeners()
    check_arrived(counts, [ROWS * s.calls for s in series])
    if len(heard) < 3 * sum(s.calls for s in series if not s.who.endswith("not observed")):
        message = "not every event was delivered"
        raise RuntimeError(message)
    times = by_name(series)
    return Result(
        "observing",
        f"commit of {ROWS} rows with lineage, metrics and listeners, and without",
        series,
        [
            within(f"{w}, observed", times[f"{w}, observed"], times[f"{w}, not observed"], COST)
            for w in ("append", "SQL")
        ],
        (f"{rounds} rounds of {TURN} commits a turn, after {warm_up} rounds of warm-up.",),
    )


def _timed(action: Any, lake: lw.Lake) -> float:
    started = perf_counter()
    action(lake)
    return perf_counter() - started


def _unobserved(action: Any, lake: lw.Lake) -> float:
    with (
        patch.object(Flows, "recording", lambda *_: []),
        patch.object(Flows, "statement", lambda *_, **__: None),
    ):
        return _timed(action, lake)
