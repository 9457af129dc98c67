"""Writes rows as files before the operation that uses them, by any number of threads.

The files become part of the transaction when `append` or `replace_partitions` is called. Rows for
`merge` are not written before, because later rows with the same key replace earlier ones.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import pyarrow as pa

from lakeward.errors import UnsupportedFeature
from lakeward.model.definition import Definition
from lakeward.model.expressions.nodes import And, Column, Compare, Expression, IsNull, Literal, Or
from lakeward.model.file import DataFile
from lakeward.model.values import Value
from lakeward.read.plan import file_always_matches
from lakeward.write.plan.change import Operation, write_operation
from lakeward.write.transaction.member import Member


class Operate(Protocol):
    """A function that begins one operation (such as an append) of a transaction on one table."""

    def __call__(self, *, reads: bool = False) -> AbstractContextManager[Member]:
        """Return a context manager of the operation, which yields the table in the transaction."""


class Staging:
    """Files of one table that its transaction does not use yet."""

    def __init__(self, member: Member, operate: Operate) -> None:
        self._member = member
        self._operate = operate
        self._files: list[DataFile] = []
        self._lock = threading.Lock()

    @property
    def table_id(self) -> int:
        """The id of the table that the files are for."""
        return self._member.change.head.table_id

    @property
    def definition(self) -> Definition:
        """The definition of the table: columns, partitioning, checks."""
        return self._member.change.definition

    def catch_up(self) -> None:
        """Continue under the table's newest definition; no other thread may write meanwhile."""
        with self._operate(reads=True) as member:
            self._member = member

    def write(self, rows: Iterable[pa.Table]) -> list[DataFile]:
        """Write rows as files and return the files; thread-safe."""
        stager = self._member.stager
        written = stager.stage(rows, trusted=True, complete=True)
        with self._lock:
            self._files.extend(written)
        return written

    def append(self) -> None:
        """Append the written rows to the table."""
        with self._operate() as member:
            member.add(self._files)
            member.change.operations.append(write_operation("Append", member.change))

    def replace_partitions(self) -> None:
        """Replace all rows of the partitions of the written rows by these.

        In a table without partitions, replace all rows; without written rows, replace nothing.
        """
        with self._operate(reads=True) as member:
            if self._files:
                scope = _partitions(self._files, member.change.definition)
                _check_whole(member, scope)
                member.remove_rows(scope)
                member.add(self._files)
            member.change.operations.append(write_operation("Overwrite", member.change))

    def merge(self, rows: pa.Table, keys: pa.Table) -> None:
        """Delete the rows whose key is in `keys`, and add `rows`."""
        with self._operate(reads=True) as member:
            if keys.num_rows:
                member.remove_keys(keys)
                member.before_writing()
                member.add(member.stager.stage([rows], trusted=True), keys.column_names)
            names = ", ".join(keys.column_names)
            member.change.operations.append(Operation("MERGE", {"key": names}))


def _partitions(files: Sequence[DataFile], definition: Definition) -> Expression | None:
    """Return a condition for the rows in the partitions of files; None without partitioning."""
    if not definition.partition_by:
        return None
    present = {tuple(f.partition[i] for i in definition.partition_by): None for f in files}
    each = [_partition(values, definition) for values in present]
    return each[0] if len(each) == 1 else Or(tuple(each))


def _partition(values: Sequence[Value], definition: Definition) -> Expression:
    terms: list[Expression] = []
    for field, value in zip(definition.partition_fields, values, strict=True):
        column = Column(field)
        if value is None:
            terms.append(IsNull(column))
        else:
            terms.append(Compare("=", column, Literal(value, field.type)))
    return terms[0] if len(terms) == 1 else And(tuple(terms))


def _check_whole(member: Member, scope: Expression | None) -> None:
    """Raise `UnsupportedFeature` if a file contains rows of the scope and rows of others.

    Partitions by plain columns need no check, because the condition selects rows in files.
    """
    if scope is None or all(i > 0 for i in member.change.definition.partition_by):
        return
    for file in member.files(scope):
        if not file_always_matches(scope, file.file):
            name = member.change.head.name
            what = f"File {file.path} of {name} was written under another partitioning."
            hint = "Rewrite it under the current one, or replace rows with tx.overwrite(where=...)."
            raise UnsupportedFeature(what, hint=hint, table=str(name), path=file.path)
