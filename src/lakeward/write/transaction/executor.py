"""What a transaction has its engine do, and how the embedded engine, Arrow, does it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Protocol

import pyarrow as pa

from lakeward.engines.arrow.like import schema_of_rows
from lakeward.engines.base import ARROW, Engine
from lakeward.model.evolution.alterations import Alteration
from lakeward.model.expressions.when import Clauses
from lakeward.model.expressions.where import parse
from lakeward.model.names import TableName
from lakeward.read.scan import check_columns
from lakeward.write.plan.change import Operation, RowChanges, merge_parameters, write_operation
from lakeward.write.plan.merge_plan import merge_plan
from lakeward.write.plan.merge_source import source_of
from lakeward.write.plan.row_plan import update_plan
from lakeward.write.transaction.member import Member
from lakeward.write.transaction.view import View


class NothingDone(Exception):
    """An operation was refused before it changed anything, so its transaction goes on.

    Attributes:
        error: What the user is to see.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class Executor(Protocol):
    """Carries out the operations of one transaction; the transaction has checked its state.

    What an operation raises rolls the transaction back, but for `NothingDone`.
    """

    engine: ClassVar[Engine]

    def __init__(self, view: View, **options: Any) -> None:
        """Begin to work on the tables that a transaction sees."""

    def append(self, member: Member, data: Any) -> RowChanges:
        """Add rows."""

    def overwrite(self, member: Member, data: Any, where: str | None) -> RowChanges:
        """Replace all rows, or those for which a condition is true."""

    def delete(self, member: Member, where: str) -> RowChanges:
        """Delete the rows for which a condition is true."""

    def update(self, member: Member, values: Mapping[str, str], where: str | None) -> RowChanges:
        """Set columns of rows to new values."""

    def merge(
        self, member: Member, data: Any, on: str | Sequence[str], clauses: Clauses
    ) -> RowChanges:
        """Merge rows into a table."""

    def alter(self, member: Member, asked: Sequence[Alteration]) -> None:
        """Make several alterations of a table's definition, or none of them."""

    def columns_of(self, data: Any, known: Collection[str]) -> tuple[pa.Schema, bool]:
        """Return the columns of data, and whether data itself has types; see `schema_of_rows`."""

    def drop(self, name: TableName) -> None:
        """Drop a table when the transaction commits."""

    def read(self, member: Member, columns: Sequence[str] | None, where: str | None) -> Any:
        """The rows as the transaction sees them."""

    def prepare(self) -> None:
        """Complete the changes of all tables, before they are ratified."""

    def end(self, *, committed: bool | None) -> None:
        """Release resources; `committed` is None if it is unknown how the transaction ended."""


class Sql(Protocol):
    """A statement that was read and has not run."""

    @property
    def changes(self) -> bool:
        """Whether it may change something."""


class SqlExecutor(Executor, Protocol):
    """An executor that runs SQL besides, in a session of its own."""

    @property
    def session(self) -> Any:
        """The engine's session of this transaction."""

    def name(self, member: Member) -> str:
        """What a table is called in that session."""

    def statement(self, text: str, values: Mapping[str, Any]) -> Sql:
        """Read a statement of SQL, with values in the place of `{name}`."""

    def run(self, statement: Any, args: Any) -> Any:
        """Run a statement; its rows."""

    def nothing(self) -> Any:
        """The empty result of a statement that has nothing to do."""


class EmbeddedExecutor:
    """Changes tables by planning files and having Arrow write them."""

    engine: ClassVar[Engine] = ARROW

    def __init__(self, view: View) -> None:
        self._view = view
        self._merge_memory = view.context.merge_memory

    def append(self, member: Member, data: Any) -> RowChanges:
        """Write rows as files and add them."""
        files = member.stage(data)
        member.add(files)
        member.change.operations.append(write_operation("Append", member.change))
        return RowChanges(inserted=sum(f.logged_rows for f in files))

    def overwrite(self, member: Member, data: Any, where: str | None) -> RowChanges:
        """Replace all rows, or those for which a condition is true."""
        return member.overwrite(data, where)

    def delete(self, member: Member, where: str) -> RowChanges:
        """Delete the rows for which a condition is true."""
        files = member.file_count()
        done = member.remove_rows(parse(where, member.change.definition.schema))
        member.change.operations.append(Operation("DELETE", {"predicate": where}))
        return done.result(files)

    def update(self, member: Member, values: Mapping[str, str], where: str | None) -> RowChanges:
        """Set columns of rows to new values."""
        name, schema = str(member.change.head.name), member.change.definition.schema
        plan = update_plan(schema, name, values, where)
        parameters = {} if where is None else {"predicate": where}
        return member.change_rows(plan, Operation("UPDATE", parameters))

    def merge(
        self, member: Member, data: Any, on: str | Sequence[str], clauses: Clauses
    ) -> RowChanges:
        """Merge rows into a table."""
        name, schema = str(member.change.head.name), member.change.definition.schema
        source = source_of(data, schema, name, self._merge_memory)
        plan = merge_plan(schema, name, source, on, clauses)
        return member.change_rows(plan, Operation("MERGE", merge_parameters(on, clauses)))

    def alter(self, member: Member, asked: Sequence[Alteration]) -> None:
        """Alter a table's definition; an alteration that fails ends the transaction."""
        for change in asked:
            member.alter(change)

    def columns_of(self, data: Any, known: Collection[str]) -> tuple[pa.Schema, bool]:
        """Return the columns of rows in any form that Arrow accepts."""
        return schema_of_rows(data, known)

    def drop(self, name: TableName) -> None:
        """Discard the pending changes of a table, and mark it to be dropped."""
        self._view.drop(name)
        self._view.register()

    def read(self, member: Member, columns: Sequence[str] | None, where: str | None) -> pa.Table:
        """The rows as the transaction sees them."""
        change = member.change
        check_columns(columns, change.definition, str(change.head.name))
        scope = None if where is None else parse(where, change.definition.schema)
        change.reads.append(scope)
        return member.read(columns, scope)

    def prepare(self) -> None:
        """Nothing: every operation completes its change at once."""

    def end(self, *, committed: bool | None) -> None:
        """Nothing: it holds nothing."""
