"""The operations that an engine executes for a transaction, and the embedded engine's executor."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Protocol

import pyarrow as pa

from lakeward.engines.arrow.like import schema_of_rows
from lakeward.engines.base import ARROW, Engine
from lakeward.model.evolution.alterations import Alteration
from lakeward.model.expressions.when import Clauses
from lakeward.model.expressions.where import parse
from lakeward.model.lineage.origin import Origin
from lakeward.model.names import TableName
from lakeward.read.scan import check_columns
from lakeward.write.plan.change import Operation, RowChanges, merge_parameters, write_operation
from lakeward.write.plan.merge_plan import merge_plan
from lakeward.write.plan.merge_source import source_of
from lakeward.write.plan.row_plan import update_plan
from lakeward.write.transaction.member import Member
from lakeward.write.transaction.view import View


class NothingDone(Exception):
    """An operation was refused before it changed anything, so its transaction stays open.

    Attributes:
        error: The error to raise to the user.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class Executor(Protocol):
    """Executes the operations of one transaction, which has checked that it is open.

    An error of an operation rolls the transaction back, unless it is `NothingDone`.
    """

    engine: ClassVar[Engine]

    def __init__(self, view: View, **options: Any) -> None:
        """Make an executor for the tables that a transaction sees; `options` are the engine's."""

    def append(self, member: Member, data: Any) -> RowChanges:
        """Append rows to a table."""

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
        """Apply all alterations to a table's definition, or none of them."""

    def columns_of(self, data: Any, known: Collection[str]) -> tuple[pa.Schema, bool]:
        """Return the columns of data, and whether data itself has types; see `schema_of_rows`."""

    def origin(self, data: Any) -> Origin | None:
        """Return the sources of rows; None if they are not known."""

    def drop(self, name: TableName) -> None:
        """Drop a table when the transaction commits."""

    def read(self, member: Member, columns: Sequence[str] | None, where: str | None) -> Any:
        """Return the rows that the transaction sees."""

    def prepare(self) -> None:
        """Complete the changes of all tables, before they are ratified."""

    def end(self, *, committed: bool | None) -> None:
        """Release resources; `committed` is None if it is unknown how the transaction ended."""


class Found(Protocol):
    """The sources that an engine found for a statement that it ran."""

    @property
    def written(self) -> Sequence[tuple[TableName, Origin]]:
        """The tables to which rows were added, each with the sources of these rows."""

    @property
    def views(self) -> Mapping[str, Origin]:
        """The views that the statement reads, each with the sources of its rows."""


class Sql(Protocol):
    """A statement that was parsed and has not run."""

    @property
    def changes(self) -> bool:
        """Whether the statement may change something."""


class SqlExecutor(Executor, Protocol):
    """An executor that also runs SQL, in a session of the transaction."""

    @property
    def session(self) -> Any:
        """The engine's session of this transaction."""

    def name(self, member: Member) -> str:
        """Return the name of a table in the session."""

    def statement(self, text: str, values: Mapping[str, Any]) -> Sql:
        """Parse a SQL statement; replace `{name}` by values."""

    def create(self, name: TableName, columns: Any, asked: Any) -> None:
        """Create an empty table that the transaction may fill; see `Transaction.create`."""

    def run(self, statement: Any, args: Any) -> Any:
        """Run a statement and return its result."""

    @property
    def origins(self) -> Found:
        """The sources of the rows that the last statement wrote and read."""

    def nothing(self) -> Any:
        """Return the empty result of a statement that has nothing to do."""


class EmbeddedExecutor:
    """Changes tables by planning files, which Arrow writes."""

    engine: ClassVar[Engine] = ARROW

    def __init__(self, view: View) -> None:
        self._view = view
        self._merge_memory = view.context.merge_memory

    def append(self, member: Member, data: Any) -> RowChanges:
        """Write rows as files and add the files to the table."""
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
        """Alter a table's definition; an alteration that fails rolls the transaction back."""
        for change in asked:
            member.alter(change)

    def columns_of(self, data: Any, known: Collection[str]) -> tuple[pa.Schema, bool]:
        """Return the columns of rows in any form that Arrow accepts."""
        return schema_of_rows(data, known)

    def origin(self, data: Any) -> Origin | None:
        """Return the tables and columns that the rows were read from; None if that is unknown."""
        found = getattr(data, "_lineage_origin", None)
        return None if found is None else found()

    def drop(self, name: TableName) -> None:
        """Discard the pending changes of a table, and mark it to be dropped."""
        self._view.drop(name)
        self._view.register()

    def read(self, member: Member, columns: Sequence[str] | None, where: str | None) -> pa.Table:
        """Return the rows that the transaction sees, and record that they were read."""
        change = member.change
        check_columns(columns, change.definition, str(change.head.name))
        scope = None if where is None else parse(where, change.definition.schema)
        change.reads.append(scope)
        return member.read(columns, scope)

    def prepare(self) -> None:
        """Do nothing: every operation completes its change immediately."""

    def end(self, *, committed: bool | None) -> None:
        """Do nothing: there are no resources to release."""
