"""The operations of a transaction on Spark: SQL and frames, on branches of the transaction.

Before the commit, the net effect of each branch becomes the change of its table, and Spark
validates the new rows. All tables, of both formats, are then ratified together, as in any other
transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

import pyarrow as pa

from lakeward.engines.arrow.like import schema_of_rows
from lakeward.engines.base import SPARK, Engine
from lakeward.engines.spark.failures import NotRun, translated
from lakeward.engines.spark.parameters import with_values
from lakeward.engines.spark.parse_statement import read_statement
from lakeward.engines.spark.statement import Kind, Statement
from lakeward.errors import LakewardError
from lakeward.model.commands import Command, read_command
from lakeward.model.evolution.alterations import Alteration
from lakeward.model.expressions.render import render
from lakeward.model.expressions.when import Clauses
from lakeward.model.expressions.where import parse
from lakeward.model.lineage.origin import Origin
from lakeward.model.names import TableName
from lakeward.model.quoting import identifier
from lakeward.model.steps import reach
from lakeward.read.scan import check_columns
from lakeward.read.snapshot import TableSnapshot
from lakeward.write.plan.change import Operation, RowChanges, merge_parameters
from lakeward.write.spark.altering import evolved_merge, planned
from lakeward.write.spark.commands import Commands
from lakeward.write.spark.creating import Creation, later_step, unchanged
from lakeward.write.spark.frames import frame_of, merge_sql, update_sql
from lakeward.write.spark.origins import Origins
from lakeward.write.spark.sources import Found, Reader
from lakeward.write.spark.sql import found_tables, rewritten
from lakeward.write.spark.staged_changes import StagedChanges, with_changes
from lakeward.write.spark.tables import SparkTables
from lakeward.write.spark.validate import refuse
from lakeward.write.transaction.executor import NothingDone
from lakeward.write.transaction.member import Member
from lakeward.write.transaction.transaction import Transaction
from lakeward.write.transaction.view import View

if TYPE_CHECKING:
    from lakeward.engines.spark.workspace import DataFrame, SparkSession
    from lakeward.write.transaction.seen import NewTable

_CHANGED: Final = "num_affected_rows"
_UNCOUNTED: Final = RowChanges(None, None, None, None, None)
"""The counts of an insert, all unknown, because Spark reports none."""


class SparkExecutor:
    """Executes the operations of a transaction by SQL in a session of Spark.

    Statements read tables at one cut, with the changes of the transaction.
    """

    engine: ClassVar[Engine] = SPARK

    def __init__(self, view: View, *, spark: SparkSession) -> None:
        self.context = view.context
        self.tables = SparkTables(view, spark)
        self.reader = Reader(self.tables)
        self.changes = StagedChanges(view)
        self.origins = Origins(view)

    @property
    def session(self) -> SparkSession:
        """The session of the transaction: a copy of the user's, with the tables registered."""
        return self.tables.workspace.session

    def statement(self, text: str, values: Mapping[str, Any]) -> Statement | Command:
        """Parse a statement; replace `{name}` by values and `table_changes(…)` by rows."""
        if values:
            named = self.tables.workspace.named
            text = with_values(self.session, text, values, lambda f: identifier(named(f)))
        text = with_changes(self.tables, self.changes, text)
        return read_command(text) or read_statement(text)

    def nothing(self) -> DataFrame:
        """Return a frame without rows."""
        return self.session.range(0).toDF("id")

    def run(self, statement: Statement | Command, args: Any) -> DataFrame:
        """Run a statement, with the names of its tables in the session, and return its result."""
        self.origins.clear()
        if not isinstance(statement, Statement):
            return Commands(self).run(statement, args)
        # Looked up first, so that a statement that is refused has changed nothing.
        with unchanged():
            found = found_tables(self.context, self.tables, statement)
        if statement.kind is Kind.CREATE:
            return Creation(self).run(statement, found, args)
        with self.running(str(found.get(statement.target.start)) if statement.target else ""):
            text = rewritten(self.tables, self.reader, statement, found)
            step: AbstractContextManager[None] = nullcontext()
            if statement.evolves and statement.target is not None:
                table = found[statement.target.start]
                text, is_altered = evolved_merge(
                    self.tables, self.alter_all, statement, table, text, args
                )
                step = later_step() if is_altered else step
            with step:
                done = self.do(text, args)
            if statement.kind is Kind.VIEW:
                self.reader.note_view(statement, found, args)
            self._note_origins(statement, found, done)
            if statement.asks and _CHANGED in done.columns:
                # It may have run as a MERGE, which counts more.
                return done.select(_CHANGED)
            return done

    def create(self, name: TableName, columns: Any, asked: NewTable) -> None:
        """Create an empty table that the transaction may fill."""
        Creation(self).make(name, columns, asked)

    def alter(self, member: Member, asked: Sequence[Alteration]) -> None:
        """Alter a table's definition; if an alteration is refused, the transaction stays open."""
        self.alter_all(member.change.head.name, asked)

    def columns_of(self, data: Any, known: Collection[str]) -> tuple[pa.Schema, bool]:
        """Return the columns of a frame or of other data, and whether the data itself has types."""
        if not hasattr(data, "_jdf"):
            return schema_of_rows(data, known)
        with unchanged():
            return self.tables.workspace.columns(data), True

    def alter_all(
        self, table: TableName, asked: Sequence[Alteration], if_needed: Collection[int] = ()
    ) -> None:
        """Apply all alterations to a table's definition, or none of them.

        Those at the positions `if_needed` are left out if they would change nothing.
        """
        with self.running(str(table)):
            forget = self.tables.savepoint()
            try:
                found = planned(self.context, self.tables, table, asked, if_needed)
            except LakewardError as error:
                forget()
                raise NothingDone(error) from error
            for one, came_to in found:
                self.tables.redefine(table, one, came_to)

    def origin(self, data: Any) -> Origin | None:
        """Return the sources of a frame's rows, or of rows of a table of a lake."""
        if hasattr(data, "_jdf"):
            return self.origins.of_frame(data)
        found = getattr(data, "_lineage_origin", None)
        return None if found is None else found()

    def drop(self, name: TableName) -> None:
        """Drop a table when the transaction commits."""
        self.tables.drop(name)

    def explain(self, statement: Statement, mode: str, args: Any) -> DataFrame:
        """Return the plan of a statement as a frame, without running it."""
        with unchanged():
            found = found_tables(self.context, self.tables, statement)
        with self.running(""):
            forget = self.tables.savepoint()
            text = rewritten(self.tables, self.reader, statement, found)
            forget()
            return self.tables.workspace.frame(f"EXPLAIN {mode} {text}", args)

    def read(self, member: Member, columns: Sequence[str] | None, where: str | None) -> DataFrame:
        """Return the rows that the transaction sees now, as a frame of its session."""
        table, definition = member.change.head.name, member.change.definition
        with self.running(str(table)):
            check_columns(columns, definition, str(table))
            rows = self.tables.workspace.frame(f"SELECT * FROM {self.reader.frame_of(table)}")
            if where is not None:
                rows = rows.where(render(parse(where, definition.schema)))
            return rows if columns is None else rows.select(*map(identifier, columns))

    def append(self, member: Member, data: Any) -> RowChanges:
        """Insert rows on the table's branch."""
        table = member.change.head.name
        with self.running(str(table)):
            target = self.tables.to_append(table, Operation("WRITE", {"mode": "Append"}))
            self.insert(table, target, data)
        return _UNCOUNTED

    def overwrite(self, member: Member, data: Any, where: str | None) -> RowChanges:
        """Replace all rows on the table's branch, or those for which a condition is true."""
        table, definition = member.change.head.name, member.change.definition
        with self.running(str(table)):
            rows = self._frame(table, data)
            parameters = {"mode": "Overwrite", **_predicate(where)}
            target = self.tables.to_write(table, Operation("WRITE", parameters), reads=True)
            scope = None if where is None else parse(where, definition.schema)
            self.tables.scope(table, scope)
            if where is not None:
                # No check of the table can have this name.
                refuse(rows, {"overwrite where": where}, definition, str(table))
            if self.tables.workspace.is_live(rows):
                # Rows that are read from the table itself must be had before they go; frames of
                # `tx.read` and `tx.sql` keep them.
                rows = rows.localCheckpoint()
            condition = "" if scope is None else f" WHERE {render(scope)}"
            self.do(f"DELETE FROM {target}{condition}")
            with later_step():
                self.insert(table, target, rows)
        return _UNCOUNTED

    def delete(self, member: Member, where: str) -> RowChanges:
        """Delete the rows on the table's branch for which a condition is true."""
        table = member.change.head.name
        with self.running(str(table)):
            operation = Operation("DELETE", {"predicate": where})
            target = self.tables.to_write(table, operation, reads=True)
            scope = parse(where, member.change.definition.schema)
            self.tables.scope(table, scope)
            done = _counted(self.do(f"DELETE FROM {target} WHERE {render(scope)}"))
        return RowChanges(0, 0, done.updated, None, None)

    def update(self, member: Member, values: Mapping[str, str], where: str | None) -> RowChanges:
        """Set columns of rows on the table's branch to new values."""
        table, schema = member.change.head.name, member.change.definition.schema
        with self.running(str(table)):
            operation = Operation("UPDATE", _predicate(where))
            target = self.tables.to_write(table, operation, reads=True)
            scope = None if where is None else parse(where, schema)
            statement = update_sql(schema, values, target=target, table=str(table), where=scope)
            self.tables.scope(table, scope)
            return _counted(self.do(statement))

    def merge(
        self, member: Member, data: Any, on: str | Sequence[str], clauses: Clauses
    ) -> RowChanges:
        """Merge rows on the table's branch; Spark counts rows only of Delta tables."""
        table = member.change.head.name
        with self.running(str(table)):
            rows = self._frame(table, data, is_source=not clauses.copies)
            operation = Operation("MERGE", merge_parameters(on, clauses))
            target = self.tables.to_write(table, operation, reads=True)
            statement = merge_sql(
                member.change.definition.schema,
                rows.columns,
                target=target,
                source=self._named(table, rows),
                table=str(table),
                on=on,
                clauses=clauses,
            )
            self.tables.scope(table, None)
            return _counted(self.do(statement))

    def name(self, member: Member) -> str:
        """Return the name of a table in the session; its use may change any rows of the table."""
        table = member.change.head.name
        with self.running(str(table)):
            known = self.tables.to_write(table, Operation("WRITE"), reads=True)
            self.tables.scope(table, None)
            return self.tables.workspace.share(known)

    def prepare(self) -> None:
        """Add the net effects of the branches to the tables' changes."""
        self.tables.finish()

    def end(self, *, committed: bool | None) -> None:
        """Delete files of the branches that no commit needs, and close the session.

        If `committed` is None, the outcome is unknown and the branches are kept.
        """
        with suppress(LakewardError):
            # What cannot be deleted now is deleted when the lake is opened again.
            self.changes.delete()
        if committed:
            self.tables.committed()
        elif committed is None:
            self.tables.close()
        else:
            self.tables.discard()

    def insert(self, table: TableName, target: str, data: Any) -> None:
        """Insert rows into a table; `target` is its name in Spark."""
        rows = self._frame(table, data)
        columns = ", ".join(map(identifier, rows.columns))
        source = self._named(table, rows)
        self.do(f"INSERT INTO {target} ({columns}) SELECT {columns} FROM {source}")

    def _note_origins(self, statement: Statement, found: Found, done: DataFrame) -> None:
        """Record the sources of rows that a statement adds, or that the views it reads have."""
        target = None if statement.target is None else found.get(statement.target.start)
        if target is not None and statement.kind in (Kind.INSERT, Kind.OVERWRITE):
            self.origins.note_written(target, done)
        elif target is not None:
            views = [r for r in statement.tables if found.get(r.start) is None and not r.writes]
            for ref in views:
                rows = self.tables.workspace.frame(f"SELECT * FROM {identifier(*ref.parts)}")
                self.origins.note_view(str(ref), rows)

    def _named(self, table: TableName, rows: DataFrame) -> str:
        """Return the name of a frame's rows for a statement that writes a table."""
        as_is = self.tables.format(table).takes_vectors
        return identifier(self.tables.workspace.named(rows, resolve=not as_is))

    def _frame(self, table: TableName, data: Any, *, is_source: bool = False) -> DataFrame:
        definition = self.tables.definition(table)
        return frame_of(self.session, data, definition, str(table), is_source=is_source)

    def do(self, sql: str, args: Any = None) -> DataFrame:
        """Run a statement in Spark and return its result."""
        done = self.tables.workspace.frame(sql, args)
        reach("branch.worked")
        return done

    @contextmanager
    def running(self, table: str) -> Generator[None]:
        """Run an operation; raise the Lakeward error that corresponds to an error of Spark, if any.

        An operation that Spark refuses before it runs leaves the transaction unchanged.
        """
        forget = self.tables.savepoint()
        try:
            yield
        except NotRun as refused:
            forget()
            raise NothingDone(translated(refused.error, table) or refused.error) from None
        except LakewardError:
            raise
        except Exception as error:
            known = translated(error, table)
            if known is not None:
                raise known from error
            raise


