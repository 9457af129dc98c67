"""A driver killed at any step of a transaction on Spark: all of it is there, or nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

import lakeward as lw
from lakeward.errors import TransactionNotFound
from lakeward.model.steps import BRANCH_STEPS, STEPS
from tests.support import processes
from tests.support.gateway import Gateway
from tests.support.invariants import check_lake
from tests.support.leases import run_out
from tests.support.sizes import sizes
from tests.support.target import LakeTarget

pytestmark = [pytest.mark.crash, pytest.mark.timeout(1800)]

TABLES: Final = ("sales.orders", "sales.parts", "gold.totals")
# Others belong to rows that Python stages, and to checkpoints.
_ELSEWHERE: Final = ("stage.file", "checkpoint.")
_COMMIT: Final = [s for s in STEPS if not s.startswith(_ELSEWHERE)]
SOME: Final = [
    ("branch.worked", 3),
    ("branch.netted", 2),
    ("iceberg.swapped", 1),
    ("ratify.committed", 1),
]
ALL: Final = [(step, n) for step in BRANCH_STEPS for n in (1, 2, 3)] + [(s, 1) for s in _COMMIT]


@sizes("kills", short=SOME, full=ALL)
def test_killed_at_any_step_all_of_it_is_there_or_nothing(
    spark: SparkSession, tmp_path: Path, kills: list[tuple[str, int]]
) -> None:
    target = LakeTarget(str(tmp_path / "lake"), tmp_path / "lake")
    lake = target.open()
    make(lake)
    gateway, committed = Gateway.of(spark), 0
    for number, (step, occurrence) in enumerate(kills):
        lake.close()
        label = f"kill{number}"
        worker = processes.start(work, target, gateway, label, step, occurrence)
        said = worker.finish(300)
        assert worker.killed, (step, occurrence, said)

        lake = target.open()
        happened = outcome(lake, label)
        # The commit point is the end of ratification.
        late = step in STEPS and STEPS.index(step) >= STEPS.index("ratify.committed")
        assert happened is late, (step, occurrence)
        committed += happened
        assert seen(lake) == {name: {0: committed, 1: committed} for name in TABLES}, step
        if not happened and step != "transaction.opened":
            run_out(lake, label)
            lake.close()
            lake = target.open()
        assert litter(lake) == set(), (step, occurrence)
    check_lake(lake, TABLES)
    lake.close()


@pytest.mark.full
def test_a_driver_that_dies_with_its_spark_leaves_nothing(tmp_path: Path) -> None:
    with lw.open(tmp_path / "lake") as lake:
        make(lake)
    program = f"""
import lakeward as lw
from lakeward.spark import session
from tests.spark.test_spark_kill import TABLES, change
from tests.support.processes import kill_myself_at
from tests.support.sparks import CONF
lake = lw.open({str(tmp_path / "lake")!r})
spark = session(lake, master="local[2]", **CONF)
kill_myself_at("branch.netted", 2)
change(lake, spark, "dying")
"""
    command = [sys.executable, "-c", program]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, env=dict(os.environ), check=False, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr[-2000:]

    with lw.open(tmp_path / "lake") as lake:
        assert seen(lake) == {name: {0: 0, 1: 0} for name in TABLES}
        run_out(lake, "dying")
    with lw.open(tmp_path / "lake") as lake:
        assert litter(lake) == set()
        check_lake(lake, TABLES)


def make(lake: lw.Lake) -> None:
    vectors = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}
    for name in TABLES:
        table_format = "iceberg" if name.startswith("gold") else "delta"
        properties = vectors if name == "sales.orders" else {}
        columns = {"label": "string", "part": "int64", "n": "int64"}
        lake.create(name, columns, format=table_format, properties=properties)
    with lake.transaction() as tx:
        for name in TABLES:
            tx.append(name, [{"label": "first", "part": p, "n": 0} for p in (0, 1)])


def change(lake: lw.Lake, spark: SparkSession, label: str) -> None:
    """Count both rows of every table up by one."""
    with lake.transaction(spark=spark, transaction_id=label) as tx:
        tx.sql("UPDATE sales.orders SET n = n + 1")
        tx.sql(
            "MERGE INTO gold.totals t USING sales.parts p ON t.part = p.part"
            " WHEN MATCHED THEN UPDATE SET n = t.n + 1"
        )
        tx.sql("UPDATE sales.parts SET n = n + 1")


def work(
    pipe: Connection, target: LakeTarget, gateway: Gateway, label: str, step: str, occurrence: int
) -> None:
    lake, spark = target.open(), gateway.session()
    processes.kill_myself_at(step, occurrence)
    change(lake, spark, label)
    pipe.send("survived")


def outcome(lake: lw.Lake, label: str) -> bool:
    try:
        return bool(lake.outcome(label).committed)
    except TransactionNotFound:
        return False


def seen(lake: lw.Lake) -> dict[str, dict[int, int]]:
    with lake.snapshot() as cut:
        tables = {name: cut.table(name).to_arrow().to_pylist() for name in TABLES}
    return {name: {r["part"]: r["n"] for r in rows} for name, rows in tables.items()}


def litter(lake: lw.Lake) -> set[str]:
    """Files of branches that no version of any table needs."""
    root, known = Path(lake.warehouse), set()
    for name in TABLES:
        table = lake.table(name)
        place = Path(table.location)
        for version in table.versions():
            for file in table.at(version=version.version).files():
                known.add(str(place / file.path))
    found = {str(p) for p in root.rglob("txn-*/**/*") if p.is_file() and p.suffix == ".parquet"}
    others = {str(p) for p in root.rglob("txn-*/**/*.json")}
    told = {p for p in found if "_change_data" in p}
    return (found - known - told) | others
