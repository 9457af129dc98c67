"""Example DAGs: ingestion, quality, daily Z-order, weekly vacuum, and one that follows a table."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import DAG

from lakeward.integrations.airflow.assets import create_asset
from lakeward.integrations.airflow.operators import (
    LakewardOptimizeOperator,
    LakewardQualityOperator,
    LakewardSqlOperator,
    LakewardVacuumOperator,
)
from lakeward.integrations.airflow.sensors import LakewardVersionSensor

START = datetime(2026, 1, 1, tzinfo=UTC)
ORDERS = create_asset(table="sales.orders", lake_conn_id="lakeward_default")

with DAG("lake_ingest", schedule="@hourly", start_date=START, catchup=False) as ingest:
    load = LakewardSqlOperator(
        task_id="load",
        sql=[
            "INSERT INTO sales.orders SELECT * FROM sales.landed",
            "INSERT INTO sales.totals SELECT count(*), sum(amount) FROM sales.landed",
        ],
        message="{{ run_id }}",
        outlets=[ORDERS],
    )
    check = LakewardQualityOperator(
        task_id="check",
        table="sales.orders",
        expectations={"some": {"measure": "rows", "min": 1}, "positive": "amount > 0"},
    )
    load >> check

with DAG("lake_zorder", schedule="@daily", start_date=START, catchup=False) as zorder:
    LakewardOptimizeOperator(task_id="zorder", table="sales.orders", zorder=["id"])

with DAG("lake_vacuum", schedule="@weekly", start_date=START, catchup=False) as vacuum:
    LakewardVacuumOperator(task_id="vacuum", table="sales.orders")

with DAG("lake_follow", schedule=[ORDERS], start_date=START, catchup=False) as follow:
    LakewardVersionSensor(task_id="wait", table="sales.orders", after=0, poke_interval=1)
