"""A transaction on Spark: SQL and frames by plain table name, committed as one or not at all.

Statements run on branches that nobody else sees. `commit` nets each branch into one change of its
table, validates the new rows in Spark, and ratifies all tables together, of both formats, as any
other transaction does.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lakeward.engines.arrow.input import tables_of
from lakeward.engines.spark.failures import translated
from lakeward.engines.spark.quoting import identifier
from lakeward.engines.spark.statement import Kind, Statement, TableRef, read_statement
from lakeward.errors import (
    InvalidExpression,
    LakewardError,
    SchemaMismatch,
    UnsupportedFeature,
)
from lakeward.model import arguments
from lakeward.model.commit import Isolation
from lakeward.model.definition import Definition
from lakeward.model.names import TableName
from lakeward.model.render import render
from lakeward.model.steps import reach
from lakeward.model.where import parse
from lakeward.read.scan import check_columns
from lakeward.write.change import Operation
from lakeward.write.spark_merge import merge_sql
from lakeward.write.spark_names import table_of
from lakeward.write.spark_tables import SparkTables
from lakeward.write.spark_validate import refuse
from lakeward.write.transaction import Transaction

if TYPE_CHECKING:
    from lakeward.engines.spark.workspace import DataFrame, SparkSession

_OPERATIONS: Final = {
    Kind.INSERT: "WRITE",
    Kind.OVERWRITE: "WRITE",
    Kind.UPDATE: "UPDATE",
    Kind.DELETE: "DELETE",
    Kind.MERGE: "MERGE",
    Kind.OPTIMIZE: "OPTIMIZE",
}


class SparkTransaction(Transaction):
    """A transaction whose rows are read and written by Spark.

    Everything that a `Transaction` does, with Spark's frames, and SQL besides. Tables are seen at
    one cut, with what the transaction itself did on top.
    """

    def __init__(self, *args: Any, spark: SparkSession, **options: Any) -> None:
        super().__init__(*args, **options)
        if self.isolation is Isolation.READ_COMMITTED:
            what = "A transaction on Spark sees one cut over all tables."
            hint = "Use isolation='snapshot' or 'serializable'."
            raise UnsupportedFeature(what, hint=hint)
        self._tables = SparkTables(
            self._parts, self.transaction_id, self._view, self._registered.ensure, spark
        )

    @property
    def spark(self) -> SparkSession:
        """The transaction's own session: a copy of the one given, which knows its tables."""
        return self._tables.workspace.session

    def sql(self, text: str) -> DataFrame:
        """Run a statement of Spark SQL, with the lake's tables by their plain names.

        Tables that it reads are seen at the transaction's cut, with what the transaction did to
        them; tables that it writes are changed on a branch that nobody else sees. Temporary views
        of the session that the transaction was given are known.

        Args:
            text: SELECT, INSERT, UPDATE, DELETE, MERGE, OPTIMIZE, or CREATE TEMPORARY VIEW.

        Raises:
            UnsupportedFeature: The statement would change something outside the transaction, or
                might; says why. The transaction stays open.
            TableNotFound: It names a table that is not there.
        """
        statement = read_statement(text)
        if statement.kind is not Kind.QUERY and self._is_replay():
            return self.spark.range(0).toDF("id")
        self._check_open()
        # Looked up first, so that a statement that is refused has changed nothing.
        tables = {
            ref.start: table_of(self._parts, self._tables.workspace, ref)
            for ref in statement.tables
            if not (statement.kind is Kind.VIEW and ref.writes)
        }
        with self._running(str(tables.get(statement.target.start)) if statement.target else ""):
            return self._run(statement, tables)

    def read(
        self, name: str, *, columns: Sequence[str] | None = None, where: str | None = None
    ) -> DataFrame:
        """The rows as this transaction sees them, as a frame of its own session."""
        table = TableName.parse(name)
        self._check_open()
        with self._running(name):
            known = self._tables.to_read(table)
            definition = self._view.members[table].change.definition
            check_columns(columns, definition, name)
            rows = self.spark.table(known)
            if where is not None:
                rows = rows.where(render(parse(where, definition.schema)))
            return rows if columns is None else rows.select(*map(identifier, columns))

    def append(self, name: str, data: Any) -> None:
        """Add rows: a Spark frame, or anything that a `Transaction` takes.

        Raises:
            SchemaMismatch: The rows do not fit the table's schema.
        """
        if self._is_replay():
            return
        self._check_open()
        table = TableName.parse(name)
        with self._running(name):
            target = self._tables.to_write(
                table, Operation("WRITE", {"mode": "Append"}), reads=False
            )
            self._insert(table, target, data)

    def overwrite(self, name: str, data: Any, *, where: str | None = None) -> None:
        """Replace all rows, or those for which `where` is true, which new rows must satisfy too."""
        if self._is_replay():
            return
        self._check_open()
        table = TableName.parse(name)
        with self._running(name):
            rows = self._frame(table, data)
            parameters = {"mode": "Overwrite", **({} if where is None else {"predicate": where})}
            target = self._tables.to_write(table, Operation("WRITE", parameters), reads=True)
            definition = self._view.members[table].change.definition
            scope = None if where is None else parse(where, definition.schema)
            self._tables.scope(table, scope)
            if where is not None:
                # No check of the table can have this name.
                refuse(rows, {"overwrite where": where}, definition, name)
            if self._tables.workspace.looks_at_tables(rows):
                # Rows that are read from the table itself must be had before they go.
                rows = rows.localCheckpoint()
            condition = "" if scope is None else f" WHERE {render(scope)}"
            self._do(f"DELETE FROM {target}{condition}")
            self._insert(table, target, rows)

    def delete(self, name: str, *, where: str) -> None:
        """Delete the rows for which `where` is true."""
        if self._is_replay():
            return
        self._check_open()
        table = TableName.parse(name)
        with self._running(name):
            operation = Operation("DELETE", {"predicate": where})
            target = self._tables.to_write(table, operation, reads=True)
            scope = parse(where, self._view.members[table].change.definition.schema)
            self._tables.scope(table, scope)
            self._do(f"DELETE FROM {target} WHERE {render(scope)}")

    def merge(
        self,
        name: str,
        data: Any,
        *,
        on: str | Sequence[str],
        matched: str | Mapping[str, str] | None = "update",
        not_matched: str | Mapping[str, str] | None = "insert",
        not_matched_by_source: str | Mapping[str, str] | None = None,
    ) -> None:
        """Bring rows together with those of a table, by key.

        Args:
            name: The table.
            data: The rows, at most one for each key.
            on: The columns that make the key.
            matched: What becomes of rows of the table that have a partner: `update` sets all
                columns that the data has, `delete` removes them, None leaves them; a mapping sets
                columns to SQL expressions of `target` and `source`.
            not_matched: What becomes of rows of the data that have none: `insert`, None, or a
                mapping of columns to expressions of `source`.
            not_matched_by_source: What becomes of rows of the table that have none: `delete`,
                None, or a mapping of columns to expressions of `target`.

        Raises:
            InvalidInput: An action that there is none of, or nothing to do.
        """
        if self._is_replay():
            return
        self._check_open()
        table = TableName.parse(name)
        keys = [on] if isinstance(on, str) else arguments.texts(on, "on")
        with self._running(name):
            rows = self._frame(table, data)
            operation = Operation("MERGE", {"on": ", ".join(keys)})
            target = self._tables.to_write(table, operation, reads=True)
            schema = self._view.members[table].change.definition.schema
            statement = merge_sql(
                schema,
                rows.columns,
                target=target,
                source=identifier(self._tables.workspace.named(rows)),
                table=name,
                on=keys,
                matched=matched,
                not_matched=not_matched,
                not_matched_by_source=not_matched_by_source,
            )
            self._tables.scope(table, None)
            self._do(statement)

    def name(self, name: str) -> str:
        """What a table is called in the transaction's session, for writers that take a name.

        `frame.write.insertInto(tx.name("sales.orders"))`, with a frame of `tx.spark`. What is done
        by that name is committed with the transaction, and taken to be about the whole table.
        """
        self._check_open()
        table = TableName.parse(name)
        with self._running(name):
            known = self._tables.to_write(table, Operation("WRITE"), reads=True)
            self._tables.scope(table, None)
            return known

    def add_files(self, name: str, paths: Sequence[str]) -> None:  # noqa: ARG002  refused
        """Not on Spark: files are added by a transaction without it."""
        raise _without_spark()

    def remove_files(self, name: str, paths: Iterable[str]) -> None:  # noqa: ARG002  refused
        """Not on Spark: files are removed by a transaction without it."""
        raise _without_spark()

    # How it is done.

    def _prepare(self) -> None:
        self._tables.settle()

    def _ended(self, *, committed: bool | None) -> None:
        if committed:
            self._tables.committed()
        elif committed is None:
            self._tables.close()
        else:
            self._tables.discard()

    def _run(self, statement: Statement, tables: Mapping[int, TableName | None]) -> DataFrame:
        spelled: dict[int, str] = {}
        target = None if statement.target is None else tables.get(statement.target.start)
        for ref in statement.tables:
            table = tables.get(ref.start)
            if table is not None and not ref.writes:
                spelled[ref.start] = self._tables.to_read(table)
        if target is not None and statement.target is not None:
            operation = Operation(_OPERATIONS[statement.kind], _told(statement))
            again = any(t == target for s, t in tables.items() if s != statement.target.start)
            spelled[statement.target.start] = self._tables.to_write(
                target, operation, reads=statement.target.reads or again
            )
            self._note_scope(statement, target)

        def namespace(ref: TableRef) -> str | None:
            table = next(
                (t for t in tables.values() if t and (t.namespace, t.name) == ref.parts), None
            )
            if table is None or self._view.members[table].change.head.format != "delta":
                return None
            workspace = self._tables.workspace
            return identifier(workspace.database(table.namespace, written=table == target))

        def name(ref: TableRef) -> str | None:
            return spelled.get(ref.start)

        return self._do(statement.rewritten(name, namespace))

    def _note_scope(self, statement: Statement, table: TableName) -> None:
        """Which rows a statement may replace or remove, as far as that can be told."""
        if statement.kind in (Kind.INSERT, Kind.OPTIMIZE):
            return
        scope = None
        if statement.where is not None:
            schema = self._view.members[table].change.definition.schema
            try:
                scope = parse(statement.where, schema)
            except InvalidExpression:
                # It names other tables, or what only Spark knows: then it is about all rows.
                scope = None
        self._tables.scope(table, scope)

    def _insert(self, table: TableName, target: str, data: Any) -> None:
        rows = self._frame(table, data)
        columns = ", ".join(map(identifier, rows.columns))
        source = identifier(self._tables.workspace.named(rows))
        self._do(f"INSERT INTO {target} ({columns}) SELECT {columns} FROM {source}")

    def _frame(self, table: TableName, data: Any) -> DataFrame:
        """Rows as a frame, with columns of the table only."""
        definition = self._view.member(table, reads=False).change.definition
        if hasattr(data, "_jdf"):
            frame: DataFrame = data
        else:
            schema = definition.schema.to_arrow()
            given = list(tables_of(data, schema, str(table)))
            frame = self.spark.createDataFrame(pa.concat_tables(given) if given else pa.table({}))
        _check_names(frame.columns, definition, str(table))
        return frame

    def _do(self, sql: str) -> DataFrame:
        done = self._tables.workspace.frame(sql)
        reach("branch.worked")
        return done

    @contextmanager
    def _running(self, table: str) -> Generator[None]:
        """An operation: when it fails, the transaction is rolled back."""
        try:
            yield
        except BaseException as error:
            self.rollback()
            self._failure = error
            if isinstance(error, Exception) and not isinstance(error, LakewardError):
                known = translated(error, table)
                if known is not None:
                    self._failure = known
                    raise known from error
            raise


