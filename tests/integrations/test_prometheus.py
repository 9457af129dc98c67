"""Metrics for Prometheus: what is measured, that labels are bounded, and that the rules work."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

import lakeward as lw
from lakeward.cli.main import app
from lakeward.errors import Conflict
from lakeward.integrations.prometheus import LakeCollector, exposition, write_textfile
from tests.docs.pages import ROOT
from tests.support.many_tables import multiply
from tests.support.promtool import program
from tests.support.servers import Unobtainable

DEPLOY = ROOT / "deploy"
RULES = DEPLOY / "prometheus" / "lakeward.rules.yml"
RULE_TESTS = DEPLOY / "prometheus" / "lakeward.rules.test.yml"
NAME = re.compile(r"\blakeward_\w+")
Values = dict[tuple[str, ...], float]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[lw.Lake]:
    with lw.open(tmp_path / "lake") as lake:
        yield lake


def values(lake: lw.Lake, **options: Any) -> Values:
    """All values by name and labels, as a scrape gives them."""
    text = exposition(lake.metrics(**options))
    return {
        (s.name, *(f"{k}={v}" for k, v in sorted(s.labels.items()))): s.value
        for family in text_string_to_metric_families(text)
        for s in family.samples
    }


def test_commits_conflicts_and_steps_are_counted(lake: lw.Lake) -> None:
    lake.create("t", {"id": "int64"})
    lake.table("t").append([{"id": 1}])
    late = lake.transaction()
    late.delete("t", where="id = 1")
    lake.table("t").delete(where="id = 1")
    with pytest.raises(Conflict):
        late.commit()

    found = values(lake)

    assert found["lakeward_commits_total",] == 2
    assert found["lakeward_conflicts_total",] == 1
    assert found["lakeward_failures_total",] == 0
    for step in ("ratify", "publish", "commit"):
        assert found["lakeward_step_seconds_count", f"step={step}"] == 2
        assert found["lakeward_step_seconds_bucket", "le=+Inf", f"step={step}"] == 2
        assert found["lakeward_step_seconds_sum", f"step={step}"] > 0
    assert found["lakeward_versions", "operation=DELETE"] == 1
    assert found["lakeward_store_bytes",] > 10_000
    assert found["lakeward_tables",] == 1


def test_open_transactions_locks_and_waits_are_seen(lake: lw.Lake) -> None:
    lake.create("t", {"id": "int64"})
    with lake.transaction(locks={"t": "write"}):
        found = values(lake)
        assert found["lakeward_transactions", "state=open"] == 1
        assert found["lakeward_oldest_open_transaction_seconds",] >= 0
        assert found["lakeward_locks", "mode=write"] == 1
        assert found["lakeward_locks", "mode=read"] == 0
    after = values(lake)
    assert after["lakeward_transactions", "state=open"] == 0
    assert after["lakeward_locks", "mode=write"] == 0


def test_what_is_not_published_is_counted_with_its_age(
    opened: lw.Lake, caplog: pytest.LogCaptureFixture
) -> None:
    opened.create("t", {"id": "int64"})
    log = Path(opened.table("t").location) / "_delta_log"
    opened.table("t").append([{"id": 1}])
    assert values(opened)["lakeward_unpublished_versions", "table=t"] == 0
    (log / f"{2:020}.json").mkdir()
    with caplog.at_level(logging.CRITICAL, "lakeward"):
        opened.table("t").append([{"id": 2}])
        (log / f"{2:020}.json").rmdir()
    time.sleep(0.05)  # ages are in milliseconds

    found = values(opened)
    assert found["lakeward_unpublished_versions", "table=t"] == 1
    assert found["lakeward_publication_lag_seconds", "table=t"] > 0
    opened.publish()
    found = values(opened)
    assert found["lakeward_unpublished_versions", "table=t"] == 0
    assert found["lakeward_publication_lag_seconds", "table=t"] == 0


def test_labels_are_bounded_and_the_rest_is_summed(opened: lw.Lake) -> None:
    for n in range(12):
        opened.create(f"t{n}", {"id": "int64"})
        opened.table(f"t{n}").append([{"id": 1}, {"id": 2}])
        with opened.sink(f"t{n}", writer_id=f"w{n}") as sink:
            sink.write([{"id": 3}])
            sink.commit_epoch(1)
        opened.consumer(f"c{n}")

    found = values(opened, tables=3, health=True)

    for name in ("rows", "files", "bytes", "version", "last_commit_timestamp_seconds"):
        own = [key for key in found if key[0] == f"lakeward_table_{name}"]
        assert sorted(own) == [
            (f"lakeward_table_{name}", f"table={t}") for t in ("other", "t10", "t11", "t9")
        ]
    assert found["lakeward_table_rows", "table=t11"] == 3
    assert found["lakeward_table_rows", "table=other"] == 27
    assert found["lakeward_sink_epoch", "table=t11", "writer=w11"] == 1
    assert len([key for key in found if key[0] == "lakeward_sink_epoch"]) == 4
    assert len([key for key in found if key[0] == "lakeward_consumer_lag"]) == 4
    assert len([key for key in found if key[0] == "lakeward_table_health_score"]) == 3
    assert found["lakeward_tables",] == 12


def test_rows_bytes_and_age_of_sinks_are_counted(lake: lw.Lake) -> None:
    lake.create("t", {"id": "int64"})
    own = ("table=t", "writer=w")
    with lake.sink("t", writer_id="w") as sink:
        sink.write([{"id": n} for n in range(100)])
        time.sleep(0.02)
        waiting = values(lake)
        assert waiting["lakeward_sink_rows_total", *own] == 0
        assert waiting["lakeward_sink_uncommitted_seconds", *own] >= 0.02
        sink.commit_epoch(1)
        sink.write([{"id": 1}])
        sink.commit_epoch(1)  # replayed: discarded
        sink.write([{"id": 2}])
        sink.discard()
        assert values(lake)["lakeward_sink_uncommitted_seconds", *own] == 0
        assert (sink.metrics().committed_rows, sink.metrics().uncommitted_seconds) == (100, 0)
        sink.write([{"id": 3}])
    with lake.sink("t", writer_id="w") as sink:
        sink.write([{"id": 4}])
        sink.submit_epoch(2).result()

    found = values(lake)

    assert found["lakeward_sink_epochs_total", *own] == 2
    assert found["lakeward_sink_rows_total", *own] == 101
    assert found["lakeward_sink_bytes_total", *own] == 101 * 8
    assert found["lakeward_sink_uncommitted_seconds", *own] == 0


def test_ten_thousand_tables_have_no_more_series_than_the_bound(opened: lw.Lake) -> None:
    opened.create("many.t", {"id": "int64"}, constraints={"positive": "id > 0"})
    for writer in range(3):
        with opened.sink("many.t", writer_id=f"w{writer}") as sink:
            sink.write([{"id": 1}])
            sink.commit_epoch(1)
    with pytest.raises(lw.errors.ConstraintViolation):
        opened.table("many.t").append([{"id": -1}])
    multiply(opened, "many.t", 9_999)

    found = opened.metrics(health=True).metrics

    values = {m.name: {tuple(s.labels.values()): s.value for s in m.samples} for m in found}
    assert values["lakeward_tables"][()] == 10_000
    assert values["lakeward_table_rows"]["other",] == 9_900 * 3
    labelled = {m.name: len(m.samples) for m in found if m.kind == "gauge"}
    assert max(labelled.values()) == 101, labelled
    assert labelled["lakeward_sink_epoch"] == 101


def test_sinks_beyond_the_bound_are_summed(opened: lw.Lake) -> None:
    for table in ("a", "b", "c"):
        opened.create(table, {"id": "int64"})
        for writer in ("w", "x"):
            with opened.sink(table, writer_id=writer) as sink:
                sink.write([{"id": 1}])
                sink.commit_epoch(1)

    found = values(opened, tables=2)

    rows = {key[1:]: value for key, value in found.items() if key[0] == "lakeward_sink_rows_total"}
    assert rows == {
        ("table=a", "writer=w"): 1,
        ("table=a", "writer=x"): 1,
        ("table=other", "writer=other"): 4,
    }


def test_a_table_whose_publication_is_stuck_is_seen_among_many(
    opened: lw.Lake, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakeward.read.unpublished._CHECKED", 3)
    for n in range(8):
        opened.create(f"many.t{n}", {"id": "int64"})
    stuck = opened.table("many.t0")
    log = Path(stuck.location) / "_delta_log"
    log.rename(log.with_name("away"))
    log.touch()
    with caplog.at_level(logging.CRITICAL, "lakeward"):
        stuck.append([{"id": 1}])
    for n in range(1, 8):  # each is newer, and is only known to be published by its file
        opened.table(f"many.t{n}").append([{"id": 1}])

    seen = [
        values(opened, tables=1)["lakeward_unpublished_versions", "table=other"] for _ in range(4)
    ]

    assert seen == [0, 0, 1, 1]
    log.unlink()
    log.with_name("away").rename(log)
    opened.publish()
    assert values(opened, tables=1)["lakeward_unpublished_versions", "table=other"] == 0


def test_runs_of_maintenance_and_violations_are_counted(opened: lw.Lake) -> None:
    opened.create("t", {"id": "int64"}, constraints={"positive": "id > 0"})
    for n in range(3):
        opened.table("t").append([{"id": n + 1}])
    opened.table("t").optimize()
    with pytest.raises(lw.errors.ConstraintViolation):
        opened.table("t").append([{"id": -1}])

    found = values(opened)

    assert found["lakeward_maintenance_runs", "kind=optimize", "state=done"] == 1
    assert found["lakeward_violation_rows", "action=fail", "table=t"] == 1
    assert found["lakeward_violations_met_total",] == 1
    assert found["lakeward_step_seconds_count", "step=job_optimize"] == 1


def test_a_registry_looks_at_the_lake_with_each_scrape(opened: lw.Lake) -> None:
    registry = CollectorRegistry()
    registry.register(LakeCollector(opened))
    assert registry.get_sample_value("lakeward_tables") == 0
    opened.create("t", {"id": "int64"})
    assert registry.get_sample_value("lakeward_tables") == 1


def test_the_command_prints_writes_and_answers_json(
    tmp_path: Path, opened: lw.Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    opened.create("t", {"id": "int64"})

    def run(*words: str) -> str:
        with pytest.raises(SystemExit) as ended:
            app(["--lake", str(tmp_path / "lake"), *words])
        assert ended.value.code in (0, None)
        return capsys.readouterr().out

    text = run("metrics")
    assert "lakeward_tables 1.0" in text.splitlines()
    assert "lakeward_commits_total" not in text
    found = json.loads(run("--json", "metrics"))
    (tables,) = [m for m in found["metrics"] if m["name"] == "lakeward_tables"]
    assert tables["samples"][0]["value"] == 1
    target = tmp_path / "lake.prom"
    run("metrics", "--textfile", str(target))
    assert "lakeward_tables 1.0" in target.read_text().splitlines()
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".lake.prom")] == []


def test_a_textfile_is_replaced_as_a_whole(tmp_path: Path, opened: lw.Lake) -> None:
    target = tmp_path / "lake.prom"
    target.write_text("old")
    write_textfile(opened.metrics(), target)
    assert target.read_text().startswith("# HELP")
    assert target.stat().st_mode & 0o777 == 0o644


def test_rules_and_dashboard_name_only_metrics_that_there_are(opened: lw.Lake) -> None:
    metrics = opened.metrics(health=True).metrics
    known = {m.name + ("_total" if m.kind == "counter" else "") for m in metrics}
    known |= {f"{m.name}_bucket" for m in metrics if m.kind == "histogram"}
    board = json.loads((DEPLOY / "grafana" / "lakeward.json").read_text())
    shown = {n for p in board["panels"] for t in p["targets"] for n in NAME.findall(t["expr"])}
    named = set(NAME.findall(RULES.read_text()))

    assert shown - known == set()
    assert named - known == set()
    assert len(shown) > 15


def test_every_rule_has_a_unit_test_in_which_it_fires() -> None:
    import yaml  # type: ignore[import-untyped]

    rules = yaml.safe_load(RULES.read_text())
    tests = yaml.safe_load(RULE_TESTS.read_text())
    declared = {r["alert"] for g in rules["groups"] for r in g["rules"]}
    fired = {
        case["alertname"]
        for test in tests["tests"]
        for case in test["alert_rule_test"]
        if case.get("exp_alerts")
    }
    assert declared == fired


def _promtool() -> Path:
    try:
        return program("promtool")
    except Unobtainable as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(
    "command", [["check", "rules", RULES.name], ["test", "rules", RULE_TESTS.name]]
)
def test_promtool_agrees_with_the_rules(command: list[str]) -> None:
    done = subprocess.run(
        [_promtool(), *command], cwd=RULES.parent, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout + done.stderr


def test_promtool_finds_a_rule_that_does_not_fire(tmp_path: Path) -> None:
    broken = RULES.read_text().replace("lakeward_publication_lag_seconds) > 300", "x) > 300")
    assert broken != RULES.read_text()
    (tmp_path / RULES.name).write_text(broken)
    (tmp_path / RULE_TESTS.name).write_text(RULE_TESTS.read_text())
    done = subprocess.run(
        [_promtool(), "test", "rules", RULE_TESTS.name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode != 0


def test_metrics_have_no_rows_in_them(opened: lw.Lake) -> None:
    opened.create("t", {"name": "string"}, constraints={"short": "name < 'b'"})
    with pytest.raises(lw.errors.ConstraintViolation):
        opened.table("t").append([{"name": "secret-value"}])
    assert "secret-value" not in exposition(opened.metrics())
