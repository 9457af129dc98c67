"""What a transaction costs on Spark: the same work through Lakeward and by plain Delta.

Both sides run in one Spark session, on the same rows, each on a table of its own, in turn. Plain
Delta writes to a path, as a job without a catalog does; ours is a whole transaction, from `begin`
to the published commit. As everywhere here, a commit counts when it is safe on disk: Spark syncs
nothing, so the data files and the log entry of plain Delta are synced for it, inside its time.

The last part is about a table of very many files. Spark's own part is to load the state of such a
table from its log; ours is to branch the table for a transaction and to turn a branch into a
published commit, without what Spark does in between.
"""

from __future__ import annotations

import os
from pathlib import Path
from time import perf_counter
from typing import Any

import lakeward as lw
from benchmarks.logs import ManyFiles
from benchmarks.result import Result, Series, Settings, within
from benchmarks.rounds import by_name, interleave
from benchmarks.scratch import fresh
from benchmarks.sync import sync_new
from lakeward.context import context_of
from lakeward.log import heads, transactions
from lakeward.model.names import TableName
from lakeward.write.branch.delta import DeltaBranch

ROOT = Path(__file__).parents[1]
COST = 1.10
WARM_UP = 2
MERGED = 100
"""One row in so many is merged."""


def run(settings: Settings) -> Result:
    """Append, merge, and branch."""
    os.environ.setdefault("LAKEWARD_CACHE", str(ROOT / ".jars"))
    from lakeward.spark import session

    rows = settings.choose(5_000_000, 200_000)
    rounds = settings.choose(9, 1)
    place = fresh(settings.scratch / "spark")
    with lw.open(place / "lake") as lake:
        spark = session(lake, master="local[2]", **{"spark.ui.showConsoleProgress": False})
        spark.sparkContext.setLogLevel("ERROR")
        try:
            series = [
                *_appends(lake, spark, place, rows, rounds),
                *_merges(lake, spark, place, rows, rounds),
                *_many_files(lake, spark, place, settings.choose(100, 10), rounds),
            ]
        finally:
            spark.stop()
    times = by_name(series)
    return Result(
        "spark",
        f"append of {rows:,} rows, MERGE of one in {MERGED}, and a table of many files",
        series,
        [
            within("append", times["Lakeward, append"], times["plain Delta, append"], COST),
            within("MERGE of 1%", times["Lakeward, merge"], times["plain Delta, merge"], COST),
            within(
                "branch and publish, many files",
                times["Lakeward, branch and publish"],
                times["Spark, load"],
                0.25,
            ),
        ],
        (f"{rounds} rounds, after {WARM_UP} of warm-up; both sides in one session on two cores.",),
    )


class _Written:
    """What plain Delta wrote into a table since somebody looked last."""

    def __init__(self, table: Path) -> None:
        self._table = table
        self._seen = self._files()

    def sync(self) -> float:
        """Sync what is new; the seconds it took."""
        found = self._files()
        new, self._seen = found - self._seen, found
        return sync_new(new)

    def _files(self) -> set[Path]:
        # Hadoop leaves checksums beside files, which nobody needs.
        return {p for p in self._table.rglob("*") if p.is_file() and p.suffix != ".crc"}


def _source(spark: Any, place: Path, name: str, count: int, step: int = 1) -> Any:
    """Rows that come from a file, as a job's do."""
    path = str(place / name)
    made = spark.range(0, count * step, step).selectExpr(
        "id", "id % 1000 AS k", "cast(id AS double) / 7 AS v", "concat('name-', id % 5000) AS s"
    )
    made.repartition(2).write.parquet(path)
    return spark.read.parquet(path)


def _appends(lake: lw.Lake, spark: Any, place: Path, rows: int, rounds: int) -> list[Series]:
    source = _source(spark, place, "rows", rows)
    lake.create("appended", "id int64, k int64, v double, s string")
    plain = str(place / "plain-append")
    written = _Written(place / "plain-append")

    def ours() -> float:
        started = perf_counter()
        with lake.transaction(spark=spark) as tx:
            tx.append("appended", source)
        return perf_counter() - started

    def theirs() -> float:
        started = perf_counter()
        source.write.format("delta").mode("append").save(plain)
        return perf_counter() - started + written.sync()

    contenders = {"Lakeward, append": ours, "plain Delta, append": theirs}
    return interleave(contenders, rounds=rounds, warm_up=WARM_UP, writes=True)


def _merges(lake: lw.Lake, spark: Any, place: Path, rows: int, rounds: int) -> list[Series]:
    base = _source(spark, place, "base", rows)
    changes = _source(spark, place, "changes", rows // MERGED, MERGED)
    lake.create("merged", "id int64, k int64, v double, s string")
    with lake.transaction(spark=spark) as tx:
        tx.append("merged", base)
    plain = str(place / "plain-merge")
    base.write.format("delta").save(plain)
    written = _Written(place / "plain-merge")
    changes.createOrReplaceTempView("changes")
    clauses = "ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"

    def ours() -> float:
        started = perf_counter()
        with lake.transaction(spark=spark) as tx:
            tx.sql(f"MERGE INTO merged AS t USING changes AS s {clauses}")
        return perf_counter() - started

    def theirs() -> float:
        started = perf_counter()
        spark.sql(f"MERGE INTO delta.`{plain}` AS t USING changes AS s {clauses}")
        return perf_counter() - started + written.sync()

    contenders = {"Lakeward, merge": ours, "plain Delta, merge": theirs}
    series = interleave(contenders, rounds=rounds, warm_up=WARM_UP, writes=True)
    counts = {lake.table("merged").totals().rows, spark.read.format("delta").load(plain).count()}
    if counts != {rows}:
        message = f"rows were lost or doubled: {counts}"
        raise RuntimeError(message)
    return series


def _many_files(lake: lw.Lake, spark: Any, place: Path, versions: int, rounds: int) -> list[Series]:
    shape = ManyFiles(versions, 1000)
    shape.insert(lake, "many")
    location = place / "many"
    shape.write_delta(location)
    log = spark._jvm.org.apache.spark.sql.delta.DeltaLog

    def load() -> float:
        log.clearCache()
        started = perf_counter()
        found = log.forTable(spark._jsparkSession, str(location)).update(
            False, spark._jvm.scala.Option.empty(), spark._jvm.scala.Option.empty()
        )
        count = found.numOfFiles()
        taken = perf_counter() - started
        if count != shape.files:
            message = f"Spark found {count} files"
            raise RuntimeError(message)
        return taken

    number = iter(range(1000))

    def ours() -> float:
        parts, own = context_of(lake), f"bench-{next(number)}"
        with parts.database.write() as session:
            transactions.register(
                session,
                parts.database.clock_ms(session),
                transaction_id=own,
                actor="bench",
                isolation="snapshot",
                message=None,
            )
            head = heads.get(session, TableName.parse("many"))
            definition = parts.definition(session, head)
        started = perf_counter()
        branch = DeltaBranch.open(parts, own, head, definition)
        branch.net()
        with lake.transaction() as tx:
            tx.record("many", "bench", int(own.rpartition("-")[2]))
        taken = perf_counter() - started
        branch.discard()
        return taken

    contenders = {"Lakeward, branch and publish": ours, "Spark, load": load}
    return interleave(contenders, rounds=rounds, warm_up=WARM_UP, writes=True)