def _told(statement: Statement) -> dict[str, str]:
    if statement.kind is Kind.INSERT:
        return {"mode": "Append"}
    if statement.kind is Kind.OVERWRITE:
        return {"mode": "Overwrite"}
    return {} if statement.where is None else {"predicate": statement.where}


def _check_names(given: Sequence[str], definition: Definition, table: str) -> None:
    schema = definition.schema
    extra = [name for name in given if name not in schema.by_name]
    if extra:
        what = f"The data for {table} has {', '.join(extra)}, which the table does not have."
        hint = f"The table's columns are {', '.join(schema.names)}."
        raise SchemaMismatch(what, hint=hint, table=table, columns=extra)
    twice = sorted({name for name in given if given.count(name) > 1})
    if twice:
        what = f"The data for {table} has the column {twice[0]!r} more than once."
        raise SchemaMismatch(what, table=table, columns=twice)
    lacking = [
        f.name
        for f in schema
        if f.name not in given
        and not f.nullable
        and f.default is None
        and f.id not in definition.derived
    ]
    if lacking:
        what = f"The data for {table} lacks {', '.join(lacking)}."
        raise SchemaMismatch(what, table=table, columns=lacking)


def _without_spark() -> UnsupportedFeature:
    what = "Files are not added or removed by name in a transaction on Spark."
    return UnsupportedFeature(what, hint="Begin one without spark=.")
