"""Creates and replaces tables in a transaction on Spark."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

from lakeward.context import LakeContext
from lakeward.engines.spark.failures import NotRun
from lakeward.engines.spark.statement import Created, Statement, query_of
from lakeward.errors import AlreadyExists
from lakeward.model.definition import Definition
from lakeward.model.evolution.alterations import Alteration
from lakeward.model.evolution.replacing import check_format, replacements
from lakeward.model.names import TableName
from lakeward.write.commit.new_table import creation_parameters
from lakeward.write.plan.change import Operation
from lakeward.write.spark.sources import Found, Reader
from lakeward.write.spark.sql import created_name, rewritten
from lakeward.write.spark.tables import SparkTables
from lakeward.write.tables.create import define
from lakeward.write.tables.own_policy import inherited
from lakeward.write.transaction.executor import NothingDone

if TYPE_CHECKING:
    from lakeward.engines.spark.workspace import DataFrame

_REPLACED: Final = "CREATE OR REPLACE TABLE"


class Carrier(Protocol):
    """Runs statements that change rows or definitions."""

    context: LakeContext
    tables: SparkTables
    reader: Reader

    def running(self, table: str) -> AbstractContextManager[None]:
        """Run an operation, with errors of Spark as the lake's."""

    def do(self, sql: str, args: Any = None) -> DataFrame:
        """Run a statement of Spark."""

    def insert(self, table: TableName, target: str, data: Any) -> None:
        """Add rows to a table by the name that it has in Spark."""

    def alter_all(self, table: TableName, asked: Sequence[Alteration]) -> None:
        """Alter a table's definition."""

    def nothing(self) -> DataFrame:
        """Return a frame without rows."""


class Creation:
    """Runs CREATE TABLE and CREATE OR REPLACE TABLE, with or without AS SELECT."""

    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier
        self._tables = carrier.tables

    def run(self, statement: Statement, found: Found, args: Any) -> DataFrame:
        """Create or replace a table, with the rows of a query where there is one."""
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
                what = f"The lake has a table {name} already."
                raise AlreadyExists(what, hint="Choose another name.", table=str(name))
        rows = None
        if created.is_filled:
            with self._carrier.running(str(name)):
                query = rewritten(tables, self._carrier.reader, statement, found)
                rows = self._carrier.do(query_of(query), args)
        with unchanged():
            if exists:
                tables.look(name)
                exists = not tables.change(name).is_new
                if not exists:
                    tables.drop(name)
            format_ = created.format or (tables.change(name).head.format if exists else "delta")
            definition = self._defined(name, format_, created, rows)
        if exists:
            self._replace(name, format_, definition, created.properties, rows)
        else:
            self._create(name, format_, definition, rows)
        return self._carrier.nothing()

    def _defined(
        self, name: TableName, format_: str, created: Created, rows: DataFrame | None
    ) -> Definition:
        workspace = self._tables.workspace
        declared = created.columns or ""
        return define(
            workspace.declared(declared) if rows is None else workspace.columns(rows),
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

    def _replace(
        self,
        name: TableName,
        format_: str,
        definition: Definition,
        properties: Mapping[str, str],
        rows: DataFrame | None,
    ) -> None:
        """Delete all rows of a table, alter it, and add rows.

        If an alteration is refused, the deletion cannot stay, so the transaction ends.
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


@contextmanager
def unchanged() -> Generator[None]:
    """Run what changes nothing: when it fails, the transaction goes on."""
    try:
        yield
    except Exception as error:
        raise NothingDone(error) from error


@contextmanager
def later_step() -> Generator[None]:
    """Run a step of an operation whose earlier steps have changed something."""
    try:
        yield
    except (NotRun, NothingDone) as refused:
        raise refused.error from None
