"""Runs statements about whole tables in a transaction on Spark.

SHOW and DESCRIBE are answered by Lakeward instead of Spark, so that users do not see the locations
of branches. Settings apply only to the session of the transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from lakeward.engines.spark.parse_statement import read_statement
from lakeward.engines.spark.statement import Kind, Statement
from lakeward.errors import TableNotFound, UnsupportedFeature
from lakeward.model.commands import (
    AlterTable,
    Command,
    DropTable,
    Explain,
    Setting,
    ShowNamespaces,
    ShowTable,
    ShowTables,
    TruncateTable,
)
from lakeward.model.described import listed, namespaces, shown
from lakeward.model.evolution.alterations import Alteration
from lakeward.model.names import TableName
from lakeward.model.quoting import identifier
from lakeward.write.spark.sql import named_table
from lakeward.write.spark.tables import SparkTables
from lakeward.write.transaction.executor import NothingDone

if TYPE_CHECKING:
    from lakeward.engines.spark.workspace import DataFrame


class Carrier(Protocol):
    """The operations of a transaction on Spark that `Commands` needs.

    Attributes:
        tables: The tables of the transaction.
    """

    tables: SparkTables

    def run(self, statement: Statement, args: Any) -> DataFrame:
        """Run a statement and return its result."""

    def explain(self, statement: Statement, mode: str, args: Any) -> DataFrame:
        """Return the plan of a statement as a frame."""

    def alter_all(
        self, table: TableName, asked: Sequence[Alteration], if_needed: Collection[int] = ()
    ) -> None:
        """Apply changes to a table's definition, in order.

        Those at the positions `if_needed` are left out if they would change nothing.
        """

    def nothing(self) -> DataFrame:
        """Return a frame without rows."""


class Commands:
    """Runs statements about whole tables."""

    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier
        self._tables = carrier.tables

    def run(self, command: Command, args: Any) -> DataFrame:
        """Run one statement and return its result; a refused statement changes nothing."""
        match command:
            case AlterTable():
                return self._alter(command)
            case DropTable():
                return self._drop(command)
            case TruncateTable(table):
                name = self._named(table)
                quoted = identifier(*([name.namespace] if name.namespace else []), name.name)
                return self._carrier.run(read_statement(f"DELETE FROM {quoted}"), None)
            case ShowTables():
                return self._frame(listed(command, self._tables.names()))
            case ShowNamespaces():
                return self._frame(namespaces(command, self._tables.names()))
            case ShowTable(table=table):
                return self._show(command, self._named(table))
            case Explain(mode, text):
                return self._explain(mode, text, args)
            case Setting(text):
                return self._tables.workspace.frame(text, args)

    def _alter(self, command: AlterTable) -> DataFrame:
        name = self._named(command.table)
        if_needed = {place for place, (_, lenient) in enumerate(command.asked) if lenient}
        self._carrier.alter_all(name, [asked for asked, _ in command.asked], if_needed)
        return self._carrier.nothing()

    def _drop(self, command: DropTable) -> DataFrame:
        try:
            name = self._named(command.table)
        except NothingDone as refused:
            if command.if_exists and isinstance(refused.error, TableNotFound):
                return self._carrier.nothing()
            raise
        self._tables.drop(name)
        return self._carrier.nothing()

    def _show(self, command: ShowTable, name: TableName) -> DataFrame:
        self._tables.look(name)
        head = self._tables.change(name).head
        place = self._tables.place(head)
        try:
            found = shown(command, head, self._tables.definition(name), place)
        except Exception as error:
            raise NothingDone(error) from error
        return self._frame(found)

    def _explain(self, mode: str, text: str, args: Any) -> DataFrame:
        statement = read_statement(text)
        if statement.kind in (Kind.CREATE, Kind.VIEW, Kind.OPTIMIZE):
            what = "EXPLAIN supports only queries and changes of rows here."
            raise NothingDone(UnsupportedFeature(what, hint="EXPLAIN the query in it."))
        return self._carrier.explain(statement, mode, args)

    def _named(self, parts: tuple[str, ...]) -> TableName:
        try:
            return named_table(self._tables, parts)
        except Exception as error:
            raise NothingDone(error) from error

    def _frame(self, rows: pa.Table) -> DataFrame:
        session = self._tables.workspace.session
        return session.createDataFrame(rows)
