"""Example DAGs: a pipeline, ingestion with quality, daily Z-order, weekly vacuum, and followers."""

from __future__ import annotations

import os
from datetime import UTC, datetime

from airflow.sdk import DAG

from lakeward.integrations.airflow.assets import create_asset
from lakeward.integrations.airflow.operators import (
    LakewardOptimizeOperator,
    LakewardPipelineOperator,
    LakewardQualityOperator,
    LakewardSqlOperator,
    LakewardVacuumOperator,
)
from lakeward.integrations.airflow.sensors import LakewardFreshnessSensor, LakewardVersionSensor

START = datetime(2026, 1, 1, tzinfo=UTC)
PIPELINE = os.environ.get("SHOP_PIPELINE", "/opt/pipelines/shop.py")
# Tasks that name it as an outlet make events of it.
TOTALS = create_asset(table="sales.totals", lake_conn_id="lakeward_default")
# Every commit is an event of it, whoever makes it: the triggerer looks at the lake.
ORDERS = create_asset(
    table="sales.orders", lake_conn_id="lakeward_default", watch=True, poll_seconds=5
)

with DAG("lake_pipeline", schedule="@hourly", start_date=START, catchup=False) as pipeline:
    LakewardPipelineOperator(task_id="shop", pipeline=PIPELINE, retries=2)

with DAG("lake_ingest", schedule="@hourly", start_date=START, catchup=False) as ingest:
    load = LakewardSqlOperator(
        task_id="load",
        sql=[
            "INSERT INTO sales.orders SELECT * FROM sales.landed",
            "INSERT INTO sales.totals SELECT count(*), sum(amount) FROM sales.landed",
        ],
        message="{{ run_id }}",
        outlets=[TOTALS],
        retries=2,
    )
    check = LakewardQualityOperator(
        task_id="check",
        table="sales.orders",
        expectations={"some": {"measure": "rows", "min": 1}, "positive": "amount > 0"},
    )
    load >> check

with DAG("lake_quality", schedule="@daily", start_date=START, catchup=False) as quality:
    fresh = LakewardFreshnessSensor(
        task_id="fresh", table="sales.orders", max_age="1 day", poke_interval=60
    )
    fresh >> LakewardQualityOperator(task_id="measure", table="sales.orders", fail=False)

with DAG("lake_zorder", schedule="@daily", start_date=START, catchup=False) as zorder:
    LakewardOptimizeOperator(task_id="zorder", table="sales.orders", zorder=["id"])

with DAG("lake_vacuum", schedule="@weekly", start_date=START, catchup=False) as vacuum:
    LakewardVacuumOperator(task_id="vacuum", table="sales.orders")

with DAG("lake_follow_task", schedule=[TOTALS], start_date=START, catchup=False) as follow_task:
    LakewardVersionSensor(task_id="wait", table="sales.totals", after=0, poke_interval=1)

with DAG("lake_follow_commits", schedule=[ORDERS], start_date=START, catchup=False) as follow:
    LakewardSqlOperator(
        task_id="count", sql="INSERT INTO sales.counts SELECT count(*) FROM sales.orders"
    )
