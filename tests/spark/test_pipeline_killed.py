"""Every row once, however often the driver of a pipeline is killed.

In the full form its Spark dies with it; in the short form Spark goes on, which saves its start.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import lakeward as lw
from lakeward_demo import expected
from lakeward_demo.batches import Shop
from tests.support.gateway import Gateway
from tests.support.pipeline_driver import SCALE
from tests.support.sizes import sizes

STEPS = (
    "pipeline.planned",
    "pipeline.checked",
    "pipeline.step",
    "pipeline.written",
    "ratify.inserted",
    "ratify.committed",
    "publish.started",
    "pipeline.committed",
)


@dataclass(frozen=True)
class Size:
    batches: int
    kills: int
    spark_dies: bool


def drive(
    lake: Path, landing: Path, batches: int, step: str, times: int, gateway: Gateway | None
) -> int:
    module = "tests.support.pipeline_driver"
    arguments = [str(lake), str(landing), str(batches), step, str(times)]
    if gateway is not None:
        arguments += [str(gateway.port), gateway.secret]
    told = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert told.returncode in (0, -signal.SIGKILL), told.stderr[-3000:]
    return told.returncode


@pytest.mark.crash
@pytest.mark.timeout(7200)
@sizes("size", short=Size(3, 2, spark_dies=False), full=Size(30, 20, spark_dies=True))
def test_killed_again_and_again_every_row_is_there_once(
    tmp_path: Path, size: Size, request: pytest.FixtureRequest
) -> None:
    gateway = None if size.spark_dies else Gateway.of(request.getfixturevalue("spark"))
    batches = size.batches
    lake, landing = tmp_path / "lake", tmp_path / "landing"
    chance = random.Random(5)
    dead = 0
    for _ in range(size.kills):
        step = chance.choice(STEPS)
        dead += drive(lake, landing, batches, step, chance.randint(1, 4), gateway) != 0
    assert drive(lake, landing, batches, "", 1, gateway) == 0

    shop = Shop(landing, SCALE)
    with lw.open(lake) as opened:
        assert opened.table("bronze.orders").to_arrow().num_rows == expected.landed(shop, batches)
        silver = opened.table("silver.orders").to_arrow(columns=list(expected.ORDER_COLUMNS))
        gold = opened.table("gold.daily_sales").to_arrow(columns=list(expected.SALES_COLUMNS))
        found = [list(zip(*t.to_pydict().values(), strict=True)) for t in (silver, gold)]
        assert expected.digest(found[0]) == expected.digest(expected.orders(shop, batches))
        assert expected.digest(found[1]) == expected.digest(expected.sales(shop, batches))
        versions = {t.version for t in opened.tables()}
    assert versions == {batches}
    print(f"\nS3: {batches} batches, the driver killed {dead} times: every row once")
    assert dead
