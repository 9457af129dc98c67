"""The provider in a real Airflow: DAGs are parsed and run, and a retry commits nothing twice."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import lakeward as lw

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "airflow"
BIN = Path(sys.executable).parent
KILLED = """
from datetime import datetime
import os, signal
from airflow.sdk import DAG
from lakeward.integrations.airflow.operators import LakewardSqlOperator

class Killed(LakewardSqlOperator):
    def execute(self, context):
        done = super().execute(context)
        flag = os.environ["KILL_FLAG"]
        if not os.path.exists(flag):
            open(flag, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return done

with DAG("killed", schedule=None, start_date=datetime(2026, 1, 1)) as dag:
    Killed(task_id="once", sql="INSERT INTO sales.orders VALUES (7, 7.0)")
"""
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


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of an Airflow whose database is made, with a lake as its connection."""
    place = tmp_path_factory.mktemp("airflow")
    with lw.open(place / "lake") as lake:
        lake.create("sales.orders", {"id": "int64", "amount": "double"})
        lake.create("sales.landed", {"id": "int64", "amount": "double"})
        lake.create("sales.totals", {"count": "int64", "amount": "double"}, format="delta")
        lake.table("sales.landed").append([{"id": 1, "amount": 2.5}, {"id": 2, "amount": 1.0}])
    connection = {"conn_type": "lakeward", "extra": {"lake": str(place / "lake")}}
    (place / "dags").mkdir()
    shutil.copy(EXAMPLES / "lake_dags.py", place / "dags")
    (place / "dags" / "killed.py").write_text(KILLED)
    env = {
        **os.environ,
        "AIRFLOW_HOME": str(place / "home"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(place / "dags"),
        "AIRFLOW_CONN_LAKEWARD_DEFAULT": json.dumps(connection),
        "KILL_FLAG": str(place / "killed"),
        "LAKE": str(place / "lake"),
    }
    program(env, "airflow", "db", "migrate")
    return env


def program(env: dict[str, str], *words: str, ends: int = 0) -> str:
    done = subprocess.run(
        [str(BIN / words[0]), *words[1:]], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == ends, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def run_dag(env: dict[str, str], dag: str, ends: int = 0) -> str:
    """Run a DAG by `dag.test()`, as the same run each time."""
    folder = env["AIRFLOW__CORE__DAGS_FOLDER"]
    return program(env, "python", "-c", RUN, folder, dag, ends=ends)


def rows(env: dict[str, str], table: str) -> list[Any]:
    with lw.open(env["LAKE"]) as lake:
        return lake.table(table).to_arrow().to_pylist()


def test_airflow_knows_the_provider(home: dict[str, str]) -> None:
    assert "lakeward" in program(home, "airflow", "providers", "list")


def test_the_examples_run_and_commit_in_one_transaction(home: dict[str, str]) -> None:
    assert "state success" in run_dag(home, "lake_ingest")
    assert rows(home, "sales.totals") == [{"count": 2, "amount": 3.5}]
    assert len(rows(home, "sales.orders")) == 2
    with lw.open(home["LAKE"]) as lake:
        one, two = (lake.table(f"sales.{t}").history(limit=1)[0] for t in ("orders", "totals"))
        assert one.transaction_id == two.transaction_id
    for dag in ("lake_zorder", "lake_vacuum", "lake_follow"):
        assert "state success" in run_dag(home, dag), dag


def test_a_task_that_is_killed_after_its_commit_commits_nothing_again(
    home: dict[str, str],
) -> None:
    before = len(rows(home, "sales.orders"))
    run_dag(home, "killed", ends=-9)
    assert len(rows(home, "sales.orders")) == before + 1
    assert "state success" in run_dag(home, "killed")
    assert len(rows(home, "sales.orders")) == before + 1
