"""Every row once, however often a stream is killed and started again from its checkpoint."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeward as lw
from tests.support.sizes import sizes

STEPS = (
    "branch.worked",
    "stream.written",
    "ratify.inserted",
    "ratify.committed",
    "publish.started",
    "stream.committed",
)


@pytest.mark.crash
@sizes("size", short=(3, 1), full=(30, 20))
def test_killed_again_and_again_every_row_is_streamed_once(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    batches, kills = size
    landing, chance = tmp_path / "landing", random.Random(11)
    landing.mkdir()
    for number in range(batches):
        rows = pa.table({"id": range(number * 10, number * 10 + 10), "batch": [number] * 10})
        pq.write_table(rows, landing / f"{number:03d}.parquet")
    with lw.open(tmp_path / "lake") as lake:
        lake.create("events", "id int64, batch int64")
        lake.create("copies", "id int64, batch int64", format="iceberg")

    def drive(step: str = "", times: int = 1) -> int:
        places = [tmp_path / "lake", landing, tmp_path / "checkpoint"]
        told = subprocess.run(
            [
                *(sys.executable, "-m", "tests.support.stream_driver"),
                *(*map(str, places), step, str(times)),
            ],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert told.returncode in (0, -signal.SIGKILL), told.stderr[-3000:]
        return told.returncode

    dead = sum(drive(chance.choice(STEPS), chance.randint(1, 3)) != 0 for _ in range(kills))
    assert drive() == 0
    with lw.open(tmp_path / "lake") as lake:
        for name in ("events", "copies"):
            table = lake.table(name)
            assert sorted(table.to_arrow()["id"].to_pylist()) == list(range(batches * 10))
            assert table.version == batches
    print(f"\nS4: {batches} micro-batches, the driver killed {dead} times: every row once")
    assert dead
