"""Append and commit of 1,000 rows to a large table with a unique key, beside one without.

Keys are scattered, so that statistics exclude no file, or rising, so that they exclude all. Before
the times count, every table is opened once more and appended to, so that the key index is there.
The foreign key refers to the table with scattered keys.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np
import pyarrow as pa

import lakeward as lw
from benchmarks.result import Result, Settings, faster
from benchmarks.rounds import by_name, interleave
from benchmarks.scratch import fresh

ROWS = 1_000
FILES = 10
LIMIT = 5
_SCHEMA = {"id": "int64", "v": "double"}


def run(settings: Settings) -> Result:
    """Append to all tables in turn."""
    size = settings.choose(10_000_000, 200_000)
    rounds = settings.choose(60, 5)
    place = fresh(settings.scratch / "unique")
    more = ROWS * (rounds + 10) * 2
    scattered = np.random.default_rng(7).permutation(size + more)
    orders = {"without": scattered, "scattered": scattered, "rising": np.arange(size + more)}
    parents = "scattered"
    with lw.open(place / "lake") as lake:
        for name, keys in orders.items():
            rules = {} if name == "without" else {"key": lw.Unique("id")}
            lake.create(name, _SCHEMA, constraints=rules)
            for part in np.array_split(keys[:size], FILES):
                _append(lake, name, part)
        foreign = {"parent": lw.ForeignKey("id", references=parents)}
        lake.create("referring", _SCHEMA, constraints=foreign)
    used = dict.fromkeys(orders, size)

    with lw.open(place / "lake") as lake:

        def contender(name: str) -> Callable[[], float]:
            def once() -> float:
                start = used[name]
                used[name] += ROWS
                return _append(lake, name, orders[name][start : start + ROWS])

            return once

        def refer() -> float:
            return _append(lake, "referring", scattered[:ROWS])

        contenders = {
            "no key": contender("without"),
            "unique key, scattered": contender("scattered"),
            "unique key, rising": contender("rising"),
            "foreign key, scattered": refer,
        }
        series = interleave(contenders, rounds=rounds, warm_up=2, turn=1, writes=True)
        for name in orders:
            if lake.table(name).totals().rows != used[name]:
                message = f"rows of {name} are missing"
                raise RuntimeError(message)
    times = by_name(series)
    return Result(
        "unique",
        f"append + commit of {ROWS:,} rows to a table of {size:,} rows with a key",
        series,
        [
            faster(f"append with a {name}", times[name], times["no key"], times=1 / LIMIT)
            for name in times
            if name != "no key"
        ],
        (f"{rounds} rounds after two of warm-up, {FILES} files; appends of {ROWS:,} rows each.",),
    )


def _append(lake: lw.Lake, name: str, keys: np.ndarray[tuple[int], np.dtype[np.int64]]) -> float:
    data = pa.table({"id": keys, "v": keys / 2})
    started = perf_counter()
    with lake.transaction() as tx:
        tx.append(name, data)
    return perf_counter() - started
