"""The transaction: what a user changes in any number of tables, committed as one or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, ClassVar, Self

from lakeward.engines.base import Capability
from lakeward.errors import TransactionClosed
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

    _internal: ClassVar = frozenset({"on_ratify", "staging", "take_back"})

    # What a user does.

    def append(self, name: str, data: Any, *, schema_mode: str | None = None) -> RowChanges:
        """Add rows; return how many.

        Args:
            name: The table.
            data: An Arrow table, batches or reader, a pandas or Polars frame, a lazy frame, a
                relation of DuckDB, a path or pattern of Parquet, CSV, JSON lines or Arrow files, on
                an object store too (`s3://…`, or `lw.Files`), or a list of dicts; in a transaction
                on Spark a frame of Spark too.
            schema_mode: `merge` adds columns that the table lacks, and widens types.

        Raises:
            SchemaMismatch: The data does not fit the table's schema.
            ConstraintViolation: Rows that the table's checks refuse.
        """
        if self._is_replay():
            return RowChanges()
        with self._operation(name) as member:
            rows = located(data, self._lifecycle.context.storage)
            with fitted(self._executor, member, rows, schema_mode, SchemaMode.MERGE):
                self._lifecycle.flows.data(name, data)
                return self._executor.append(member, rows)

    def overwrite(
        self,
        name: str,
        data: Any,
        *,
        where: str | None = None,
        params: Params | None = None,
        schema_mode: str | None = None,
    ) -> RowChanges:
        """Replace all rows, or those for which `where` is true, which new rows must satisfy too.

        With `schema_mode="overwrite"` the table gets the data's columns, with `merge` those too.
        """
        if self._is_replay():
            return RowChanges()
        with self._operation(name, reads=True) as member:
            allowed = SchemaMode.MERGE if where is not None else SchemaMode.OVERWRITE
            rows = located(data, self._lifecycle.context.storage)
            with fitted(self._executor, member, rows, schema_mode, allowed):
                self._lifecycle.flows.data(name, data)
                return self._executor.overwrite(member, rows, where_text(where, params))

    def delete(self, name: str, *, where: str, params: Params | None = None) -> RowChanges:
        """Delete the rows for which `where` is true; return how many."""
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
                or plain values; text as a value has its own quotes, `{"name": "'bob'"}`.
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
        """Bring rows together with those of a table.

        Each of the three is an action, or a sequence of actions and `When(condition, action)`, of
        which the first that holds counts. Expressions are SQL over `target` and `source` columns.
        Returns counts of the changed rows.

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
            rows = located(data, self._lifecycle.context.storage)
            self._lifecycle.flows.data(name, data)
            return self._executor.merge(member, rows, on, clauses)

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

    def sources(self, name: str, *, tables: Sequence[str] = (), files: Sequence[str] = ()) -> None:
        """Record where rows come from that this transaction writes from a program's memory.

        Lineage shows it; without it their source is unknown. What SQL reads is known anyway.

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
        self,
        name: str,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        params: Params | None = None,
    ) -> Any:
        """The rows as this transaction sees them: its base versions with its own changes.

        An Arrow table; in a transaction on Spark a frame of its session, which later changes of
        the transaction do not change.
        """
        with self._operation(name, reads=True) as member:
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

    def _begin_at(self, head: Head, definition: Definition) -> Change:
        """The change of a table from a version of the caller's choice."""
        self._lifecycle.check_open()
        self._view.register()
        return self._view.begin_at(head, definition).change
