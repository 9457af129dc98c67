"""Those who are at work on a lake while it is vacuumed: R10's holders of versions and writers."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

import lakeward as lw
from lakeward.errors import Conflict, VersionNotFound
from lakeward.maintain.vacuum import kept
from tests.support import processes
from tests.support.invariants import rows_of
from tests.support.leases import run_out
from tests.support.s3 import on_disk
from tests.support.target import LakeTarget

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMATS: Final = ("delta", "iceberg")
NOW: Final[dict[str, Any]] = {"retention": "0s", "force": True}
_KINDS: Final = ("tag", "branch", "clone", "pin", "stage", "abandon", "add_file", "lose_file")
_STATEMENTS: Final = (
    "INSERT INTO {table} VALUES ({n}, -5)",
    "UPDATE {table} SET v = v + 1 WHERE n = {n} % 20",
    "DELETE FROM {table} WHERE n = {n} % 20",
    """MERGE INTO {table} t USING (SELECT CAST({n} AS BIGINT) n) s ON t.n = s.n
    WHEN MATCHED THEN UPDATE SET v = 7 WHEN NOT MATCHED THEN INSERT (n, v) VALUES (s.n, -6)""",
)


@dataclass(frozen=True)
class Held:
    """Something that holds a version: how it is read, the rows it must show, how it ends."""

    read: Callable[[], pa.Table]
    rows: Any
    end: Callable[[], None]


class Holders:
    """Tags, branches, clones, pins and open transactions, with the rows that each must show."""

    def __init__(
        self, lake: lw.Lake, choose: random.Random, spark: SparkSession | None = None
    ) -> None:
        self._lake = lake
        self._choose = choose
        self._session = spark
        self._held: dict[str, Held] = {}
        self._staged: list[lw.Transaction] = []
        self._on_spark: list[lw.Transaction] = []
        self._appending: set[str] = set()
        self._count = 0
        self.counts = Counter[str]()

    def change(self) -> None:
        """Make a holder, and let an old one go."""
        self._count += 1
        kinds = (*_KINDS, "spark", "spark") if self._session is not None else _KINDS
        kind = self._choose.choice(kinds)
        self.counts[kind] += 1
        getattr(self, f"_{kind}")(f"{kind}{self._count}", self._choose.choice(FORMATS))
        if len(self._held) > 4:
            self._held.pop(self._choose.choice(sorted(self._held))).end()
        if len(self._staged) > 2:
            self._staged.pop(0).commit()
        if len(self._on_spark) > 1:
            self._end_on_spark(self._on_spark.pop(0))

    def work(self) -> None:
        """Let the open transactions on Spark do something more."""
        for tx in self._on_spark:
            self._run(tx, self._choose.choice(FORMATS))

    def check(self) -> None:
        """Whatever is held shows the rows that it had, and every version is whole or refused."""
        for name, held in self._held.items():
            assert rows_of(held.read()) == held.rows, name
        for format_name in FORMATS:
            table = self._lake.table(format_name)
            table.to_arrow()
            for _ in range(3):
                try:
                    table.at(version=self._choose.randrange(table.version + 1)).to_arrow()
                except VersionNotFound:
                    self.counts["versions refused"] += 1
                else:
                    self.counts["versions read"] += 1

    def bury(self) -> None:
        """Let the leases of transactions be over whose processes were killed."""
        own = {tx.transaction_id for tx in (*self._staged, *self._on_spark)}
        for found in self._lake.transactions(state="open"):
            if found.transaction_id not in own:
                run_out(self._lake, found.transaction_id)

    def release(self) -> None:
        """Let everything go."""
        for tx in self._staged:
            tx.commit()
        for tx in self._on_spark:
            self._end_on_spark(tx)
        for held in self._held.values():
            held.end()

    def _tag(self, name: str, table: str) -> None:
        self._lake.tag(name)
        found = self._lake.table(table)
        self._hold(name, lambda: found.at(tag=name).to_arrow(), lambda: self._lake.untag(name))

    def _branch(self, name: str, table: str) -> None:
        branch = self._lake.branch(name, tables=[table])
        self._hold(name, branch.table(table).to_arrow, branch.drop)

    def _clone(self, name: str, table: str) -> None:
        clone = self._lake.clone(table, name)
        self._hold(name, clone.to_arrow, lambda: self._lake.drop(name))

    def _pin(self, name: str, table: str) -> None:
        stack = ExitStack()
        snap = stack.enter_context(self._lake.snapshot())
        self._hold(name, snap.table(table).to_arrow, stack.close)

    def _hold(self, name: str, read: Callable[[], pa.Table], end: Callable[[], None]) -> None:
        self._held[name] = Held(read, rows_of(read()), end)

    def _stage(self, _: str, table: str) -> None:
        tx = self._lake.transaction()
        tx.append(table, [{"n": -self._count, "v": 0}])
        self._staged.append(tx)

    def _abandon(self, _: str, table: str) -> None:
        tx = self._lake.transaction()
        tx.append(table, [{"n": -self._count, "v": 0}])
        run_out(self._lake, tx.transaction_id)

    def _add_file(self, name: str, table: str) -> None:
        """Add a file by its path that vacuum would take for one that nobody knows."""
        self._lose_file(name, table)
        tx = self._lake.transaction()
        tx.add_files(table, [f"{name}.parquet"])
        self._staged.append(tx)

    def _lose_file(self, name: str, table: str) -> None:
        """Leave a file of last week that nobody knows."""
        place = on_disk(self._lake.table(table).location) / f"{name}.parquet"
        rows = {"n": pa.array([-self._count], pa.int64()), "v": pa.array([1], pa.int64())}
        pq.write_table(pa.table(rows), place)
        os.utime(place, (0, 0))

    def _spark(self, _: str, table: str) -> None:
        """Begin a transaction on Spark; some are left by a driver that died."""
        tx = self._lake.transaction(spark=self._session)
        # Most transactions that change rows lose to another writer's change of the same rows.
        if self._choose.random() < 0.6:
            self._appending.add(tx.transaction_id)
        self._run(tx, table)
        if self._choose.random() < 0.2:
            self.counts["Spark left"] += 1
            run_out(self._lake, tx.transaction_id)
        else:
            self._on_spark.append(tx)

    def _run(self, tx: lw.Transaction, table: str) -> None:
        is_appending = tx.transaction_id in self._appending
        statement = _STATEMENTS[0] if is_appending else self._choose.choice(_STATEMENTS)
        tx.sql(statement.format(table=table, n=10_000 + self._count))

    def _end_on_spark(self, tx: lw.Transaction) -> None:
        """Commit; another writer may have changed the same rows."""
        try:
            tx.commit()
        except Conflict:
            self.counts["Spark gave way"] += 1
            tx.rollback()
        else:
            self.counts["Spark committed"] += 1


def change(lake: lw.Lake, name: str, number: int, choose: random.Random) -> None:
    """Change the rows of a table, or rewrite its files."""
    table = lake.table(name)
    match choose.randrange(6):
        case 0:
            table.overwrite([{"n": i, "v": number} for i in range(20)])
        case 1:
            table.delete(where=f"n = {number % 20}")
        case 2:
            table.update(set={"v": "v + 1"}, where=f"n < {number % 7}")
        case 3:
            table.optimize()
        case 4:
            table.expire(**NOW)
        case _:
            table.append([{"n": number, "v": number}])


def written(number: int) -> Counter[tuple[int, int]]:
    """The rows that `write` appends to each table."""
    return Counter({(1000 + number, 0): 1})


def write(pipe: Connection, target: LakeTarget, number: int, step: str) -> None:
    """Append to all tables in one transaction, and be killed at a step, if one is given."""
    if step:
        processes.kill_myself_at(step, 1)
    with target.open() as lake:
        with lake.transaction() as tx:
            for name in FORMATS:
                tx.append(name, [{"n": 1000 + number, "v": 0}])
        pipe.send(1)


def vacuum(pipe: Connection, target: LakeTarget, step: str, occurrence: int) -> None:
    """Vacuum the lake, and be killed when a step, if one is given, is reached for the n-th time."""
    # All processes have one clock here. Otherwise an open transaction would keep the versions of
    # two hours before it, and nothing could be deleted beside transactions.
    setattr(kept, "CLOCKS_DIFFER_MS", 1_000)  # noqa: B010  final, and of this process only
    if step:
        processes.kill_myself_at(step, occurrence)
    with target.open() as lake:
        pipe.send(lake.vacuum(**NOW, unknown=True).plan.files)
