"""The demo's steps: a shop whose orders and stock must never disagree."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Final

import pyarrow as pa

from lakeward.context import context_of
from lakeward.errors import Conflict, ConstraintViolation
from lakeward.maintain.doctor import Severity, examine
from lakeward.read.history import Version
from lakeward.write.transaction.transaction import Transaction
from lakeward_demo import stranger, strangers
from lakeward_demo.shop import (
    COUNTRIES,
    EARLIER,
    FRUIT,
    ORDERS,
    ORDERS_SCHEMA,
    STOCK,
    STOCK_SCHEMA,
    order,
    sell,
)
from lakeward_demo.story import Stage, Step

_OPENING: Final = 5000


def make_the_lake(stage: Stage) -> None:
    """A lake is a directory; its log is one SQLite file in it."""
    lake = stage.lake
    lake.create(STOCK, STOCK_SCHEMA, constraints={"in_stock": "quantity >= 0"})
    lake.create(
        ORDERS, ORDERS_SCHEMA, partition_by=["country"], constraints={"positive": "quantity > 0"}
    )
    stage.say(f"Two tables: {STOCK}, never below zero, and {ORDERS}, partitioned by country.")
    stage.check("tables of the lake", [ORDERS, STOCK], [t.name for t in lake.tables()])


def append_rows(stage: Stage) -> None:
    """Append rows: staged, validated, committed in SQL, published as Delta."""
    with stage.lake.transaction(message="the opening stock") as tx:
        tx.append(STOCK, [{"sku": sku, "quantity": _OPENING} for sku in FRUIT])
    table = stage.lake.table(STOCK)
    published = Path(table.location) / "_delta_log" / f"{1:020d}.json"
    stage.check("version after the first append", 1, table.version)
    stage.check("apples", _OPENING, _quantity(stage, "apple"))
    stage.check("the commit is an ordinary Delta log file", True, published.exists())
    stage.remembered["opening"] = table.history(limit=1)[0].timestamp


def append_by_partition(stage: Stage) -> None:
    """Append 1,000 orders by partition; a query opens only the files that it needs."""
    with stage.lake.transaction() as tx:
        tx.append(ORDERS, [order(number) for number in range(EARLIER)])
    table = stage.lake.table(ORDERS)
    stage.check("orders", EARLIER, table.to_arrow().num_rows)
    stage.check("files, one to a country", len(COUNTRIES), len(table.files()))
    needed = table.files(where="country = 'PT' AND id < 500")
    stage.check("files that a query about Portugal opens", 1, len(needed))
    beyond = table.files(where="country = 'PT' AND id > 5000")
    stage.check("files that a query about no order at all opens", 0, len(beyond))


def sell_apples(stage: Stage) -> None:
    """One transaction over two tables: the order and the stock, or neither."""
    with stage.lake.transaction(message="a sale") as tx:
        sell(tx, 1000, "apple", 30)
    ordered, taken = _newest(stage, ORDERS), _newest(stage, STOCK)
    stage.say(f"Transaction {ordered.transaction_id} made both new versions.")
    stage.check("both carry one transaction id", ordered.transaction_id, taken.transaction_id)
    stage.check("and one timestamp", ordered.timestamp, taken.timestamp)
    stage.check("tables of the transaction", 2, ordered.members)
    stage.check("apples left", 4970, _quantity(stage, "apple"))


def sell_too_much(stage: Stage) -> None:
    """A violated check changes nothing, in no table."""
    before = _picture(stage)
    refused: ConstraintViolation | None = None
    try:
        with stage.lake.transaction() as tx:
            sell(tx, 1001, "apple", 9999)
    except ConstraintViolation as error:
        refused = error
        stage.say(f"Refused: {error.what}")
    stage.check("the check that refused it", "in_stock", refused and refused.constraint)
    stage.check("versions, rows and files are as before", before, _picture(stage))


def collide(stage: Stage) -> None:
    """Two transactions sell the same pears: one wins, the other is told."""
    lake = stage.lake
    first, second = lake.transaction(), lake.transaction()
    sell(first, 1002, "pear", 10)
    sell(second, 1003, "pear", 20)
    first.commit()
    lost: Conflict | None = None
    try:
        second.commit()
    except Conflict as error:
        lost = error
        stage.say(f"The loser reads: {error}")
    stage.check("the second one lost", "Conflict", type(lost).__name__)
    stage.check("and may be run again", True, lost is not None and lost.retryable)
    stage.check("only the winner's pears are gone", 4990, _quantity(stage, "pear"))


def run_until_it_wins(stage: Stage) -> None:
    """`lake.run` runs a function again until nobody is in its way."""
    lake = stage.lake
    disturbed = False

    def work(tx: Transaction) -> None:
        nonlocal disturbed
        sell(tx, 1004, "pear", 20)
        if not disturbed:
            disturbed = True
            lake.run(lambda other: sell(other, 1005, "pear", 5))

    result = lake.run(work, message="patiently")
    stage.check("attempts that it took", 2, result.attempts)
    stage.check("the commit tells of them", 2, _newest(stage, ORDERS).attempts)
    stage.check("pears after both sales", 4965, _quantity(stage, "pear"))


def roll_back(stage: Stage) -> None:
    """An error inside a transaction rolls it back; no row and no file is left."""
    before = _picture(stage)
    with suppress(RuntimeError), stage.lake.transaction() as tx:
        tx.append(ORDERS, [order(number) for number in range(5000, 5100)])
        stage.say(f"Inside it sees {tx.read(ORDERS).num_rows} orders. Then the program stumbles.")
        message = "stumbled"
        raise RuntimeError(message)
    stage.check("versions, rows and files are as before", before, _picture(stage))


def travel_in_time(stage: Stage) -> None:
    """Read any version, by its number or by a moment."""
    table = stage.lake.table(STOCK)
    opening = stage.remembered["opening"]
    by_number, by_time = table.at(version=1), table.at(timestamp=opening)
    stage.check("apples at version 1", _OPENING, _quantity_of(by_number.to_arrow(), "apple"))
    stage.check("the version at that moment", 1, by_time.version)
    later = table.at(timestamp=opening + timedelta(hours=1))
    stage.check("the version an hour later", table.version, later.version)
    with stage.lake.snapshot() as cut:
        stage.say(f"One consistent cut over all tables, pinned while it is read: {cut.versions}.")
        found = _sold_and_left(cut.table(ORDERS).to_arrow(), cut.table(STOCK).to_arrow())
    stage.check("fruit sold and fruit left, together", _OPENING * len(FRUIT), found)


def compare(stage: Stage) -> None:
    """History and diff: who did what, and what it changed."""
    table = stage.lake.table(ORDERS)
    history = table.history()
    stage.say(f"{len(history)} versions by {history[0].actor}; the newest three:")
    for v in history[:3]:
        why = f", because: {v.message}" if v.message else ""
        stage.say(f"  {v.version}: {v.operation} over {v.members} tables{why}")
    stage.check(
        "versions without a gap", list(range(table.version, -1, -1)), [v.version for v in history]
    )
    diff = table.diff(1, table.version)
    stage.check("orders added since version 1", 4, diff.rows_added)
    stage.check("orders removed since then", 0, diff.rows_removed)


def die_after_the_commit(stage: Stage) -> None:
    """SIGKILL right after the commit, before a file is published: the next open repairs it."""
    stage.close()
    child = _kill_at(stage, "ratify.committed", "killed-after", 2000)
    before = _published(stage)
    stage.check("the process was killed", -signal.SIGKILL, child)
    outcome = stage.lake.outcome("killed-after")
    stage.say(f"Asked by its id, the log answers: {outcome.state.value} as {outcome.versions}.")
    stage.check("the commit happened", True, outcome.committed)
    stage.check("versions that opening the lake published", 2, _published(stage) - before)
    stage.check("plums left", 4999, _quantity(stage, "plum"))


def die_before_the_commit(stage: Stage) -> None:
    """SIGKILL a moment earlier, inside the commit: as if it never was."""
    before = _picture(stage, files=False)
    stage.close()
    child = _kill_at(stage, "ratify.inserted", "killed-before", 2001)
    stage.check("the process was killed", -signal.SIGKILL, child)
    stage.check("versions and rows are as before", before, _picture(stage, files=False))
    outcome = stage.lake.outcome("killed-before")
    stage.check("the log knows it, and that it did not commit", False, outcome.committed)
    stage.say("Its staged files stay known by their transaction until its lease runs out.")


def read_as_strangers_do(stage: Stage) -> None:
    """Engines that are not ours read the table, with no plug-in, row for row."""
    rows = stage.lake.table(ORDERS).to_arrow()
    expected = stranger.digest(rows.to_pylist())
    location = stage.lake.table(ORDERS).location
    for name, answer in strangers.read_with_all(location):
        if "absent" in answer:
            stage.say(f"{name} is not installed, so it was not asked ({answer['absent']}).")
            continue
        if "rows" in answer:
            stage.say(f"{name} {answer['version']} read {answer['rows']} rows.")
        actual = answer.get("digest", answer.get("failed"))
        stage.check(f"{name} reads the same rows", expected, actual)
    stage.remembered["location"] = location


def keep_strangers_out(stage: Stage) -> None:
    """The guard: a direct write past the lake is refused."""
    location = stage.remembered["location"]
    before = _picture(stage)
    answer = strangers.write_to(location)
    if "absent" in answer:
        stage.say(f"deltalake is not installed, so it did not try ({answer['absent']}).")
    else:
        stage.say(f"deltalake tried to append, and was told: {answer.get('refused', 'welcome')}")
        stage.check("the write was refused", True, "refused" in answer)
    stage.check("the lake is as before", before, _picture(stage))


def ask_the_doctor(stage: Stage) -> None:
    """`lakeward doctor` checks every promise."""
    report = examine(context_of(stage.lake))
    stage.say(
        f"Looked at {report.tables} tables, {report.versions} versions and {report.files} files."
    )
    for finding in report.findings:
        stage.say(f"{finding.severity.value}: {finding.what}")
    stage.check("errors found", [], [f.what for f in report.of(Severity.ERROR)])


def put_the_files_in_order(stage: Stage) -> None:
    """Many small commits leave small files; maintenance packs them, and no row changes."""
    lake = stage.lake
    before = {t.name: (t.health().score, t.to_arrow().num_rows) for t in lake.tables()}
    worst = min(lake.tables(), key=lambda t: t.health().score)
    stage.say(f"Health of {worst.name}: {before[worst.name][0]} of 100.")
    for reason in worst.health().reasons[:2]:
        stage.say(f"  -{reason.points}: {reason.what}. Mend with: {reason.command}")
    lake.maintain()
    after = {t.name: (t.health().score, t.to_arrow().num_rows) for t in lake.tables()}
    stage.say(f"Health of {worst.name} after `lakeward maintain`: {after[worst.name][0]} of 100.")
    stage.check(
        f"{worst.name} is in better order", True, after[worst.name][0] > before[worst.name][0]
    )
    rows = {name: count for name, (_, count) in before.items()}
    stage.check("no row changed", rows, {name: count for name, (_, count) in after.items()})


STEPS: Final[tuple[Step, ...]] = (
    make_the_lake,
    append_rows,
    append_by_partition,
    sell_apples,
    sell_too_much,
    collide,
    run_until_it_wins,
    roll_back,
    travel_in_time,
    compare,
    die_after_the_commit,
    die_before_the_commit,
    read_as_strangers_do,
    keep_strangers_out,
    put_the_files_in_order,
    ask_the_doctor,
)


def _quantity(stage: Stage, sku: str) -> int:
    return _quantity_of(stage.lake.table(STOCK).to_arrow(), sku)


def _quantity_of(stock: pa.Table, sku: str) -> int:
    return int(dict(zip(*stock.select(["sku", "quantity"]).to_pydict().values(), strict=True))[sku])


def _newest(stage: Stage, name: str) -> Version:
    return stage.lake.table(name).history(limit=1)[0]


def _sold_and_left(orders: pa.Table, stock: pa.Table) -> int:
    sold = sum(row["quantity"] for row in orders.to_pylist() if row["id"] >= EARLIER)
    return sold + sum(stock.column("quantity").to_pylist())


def _published(stage: Stage) -> int:
    return sum(1 for _ in stage.directory.rglob("_delta_log/*.json"))


def _picture(stage: Stage, *, files: bool = True) -> dict[str, str]:
    """Versions and rows of the tables, and the data files on disk."""
    picture = {
        t.name: f"version {t.version}, {t.to_arrow().num_rows} rows" for t in stage.lake.tables()
    }
    if files:
        count = sum(1 for _ in stage.directory.rglob("part-*.parquet"))
        picture["on disk"] = f"{count} files"
    return picture


def _kill_at(stage: Stage, step: str, transaction_id: str, number: int) -> int:
    """Run a sale in another process that is killed at a step; how it ended."""
    stage.say(f"Another process sells a plum and is killed at the step {step!r}.")
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "lakeward_demo.crash",
            str(stage.directory),
            step,
            transaction_id,
            str(number),
        ],
        check=False,
        capture_output=True,
    ).returncode