def append_once(
    tx: Transaction, name: str, data: DataFrame, schema_mode: str | None
) -> DataFrame | None:
    """Append rows; return a frame that reads the written rows instead of computing them again.

    Return None and append nothing if the branch contains other rows too: for Iceberg tables, and
    for tables that the transaction has used before; also if the transaction is a replay.
    """
    executor, table = cast(SparkExecutor, tx._executor), TableName.parse(name)
    if tx._is_replay() or not executor.tables.is_untouched(table):
        return None
    tx.append(name, data, schema_mode=schema_mode)
    return executor.tables.added(table)


def changes_of(
    tx: Transaction, name: str, since: int, *, skip: AbstractSet[int], key: Sequence[str]
) -> DataFrame:
    """Return the committed changes of a table from `since` to the version the transaction sees."""
    executor, table = cast(SparkExecutor, tx._executor), TableName.parse(name)
    return changes_until(tx, executor.tables.snapshot(table), since, key=key, skip=skip)


def changes_until(
    tx: Transaction,
    until: TableSnapshot,
    since: int,
    *,
    skip: AbstractSet[int],
    key: Sequence[str] = (),
) -> DataFrame:
    """Return the committed changes of a table from `since` to a version."""
    executor = cast(SparkExecutor, tx._executor)
    return executor.changes.frame(executor.session, until, since, key=key, skip=skip)


def _predicate(where: str | None) -> dict[str, str]:
    return {} if where is None else {"predicate": where}


def _counted(answer: DataFrame) -> RowChanges:
    """Return the row counts in the result of a statement; None for those that it lacks."""
    row = answer.first()
    found = {} if row is None else row.asDict()
    changed = found.get(_CHANGED)
    return RowChanges(
        found.get("num_inserted_rows", None if changed is None else 0),
        found.get("num_updated_rows", changed),
        found.get("num_deleted_rows", None if changed is None else 0),
        None,
        None,
    )
