"""Using the past: restoring a large table, reading an old version, and exporting one.

The table that is restored is all log, but for the file that comes and goes. Old and new versions
that are compared have equally many rows. pyarrow, beside the export, writes the same rows from
memory, which the export has to read first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import cycle

import pyarrow as pa
import pyarrow.parquet as pq

import lakeward as lw
from benchmarks.logs import ManyFiles, _commit
from benchmarks.result import Quantity, Result, Settings, below, faster
from benchmarks.rounds import by_name, interleave, timed
from benchmarks.scratch import fresh
from lakeward.context import context_of
from lakeward.log import heads
from lakeward.model.names import TableName

_VERSIONS = 10_000
_READS = ("Lakeward, oldest", "Lakeward, newest", "Lakeward, young")


def run(settings: Settings) -> Result:
    """Restore, read and write with and without a long past, and export beside pyarrow."""
    place = fresh(settings.scratch / "history")
    files = ManyFiles(100, settings.choose(1000, 100))
    count = settings.choose(5_000_000, 500_000)
    rows = pa.table({"id": pa.array(range(count), pa.int64()), "k": pa.array(range(count))})
    with lw.open(place / "lake") as lake:
        files.insert(lake, "many")
        lake.table("many").append([{"id": -1, "k": 0}])
        lake.create("long", {"id": "int64", "k": "int64"}).append(rows.slice(0, 100_000))
        _grow(lake, "long", _VERSIONS)
        lake.table("long").overwrite(rows.slice(0, 100_000))
        lake.create("short", {"id": "int64", "k": "int64"}).append(rows.slice(0, 100_000))
        lake.create("big", {"id": "int64", "k": "int64"}).append(rows)
        contenders = _contenders(lake, files)
        targets = iter(range(10**9))
        contenders["Lakeward, export"] = lambda: lake.table("big").export(
            place / "out" / str(next(targets))
        )
        peer = iter(range(10**9))
        contenders["pyarrow, export"] = lambda: pq.write_table(
            rows, place / f"{next(peer)}.parquet"
        )
        rounds = settings.choose(20, 5)
        ways = {name: timed(action) for name, action in contenders.items()}
        reads = {name: ways.pop(name) for name in _READS}
        # Reads take a millisecond. In one round with the others, the first of them would always
        # follow the restore and pay for the caches that it has emptied.
        series = interleave(reads, rounds=rounds, warm_up=1, turn=5)
        series += interleave(ways, rounds=rounds, warm_up=1)
    found = by_name(series)
    claims = [
        below(
            f"restore of a table of {files.files:,} files, median",
            Quantity(found["Lakeward, restore"].median),
            Quantity(1.0),
            "1 s",
        ),
        faster(
            f"reading version 1 of {_VERSIONS:,}, beside the newest",
            found["Lakeward, oldest"],
            found["Lakeward, newest"],
            times=1 / 1.2,
        ),
        faster(
            f"reading the newest of {_VERSIONS:,} versions, beside a young table",
            found["Lakeward, newest"],
            found["Lakeward, young"],
            times=1 / 1.2,
        ),
        faster(
            f"appending behind {_VERSIONS:,} versions, beside a young table",
            found["Lakeward, append"],
            found["Lakeward, append young"],
            times=1 / 1.2,
        ),
        faster(
            f"export of {count:,} rows as Parquet",
            found["Lakeward, export"],
            found["pyarrow, export"],
            times=0.8,
        ),
    ]
    return Result("history", "the past: restored, read and exported", series, claims)


def _contenders(lake: lw.Lake, files: ManyFiles) -> dict[str, Callable[[], object]]:
    many, long, short = (lake.table(name) for name in ("many", "long", "short"))
    versions = cycle([files.versions, files.versions + 1])
    row = pa.table({"id": [1], "k": [1]})
    return {
        "Lakeward, restore": lambda: many.restore(version=next(versions)),
        "Lakeward, oldest": lambda: long.at(version=1).to_arrow(),
        "Lakeward, newest": lambda: long.at(version=_VERSIONS).to_arrow(),
        "Lakeward, young": lambda: short.at(version=1).to_arrow(),
        "Lakeward, append": lambda: long.append(row),
        "Lakeward, append young": lambda: short.append(row),
    }


def _grow(lake: lw.Lake, name: str, count: int) -> None:
    """Give a table so many versions, less one, that change nothing."""
    with context_of(lake).database.write() as session:
        head = heads.get(session, TableName.parse(name))
        for version in range(head.version + 1, count):
            head = replace(head, version=version, timestamp_ms=head.timestamp_ms + 1)
            _commit(session, lake, head)
        heads.advance(session, head)
        heads.set_published(session, head.table_id, head.version)
