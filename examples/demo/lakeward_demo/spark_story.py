"""The demo's story on Spark: an order stream becomes tables of both formats, batch by batch."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from lakeward.context import context_of
from lakeward.errors import ConstraintViolation
from lakeward.maintain.doctor import Severity, examine
from lakeward.pipeline import RunResult
from lakeward_demo import expected, reader, strangers
from lakeward_demo.batches import Shop
from lakeward_demo.shop_pipeline import pipeline
from lakeward_demo.story import Stage, Step

TABLES: Final = ("bronze.orders", "gold.daily_sales", "silver.customers", "silver.orders")
_PATIENCE_SECONDS: Final = 900
_KILLED_AT: Final = ("pipeline.step", 3)
"""When bronze and silver are written, and gold is not."""


class SparkStage(Stage):
    """A stage with Spark, and a shop that delivers batches."""

    def __init__(self, directory: Path, *, scale: float = 1.0, master: str | None = None) -> None:
        super().__init__(directory / "lake")
        self.shop = Shop(directory / "landing", scale)
        self.batches = 0
        self.rows = 0
        self.seconds = 0.0
        self._master = master
        self._spark: Any = None

    @property
    def spark(self) -> Any:
        """The session, started when it is first needed."""
        if self._spark is None:
            from lakeward.spark import session

            quiet = {"spark.ui.showConsoleProgress": False}
            self._spark = session(self.lake, master=self._master, **quiet)
            self._spark.sparkContext.setLogLevel("ERROR")
        return self._spark

    def run(self) -> RunResult:
        """Run the pipeline over what has landed."""
        result = pipeline.run(self.lake, self.spark, landing=str(self.shop.landing))
        self.seconds += result.seconds
        self.rows += result.steps[0].rows if result.steps else 0
        return result

    def close(self) -> None:
        """Stop Spark and close the lake."""
        if self._spark is not None:
            self._spark.stop()
            self._spark = None
        super().close()

    def check_rows(self) -> None:
        """Compare what the tables hold with what the batches say."""
        lake, shop = self.lake, self.shop
        self.check(
            "rows in bronze: every row that landed",
            expected.landed(shop, self.batches),
            _count(self, "bronze.orders"),
        )
        self.check(
            "silver, worked out again without Spark",
            expected.digest(expected.orders(shop, self.batches)),
            expected.digest(_rows(lake.table("silver.orders"), expected.ORDER_COLUMNS)),
        )
        self.check(
            "gold, worked out again without Spark",
            expected.digest(expected.sales(shop, self.batches)),
            expected.digest(_rows(lake.table("gold.daily_sales"), expected.SALES_COLUMNS)),
        )


def start_spark(stage: SparkStage) -> None:
    """Spark starts, wired for Delta, Iceberg and the lake."""
    java = stage.spark.sparkContext._jvm
    version = "?" if java is None else java.java.lang.System.getProperty("java.version")
    stage.say(f"Spark {stage.spark.version} on Java {version}, {stage.spark.sparkContext.master}.")
    stage.check("Spark answers", 1, stage.spark.range(1).count())


def take_in_batches(stage: SparkStage) -> None:
    """Two batches land; each run takes them to Delta and Iceberg tables in one transaction."""
    for number in range(2):
        stage.shop.deliver(number)
        stage.batches += 1
        result = stage.run()
        _tell(stage, result)
        newest = sorted({t.history(limit=1)[0].transaction_id for t in stage.lake.tables()})
        stage.check("tables that the transaction changed", list(TABLES), sorted(result.versions))
        stage.check("all of them carry its id", [result.run_id], newest)
    formats = {t.name: t.format for t in stage.lake.tables()}
    stage.check("gold is an Iceberg table", "iceberg", formats["gold.daily_sales"])
    stage.check(
        "the others are Delta tables", {"delta"}, {formats[n] for n in TABLES if n[0] != "g"}
    )
    stage.check_rows()
    stage.remembered["second"] = stage.lake.table("gold.daily_sales").version


def run_again(stage: SparkStage) -> None:
    """A run with nothing new commits nothing."""
    before = _versions(stage)
    stage.check("something to commit", False, stage.run().committed)
    stage.check("versions of all tables", before, _versions(stage))


def refuse_a_damaged_batch(stage: SparkStage) -> None:
    """A batch with negative prices changes nothing in any table, and passes once repaired."""
    before = _versions(stage)
    stage.shop.deliver(stage.batches, damaged=True)
    refused = None
    try:
        stage.run()
    except ConstraintViolation as error:
        refused = error
        stage.say(str(error.what))
    stage.check("rows that were refused", 3, refused and refused.facts["count"])
    stage.check("versions of all tables", before, _versions(stage))
    stage.check_rows()
    stage.shop.deliver(stage.batches)
    stage.batches += 1
    result = stage.run()
    _tell(stage, result)
    stage.check("committed once repaired", True, result.committed)
    stage.check_rows()


def survive_a_kill(stage: SparkStage) -> None:
    """The process is killed in the middle of a run; the next one loses and doubles nothing."""
    before = _versions(stage)
    stage.shop.deliver(stage.batches)
    step, times = _KILLED_AT
    module = "lakeward_demo.killed"
    command = [sys.executable, "-m", module, str(stage.directory), str(stage.shop.landing)]
    dead = subprocess.run(
        [*command, step, str(times)],
        capture_output=True,
        text=True,
        timeout=_PATIENCE_SECONDS,
        check=False,
    )
    stage.say(
        f"Killed at {step}, the {times}rd time: bronze and silver were written, gold was not."
    )
    stage.check("how the process ended", -signal.SIGKILL, dead.returncode)
    stage.check("versions of all tables", before, _versions(stage))
    stage.batches += 1
    result = stage.run()
    _tell(stage, result)
    stage.check_rows()


def travel_in_time(stage: SparkStage) -> None:
    """History, time travel and diff, alike for both formats."""
    table = stage.lake.table("gold.daily_sales")
    history = table.history(limit=3)
    for version in history:
        stage.say(f"version {version.version}: {version.operation}, {version.transaction_id}")
    then = table.at(version=stage.remembered["second"])
    stage.check(
        "gold as it was after the second batch",
        expected.digest(expected.sales(stage.shop, 2)),
        expected.digest(_rows(then, expected.SALES_COLUMNS)),
    )
    diff = table.diff(stage.remembered["second"], table.version)
    stage.say(
        f"since then {len(diff.added_files)} files were added, {len(diff.removed_files)} removed."
    )
    with stage.lake.snapshot(at=history[0].transaction_id) as cut:
        seen = cut.table("silver.orders").version
    stage.check("silver in the same cut", stage.lake.table("silver.orders").version, seen)


def let_strangers_read(stage: SparkStage) -> None:
    """deltalake, DuckDB and pyiceberg read the tables, and know nothing of Lakeward."""
    silver, gold = stage.lake.table("silver.orders"), stage.lake.table("gold.daily_sales")
    store = f"sqlite:///{stage.directory / 'lakeward.db'}#gold.daily_sales"
    orders = expected.digest(expected.orders(stage.shop, stage.batches))
    sales = expected.digest(expected.sales(stage.shop, stage.batches))
    asked = [
        ("deltalake", silver.location, expected.ORDER_COLUMNS, orders),
        ("DuckDB delta", silver.location, expected.ORDER_COLUMNS, orders),
        ("DuckDB iceberg", str(gold.metadata_location), expected.SALES_COLUMNS, sales),
        ("pyiceberg", store, expected.SALES_COLUMNS, sales),
    ]
    with ExitStack() as stack:
        begun = [
            (engine, digest, strangers.ask(stack, reader, engine, engine, place, *columns))
            for engine, place, columns, digest in asked
        ]
        for engine, digest, process in begun:
            answer = strangers.answer(process, _PATIENCE_SECONDS)
            if "rows" not in answer:
                stage.say(f"{engine}: {answer.get('absent') or answer.get('failed')}")
                stage.check(f"{engine} answers", True, "absent" in answer)
                continue
            what = f"{engine} {answer['version']} reads {len(answer['rows']):,} rows"
            stage.check(what, digest, expected.digest(answer["rows"]))


def ask_like_a_dashboard(stage: SparkStage) -> None:
    """A dashboard asks gold for the best days."""
    began = time.perf_counter()
    found = stage.lake.table("gold.daily_sales").to_arrow()
    best = found.group_by("country").aggregate([("cents", "sum")]).sort_by("cents_sum")
    took = time.perf_counter() - began
    top = best.slice(best.num_rows - 1).to_pylist()[0]
    stage.say(
        f"{top['country']} sold most, for {top['cents_sum'] / 100:,.2f}; {took * 1000:.0f} ms."
    )
    stage.check("answered within a second", True, took < 1)
    rate = stage.rows / stage.seconds if stage.seconds else 0
    stage.say(f"{stage.rows:,} order rows went through the pipeline at {rate:,.0f} rows/s.")


def ask_the_doctor(stage: SparkStage) -> None:
    """The doctor compares the log with every published file."""
    report = examine(context_of(stage.lake))
    wrong = [f.what for f in report.findings if f.severity is Severity.ERROR]
    stage.check("what is wrong", [], wrong)


STEPS: Final[tuple[Step, ...]] = (
    start_spark,
    take_in_batches,
    run_again,
    refuse_a_damaged_batch,
    survive_a_kill,
    travel_in_time,
    let_strangers_read,
    ask_like_a_dashboard,
    ask_the_doctor,
)


def _tell(stage: SparkStage, result: RunResult) -> None:
    dropped = sum(sum(s.dropped.values()) for s in result.steps)
    rows = result.steps[0].rows
    stage.say(
        f"batch {stage.batches}: {rows:,} rows landed, {dropped:,} dirty ones left out,"
        f" one transaction over {len(result.versions)} tables in {result.seconds:.1f} s"
    )


def _versions(stage: SparkStage) -> dict[str, int]:
    return {t.name: t.version for t in stage.lake.tables()}


def _count(stage: SparkStage, name: str) -> int:
    return int(stage.lake.table(name).to_arrow(columns=["order_id"]).num_rows)


def _rows(table: Any, columns: tuple[str, ...]) -> list[tuple[Any, ...]]:
    found = table.to_arrow(columns=list(columns))
    return list(zip(*(c.to_pylist() for c in found.columns), strict=True))
