"""A plan carried out on one file: which of its rows change, and the file written again with that.

Both steps know one file at a time and may run in several threads, so memory holds the data of a
merge and the rows of a few files. Rows that get new values are checked like rows that are appended,
with what is generated from them computed anew; rows that stay are written as they were.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa

from lakeward.engines.arrow.derived import completed
from lakeward.engines.arrow.evaluate import Mask, computed
from lakeward.errors import UnsupportedFeature
from lakeward.model.definition import Definition
from lakeward.model.expression import Expression
from lakeward.model.file import DataFile, LoggedFile
from lakeward.read.scan import needs_engine, read_files
from lakeward.storage.base import Storage
from lakeward.write import rewrite
from lakeward.write.change import Change
from lakeward.write.feed import Feed
from lakeward.write.row_changes import RowChanges, merge_metrics, update_metrics
from lakeward.write.row_find import Found, beside, find, inserted
from lakeward.write.row_plan import RowPlan
from lakeward.write.stage import Stager
from lakeward.write.validate import Checks

T = TypeVar("T")
R = TypeVar("R")
_THREADS: Final = 4
"""So many files are worked on at once; each is held in memory while it is."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A file whose rows changed.

    Attributes:
        file: As it was.
        files: What takes its place.
        updated: How many rows were given new values.
        deleted: How many are gone.
        copied: How many were written again as they were.
        told: Change files, where the table has a feed.
    """

    file: LoggedFile
    files: tuple[DataFile, ...]
    updated: int
    deleted: int
    copied: int
    told: tuple[DataFile, ...] = ()


@dataclass(frozen=True, slots=True)
class Done:
    """A plan that was carried out.

    Attributes:
        rewritten: The files in which rows changed.
        inserted: Files of new rows.
        rows: How many new rows there are.
        given: How many rows of data there were.
        told: Change files, where the table has a feed.
    """

    rewritten: tuple[Rewritten, ...]
    inserted: tuple[DataFile, ...]
    rows: int
    given: int
    told: tuple[DataFile, ...]

    def result(self, files: int) -> RowChanges:
        """What it did to a table of so many files."""
        touched = len(self.rewritten)
        return RowChanges(
            self.rows,
            sum(r.updated for r in self.rewritten),
            sum(r.deleted for r in self.rewritten),
            touched,
            files - touched,
        )

    def metrics(self, operation: str, result: RowChanges) -> dict[str, int | None]:
        """The same for the commit."""
        copied = sum(r.copied for r in self.rewritten)
        if operation == "MERGE":
            return merge_metrics(result, self.given, copied)
        return update_metrics(result, copied)


def carried_out(
    work: RowWork, files: Sequence[LoggedFile], before_writing: Callable[[], None]
) -> Done:
    """Carry a plan out on files: look at all of them first, then write.

    Raises:
        ConstraintViolation: A row would be changed twice, or new rows that the table refuses.
    """
    found = list(_each(work.look, files))
    touched = [(f, c) for f, c in zip(files, found, strict=True) if not c.is_empty]
    before_writing()
    rewritten = tuple(_each(lambda pair: work.rewrite(*pair), touched))
    inserted, rows = work.insert()
    work.checks.settle()
    told = [f for r in rewritten for f in r.told]
    if work.feed is not None:
        told += work.feed.write_new(rows)
    given = work.plan.source.num_rows
    return Done(rewritten, tuple(inserted), rows.num_rows, given, tuple(told))


@dataclass
class RowWork:
    """Carries a plan out, file by file.

    Attributes:
        storage: Where files are.
        stager: Writes new ones.
        change: Of the table.
        plan: What shall be done.
        seen: For each row of the data, whether it has a partner.
        checks: What new rows must satisfy.
        feed: Is told what changes, where the table has one.
    """

    storage: Storage
    stager: Stager
    change: Change
    plan: RowPlan
    seen: Mask = field(init=False)
    checks: Checks = field(init=False)
    feed: Feed | None = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.seen = np.zeros(self.plan.source.num_rows, dtype=bool)
        self.checks = Checks.of(self.change.definition, self.plan.table)
        self.feed = Feed.of(self.stager)

    def look(self, file: LoggedFile) -> Found:
        """Which rows of a file change.

        Raises:
            UnsupportedFeature: Its rows need another engine.
            ConstraintViolation: A row would be changed by two rows of the data.
        """
        definition = self.change.definition
        if needs_engine(definition):
            what = f"Table {self.change.head.name} has mapped or widened columns."
            hint = "Change its rows with Spark, or replace whole partitions."
            raise UnsupportedFeature(what, hint=hint, table=str(self.change.head.name))
        names = [n for n in definition.schema.names if n in self.plan.needed]
        # Where nothing is asked of the rows, any column tells how many there are.
        columns = names or definition.schema.names[:1]
        rows = read_files(self.storage, self.change.head, definition, [file], columns=columns)
        return find(self.plan, rows.read_all(), self.seen)

    def rewrite(self, file: LoggedFile, found: Found) -> Rewritten:
        """Write a file again, with what changes in it."""
        rows = rewrite.rows_of(self.storage, self.change, file)
        stays = np.ones(rows.num_rows, dtype=bool)
        stays[found.gone] = False
        before, after = self._updated(rows, found)
        with self._lock:
            self.checks.look_at(after)
        kept = rows.filter(pa.array(stays))
        written: list[DataFile] = []
        told: list[DataFile] = []
        if not self.checks.violated:
            nothing = Checks(self.plan.table, {})
            written = self.stager.stage([kept, after], nothing, trusted=True)
            if self.feed is not None:
                gone = rows.take(pa.array(found.deleted))
                told = self.feed.write_changes(before=before, after=after, gone=gone)
        deleted = len(found.deleted)
        return Rewritten(file, tuple(written), after.num_rows, deleted, kept.num_rows, tuple(told))

    def insert(self) -> tuple[list[DataFile], pa.Table]:
        """Write the rows of the data that have no partner; their files, and the rows."""
        definition = self.change.definition
        parts = [
            completed(_new_rows(rows, clause.values, definition), definition, self.plan.table)
            for clause, rows in inserted(self.plan, self.seen)
        ]
        rows = pa.concat_tables([definition.schema.arrow.empty_table(), *parts])
        self.checks.look_at(rows)
        if self.checks.violated or not rows.num_rows:
            return [], rows
        return self.stager.stage([rows], Checks(self.plan.table, {}), complete=True), rows

    def _updated(self, rows: pa.Table, found: Found) -> tuple[pa.Table, pa.Table]:
        definition, table = self.change.definition, self.plan.table
        nothing = definition.schema.arrow.empty_table()
        before, after = [rows.slice(0, 0)], [nothing]
        generated = {definition.schema.by_id[i].name for i in definition.derived if i > 0}
        for updated in found.updated:
            old = rows.take(pa.array(updated.rows))
            values = updated.values
            joined = beside(self.plan, old, updated.partners, values.values())
            new = _with(old, computed(joined, values, f"A new value for {table}"))
            new = new.drop_columns(sorted(generated - set(values)))
            before.append(old)
            after.append(completed(new, definition, table))
        return pa.concat_tables(before), pa.concat_tables(after)


def _with(rows: pa.Table, values: Mapping[str, pa.ChunkedArray]) -> pa.Table:
    for name, column in values.items():
        place = rows.column_names.index(name)
        rows = rows.set_column(place, name, column)
    return rows


def _new_rows(rows: pa.Table, values: Mapping[str, Expression], definition: Definition) -> pa.Table:
    """Rows of the table made of rows of the data; what is not given is missing."""
    found = computed(rows, values, "A value of a new row")
    for column in definition.schema:
        absent = column.name not in found and column.default is None
        if absent and column.id not in definition.derived:
            kind = definition.schema.arrow.field(column.name).type
            found[column.name] = pa.chunked_array([pa.nulls(rows.num_rows, kind)])
    return pa.table(found)


def _each(do: Callable[[T], R], items: Sequence[T]) -> Iterable[R]:
    """What is done with each, several at a time, in order."""
    threads = min(len(items), os.cpu_count() or 1, _THREADS)
    if threads < 2:
        yield from map(do, items)
        return
    with ThreadPoolExecutor(threads) as pool:
        # A few at a time, so that what fails ends it soon.
        for start in range(0, len(items), threads):
            yield from pool.map(do, items[start : start + threads])
