"""The demo's pipeline at size: landing files to bronze, silver and gold, one transaction a batch.

Every row of a batch goes into a Delta table, is cleaned and merged by key into another, and sales
by day and country are counted again from all orders into an Iceberg table. The rate is rows that
landed by the time of whole runs, from the look at the landing directory to the published commit,
over several batches, so that the tables grow meanwhile.
"""

from __future__ import annotations

import os
from pathlib import Path
from time import perf_counter

import pyarrow.parquet as pq

import lakeward as lw
from benchmarks.result import Claim, Quantity, Result, Series, Settings, below
from benchmarks.scratch import fresh
from lakeward_demo.batches import Shop
from lakeward_demo.shop_pipeline import pipeline

ROOT = Path(__file__).parents[1]
FLOOR = 50_000
SCALE = 50
_WARM_UP = 2
_DASHBOARD = "day >= DATE '2026-01-05' AND day < DATE '2026-01-12'"


def run(settings: Settings) -> Result:
    """Run batch after batch, and ask a dashboard's question after each."""
    os.environ.setdefault("LAKEWARD_CACHE", str(ROOT / ".jars"))
    from lakeward.spark import session

    place = fresh(settings.scratch / "pipeline")
    shop = Shop(place / "landing", scale=settings.choose(SCALE, 1))
    batches = settings.choose(5, 2)
    runs: list[float] = []
    questions: list[float] = []
    rows = 0
    with lw.open(place / "lake") as lake:
        spark = session(lake, master="local[2]", **{"spark.ui.showConsoleProgress": False})
        spark.sparkContext.setLogLevel("ERROR")
        try:
            for number in range(_WARM_UP + batches):
                delivered = shop.deliver(number)
                started = perf_counter()
                pipeline.run(lake, spark, landing=str(shop.landing))
                taken = perf_counter() - started
                if number < _WARM_UP:
                    continue
                rows += sum(pq.read_metadata(path).num_rows for path in delivered)
                runs.append(taken)
                started = perf_counter()
                lake.table("gold.daily_sales").to_arrow(where=_DASHBOARD)
                questions.append(perf_counter() - started)
        finally:
            spark.stop()
    rate, asked = rows / sum(runs), Series("a week of gold", questions)
    return Result(
        "pipeline",
        f"batches of {rows // batches:,} rows through bronze, silver and gold",
        [Series("Lakeward, a run", runs), asked],
        [
            Claim("sustained", Quantity(rate, "rows/s"), f"≥ {FLOOR:,} rows/s", rate >= FLOOR),
            below("a week of gold", Quantity(asked.worst), Quantity(1), "1 s"),
        ],
        (f"{batches} batches after {_WARM_UP} of warm-up, on two cores.",),
    )
