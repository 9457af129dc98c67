"""The examination of a table: rows found and deleted by conditions, beside the evaluator's."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from pyiceberg.table import StaticTable

import lakeward as lw
from lakeward.errors import SchemaMismatch
from tests.foreign.conditions import Conditions
from tests.foreign.language import Failure, Row, Term
from tests.foreign.subject import Subject, flat, same_rows
from tests.foreign.values import to_arrow

_NUMBERS = itertools.count(1)
_UPDATES = 0.3
_APPENDED = 3


@dataclass(slots=True)
class Figures:
    """What was done."""

    tables: int = 0
    reads: int = 0
    changes: int = 0
    appends: int = 0
    commits: int = 0
    matched: int = 0

    def __str__(self) -> str:
        return (
            f"{self.tables} tables, {self.reads} conditions read ({self.matched} rows matched), "
            f"{self.changes} deletes and updates rolled back, "
            f"{self.appends} appends and {self.commits} changes committed"
        )


class Examination:
    """Examines tables in a lake.

    Args:
        lake: Where they are adopted.
        figures: Count what is done.
        deletes: The share of conditions by which rows are also deleted; by a third of these they
            are updated too.
        commits: Changes that are committed on each table at the end.
    """

    def __init__(
        self, lake: lw.Lake, figures: Figures, *, deletes: float = 0.25, commits: int = 2
    ) -> None:
        self._lake = lake
        self._figures = figures
        self._deletes = deletes
        self._pick = random.Random(0)
        self._commits = commits

    def adopt(self, subject: Subject) -> lw.Table:
        """Take a table in."""
        name = f"foreign.table_{next(_NUMBERS)}"
        is_read = subject.format == "delta" and subject.reader is None
        before = DeltaTable(subject.location).protocol() if is_read else None
        table = self._lake.adopt(name, subject.location, **subject.options)
        if before is not None:
            after = DeltaTable(table.location).protocol()
            assert set(before.writer_features or ()) <= set(after.writer_features or ())
            if before.min_reader_version != 2:  # column mapping becomes a feature
                assert after.min_reader_version == before.min_reader_version
                assert (after.reader_features is None) == (before.reader_features is None)
                assert set(after.reader_features or ()) == set(before.reader_features or ())
        return table

    def of(self, subject: Subject, seed: int, conditions: int) -> None:
        """Adopt a table and compare what conditions find and delete with the evaluator."""
        self.of_table(self.adopt(subject), subject, seed, conditions)

    def of_table(self, table: lw.Table, subject: Subject, seed: int, conditions: int) -> None:
        """The same for a table that the lake has."""
        self._figures.tables += 1
        pick = self._pick = random.Random(seed)
        columns = list(subject.columns)
        what = f"{subject.name}\n  seed {seed}: "
        same_rows(table.to_arrow(), subject.rows, columns, what + "all rows")
        source = Conditions(subject.columns, subject.rows, pick)
        done = 0
        while done < conditions:
            condition = source.one()
            matching = _matching(condition, subject.rows)
            if matching is None:
                continue
            done += 1
            self._figures.matched += len(matching)
            told = f"{what}{condition.sql}"
            self._read(table, condition, matching, columns, told)
            if subject.writable and pick.random() < self._deletes:
                self._change(table, subject, _deletion(condition, matching, subject.rows), told)
                if pick.random() < _UPDATES:
                    self._change(table, subject, _update(condition, matching, subject.rows), told)
        if subject.writable or subject.appends:
            self._append(table, subject, what)
        if subject.writable:
            for _ in range(self._commits):
                self._commit(table, subject, source, what)

    def _read(
        self, table: lw.Table, condition: Term, matching: list[Row], columns: list[str], what: str
    ) -> None:
        self._figures.reads += 1
        try:
            found = table.to_arrow(where=condition.sql)
        except Exception as error:
            told = f"read: {what}\n  {type(error).__name__}: {error}"
            raise AssertionError(told) from error
        same_rows(found, matching, columns, f"read: {what}")

    def _change(self, table: lw.Table, subject: Subject, change: Change, what: str) -> None:
        """Make a change, read what the transaction sees, and roll it back."""
        self._figures.changes += 1
        what = f"{change.name}: {what}"
        tx = self._lake.transaction()
        try:
            change.apply(tx, table.name)
            found = tx.read(table.name)
        except Exception as error:
            told = f"{what}\n  {type(error).__name__}: {error}"
            raise AssertionError(told) from error
        finally:
            tx.rollback()
        same_rows(found, change.rows, list(subject.columns), what)

    def _append(self, table: lw.Table, subject: Subject, what: str) -> None:
        """Append some of the rows again under other ids, and let others read the table."""
        some = self._pick.sample(subject.rows, min(_APPENDED, len(subject.rows)))
        new = [{**row, "id": 2_000_000 + row["id"]} for row in some]
        try:
            with self._lake.transaction() as tx:
                tx.append(table.name, to_arrow(new, subject.columns))
        except SchemaMismatch as error:
            # The lake refuses values that readers of directories would take for others.
            if "partitions" not in str(error):
                raise
            return
        self._figures.appends += 1
        subject.rows = [*subject.rows, *new]
        self._compare(table, subject, f"appended: {what}")

    def _commit(self, table: lw.Table, subject: Subject, source: Conditions, what: str) -> None:
        """Change some rows for good, but not all of them, and let others read the table."""
        for _ in range(50):
            condition = source.one()
            matching = _matching(condition, subject.rows)
            if matching is not None and 0 < len(matching) < max(2, len(subject.rows)):
                break
        else:
            return
        make = _update if self._pick.random() < _UPDATES else _deletion
        change = make(condition, matching, subject.rows)
        told = f"committed {change.name}: {what}{condition.sql}"
        with self._lake.transaction() as tx:
            change.apply(tx, table.name)
        self._figures.commits += 1
        subject.rows = change.rows
        self._compare(table, subject, told)

    @staticmethod
    def _compare(table: lw.Table, subject: Subject, what: str) -> None:
        """Compare the rows that we read, and that others read, with the rows that there are."""
        columns = list(subject.columns)
        same_rows(table.to_arrow(), subject.rows, columns, what)
        others = flat(subject.columns) if subject.format == "iceberg" else columns
        found = (subject.reader or theirs)(table)
        same_rows(found, subject.rows, others, f"read by others: {what}")


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the rows for which a condition is true.

    Attributes:
        name: `delete` or `update`.
        where: The condition.
        rows: Of the table afterwards.
    """

    name: str
    where: str
    rows: list[Row]

    def apply(self, tx: lw.Transaction, table: str) -> None:
        """Make it part of a transaction."""
        if self.name == "delete":
            tx.delete(table, where=self.where)
        else:
            tx.update(table, set={"id": "1000000 + id"}, where=self.where)


def _deletion(condition: Term, matching: list[Row], rows: list[Row]) -> Change:
    numbers = {row["id"] for row in matching}
    return Change("delete", condition.sql, [r for r in rows if r["id"] not in numbers])


def _update(condition: Term, matching: list[Row], rows: list[Row]) -> Change:
    numbers = {row["id"] for row in matching}
    renumbered = [{**r, "id": 1_000_000 + r["id"]} if r["id"] in numbers else r for r in rows]
    return Change("update", condition.sql, renumbered)


def theirs(table: lw.Table) -> pa.Table:
    """The rows by a reader that is not ours: delta-rs or pyiceberg."""
    if table.format == "iceberg":
        return StaticTable.from_metadata(str(table.metadata_location)).scan().to_arrow()
    source = QueryBuilder().register("t", DeltaTable(table.location))
    return pa.table(source.execute("SELECT * FROM t"))


def _matching(condition: Term, rows: list[Row]) -> list[Row] | None:
    """The rows for which a condition is true; None where it cannot be computed for one."""
    try:
        return [row for row in rows if condition.of(row) is True]
    except Failure:
        return None
