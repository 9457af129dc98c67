"""The same columns read again from an S3 server on this machine, with a cache and without.

The server is the one of the tests. Without a cache every reading is as the first one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

import lakeward as lw
from benchmarks.result import Result, Settings, faster
from benchmarks.rounds import by_name, interleave, timed
from benchmarks.scratch import fresh

FILES, ROWS = 8, 500_000
_COLD, _MEMORY, _DISK = "first reading", "from memory", "from the local disk"


def run(settings: Settings) -> Result:
    """Read two of four columns."""
    from tests.support.s3 import S3Server

    place = fresh(settings.scratch / "cache")
    files = settings.choose(FILES, 2)
    with S3Server() as server:
        given: dict[str, Any] = {
            "warehouse": f"s3://{server.bucket()}/lake",
            "storage_options": server.options(),
        }
        near = lw.Cache(memory=0, directory=place / "near")
        with (
            lw.open(place / "lake", cache=lw.Cache(memory=2**30), **given) as lake,
            lw.open(place / "lake", cache=near, **given) as other,
            lw.open(place / "lake", cache=False, **given) as without,
        ):
            lake.create("t", "a double, b double, c double, d double")
            for seed in range(files):
                lake.table("t").append(_rows(seed))

            named = {
                _COLD: timed(lambda: _read(without)),
                _MEMORY: timed(lambda: _read(lake)),
                _DISK: timed(lambda: _read(other)),
            }
            series = interleave(named, rounds=settings.choose(9, 2), warm_up=1)
            counts = lake.counters()
    times = by_name(series)
    rate = counts["cache_hits"] / (counts["cache_hits"] + counts["cache_misses"])
    claims = [faster("from memory, beside the first", times[_MEMORY], times[_COLD], times=3)]
    title = f"two columns of {files} files of {ROWS:,} rows on S3, read again"
    notes = (f"{rate:.0%} of the lookups in memory were hits, the first reading included.",)
    return Result("cache", title, series, claims, notes)


def _rows(seed: int) -> pa.Table:
    numbers = np.random.default_rng(seed).random((4, ROWS))
    return pa.table(dict(zip("abcd", numbers, strict=True)))


def _read(lake: lw.Lake) -> None:
    lake.table("t").to_arrow(columns=["a", "c"])
