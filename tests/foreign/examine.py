"""The examination of a table: rows found and deleted by conditions, beside the evaluator's."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from pyiceberg.table import StaticTable

import lakeward as lw
from tests.foreign.conditions import Conditions
from tests.foreign.language import Failure, Row, Term
from tests.foreign.subject import Subject, flat, same_rows

_NUMBERS = itertools.count(1)


@dataclass(slots=True)
class Figures:
    """What was done."""

    tables: int = 0
    reads: int = 0
    deletes: int = 0
    commits: int = 0
    matched: int = 0

    def __str__(self) -> str:
        return (
            f"{self.tables} tables, {self.reads} conditions read ({self.matched} rows matched), "
            f"{self.deletes} deletes rolled back, {self.commits} changes committed"
        )


class Examination:
    """Examines tables in a lake.

    Args:
        lake: Where they are adopted.
        figures: Count what is done.
        deletes: The share of conditions that are also used to delete.
        commits: Changes that are committed on each table at the end.
    """

    def __init__(
        self, lake: lw.Lake, figures: Figures, *, deletes: float = 0.3, commits: int = 2
    ) -> None:
        self._lake = lake
        self._figures = figures
        self._deletes = deletes
        self._commits = commits

    def adopt(self, subject: Subject) -> lw.Table:
        """Take a table in."""
        name = f"foreign.table_{next(_NUMBERS)}"
        return self._lake.adopt(name, subject.location, **subject.options)

    def of(self, subject: Subject, seed: int, conditions: int) -> None:
        """Adopt a table and compare what conditions find and delete with the evaluator."""
        self.of_table(self.adopt(subject), subject, seed, conditions)

    def of_table(self, table: lw.Table, subject: Subject, seed: int, conditions: int) -> None:
        """The same for a table that the lake has."""
        self._figures.tables += 1
        pick = random.Random(seed)
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
                self._delete(table, subject, condition, matching, told)
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

    def _delete(
        self, table: lw.Table, subject: Subject, condition: Term, matching: list[Row], what: str
    ) -> None:
        self._figures.deletes += 1
        tx = self._lake.transaction()
        try:
            tx.delete(table.name, where=condition.sql)
            found = tx.read(table.name)
        except Exception as error:
            told = f"delete: {what}\n  {type(error).__name__}: {error}"
            raise AssertionError(told) from error
        finally:
            tx.rollback()
        left = _without(subject.rows, matching)
        same_rows(found, left, list(subject.columns), f"delete: {what}")

    def _commit(self, table: lw.Table, subject: Subject, source: Conditions, what: str) -> None:
        """Delete rows for good, some but not all of them, and let others read what is left."""
        for _ in range(50):
            condition = source.one()
            matching = _matching(condition, subject.rows)
            if matching is not None and 0 < len(matching) < max(2, len(subject.rows)):
                break
        else:
            return
        told = f"{what}{condition.sql}"
        with self._lake.transaction() as tx:
            tx.delete(table.name, where=condition.sql)
        self._figures.commits += 1
        subject.rows = _without(subject.rows, matching)
        columns = list(subject.columns)
        same_rows(table.to_arrow(), subject.rows, columns, f"committed delete: {told}")
        others = flat(subject.columns) if subject.format == "iceberg" else columns
        found = (subject.reader or theirs)(table)
        same_rows(found, subject.rows, others, f"read by others after delete: {told}")


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


def _without(rows: list[Row], gone: list[Row]) -> list[Row]:
    numbers = {row["id"] for row in gone}
    return [row for row in rows if row["id"] not in numbers]
