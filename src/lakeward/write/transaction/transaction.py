"""The transaction: what a user changes in any number of tables, committed as one or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, ClassVar, Self, cast

from lakeward.engines.base import Capability, unsupported
from lakeward.errors import TransactionClosed
from lakeward.model import arguments
from lakeward.model.commit import AppTransaction, Head
from lakeward.model.definition import Definition
from lakeward.model.evolution.alterations import Alteration
from lakeward.model.evolution.merging import SchemaMode
from lakeward.model.expressions.when import Actions, Clauses, NewValue, new_values
from lakeward.model.locks import PATIENCE_SECONDS, LockMode
from lakeward.model.names import TableName
from lakeward.write.alter.alter import depends_on_rows
from lakeward.write.alter.builder import Alter
from lakeward.write.commit.ratify import OnRatify
from lakeward.write.plan.change import Change, RowChanges, progress_operation
from lakeward.write.transaction.evolving import fit_schema
from lakeward.write.transaction.executor import SqlExecutor
from lakeward.write.transaction.lifecycle import CommitResult, Lifecycle, Operating
from lakeward.write.transaction.member import Member
from lakeward.write.transaction.staging import Staging
from lakeward.write.transaction.standing import Standing


class Transaction(Standing):
    """Changes to tables that nobody sees until `commit`, and then everybody sees at once.

    Used as a context manager it commits at the end of the block and rolls back on an error. A
    violation or any other failure of an operation ends the transaction. `async with` gives an
    `AsyncTransaction`, whose operations are awaited.

    In a transaction on Spark, `lake.transaction(spark=…)`, Spark reads and writes the rows: data
    may be its frames, rows that are read are one, and conditions and values are its expressions.

    Attributes:
        transaction_id: By which `lake.outcome` and history know it.
        isolation: Its isolation level.
        message: Why it is made; kept with the commit.
    """

    _internal: ClassVar = frozenset({"on_ratify", "staging"})

    def __init__(self, lifecycle: Lifecycle) -> None:
        super().__init__(lifecycle)
        self._executor = lifecycle.executor

    # What a user does.

    def append(self, name: str, data: Any, *, schema_mode: str | None = None) -> RowChanges:
        """Add rows; the answer tells how many.

        Args:
            name: The table.
            data: An Arrow table, batches or reader, a pandas or Polars frame, a lazy frame, a
                relation of DuckDB, a path or pattern of Parquet, CSV, JSON lines or Arrow files, or
                a list of dicts; in a transaction on Spark a frame of Spark too.
            schema_mode: `merge` adds columns that the table lacks, and widens types.

        Raises:
            SchemaMismatch: The data does not fit the table's schema.
            ConstraintViolation: Rows that the table's checks refuse.
        """
        if self._is_replay():
            return RowChanges()
        with self._operation(name) as member:
            fit_schema(self._executor.alter, member, data, schema_mode, SchemaMode.MERGE)
            return self._executor.append(member, data)

    def overwrite(
        self, name: str, data: Any, *, where: str | None = None, schema_mode: str | None = None
    ) -> RowChanges:
        """Replace all rows, or those for which `where` is true, which new rows must satisfy too.

        With `schema_mode="overwrite"` the table gets the data's columns, with `merge` those too.
        """
        if self._is_replay():
            return RowChanges()
        with self._operation(name, reads=True) as member:
            allowed = SchemaMode.MERGE if where is not None else SchemaMode.OVERWRITE
            fit_schema(self._executor.alter, member, data, schema_mode, allowed)
            return self._executor.overwrite(member, data, where)

    def delete(self, name: str, *, where: str) -> RowChanges:
        """Delete the rows for which `where` is true; the answer tells how many."""
        if self._is_replay():
            return RowChanges()
        with self._operation(name, reads=True) as member:
            return self._executor.delete(member, where)

    def update(
        self,
        name: str,
        *,
        set: Mapping[str, NewValue],  # noqa: A002  SQL's own word
        where: str | None = None,
    ) -> RowChanges:
        """Give rows new values.

        Only files that have such rows are written again. What is generated from a column is
        computed anew. The answer tells what was done; of a transaction that was ratified before,
        under the same id, nothing is done again.

        Args:
            name: The table.
            set: Columns with SQL expressions of the row as it was, `{"price": "price * 2"}`, or
                plain values; text as a value has quotes of its own, `{"name": "'bob'"}`.
            where: Which rows; all of them when None.

        Raises:
            InvalidExpression: An expression that does not fit, or cannot be computed for a row.
            ConstraintViolation: New values that the table's checks refuse.
        """
        if self._is_replay():
            return RowChanges()
        with self._operation(name, reads=True) as member:
            return self._executor.update(member, new_values(set, "set"), where)

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
        """Bring rows together with those of a table.

        Each of the three is an action, or a sequence of actions and `When(condition, action)`, of
        which the first that holds counts. Expressions are SQL over `target` and `source` columns.
        The answer tells what was done.

        Args:
            name: The table.
            data: The rows, in any form that `append` takes. What is larger than the lake's
                `merge_memory` is kept in a temporary file meanwhile.
            on: The columns that make the key, or a condition such as
                `target.id = source.id AND target.day >= source.since`.
            matched: What becomes of rows of the table that have a partner: `update` sets all
                columns that the data has, `delete` removes them, None leaves them; a mapping sets
                columns to expressions.
            not_matched: What becomes of rows of the data that have none: `insert`, None, or a
                mapping of columns to expressions of `source`.
            not_matched_by_source: What becomes of rows of the table that have none: `delete`,
                None, or a mapping of columns to expressions of `target`.

        Raises:
            InvalidInput: An action that there is none of, or nothing to do.
            SchemaMismatch: The data does not fit the table's schema.
            ConstraintViolation: A key with a missing value, two rows of the data for one row of the
                table, or new rows that the table's checks refuse.
        """
        clauses = Clauses.of(matched, not_matched, not_matched_by_source)
        if self._is_replay():
            return RowChanges()
        with self._operation(name, reads=True) as member:
            return self._executor.merge(member, data, on, clauses)

    def alter(self, name: str) -> Alter:
        """Change a table's columns, properties and checks: for this transaction from now on."""

        def do(asked: Alteration) -> None:
            if not self._is_replay():
                with self._operation(name, reads=depends_on_rows(asked)) as member:
                    self._executor.alter(member, asked)

        return Alter(do)

    def add_files(self, name: str, paths: Sequence[str]) -> None:
        """Add Parquet files that lie below the table's location already.

        Each is checked like appended rows are: schema, required columns and checks.
        """
        self._require(Capability.ADD_FILES)
        if not self._is_replay():
            with self._operation(name) as member:
                member.add_files(paths)

    def remove_files(self, name: str, paths: Iterable[str]) -> None:
        """Remove files from the table by their paths; the files themselves stay for time travel."""
        self._require(Capability.ADD_FILES)
        if not self._is_replay():
            with self._operation(name, reads=True) as member:
                member.remove_files(list(dict.fromkeys(arguments.texts(paths, "paths"))))

    def record(self, name: str, app_id: str, version: int) -> None:
        """Record an application's own progress with the table's commit (Delta's `txn`)."""
        arguments.text(app_id, "app_id")
        arguments.whole(version, "version")
        if self._is_replay():
            return
        with self._operation(name) as member:
            done = member.change.app_transactions
            done[:] = [a for a in done if a.app_id != app_id]
            done.append(AppTransaction(app_id, version))
            if not member.change.operations:
                member.change.operations.append(progress_operation(done[-1]))

    def staging(self, name: str) -> Staging:
        """Begin to write rows of a table as files, in any threads, ahead of their operation."""
        with self._operation(name) as member:
            member.check_writable()
            self._view.register()
        return Staging(member, partial(self._operation, name))

    def on_ratify(self, record: OnRatify) -> None:
        """Have something recorded in the database transaction that ratifies this one.

        Args:
            record: Called with the session, perhaps more than once. What it raises ends the
                transaction, and nothing is committed.
        """
        if not self._is_replay():
            self._lifecycle.check_open()
            self._lifecycle.on_ratify.append(record)

    def read(
        self, name: str, *, columns: Sequence[str] | None = None, where: str | None = None
    ) -> Any:
        """The rows as this transaction sees them: its base versions with its own changes.

        An Arrow table; in a transaction on Spark a frame of its session, which later changes of
        the transaction do not change.
        """
        with self._operation(name, reads=True) as member:
            return self._executor.read(member, columns, where)

    @property
    def spark(self) -> Any:
        """The Spark session of the transaction: a copy of the one given, which knows its tables.

        Raises:
            UnsupportedFeature: The transaction was begun without Spark.
        """
        return self._sql().session

    def name(self, name: str) -> str:
        """What a table is called in the Spark session, for writers that take a name.

        `frame.write.insertInto(tx.name("sales.orders"))`, with a frame of the session that the
        transaction was given or of `tx.spark`. What is done by that name is committed with the
        transaction, and taken to be about the whole table. Columns and properties must stay.

        Raises:
            UnsupportedFeature: The transaction was begun without Spark.
        """
        executor = self._sql()
        with self._operation(name, reads=True) as member:
            return executor.name(member)

    def sql(
        self,
        text: str,
        /,
        args: Mapping[str, Any] | Sequence[Any] | None = None,
        **values: Any,
    ) -> Any:
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
            UnsupportedFeature: The transaction was begun without Spark, or the statement would or
                might change something outside it; says why. The transaction stays open.
            TableNotFound: It names a table that is not there.
        """
        executor = self._sql()
        statement = executor.statement(text, values)
        if statement.changes and self._is_replay():
            return executor.nothing()
        with self._lifecycle.running():
            return executor.run(statement, args)

    def lock(self, name: str, *, mode: str = "write", timeout: float = PATIENCE_SECONDS) -> None:
        """Keep others from changing a table until this transaction ends.

        While it is held for writing nobody else locks or commits a change to the table. While it is
        held for reading others may read-lock it and append without looking at it. Reading needs no
        lock and is never kept waiting. A transaction may ask again, and may go from reading to
        writing. Lock before you look: what was read before may be old by the time the lock is had.

        Args:
            name: The table.
            mode: `read`, shared with other readers, or `write`, alone.
            timeout: How many seconds to wait for others; 0 tries once.

        Raises:
            Locked: Others held it to the end. The transaction stays open, without the lock.
            Deadlock: Transactions wait for each other in a circle, and this one must give way. It
                is rolled back; `lake.run` runs it again.
            Conflict: The table changed since this transaction looked at it. It is rolled back.
        """
        table, wanted = TableName.parse(name), LockMode.of(mode)
        patience = arguments.number(timeout, "timeout")
        if not self._is_replay():
            self._lifecycle.take_lock(table, wanted, patience)

    def lock_all(self, locks: Mapping[str, str]) -> None:
        """Lock several tables, by the order of their names: who all do so never deadlock.

        Args:
            locks: `read` or `write` for each table. Each is waited for as long as the transaction
                was begun with.

        Raises:
            Locked: Others held one to the end. The transaction stays open.
        """
        wanted = {
            TableName.parse(name): LockMode.of(mode)
            for name, mode in arguments.mapping(locks, "locks").items()
        }
        for name in sorted(wanted):
            self.lock(str(name), mode=wanted[name], timeout=self._lifecycle.lock_timeout)

    def commit(self) -> CommitResult:
        """Make every change true at once, and publish it.

        A table that another transaction holds is waited for. Calling it again returns the same
        result.

        Raises:
            Conflict: Others changed what this transaction touched. Nothing was committed.
            Locked: Another transaction held a table to the end. Nothing was committed.
            OutcomeUnknown: The store stayed silent. Ask `lake.outcome` by the transaction's id.
        """
        return self._lifecycle.commit()

    def rollback(self) -> None:
        """Undo everything: no table changed, and the files staged so far are deleted."""
        self._lifecycle.rollback()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self.rollback()
        elif self._lifecycle.failure is not None:
            what = f"Transaction {self.transaction_id} was rolled back: an operation in it failed."
            hint = "Let the error end the block, or call rollback() to give up."
            raise TransactionClosed(
                what, hint=hint, transaction_id=self.transaction_id, state=self._lifecycle.state
            ) from self._lifecycle.failure
        elif self.is_open:
            self.commit()

    # How it is done.

    def _is_replay(self) -> bool:
        return self._lifecycle.is_replay()

    def _operation(self, name: str, *, reads: bool = False) -> Operating[Member]:
        self._lifecycle.check_open()
        return self._lifecycle.operation(TableName.parse(name), reads=reads)

    def _begin_at(self, head: Head, definition: Definition) -> Change:
        """The change of a table from a version of the caller's choice."""
        self._lifecycle.check_open()
        self._view.register()
        return self._view.begin_at(head, definition).change

    def _require(self, needed: Capability) -> None:
        if needed not in self._executor.engine.can:
            raise unsupported(self._executor.engine, needed)

    def _sql(self) -> SqlExecutor:
        self._require(Capability.RUN_SQL)
        return cast(SqlExecutor, self._executor)
