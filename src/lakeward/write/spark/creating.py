"""Creates and replaces tables in a transaction on Spark."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

from lakeward.context import LakeContext
from lakeward.engines.spark.failures import NotRun
from lakeward.engines.spark.parse_statement import query_of
from lakeward.engines.spark.statement import Created, Statement
from lakeward.errors import AlreadyExists
from lakeward.model.definition import Definition
from lakeward.model.evolution.alterations import Alteration
from lakeward.model.evolution.replacing import check_format, replacements
from lakeward.model.names import TableName
from lakeward.write.commit.new_table import creation_parameters
from lakeward.write.plan.change import Operation
from lakeward.write.spark.origins import Origins
from lakeward.write.spark.sources import Found, Reader
from lakeward.write.spark.sql import created_name, rewritten
from lakeward.write.spark.tables import SparkTables
from lakeward.write.tables.create import define
from lakeward.write.tables.own_policy import inherited
from lakeward.write.transaction.executor import NothingDone

if TYPE_CHECKING:
    from lakeward.engines.spark.workspace import DataFrame
    from lakeward.write.transaction.seen import NewTable

_REPLACED: Final = "CREATE OR REPLACE TABLE"


class Carrier(Protocol):
    """The operations of a transaction on Spark that `Creation` needs.

    Attributes:
        context: The context of the lake.
        tables: The tables of the transaction.
        reader: Finds the tables that a query reads.
        origins: Records the sources of rows.
    """

    context: LakeContext
    tables: SparkTables
    reader: Reader
    origins: Origins

    def running(self, table: str) -> AbstractContextManager[None]:
        """Run an operation in a `with` block; raise errors of Spark as errors of Lakeward."""

    def do(self, sql: str, args: Any = None) -> DataFrame:
        """Run a statement in Spark and return its result."""

    def insert(self, table: TableName, target: str, data: Any) -> None:
        """Insert rows into a table; `target` is its name in Spark."""

    def alter_all(self, table: TableName, asked: Sequence[Alteration]) -> None:
        """Apply changes to a table's definition, in order."""

    def nothing(self) -> DataFrame:
        """Return a frame without rows."""


class Creation:
    """Runs CREATE TABLE and CREATE OR REPLACE TABLE, with or without AS SELECT."""

    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier
        self._tables = carrier.tables

    def run(self, statement: Statement, found: Found, args: Any) -> DataFrame:
        """Create or replace a table, with the rows of the statement's query if it has one."""
        created, tables = statement.created, self._tables
        if created is None or statement.target is None:
            message = "a statement that makes a table says which"
            raise AssertionError(message)
        with unchanged():
            name = created_name(statement.target)
            exists = tables.knows(name)
            if exists and not created.replaces:
                if created.if_missing:
                    return self._carrier.nothing()
                raise _known(name)
        rows = None
        if created.is_filled:
            with self._carrier.running(str(name)):
                query = rewritten(tables, self._carrier.reader, statement, found)
                rows = self._carrier.do(query_of(query), args)
        with unchanged():
            if exists:
                tables.look(name)
            is_new = exists and tables.change(name).is_new
            exists = exists and not is_new
            format_ = created.format or (tables.change(name).head.format if exists else "delta")
            workspace, declared = tables.workspace, created.columns or ""
            columns = workspace.declared(declared) if rows is None else workspace.columns(rows)
            definition = self._defined(name, format_, created, columns)
        if exists:
            self._replace(name, format_, definition, created.properties, rows)
        elif is_new:
            self._replace_new(name, format_, definition, rows)
        else:
            self._create(name, format_, definition, rows)
        if rows is not None:
            self._carrier.origins.note_written(name, rows)
        return self._carrier.nothing()

    def make(self, name: TableName, columns: Any, asked: NewTable) -> None:
        """Create an empty table, for `Transaction.create`."""
        with unchanged():
            if self._tables.knows(name):
                raise _known(name)
            format_ = asked.format or "delta"
            definition = self._defined(name, format_, asked, columns)
        self._create(name, format_, definition, None)

    def _defined(
        self, name: TableName, format_: str, created: Created | NewTable, columns: Any
    ) -> Definition:
        return define(
            columns,
            format_,
            partition_by=created.partition_by,
            properties={**inherited(self._carrier.context, format_, name), **created.properties},
            constraints={},
            comment=created.comment,
            guard=True,
        )

    def _create(
        self, name: TableName, format_: str, definition: Definition, rows: DataFrame | None
    ) -> None:
        with self._carrier.running(str(name)):
            word = "CREATE TABLE" if rows is None else "CREATE TABLE AS SELECT"
            operation = Operation(word, creation_parameters(definition))
            target = self._tables.make(name, format_, definition, operation)
            if rows is not None:
                with later_step():
                    self._carrier.insert(name, target, rows)

    def _replace_new(
        self, name: TableName, format_: str, definition: Definition, rows: DataFrame | None
    ) -> None:
        """Replace a table that this transaction created; its definition was checked before."""
        with self._carrier.running(str(name)):
            if rows is not None:
                # The query may read the table itself, whose files are deleted now.
                rows = rows.localCheckpoint()
            self._tables.drop(name)
        with later_step():
            self._create(name, format_, definition, rows)

    def _replace(
        self,
        name: TableName,
        format_: str,
        definition: Definition,
        properties: Mapping[str, str],
        rows: DataFrame | None,
    ) -> None:
        """Delete all rows of a table, alter it, and insert rows.

        If an alteration is refused, the transaction is rolled back, because rows were deleted.
        """
        tables, operation = self._tables, Operation(_REPLACED, {})
        with unchanged():
            check_format(str(name), tables.change(name).head.format, format_)
            asked = list(replacements(tables.definition(name), definition, properties))
        with self._carrier.running(str(name)):
            target = tables.to_write(name, operation, reads=True)
            tables.scope(name, None)
            if rows is not None and tables.workspace.is_live(rows):
                # Rows that are read from the table itself must be had before they go.
                rows = rows.localCheckpoint()
            self._carrier.do(f"DELETE FROM {target}")
            with later_step():
                self._carrier.alter_all(name, asked)
                if rows is not None:
                    self._carrier.insert(name, tables.to_append(name, operation), rows)


def _known(name: TableName) -> AlreadyExists:
    what = f"The lake has a table {name} already."
    return AlreadyExists(what, hint="Choose another name.", table=str(name))


@contextmanager
def unchanged() -> Generator[None]:
    """Run code that changes nothing; raise its errors as `NothingDone`, to avoid a rollback."""
    try:
        yield
    except Exception as error:
        raise NothingDone(error) from error


@contextmanager
def later_step() -> Generator[None]:
    """Run a step after which errors must roll back, because earlier steps changed something.

    Raise the errors in `NotRun` and `NothingDone` themselves.
    """
    try:
        yield
    except (NotRun, NothingDone) as refused:
        raise refused.error from None
