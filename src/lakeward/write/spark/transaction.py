"""A transaction on Spark: SQL and frames by plain table name, committed as one or not at all.

Statements run on branches that nobody else sees. `commit` nets each branch into one change of its
table, validates the new rows in Spark, and ratifies all tables together, of both formats, as any
other transaction does.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Final

from lakeward.engines.spark.failures import NotRun, translated
from lakeward.engines.spark.parameters import with_values
from lakeward.engines.spark.quoting import identifier
from lakeward.engines.spark.statement import (
    Kind,
    Statement,
    query_of,
    read_statement,
)
from lakeward.errors import (
    AlreadyExists,
    LakewardError,
    UnsupportedFeature,
)
from lakeward.model.commit import Isolation
from lakeward.model.expressions.render import render
from lakeward.model.expressions.when import Actions, Clauses
from lakeward.model.expressions.where import parse
from lakeward.model.names import TableName
from lakeward.model.steps import reach
from lakeward.read.scan import check_columns
from lakeward.write.commit.new_table import told
from lakeward.write.plan.change import Operation
from lakeward.write.plan.row_changes import RowChanges, merge_told
from lakeward.write.spark.frames import frame_of
from lakeward.write.spark.merge import merge_sql, update_sql
from lakeward.write.spark.names import created_name
from lakeward.write.spark.sources import Found, Reader
from lakeward.write.spark.sql import found_tables, spelled
from lakeward.write.spark.tables import SparkTables
from lakeward.write.spark.validate import refuse
from lakeward.write.tables.create import define
from lakeward.write.transaction.transaction import Transaction

if TYPE_CHECKING:
    from lakeward.engines.spark.workspace import DataFrame, SparkSession

_CHANGED: Final = "num_affected_rows"


class SparkTransaction(Transaction):
    """A transaction whose rows are read and written by Spark.

    Everything that a `Transaction` does, with Spark's frames, and SQL besides. Tables are seen at
    one cut, with what the transaction itself did on top.
    """

    _replays: ClassVar[bool] = False

    def __init__(self, *args: Any, spark: SparkSession, **options: Any) -> None:
        super().__init__(*args, **options)
        if self.isolation is Isolation.READ_COMMITTED:
            what = "A transaction on Spark sees one cut over all tables."
            hint = "Use isolation='snapshot' or 'serializable'."
            raise UnsupportedFeature(what, hint=hint)
        self._tables = SparkTables(
            self._context, self.transaction_id, self._view, self._registered.ensure, spark
        )
        self._reader = Reader(self._tables)

    @property
    def spark(self) -> SparkSession:
        """The transaction's own session: a copy of the one given, which knows its tables."""
        return self._tables.workspace.session

    def sql(
        self,
        text: str,
        /,
        args: Mapping[str, Any] | Sequence[Any] | None = None,
        **values: Any,
    ) -> DataFrame:
        """Run a statement of Spark SQL, with the lake's tables by their plain names.

        Tables that it reads are seen at the transaction's cut, with what the transaction did to
        them; tables that it writes are changed on a branch that nobody else sees. Temporary views
        of the session that the transaction was given are known, those that were made since too.

        A query gives a frame that shows the tables as they are now, whenever it is run.

        A statement that Spark refuses before it runs it, because it cannot be parsed or names a
        column that is not there, raises Spark's own error. It has changed nothing, and the
        transaction stays open.

        Args:
            text: SELECT, INSERT, UPDATE, DELETE, MERGE, OPTIMIZE, CREATE TABLE, with or without AS
                SELECT, or CREATE TEMPORARY VIEW. A table that is made appears with the commit.
            args: Values for parameters as in `spark.sql`: a mapping for `:name`, a list for `?`.
            **values: Frames, columns of frames, texts and numbers that replace `{name}` in the
                text, as in `spark.sql`.

        Raises:
            InvalidInput: It cannot be understood, or names a value that was not given.
            AlreadyExists: It makes a table that is there.
            UnsupportedFeature: The statement would change something outside the transaction, or
                might; says why. The transaction stays open.
            TableNotFound: It names a table that is not there.
        """
        workspace = self._tables.workspace
        text = with_values(self.spark, text, values, lambda f: identifier(workspace.named(f)))
        statement = read_statement(text)
        if statement.kind is not Kind.QUERY and self._is_replay():
            return self.spark.range(0).toDF("id")
        self._check_open()
        # Looked up first, so that a statement that is refused has changed nothing.
        found = found_tables(self._context, self._tables, statement)
        if statement.kind is Kind.CREATE:
            return self._make(statement, found, args)
        with self._running(str(found.get(statement.target.start)) if statement.target else ""):
            done = self._do(spelled(self._tables, self._reader, statement, found), args)
            if statement.kind is Kind.VIEW:
                self._reader.note_view(statement, found, args)
            if statement.asks and _CHANGED in done.columns:
                # It may have run as a MERGE, which tells more.
                return done.select(_CHANGED)
            return done

    def read(
        self, name: str, *, columns: Sequence[str] | None = None, where: str | None = None
    ) -> DataFrame:
        """The rows as this transaction sees them now, as a frame of its own session.

        What the transaction writes later does not change the frame.
        """
        table = TableName.parse(name)
        self._check_open()
        with self._running(name):
            self._tables.look(table)
            definition = self._tables.definition(table)
            check_columns(columns, definition, name)
            rows = self._tables.workspace.frame(f"SELECT * FROM {self._reader.frame_of(table)}")
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
            target = self._tables.to_append(table, Operation("WRITE", {"mode": "Append"}))
            self._insert(table, target, data)

    def append_once(self, name: str, data: DataFrame) -> DataFrame | None:
        """Add rows, and give them as they were written, which reads them and computes nothing.

        None, and nothing is added, where they could not be told from other rows: of Iceberg tables,
        and of tables that the transaction has used before.
        """
        table = TableName.parse(name)
        if self._is_replay() or not self._tables.is_untouched(table):
            return None
        self.append(name, data)
        return self._tables.added(table)

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
            definition = self._tables.definition(table)
            scope = None if where is None else parse(where, definition.schema)
            self._tables.scope(table, scope)
            if where is not None:
                # No check of the table can have this name.
                refuse(rows, {"overwrite where": where}, definition, name)
            if self._tables.workspace.is_live(rows):
                # Rows that are read from the table itself must be had before they go; frames of
                # `tx.read` and `tx.sql` keep them.
                rows = rows.localCheckpoint()
            condition = "" if scope is None else f" WHERE {render(scope)}"
            self._do(f"DELETE FROM {target}{condition}")
            with _later_step():
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
            scope = parse(where, self._tables.definition(table).schema)
            self._tables.scope(table, scope)
            self._do(f"DELETE FROM {target} WHERE {render(scope)}")

    def update(
        self,
        name: str,
        *,
        set: Mapping[str, str],  # noqa: A002  SQL's own word
        where: str | None = None,
    ) -> RowChanges:
        """Give rows new values; see `Transaction.update`. The values are Spark's expressions."""
        if self._is_replay():
            return RowChanges()
        self._check_open()
        table = TableName.parse(name)
        with self._running(name):
            operation = Operation("UPDATE", {} if where is None else {"predicate": where})
            target = self._tables.to_write(table, operation, reads=True)
            schema = self._tables.definition(table).schema
            scope = None if where is None else parse(where, schema)
            statement = update_sql(schema, set, target=target, table=name, where=scope)
            self._tables.scope(table, scope)
            return _counted(self._do(statement))

    def merge(
        self,
        name: str,
        data: Any,
        *,
        on: str | Sequence[str],
        matched: Actions = "update",
        not_matched: Actions = "insert",
        not_matched_by_source: Actions = None,
    ) -> RowChanges:
        """Bring rows together with those of a table; see `Transaction.merge`.

        Conditions and values are Spark's expressions, over `target` and `source`. Spark tells the
        numbers of rows for Delta tables only, and of files for none.
        """
        clauses = Clauses.of(matched, not_matched, not_matched_by_source)
        if self._is_replay():
            return RowChanges()
        self._check_open()
        table = TableName.parse(name)
        with self._running(name):
            rows = self._frame(table, data)
            target = self._tables.to_write(
                table, Operation("MERGE", merge_told(on, clauses)), reads=True
            )
            statement = merge_sql(
                self._tables.definition(table).schema,
                rows.columns,
                target=target,
                source=self._named(table, rows),
                table=name,
                on=on,
                clauses=clauses,
            )
            self._tables.scope(table, None)
            return _counted(self._do(statement))

    def name(self, name: str) -> str:
        """What a table is called in the transaction, for writers that take a name.

        `frame.write.insertInto(tx.name("sales.orders"))`, with a frame of the session that the
        transaction was given or of `tx.spark`. What is done by that name is committed with the
        transaction, and taken to be about the whole table. Columns and properties must stay.
        """
        self._check_open()
        table = TableName.parse(name)
        with self._running(name):
            known = self._tables.to_write(table, Operation("WRITE"), reads=True)
            self._tables.scope(table, None)
            self._tables.workspace.share()
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

    def _make(self, statement: Statement, found: Found, args: Any) -> DataFrame:
        """Make a table, with the rows of a query where there is one."""
        created, workspace = statement.created, self._tables.workspace
        if created is None or statement.target is None:
            message = "a statement that makes a table says which"
            raise AssertionError(message)
        name = created_name(statement.target)
        nothing = self.spark.range(0).toDF("id")
        if self._tables.knows(name):
            if created.if_missing:
                return nothing
            what = f"The lake has a table {name} already."
            raise AlreadyExists(what, hint="Choose another name.", table=str(name))
        rows = None
        if created.is_filled:
            with self._running(str(name)):
                query = spelled(self._tables, self._reader, statement, found)
                rows = self._do(query_of(query), args)
        declared = created.columns or ""
        columns = workspace.declared(declared) if rows is None else workspace.columns(rows)
        format_ = created.format or "delta"
        definition = define(
            columns,
            format_,
            partition_by=created.partition_by,
            properties=created.properties,
            constraints={},
            comment=created.comment,
            guard=True,
        )
        with self._running(str(name)):
            word = "CREATE TABLE" if rows is None else "CREATE TABLE AS SELECT"
            target = self._tables.make(name, format_, definition, Operation(word, told(definition)))
            if rows is not None:
                with _later_step():
                    self._insert(name, target, rows)
            return nothing

    def _insert(self, table: TableName, target: str, data: Any) -> None:
        rows = self._frame(table, data)
        columns = ", ".join(map(identifier, rows.columns))
        source = self._named(table, rows)
        self._do(f"INSERT INTO {target} ({columns}) SELECT {columns} FROM {source}")

    def _named(self, table: TableName, rows: DataFrame) -> str:
        """What the rows of a frame are called in a statement that writes a table."""
        settle = self._tables.is_iceberg(table)
        return identifier(self._tables.workspace.named(rows, settle=settle))

    def _frame(self, table: TableName, data: Any) -> DataFrame:
        definition = self._view.member(table, reads=False).change.definition
        return frame_of(self.spark, data, definition, str(table))

    def _do(self, sql: str, args: Any = None) -> DataFrame:
        done = self._tables.workspace.frame(sql, args)
        reach("branch.worked")
        return done

    @contextmanager
    def _running(self, table: str) -> Generator[None]:
        """Run an operation; when it fails, roll the transaction back.

        An operation that Spark refuses before it runs leaves the transaction as it was.
        """
        forget = self._tables.noted()
        try:
            yield
        except NotRun as refused:
            forget()
            raise (translated(refused.error, table) or refused.error) from None
        except BaseException as error:
            self.rollback()
            self._failure = error
            if isinstance(error, Exception) and not isinstance(error, LakewardError):
                known = translated(error, table)
                if known is not None:
                    self._failure = known
                    raise known from error
            raise


@contextmanager
def _later_step() -> Generator[None]:
    """Run a step of an operation whose earlier steps have changed something."""
    try:
        yield
    except NotRun as refused:
        raise refused.error from None


def _without_spark() -> UnsupportedFeature:
    what = "Files are not added or removed by name in a transaction on Spark."
    return UnsupportedFeature(what, hint="Begin one without spark=.")


def _counted(told: DataFrame) -> RowChanges:
    """The numbers of rows that Spark answers a statement with, as far as it does."""
    row = told.first()
    found = {} if row is None else row.asDict()
    changed = found.get(_CHANGED)
    return RowChanges(
        found.get("num_inserted_rows", None if changed is None else 0),
        found.get("num_updated_rows", changed),
        found.get("num_deleted_rows", None if changed is None else 0),
        None,
        None,
    )
