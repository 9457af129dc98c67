"""Ten million rows from fifty files, into Arrow.

Each side writes the same rows with its own defaults, fifty files of them, and reads what it
wrote. deltalake has two ways to an Arrow table and the faster one counts, although the query
engine's comes with strings as views, which pyarrow can do less with. How fast that engine reads
Lakeward's own files is shown as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, QueryBuilder, write_deltalake

import lakeward as lw
from benchmarks.data import SCHEMA, rows
from benchmarks.result import Claim, Result, Series, Settings, faster
from benchmarks.rounds import by_name, interleave, timed
from benchmarks.scratch import fresh

FILES = 50
WAYS = (
    "Lakeward",
    "deltalake (query engine)",
    "deltalake (to_pyarrow_table)",
    "deltalake (query engine) on Lakeward's files",
)


@dataclass(frozen=True, slots=True)
class Case:
    """What is read, in each side's words."""

    name: str
    columns: tuple[str, ...]
    where: str | None = None
    condition: Any = None

    def readers(self, table: lw.Table, theirs: str) -> dict[str, Callable[[], pa.Table]]:
        """Ours, and those of theirs, in the order of `WAYS`."""
        columns = list(self.columns)
        query = f"SELECT {', '.join(columns)} FROM t"
        if self.where is not None:
            query += f" WHERE {self.where}"

        def ours() -> pa.Table:
            return table.to_arrow(columns=columns, where=self.where)

        def engine(location: str) -> pa.Table:
            return pa.table(QueryBuilder().register("t", DeltaTable(location)).execute(query))

        def arrow() -> pa.Table:
            return DeltaTable(theirs).to_pyarrow_table(columns=columns, filters=self.condition)

        ways = (ours, partial(engine, theirs), arrow, partial(engine, table.location))
        return dict(zip(self.ways, ways, strict=True))

    @property
    def ways(self) -> list[str]:
        """Names of the contenders."""
        return [f"{way}, {self.name}" for way in WAYS]

    def claim(self, times: dict[str, Series]) -> Claim:
        """We are no slower than the faster of their ways."""
        ours, engine, arrow, _ = (times[way] for way in self.ways)
        peer = min(engine, arrow, key=lambda s: s.median)
        return faster(f"scan, {self.name}", ours, peer, times=1)


CASES = (
    Case("all", ("id", "v", "s")),
    Case("two of three columns", ("id", "s")),
    Case(
        "a fifth of the rows",
        ("id", "s"),
        "v >= 30000 AND v < 60000",
        (pc.field("v") >= 30000) & (pc.field("v") < 60000),
    ),
)


def run(settings: Settings) -> Result:
    """Read everything, some columns, and some rows."""
    per_file = settings.choose(200_000, 20_000)
    place = fresh(settings.scratch / "scan")
    theirs = str(place / "delta")
    with lw.open(place / "lake") as lake:
        lake.create("t", SCHEMA)
        for number in range(FILES):
            data = rows(per_file, start=number * per_file)
            with lake.transaction() as tx:
                tx.append("t", data)
            write_deltalake(theirs, data, mode="append")
        table = lake.table("t")
        series: list[Series] = []
        for case in CASES:
            readers = case.readers(table, theirs)
            _check(readers)
            series += interleave(
                {name: timed(read) for name, read in readers.items()},
                rounds=settings.choose(25, 3),
                warm_up=1,
            )
        ours = table.totals().bytes
        others = sum(f.stat().st_size for f in Path(theirs).glob("*.parquet"))
    times = by_name(series)
    return Result(
        "scan",
        f"scan of {FILES * per_file:,} rows from {FILES} files",
        series,
        [case.claim(times) for case in CASES],
        (
            f"{series[0].rounds} rounds after one of warm-up; each side reads what it wrote.",
            "Of deltalake's two ways the faster one is compared; its strings are views.",
            f"Sizes: Lakeward {ours >> 20} MB, deltalake {others >> 20} MB.",
        ),
    )


def _check(readers: dict[str, Callable[[], pa.Table]]) -> None:
    """Everybody reads the same rows."""
    seen = set()
    for read in readers.values():
        found = read()
        length = pc.sum(pc.utf8_length(found.column("s").cast(pa.string()))).as_py()
        seen.add((found.num_rows, pc.sum(found.column("id")).as_py(), length))
    if len(seen) != 1:
        message = f"the sides read different rows: {seen}"
        raise RuntimeError(message)
