"""The transaction: changes of any number of tables, committed together or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, ClassVar, Self

from lakeward.engines.base import Capability
from lakeward.errors import TransactionClosed
from lakeward.log.database import Session
from lakeward.model import arguments
from lakeward.model.commit import AppTransaction, Head
from lakeward.model.definition import Definition
from lakeward.model.evolution.merging import SchemaMode
from lakeward.model.expressions.when import Actions, Clauses, NewValue, new_values
from lakeward.model.locks import LockMode
from lakeward.model.names import TableName
from lakeward.model.parameters import Params, where_text
from lakeward.write.commit.ratify import OnRatify
from lakeward.write.plan.change import Change, RowChanges, progress_operation
from lakeward.write.stage.remote_files import located
from lakeward.write.transaction.evolving import fitted
from lakeward.write.transaction.lifecycle import CommitResult
from lakeward.write.transaction.staging import Staging
from lakeward.write.transaction.statements import Statements


class Transaction(Statements):
    """Changes to tables that are invisible to others until `commit`, and then visible all at once.

    As a context manager, it commits at the end of the block and rolls back on an error. A
    violation or any other failure of an operation ends the transaction. `async with` returns an
    `AsyncTransaction`, whose operations are awaited.

    In a transaction on Spark, `lake.transaction(spark=…)`, Spark reads and writes the rows: data
    may be Spark frames, `read` returns one, and conditions and values are expressions of Spark.

    Attributes:
        transaction_id: The id that history shows, and that `lake.outcome` takes.
        isolation: The isolation level.
        message: Why it is made; kept with the commit.
    """

    _internal: ClassVar = frozenset({"flows", "note_branch", "on_ratify", "staging", "take_back"})

    # What a user does.

    def append(self, name: str, data: Any, *, schema_mode: str | None = None) -> RowChanges:
        """Append rows; return the counts of changed rows.

        Args:
            name: The table.
            data: An Arrow table, batches or reader, a pandas or Polars frame, a lazy frame, a
                relation of DuckDB, a path or pattern of Parquet, CSV, JSON lines or Arrow files, on
                an object store too (`s3://…`, or `lw.Files`), or a list of dicts; in a transaction
                on Spark a frame of Spark too.
            schema_mode: `merge` adds columns that the table lacks, and widens types.

        Raises:
            SchemaMismatch: The data does not fit the table's schema.
            ConstraintViolation: Rows violate a check of the table.
        """
        if self._is_replay():
            return RowChanges()
        with self._operation(name) as member:
            rows = located(data, self._lifecycle.context.storage)
            with fitted(self._executor, member, rows, schema_mode, SchemaMode.MERGE):
                done = self._executor.append(member, rows)
                self._lifecycle.flows.data(member, data, self._executor.origin(data))
                return done

    def overwrite(
        self,
        name: str,
        data: Any,
        *,
        where: str | None = None,
        params: Params | None = None,
        schema_mode: str | None = None,
    ) -> RowChanges:
        """Replace all rows, or those for which `where` is true; return the counts of changed rows.

        New rows must satisfy `where` too. With `schema_mode="overwrite"` the table's columns are
        replaced by those of the data; with `merge`, new columns of the data are added.
        """
        if self._is_replay():
            return RowChanges()
        with self._operation(name, reads=True) as member:
            allowed = SchemaMode.MERGE if where is not None else SchemaMode.OVERWRITE
            rows = located(data, self._lifecycle.context.storage)
            with fitted(self._executor, member, rows, schema_mode, allowed):
                done = self._executor.overwrite(member, rows, where_text(where, params))
                self._lifecycle.flows.data(member, data, self._executor.origin(data))
                return done

    def delete(self, name: str, *, where: str, params: Params | None = None) -> RowChanges:
        """Delete the rows for which `where` is true; return the counts of changed rows."""
        if self._is_replay():
            return RowChanges()
        with self._operation(name, reads=True) as member:
            return self._executor.delete(member, where_text(where, params) or where)

    def update(
        self,
        name: str,
        *,
        set: Mapping[str, NewValue],  # noqa: A002  SQL's own word
        where: str | None = None,
        params: Params | None = None,
    ) -> RowChanges:
        """Set new values in rows.

        Only files with such rows are rewritten. Columns generated from a changed column are
        computed again. The result has the counts; if a transaction of the same id was ratified
        before, nothing is done again.

        Args:
            name: The table.
            set: Columns with SQL expressions over the row's old values, `{"price": "price * 2"}`,
                or plain values; a text value is quoted, `{"name": "'bob'"}`.
            where: Which rows; all rows when None.
            params: Values for `:name`, by name, or for `?`, in order.

        Raises:
            InvalidExpression: An expression is invalid, or cannot be computed for a row.
            ConstraintViolation: New values violate a check of the table.
        """
        if self._is_replay():
            return RowChanges()
        values, condition = new_values(set, "set"), where_text(where, params)
        with self._operation(name, reads=True) as member:
            done = self._executor.update(member, values, condition)
        self._lifecycle.flows.update(member, values, condition)
        return done

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
        """Merge rows into a table: update, delete and insert rows by a key or a condition.

        `matched`, `not_matched` and `not_matched_by_source` are each an action, or a sequence of
        actions and `When(condition, action)`, of which the first whose condition is true is used.
        Expressions are SQL over `target` and `source` columns. Return the counts of changed rows.

        Args:
            name: The table.
            data: The rows, in any form that `append` takes. Data larger than the lake's
                `merge_memory` is kept in a temporary file meanwhile.
            on: The columns that make the key, or a condition such as
                `target.id = source.id AND target.day >= source.since`.
            matched: What to do with rows of the table that have a partner in the data: `update`
                sets all columns that the data has, `delete` removes the rows, None leaves them; a
                mapping sets columns to expressions.
            not_matched: What to do with rows of the data that have no partner: `insert`, None, or
                a mapping of columns to expressions of `source`.
            not_matched_by_source: What to do with rows of the table that have no partner: `delete`,
                None, or a mapping of columns to expressions of `target`.

        Raises:
            InvalidInput: An action is unknown, or there is no action.
            SchemaMismatch: The data does not fit the table's schema.
            ConstraintViolation: A key with a missing value, two rows of the data for one row of the
                table, or new rows that the table's checks refuse.
        """
        clauses = Clauses.of(matched, not_matched, not_matched_by_source)
        if self._is_replay():
            return RowChanges()
        with self._operation(name, reads=True) as member:
            rows = located(data, self._lifecycle.context.storage)
            done = self._executor.merge(member, rows, on, clauses)
            self._lifecycle.flows.merge(member, data, on, clauses, self._executor.origin(data))
            return done

    def add_files(self, name: str, paths: Sequence[str]) -> None:
        """Add Parquet files that are below the table's location already.

        Each file is checked as appended rows are: schema, required columns and checks.
        """
        self._require(Capability.ADD_FILES)
        if not self._is_replay():
            with self._operation(name) as member:
                member.add_files(paths)
                uri, place = self._lifecycle.context.storage.uri, member.change.head.location
                self._lifecycle.flows.files(member, [uri(f"{place}/{path}") for path in paths])

    def remove_files(self, name: str, paths: Iterable[str]) -> None:
        """Remove files from the table by their paths; the files themselves stay for time travel."""
        self._require(Capability.ADD_FILES)
        if not self._is_replay():
            with self._operation(name, reads=True) as member:
                member.remove_files(list(dict.fromkeys(arguments.texts(paths, "paths"))))

    def record(self, name: str, app_id: str, version: int) -> None:
        """Record a number of an application with the table's commit, such as its progress.

        In Delta tables it is a `txn` action; `Table.app_version` returns the last number.
        """
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

    def sources(self, name: str, *, tables: Sequence[str] = (), files: Sequence[str] = ()) -> None:
        """Record the sources of rows that this transaction writes from a program's memory.

        Lineage shows them; otherwise the source of such rows is unknown. Sources of SQL statements
        are recorded without this.

        Args:
            name: The table that the transaction writes.
            tables: Tables of the lake, at the versions that the transaction sees.
            files: Paths or addresses of files and other sources, without passwords.
        """
        if self._is_replay():
            return
        seen = {}
        for table in arguments.texts(tables, "tables"):
            with self._operation(table, reads=True) as member:
                head = member.change.head
            seen[str(head.name)] = (head.table_id, head.version)
        self._lifecycle.flows.declared(name, seen, arguments.texts(files, "files"))

    def note_branch(self, name: str, branch: str) -> None:
        """Record for lineage that rows of a table were written on a branch by other engines."""
        self._lifecycle.flows.on_branch(name, branch)

    @property
    def flows(self) -> tuple[int, int]:
        """How many sources of rows are recorded, and how many of these are incomplete."""
        return self._lifecycle.flows.count, self._lifecycle.flows.gaps

    def staging(self, name: str) -> Staging:
        """Return a `Staging`, with which threads write rows as files before they are appended."""
        with self._operation(name) as member:
            member.check_writable()
            self._view.register()
        return Staging(member, partial(self._operation, name))

    def on_ratify(self, record: OnRatify, progress: AppTransaction | None = None) -> None:
        """Register a function to call in the database transaction that ratifies this transaction.

        Args:
            record: Called with the session, perhaps more than once. If it raises, the transaction
                is rolled back.
            progress: What `record` records, if it must be in the commit of an open table as well.
        """
        if not self._is_replay():
            self._lifecycle.check_open()
            self._lifecycle.on_ratify.append(record)
            if progress is not None:
                self._lifecycle.progress.append(progress)

    def read(
        self,
        name: str,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        params: Params | None = None,
    ) -> Any:
        """Return the rows as this transaction sees them: its base versions with its changes.

        The result is an Arrow table; in a transaction on Spark it is a Spark frame, whose rows
        later changes of the transaction do not change.
        """
        with self._operation(name, reads=True) as member:
            self._view.audit_read(member)
            return self._executor.read(member, columns, where_text(where, params))

    def lock(self, name: str, *, mode: str = "write", timeout: float | None = None) -> None:
        """Lock a table against changes by others until this transaction ends.

        While it holds a write lock, no other transaction can lock the table or commit a change to
        it. While it holds a read lock, others can also read-lock the table and append to it
        blindly. Reading needs no lock and never waits. A transaction may lock again, and may
        upgrade from read to write. Lock before you read: rows that were read earlier may be
        outdated once the lock is granted.

        Args:
            name: The table.
            mode: `read`, shared with other readers, or `write`, exclusive.
            timeout: How many seconds to wait for others; 0 tries once. By default the table's
                policy (`lock_timeout_seconds`), or 30.

        Raises:
            Locked: Others held the lock until the timeout. The transaction stays open, without the
                lock.
            Deadlock: Transactions wait for each other in a circle, and this one is the victim. It
                is rolled back; `lake.run` runs it again.
            Conflict: The table changed since this transaction read it. It is rolled back.
        """
        table, wanted = TableName.parse(name), LockMode.of(mode)
        patience = None if timeout is None else arguments.number(timeout, "timeout")
        if not self._is_replay():
            self._lifecycle.take_lock(table, wanted, patience)

    def lock_all(self, locks: Mapping[str, str]) -> None:
        """Lock several tables in the order of their names, so that such calls never deadlock.

        Args:
            locks: `read` or `write` for each table. The wait for each lock is limited by the
                transaction's `lock_timeout`.

        Raises:
            Locked: Others held a lock until the timeout. The transaction stays open.
        """
        wanted = {
            TableName.parse(name): LockMode.of(mode)
            for name, mode in arguments.mapping(locks, "locks").items()
        }
        for name in sorted(wanted):
            self.lock(str(name), mode=wanted[name], timeout=self._lifecycle.lock_timeout)

    def commit(self) -> CommitResult:
        """Commit all changes at once, and publish them.

        It waits for locks of other transactions on the tables. Calling it again returns the same
        result.

        Raises:
            Conflict: Others changed what this transaction read or changed. Nothing was committed.
            Locked: Another transaction held a lock until the timeout. Nothing was committed.
            OutcomeUnknown: The store did not respond. Ask `lake.outcome` by the transaction's id.
        """
        return self._lifecycle.commit()

    def rollback(self) -> None:
        """Roll the transaction back: no table changes, and the files staged so far are deleted."""
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

    def _register(self, check: Callable[[Session], object]) -> None:
        """Register the transaction in the store, unless `check` raises in the same session."""
        self._lifecycle.check_open()
        self._lifecycle.registered.look(check)

    def _begin_at(self, head: Head, definition: Definition) -> Change:
        """Return the change of a table that is based on a given head and definition."""
        self._lifecycle.check_open()
        self._view.register()
        return self._view.begin_at(head, definition).change
