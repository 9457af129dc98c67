"""A driver that takes batch after batch through the shop's pipeline, and may be killed on the way.

Run as `python -m tests.support.pipeline_driver LAKE LANDING BATCHES STEP TIMES [PORT SECRET]`. It
delivers the batches that are missing, one at a time, and dies when it reaches the step for the
so-manieth time. It starts a Spark of its own, which dies with it, or uses one that goes on.
"""

from __future__ import annotations

import sys
from pathlib import Path

import lakeward as lw
from lakeward.spark import session
from lakeward_demo.batches import Shop
from lakeward_demo.shop_pipeline import pipeline
from tests.support.gateway import Gateway
from tests.support.processes import kill_myself_at
from tests.support.sparks import CONF

SCALE = 0.02


def main(
    target: str, landing: str, batches: int, step: str, times: int, gateway: Gateway | None
) -> None:
    shop = Shop(Path(landing), SCALE)
    with lw.open(target) as lake:
        spark = gateway.session() if gateway else session(lake, master="local[2]", **CONF)
        spark.sparkContext.setLogLevel("ERROR")
        if step:
            kill_myself_at(step, times)
        for number in range(batches):
            if not (shop.landing / "customers" / f"batch-{number:03d}.parquet").exists():
                shop.deliver(number)
            pipeline.run(lake, spark, landing=landing)
        if gateway is None:
            spark.stop()


if __name__ == "__main__":
    target, landing, batches, step, times, *place = sys.argv[1:]
    gateway = Gateway(int(place[0]), place[1]) if place else None
    main(target, landing, int(batches), step, int(times), gateway)
