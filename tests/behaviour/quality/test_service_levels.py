"""Service levels: shares of time and of work, from the log, with their error budget."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine

import lakeward as lw
from lakeward.cli.main import app
from lakeward.errors import InvalidInput, NotFound
from lakeward.log import runs, service_levels
from lakeward.log.runs import Run
from lakeward.log.statement import Statement
from lakeward.model.service_levels import fresh_and_stale
from tests.support.inside import context_of

NOON = datetime(2040, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[lw.Lake]:
    with lw.open(tmp_path / "lake") as lake:
        lake.create("t", {"id": "int64"})
        yield lake


def judged(lake: lw.Lake) -> dict[str, Any]:
    return {
        one.name: (one.attained and round(one.attained, 3), one.budget_left, one.kept)
        for one in lake.sla()
    }


def test_freshness_is_a_share_of_time(opened: lw.Lake) -> None:
    level = {"objective": "freshness", "table": "t", "max": "1 hour"}
    opened.set_service_level("day", {**level, "window": "10h", "target": 0.8})
    opened.set_service_level("last", {**level, "window": "1h", "target": 0.8})
    with time_machine.travel(NOON, tick=False) as clock:
        for hours in (1, 3, 2, 4):
            opened.table("t").append([{"id": 1}])
            clock.shift(timedelta(hours=hours))
        assert judged(opened) == {
            "day": (0.4, pytest.approx(-2, abs=0.01), False),
            "last": (0.0, pytest.approx(-4), False),
        }
        opened.table("t").append([{"id": 1}])
        opened.table("t").optimize()
        clock.shift(timedelta(hours=1))
        assert judged(opened)["last"] == (1.0, pytest.approx(1), True)


def test_a_log_of_compactions_alone_has_the_freshness_of_the_oldest(
    opened: lw.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_levels, "_PAGE", 1)
    table = opened.table("t")
    with time_machine.travel(NOON, tick=False) as clock:
        for _ in range(2):
            for _ in range(2):
                table.append([{"id": 1}])
            clock.shift(timedelta(hours=1))
            table.optimize()
        # As in a log whose older commits were removed.
        with context_of(opened).database.write() as session:
            session.run(Statement("DELETE FROM lakeward_commit WHERE operation <> 'OPTIMIZE'"), {})
        assert [c.operation for c in table.history()] == ["OPTIMIZE"] * 2
        assert table.freshness() == 3600


def test_the_last_change_is_found_behind_commits_without_one(
    opened: lw.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_levels, "_PAGE", 1)
    level = {"objective": "freshness", "table": "t", "max": "10 hours", "window": "1h"}
    opened.set_service_level("hour", {**level, "target": 0.8})
    with time_machine.travel(NOON, tick=False) as clock:
        for _ in range(2):
            opened.table("t").append([{"id": 1}])
        opened.table("t").optimize()
        assert opened.table("t").history(limit=1)[0].operation == "OPTIMIZE"
        clock.shift(timedelta(hours=5))
        assert judged(opened)["hour"] == (1.0, pytest.approx(1), True)


def test_fresh_and_stale_time_is_what_counting_each_second_finds() -> None:
    rng = random.Random(1)
    for _ in range(200):
        moments = sorted(rng.randrange(0, 60) * 1000 for _ in range(rng.randrange(0, 6)))
        begin, end = 20_000, 50_000
        longest = rng.randrange(1, 15) * 1000
        ages = [
            second - max((m for m in moments if m <= second), default=10**9)
            for second in range(begin, end, 1000)
        ]
        known = [age for age in ages if age >= 0]
        fresh = sum(age < longest for age in known)
        inside = [m for m in moments if m < end]
        assert fresh_and_stale(inside, begin, end, longest) == (fresh, len(known) - fresh), moments


def test_latency_throughput_and_maintenance_are_shares_of_work(opened: lw.Lake) -> None:
    level = {"objective": "commit_latency", "table": "t", "max": "1 minute"}
    opened.set_service_level("slow", level)
    opened.set_service_level("slow work", {**level, "objective": "maintenance"})
    flow = {"objective": "throughput", "table": "t"}
    opened.set_service_level("much", {**flow, "min": 10**9})
    opened.set_service_level("little", {**flow, "min": 0.001})
    assert judged(opened)["slow work"] == (None, None, None)
    for n in range(3):
        opened.table("t").append([{"id": n}])
    opened.table("t").optimize()
    found = judged(opened)
    assert {name: one[2] for name, one in found.items()} == {
        "slow": True,
        "slow work": True,
        "much": False,
        "little": True,
    }


def test_maintenance_that_fails_at_once_is_not_kept(opened: lw.Lake) -> None:
    level = {"objective": "maintenance", "table": "t", "max": "1 minute"}
    opened.set_service_level("work", level)
    now = int(datetime.now(UTC).timestamp() * 1000)
    for n in range(3):
        opened.table("t").append([{"id": n}])
    opened.table("t").optimize()
    assert judged(opened)["work"][0] == 1.0
    with context_of(opened).database.write() as session:
        session.run(
            Statement("UPDATE lakeward_job SET state = 'failed' WHERE started_ms >= :now"),
            {"now": now},
        )
    assert judged(opened)["work"][0] == 0.0


def test_runs_of_pipelines_are_judged_by_time_and_outcome(opened: lw.Lake) -> None:
    opened.set_service_level("ok", {"objective": "run_success", "pipeline": "p", "target": 0.7})
    quick = {"objective": "run_duration", "pipeline": "p", "max": "1s", "target": 0.5}
    opened.set_service_level("quick", quick)
    now = int(datetime.now(UTC).timestamp() * 1000)
    with context_of(opened).database.write() as session:
        for n, (state, took) in enumerate(
            [("ratified", 500), ("ratified", 1000), ("failed", 10), ("ratified", 2000)]
        ):
            began = now - 60_000 * n - 10_000
            runs.put(session, Run(f"r{n}", "p", state, began, began + took, {}))
            runs.put(session, Run(f"q{n}", "other", "failed", began, began + took, {}))
    assert judged(opened) == {
        "ok": (0.75, pytest.approx(1 - 0.25 / 0.3), True),
        "quick": (0.5, pytest.approx(0), True),
    }


def test_a_breach_is_an_event_and_a_metric(opened: lw.Lake) -> None:
    opened.table("t").append([{"id": 1}])
    opened.set_service_level("x", {"objective": "throughput", "table": "t", "min": 10**12})
    heard: list[Any] = []
    opened.on("service_level", heard.append)
    opened.sla()
    assert opened.wait_for_listeners()
    assert [(e.name, e.subject, e.attained) for e in heard] == [("x", "t", 0.0)]
    found = {m.name: m.samples for m in opened.metrics().metrics}
    (sample,) = found["lakeward_service_level_attainment"]
    assert (sample.labels, sample.value) == ({"level": "x"}, 0.0)
    assert found["lakeward_service_level_target"][0].value == 0.99
    opened.set_service_level("a", {"objective": "throughput", "table": "t", "min": 0.001})
    bounded = {m.name: m.samples for m in opened.metrics(tables=1).metrics}
    (sample,) = bounded["lakeward_service_level_attainment"]
    assert (sample.labels, sample.value) == ({"level": "x"}, 0.0)


@pytest.mark.parametrize(
    ("level", "said"),
    [
        ({"objective": "nonsense"}, "must be one of freshness"),
        ({"objective": "freshness", "max": "1h"}, "table"),
        ({"objective": "freshness", "table": "t"}, "needs `max`"),
        ({"objective": "run_success", "pipeline": "p", "target": 1}, "between 0 and 1"),
        ({"objective": "freshness", "table": "t", "max": "1h", "goal": 1}, "'goal'"),
    ],
)
def test_a_level_that_is_none_is_refused(opened: lw.Lake, level: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        opened.set_service_level("x", level)
    assert opened.service_levels() == []


def test_levels_are_declared_in_files_and_removed(
    tmp_path: Path, opened: lw.Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    opened.table("t").append([{"id": 1}])
    (tmp_path / "sla.toml").write_text(
        '[fresh]\nobjective = "freshness"\ntable = "t"\nmax = "1 day"\n'
    )

    def run(*words: str) -> tuple[Any, dict[str, Any]]:
        with pytest.raises(SystemExit) as ended:
            app(["--lake", str(tmp_path / "lake"), "--json", "sla", *words])
        return ended.value.code, json.loads(capsys.readouterr().out)

    code, answer = run("--apply", str(tmp_path / "sla.toml"))
    assert (code, answer["kept"]) == (0, True)
    assert [one.name for one in opened.service_levels()] == ["fresh"]
    assert run("--remove", "fresh")[1]["service_levels"] == []
    with pytest.raises(NotFound):
        opened.set_service_level("fresh", None)
