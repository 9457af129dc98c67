"""The provider in a real Airflow: DAGs are parsed and run, and a retry commits nothing twice."""

from __future__ import annotations

import json
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import lakeward as lw
from tests.airflow.installation import Airflow, started

RUN = """
import sys
from datetime import datetime, timezone
from airflow.dag_processing.dagbag import DagBag

bag = DagBag(sys.argv[1])
assert not bag.import_errors, bag.import_errors
at = datetime(2026, 2, 1, tzinfo=timezone.utc)
run = bag.dags[sys.argv[2]].test(logical_date=at, run_after=at)
print("state", run.state)
"""
PARSE = """
import json, sys
from airflow.dag_processing.dagbag import DagBag

bag = DagBag(sys.argv[1])
assert not bag.import_errors, bag.import_errors
print(json.dumps({name: sorted(dag.task_ids) for name, dag in bag.dags.items()}))
"""
HOOK = """
from lakeward.integrations.airflow.hook import LakewardHook

print(LakewardHook().test_connection(), LakewardHook("nowhere").test_connection()[0])
"""
DEFERRED = """
from airflow.sdk.exceptions import TaskDeferred
from lakeward.integrations.airflow.sensors import LakewardFreshnessSensor, LakewardVersionSensor

for sensor in (
    LakewardVersionSensor(task_id="a", table="sales.landed", after=1000, timeout=60),
    LakewardFreshnessSensor(task_id="b", table="sales.landed", max_age="1ms", timeout=60),
):
    try:
        sensor.execute({})
    except TaskDeferred as deferred:
        print("waits", deferred.timeout.total_seconds())
"""
WATCHED = """
import lakeward as lw, sys
from lakeward.integrations.airflow.triggers import mark, new_commits

both = ("lakeward_default", "second")
assert [new_commits(name, "sales.watched") for name in both] == [None, None]
with lw.open(sys.argv[1]) as lake:
    lake.table("sales.watched").append([{"id": 1}])
for name in both:
    found = new_commits(name, "sales.watched")
    print("version", found.tables["sales.watched"].version)
    mark(name, "sales.watched", found)
    assert new_commits(name, "sales.watched") is None
"""
SHOP = """
from lakeward.pipeline import Pipeline, landing, new

pipeline = Pipeline("shop")

@pipeline.step("bronze.sales", schema="id int64, amount double")
def bronze(batch=landing("sales", schema="id long, amount double", format="csv")):
    return batch

@pipeline.step("gold.total", schema="amount double")
def gold(batch=new("bronze.sales")):
    return batch.groupBy().sum("amount").toDF("amount")
"""
KILLED = """
from datetime import datetime, timedelta
import os, signal
from airflow.sdk import DAG
from lakeward.integrations.airflow.assets import create_asset
from lakeward.integrations.airflow.operators import LakewardSqlOperator
from lakeward.model import steps

def killed(kind, at):
    class Killed(kind):
        def execute(self, context):
            flag = os.environ["KILL_FLAG"] + self.task_id
            def die(step):
                if step == at and not os.path.exists(flag):
                    open(flag, "w").close()
                    os.kill(os.getpid(), signal.SIGKILL)
            steps.observe(die)
            return super().execute(context)
    return Killed

START = datetime(2026, 1, 1)
AGAIN = dict(retries=1, retry_delay=timedelta(seconds=1))
with DAG("outlet", schedule=None, start_date=START) as outlet:
    LakewardSqlOperator(
        task_id="fill", sql="INSERT INTO sales.totals VALUES (1, 1.0)",
        outlets=[create_asset(table="sales.totals", lake_conn_id="lakeward_default")])
with DAG("killed_before", schedule=None, start_date=START) as before:
    killed(LakewardSqlOperator, "ratify.inserted")(
        task_id="before", sql="INSERT INTO sales.orders VALUES (6, 6.0)", **AGAIN)
with DAG("killed_after", schedule=None, start_date=START) as after:
    killed(LakewardSqlOperator, "commit.acknowledged")(
        task_id="after", sql="INSERT INTO sales.orders VALUES (7, 7.0)", **AGAIN)
"""
ACTIVE = (
    *("lake_follow_commits", "lake_follow_task", "outlet"),
    *("killed_before", "killed_after"),
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Airflow:
    """An Airflow whose database is made, with a lake as its connection."""
    place = tmp_path_factory.mktemp("airflow")
    with lw.open(place / "lake") as lake:
        lake.create("sales.orders", {"id": "int64", "amount": "double"})
        lake.create("sales.landed", {"id": "int64", "amount": "double"})
        lake.create("sales.totals", {"count": "int64", "amount": "double"})
        lake.create("sales.counts", {"count": "int64"})
        lake.table("sales.landed").append([{"id": 1, "amount": 2.5}, {"id": 2, "amount": 1.0}])
    (place / "pipelines" / "sales").mkdir(parents=True)
    (place / "pipelines" / "shop.py").write_text(SHOP)
    (place / "pipelines" / "sales" / "one.csv").write_text("id,amount\n1,2.5\n2,1.5\n")
    return Airflow.made(place, dags={"killed.py": KILLED})


def run_dag(home: Airflow, dag: str) -> str:
    """Run a DAG by `dag.test()`, as the same run each time."""
    return home.python(RUN, str(home.dags), dag)


def rows(home: Airflow, table: str) -> list[Any]:
    with lw.open(home.lake) as lake:
        return lake.table(table).to_arrow().to_pylist()


def test_airflow_knows_the_provider_and_opens_its_connection(home: Airflow) -> None:
    assert "lakeward" in home.program("airflow", "providers", "list")
    assert "(True, 'The lake has 4 tables.') False" in home.python(HOOK)


def test_the_examples_are_parsed(home: Airflow) -> None:
    found = json.loads(home.python(PARSE, str(home.dags)).splitlines()[-1])
    assert found["lake_pipeline"] == ["shop"]
    assert set(found) >= {
        *("lake_ingest", "lake_quality", "lake_zorder", "lake_vacuum"),
        *("lake_follow_task", "lake_follow_commits"),
    }


def test_the_examples_run_and_commit_in_one_transaction(home: Airflow) -> None:
    assert "state success" in run_dag(home, "lake_ingest")
    assert rows(home, "sales.totals") == [{"count": 2, "amount": 3.5}]
    assert len(rows(home, "sales.orders")) == 2
    with lw.open(home.lake) as lake:
        one, two = (lake.table(f"sales.{t}").history(limit=1)[0] for t in ("orders", "totals"))
        assert one.transaction_id == two.transaction_id
    for dag in ("lake_quality", "lake_zorder", "lake_vacuum", "lake_follow_task"):
        assert "state success" in run_dag(home, dag), dag


def test_a_pipeline_runs_and_a_second_try_of_the_task_commits_nothing_again(
    home: Airflow,
) -> None:
    assert "state success" in run_dag(home, "lake_pipeline")
    assert rows(home, "gold.total") == [{"amount": 4.0}]
    (home.place / "pipelines" / "sales" / "two.csv").write_text("id,amount\n3,1.0\n")
    # The same task instance again: it was committed, so what is new waits for another run.
    assert "state success" in run_dag(home, "lake_pipeline")
    assert rows(home, "gold.total") == [{"amount": 4.0}]
    assert states_of_runs(home) == ["ratified"]


def test_a_deferred_sensor_waits_no_longer_than_its_timeout(home: Airflow) -> None:
    assert home.python(DEFERRED).count("waits 60.0") == 2


def test_each_connection_gets_every_commit_of_a_watched_table(home: Airflow) -> None:
    with lw.open(home.lake) as lake:
        lake.create("sales.watched", {"id": "int64"})
    try:
        assert home.python(WATCHED, str(home.lake)).count("version 1") == 2
    finally:
        with lw.open(home.lake) as lake:
            lake.drop("sales.watched")


@pytest.mark.timeout(900)
def test_commits_and_tasks_trigger_dags_and_killed_tasks_are_retried_without_a_second_commit(
    home: Airflow,
) -> None:
    with started(home, ACTIVE) as airflow:
        # The watcher's mark is set when the triggerer first looks at the lake.
        airflow.wait_until(
            lambda: "airflow:lakeward_default:sales.orders" in consumers(home), "the watcher"
        )
        before = len(rows(home, "sales.orders"))
        with lw.open(home.lake) as lake:
            lake.table("sales.orders").append([{"id": 9, "amount": 9.0}])
        airflow.wait_until(
            lambda: {"count": before + 1} in rows(home, "sales.counts"), "a run for a commit"
        )
        assert airflow.was_triggered("lake_follow_commits")

        airflow.trigger("outlet")
        airflow.wait_until(
            lambda: airflow.was_triggered("lake_follow_task"), "a run for a task's outlet"
        )

        versions = version(home, "sales.orders")
        for number, dag in enumerate(("killed_before", "killed_after"), 6):
            airflow.trigger(dag)
            airflow.wait_until(partial(airflow.succeeded, dag), f"the retry of {dag}")
            assert Path(home.env["KILL_FLAG"] + dag.removeprefix("killed_")).exists()
            own = {"id": number, "amount": float(number)}
            assert rows(home, "sales.orders").count(own) == 1
        assert version(home, "sales.orders") == versions + 2


def states_of_runs(home: Airflow) -> list[str]:
    with lw.open(home.lake) as lake:
        return [run.state for run in lake.runs()]


def version(home: Airflow, table: str) -> int:
    with lw.open(home.lake) as lake:
        return lake.table(table).version


def consumers(home: Airflow) -> set[str]:
    with lw.open(home.lake) as lake:
        return {consumer.name for consumer in lake.consumers()}


def test_a_wrong_answer_of_airflow_is_seen(home: Airflow) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        home.program("airflow", "nonsense")
