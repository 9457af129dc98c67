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
COST = 1.15
INSERT = "INSERT INTO u SELECT * FROM s"


class Silent(Counters):
    """Counts nothing."""

    def add(self, name: str, count: int = 1) -> None:
        """Do nothing."""

    def time(self, name: str, seconds: float) -> None:
        """Do nothing."""


class Switch:
    """Whether flows are recorded now: replacing the methods for each commit would cost time."""

    off = False
    recording = Flows.recording
    statement = Flows.statement

    @staticmethod
    def record(flows: Flows, *given: Any) -> Any:
        """Record flows, or do nothing."""
        return [] if Switch.off else Switch.recording(flows, *given)

    @staticmethod
    def state(flows: Flows, *given: Any, **options: Any) -> None:
        """Take a statement, or do nothing."""
        if not Switch.off:
            Switch.statement(flows, *given, **options)


def run(settings: Settings) -> Result:
    """Commit rows from memory with declared sources, and rows by SQL, on both lakes in turn."""
    rounds, warm_up = settings.choose(400, 50), 20
    data = rows(ROWS)
    place = fresh(settings.scratch / "observing")
    heard: list[Any] = []
    with ExitStack() as stack:
        stack.enter_context(patch.object(Flows, "recording", lambda *g: Switch.record(*g)))
        stack.enter_context(patch.object(Flows, "statement", lambda *g, **o: Switch.state(*g, **o)))
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
        series = interleave(contenders, rounds=rounds, warm_up=warm_up)
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
        (f"{rounds} rounds of one commit each, after {warm_up} rounds of warm-up.",),
    )


def _timed(action: Any, lake: lw.Lake) -> float:
    started = perf_counter()
    action(lake)
    return perf_counter() - started


def _unobserved(action: Any, lake: lw.Lake) -> float:
    Switch.off = True
    try:
        return _timed(action, lake)
    finally:
        Switch.off = False
