"""Change data of a hundred commits over ten million rows.

The table has a change feed, so that deltalake's `load_cdf` can read it at all; both read the same
table. Ten commits append the rows, ninety change a thousand rows each. Every row is taken as
Arrow. Lakeward's rows have one column more, the transaction's id, and its strings are plain ones;
those of the query engine are views.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable

import lakeward as lw
from benchmarks.result import Result, Settings, faster
from benchmarks.rounds import by_name, interleave, timed
from benchmarks.scratch import fresh

_FEED = {"delta.enableChangeDataFeed": "true"}
_APPENDS, _MERGES, _CHANGED = 10, 90, 1_000


def run(settings: Settings) -> Result:
    """Read all changes, with Lakeward and with deltalake in turn."""
    count = settings.choose(10_000_000, 1_000_000)
    place = fresh(settings.scratch / "changes")
    with lw.open(place / "lake") as lake:
        table = lake.create("t", "id int64, v double, s string", properties=_FEED)
        for n in range(_APPENDS):
            table.append(_rows(np.arange(n * count // _APPENDS, (n + 1) * count // _APPENDS)))
        for n in range(_MERGES):
            table.merge(_rows(np.arange(n * _CHANGED, (n + 1) * _CHANGED), plus=1.0), on="id")
        expected = count + 2 * _MERGES * _CHANGED

        def ours() -> None:
            _check(sum(b.num_rows for b in table.changes(since=1)), expected)

        def theirs() -> None:
            found = DeltaTable(table.location).load_cdf(starting_version=1)
            reader = pa.RecordBatchReader.from_stream(found)
            _check(sum(b.num_rows for b in reader), expected)

        ways = {"Lakeward": timed(ours), "deltalake": timed(theirs)}
        series = interleave(ways, rounds=settings.choose(7, 3), warm_up=1)
    own, peer = by_name(series)["Lakeward"], by_name(series)["deltalake"]
    return Result(
        "changes",
        f"change data of {_APPENDS + _MERGES} commits over {count:,} rows",
        series,
        [faster("change data of 100 commits", own, peer, times=1.0)],
        (f"{own.rounds} rounds; {expected:,} changed rows each.",),
    )


def _rows(ids: np.ndarray, plus: float = 0.0) -> pa.Table:
    texts = pa.array([f"s{n}" for n in range(1_000)]).take(pa.array(ids % 1_000))
    return pa.table({"id": ids, "v": ids * 0.5 + plus, "s": texts})


def _check(found: int, expected: int) -> None:
    if found != expected:
        message = f"{found} changed rows instead of {expected}"
        raise RuntimeError(message)
