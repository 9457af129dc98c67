"""R3: many processes run transactions over many tables, some are killed, and the level holds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import lakeward as lw
from tests.faults.isolation.anomalies import Kind
from tests.faults.isolation.campaign import Campaign, Load
from tests.faults.isolation.checker import anomalies, summary
from tests.faults.isolation.history import Level
from tests.support.inside import context_of
from tests.support.invariants import check_lake
from tests.support.sizes import sizes
from tests.support.target import LakeTarget

pytestmark = [pytest.mark.crash, pytest.mark.slow]

FORMATS = ("delta", "iceberg")
BELOW = {
    Level.SNAPSHOT: {Kind.LOST_UPDATE, Kind.READ_SKEW, Kind.UNREPEATABLE_READ, Kind.LONG_FORK},
    Level.SERIALIZABLE: {Kind.WRITE_SKEW, Kind.PREDICATE_SKEW},
}


def words(levels: tuple[Level, ...]) -> str:
    return levels[0].word if len(levels) == 1 else "mixed levels"


@sizes("load", short=Load(120), full=Load(10_000, between_kills=500), hours=2)
@pytest.mark.parametrize("levels", [*((level,) for level in Level), tuple(Level)], ids=words)
def test_the_level_promised_is_the_level_delivered(
    lake_target: LakeTarget,
    make_lake: Callable[[], lw.Lake],
    levels: tuple[Level, ...],
    load: Load,
    store: str,
) -> None:
    """All at one level, or each transaction at one of them: it gets what it was promised."""
    campaign = Campaign(lake_target, levels, load, formats=FORMATS)
    before = time.perf_counter()
    campaign.run(make_lake())
    elapsed = time.perf_counter() - before
    for history in campaign.histories:
        found = anomalies(history)
        assert not found, summary(found)
    assert campaign.contradictions == []
    # Whoever opens the lake next publishes what those who were killed did not.
    check_lake(make_lake(), campaign.tables)
    assert campaign.counts["committed"] > load.transactions / 4
    assert campaign.counts["killed in a transaction"]
    print(
        f"\nR3 {store}: {load.transactions} transactions at {words(levels)} by {load.clients}"
        f" processes in {elapsed:.0f} s, {dict(campaign.counts)}: no anomaly"
    )


@pytest.mark.parametrize("level", BELOW, ids=lambda level: level.word)
def test_the_level_below_is_found_out(
    lake_target: LakeTarget, lake: lw.Lake, level: Level, store: str
) -> None:
    below = Level(level - 1)
    load = Load(150, between_kills=0)
    campaign = Campaign(lake_target, (below,), load, formats=FORMATS, tables=2, keys=2)
    campaign.run(lake)
    (history,) = campaign.histories
    assert anomalies(history) == []
    found = anomalies([replace(t, level=level) for t in history])
    assert {a.kind for a in found} & BELOW[level]
    print(f"\nR3 {store}: {below.word} checked as {level.word}:\n{summary(found)}")


@pytest.mark.postgres
@sizes("load", short=Load(150, between_kills=300), full=Load(2_000, between_kills=300))
def test_the_level_holds_while_the_server_is_killed(tmp_path: Path, load: Load) -> None:
    # Not at the top: it warns, and the worker processes load this module too.
    from tests.support.postgres import Postgres

    with Postgres() as server, server.database() as database:
        target = LakeTarget(server.url(database), tmp_path / "lake")
        with target.open() as lake:

            def restart() -> None:
                server.kill()
                server.start()
                # The lake that asks for outcomes forgets the connections that died.
                context_of(lake).database.close()

            campaign = Campaign(target, tuple(Level), load, formats=FORMATS, disturb=restart)
            campaign.run(lake)
    for history in campaign.histories:
        found = anomalies(history)
        assert not found, summary(found)
    assert campaign.contradictions == []
    assert campaign.counts["disturbed"]
    print(f"\nR3, R7 postgres killed under {dict(campaign.counts)}: no anomaly")
