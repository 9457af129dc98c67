"""The transaction: what a user changes in any number of tables, committed as one or not at all."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, ClassVar, Final, Self

import pyarrow as pa

from lakeward.context import LakeContext
from lakeward.errors import (
    InvalidInput,
    LakewardError,
    Locked,
    OutcomeUnknown,
    TransactionClosed,
    UnsupportedFeature,
)
from lakeward.log import heads
from lakeward.log.database import Session
from lakeward.model import arguments
from lakeward.model.commit import (
    AppTransaction,
    Head,
    Isolation,
    TransactionState,
    new_transaction_id,
)
from lakeward.model.definition import Definition
from lakeward.model.expressions.when import Actions, Clauses
from lakeward.model.expressions.where import parse
from lakeward.model.locks import LockMode
from lakeward.model.names import TableName
from lakeward.model.steps import reach
from lakeward.read.scan import check_columns
from lakeward.write.commit.background import BackgroundWorker
from lakeward.write.commit.drift import take_over
from lakeward.write.commit.outcome import Outcome, happened, outcome, recorded
from lakeward.write.commit.ratify import OnRatify
from lakeward.write.plan.change import Change, Operation, progress_operation, write_operation
from lakeward.write.plan.merge_source import source_of
from lakeward.write.plan.row_changes import RowChanges, merge_told
from lakeward.write.plan.row_plan import merge_plan, update_plan
from lakeward.write.stage import added_files as adding
from lakeward.write.transaction.committing import CommitResult, Committing, commit_event
from lakeward.write.transaction.hooks import Hooks
from lakeward.write.transaction.leases import LeaseKeeper
from lakeward.write.transaction.locking import PATIENCE_SECONDS, TableLocks
from lakeward.write.transaction.member import Member
from lakeward.write.transaction.registration import Registered
from lakeward.write.transaction.resolve import Resolver
from lakeward.write.transaction.staging import Staging
from lakeward.write.transaction.strategy import LastWriterWins, OnConflict, Strategies
from lakeward.write.transaction.view import View

_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")
_ISOLATIONS: Final = ", ".join(i.value for i in Isolation)


class Transaction:
    """Changes to tables that nobody sees until `commit`, and then everybody sees at once.

    Used as a context manager it commits at the end of the block and rolls back on an error. A
    violation or any other failure of an operation ends the transaction.
    """

    _replays: ClassVar[bool] = True
    """Whether its changes can be made again on a newer version."""

    def __init__(
        self,
        context: LakeContext,
        keeper: LeaseKeeper,
        background: BackgroundWorker,
        *,
        isolation: str = "snapshot",
        message: str | None = None,
        transaction_id: str | None = None,
        attempts: int = 1,
        on_conflict: OnConflict | None = None,
        reruns: bool = False,
        hooks: Hooks | None = None,
        lock_timeout: float = PATIENCE_SECONDS,
    ) -> None:
        self._context = context
        self.transaction_id = _checked_id(transaction_id)
        self.isolation = checked_isolation(isolation)
        self._strategies = Strategies.of(
            on_conflict, self.isolation, reruns=reruns, replays=self._replays
        )
        self.message = arguments.optional_text(message, "message")
        self._chosen_id = transaction_id is not None
        self._registered = Registered(
            context, keeper, self.transaction_id, isolation=self.isolation, message=self.message
        )
        self._view = View(context, self.transaction_id, self.isolation, self._registered)
        self._lock_timeout = arguments.number(lock_timeout, "lock_timeout")
        self._locks = TableLocks(context, self.transaction_id, self._registered.ensure)
        self._committing = Committing(
            context=context,
            background=background,
            transaction_id=self.transaction_id,
            isolation=self.isolation,
            message=self.message,
            attempts=attempts,
            lock_timeout=self._lock_timeout,
            view=self._view,
            registered=self._registered,
            locks=self._locks,
            resolver=Resolver(context, self.transaction_id, self._view, self._strategies),
            hooks=hooks,
        )
        self._state = TransactionState.OPEN
        self._result: CommitResult | None = None
        self._failure: BaseException | None = None

    # What a user does.

    def append(self, name: str, data: Any) -> None:
        """Add rows.

        Args:
            name: The table.
            data: An Arrow table, batches or reader, a pandas or Polars frame, or a list of dicts.

        Raises:
            SchemaMismatch: The data does not fit the table's schema.
            ConstraintViolation: Rows that the table's checks refuse.
        """
        if self._is_replay():
            return
        with self._operation(name) as member:
            change = member.change
            member.add(member.stage(data))
            change.operations.append(write_operation("Append", change))

    def overwrite(self, name: str, data: Any, *, where: str | None = None) -> None:
        """Replace all rows, or those for which `where` is true, which new rows must satisfy too."""
        if self._is_replay():
            return
        with self._operation(name, reads=True) as member:
            member.overwrite(data, where)

    def delete(self, name: str, *, where: str) -> None:
        """Delete the rows for which `where` is true."""
        if self._is_replay():
            return
        with self._operation(name, reads=True) as member:
            scope = parse(where, member.change.definition.schema)
            member.remove_rows(scope)
            member.change.operations.append(Operation("DELETE", {"predicate": where}))

    def update(
        self,
        name: str,
        *,
        set: Mapping[str, str],  # noqa: A002  SQL's own word
        where: str | None = None,
    ) -> RowChanges:
        """Give rows new values.

        Only files that have such rows are written again. What is generated from a column is
        computed anew. The answer tells what was done; of a transaction that was ratified before,
        under the same id, nothing is done again.

        Args:
            name: The table.
            set: Columns with SQL expressions of the row as it was: `{"price": "price * 2"}`.
            where: Which rows; all of them when None.

        Raises:
            InvalidExpression: An expression that does not fit, or cannot be computed for a row.
            ConstraintViolation: New values that the table's checks refuse.
        """
        if self._is_replay():
            return RowChanges()
        with self._operation(name, reads=True) as member:
            plan = update_plan(member.change.definition.schema, name, set, where)
            told = {} if where is None else {"predicate": where}
            return member.change_rows(plan, Operation("UPDATE", told))

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
            schema = member.change.definition.schema
            source = source_of(data, schema, name, self._context.merge_memory)
            plan = merge_plan(schema, name, source, on, clauses)
            return member.change_rows(plan, Operation("MERGE", merge_told(on, clauses)))

    def add_files(self, name: str, paths: Sequence[str]) -> None:
        """Add Parquet files that lie below the table's location already.

        Each is checked like appended rows are: schema, required columns and checks.
        """
        if self._is_replay():
            return
        with self._operation(name) as member:
            change = member.change
            found = adding.entries(self._context, change, paths)
            member.add(found)
            change.claims.extend(f.path for f in found)
            change.operations.append(Operation("ADD FILES", {"files": str(len(found))}))

    def remove_files(self, name: str, paths: Iterable[str]) -> None:
        """Remove files from the table by their paths; the files themselves stay for time travel."""
        if self._is_replay():
            return
        with self._operation(name, reads=True) as member:
            wanted = list(dict.fromkeys(arguments.texts(paths, "paths")))
            member.remove_files(wanted)
            member.change.operations.append(Operation("REMOVE FILES", {"files": str(len(wanted))}))

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
            self._registered.ensure()
        return Staging(member, partial(self._operation, name))

    def on_ratify(self, record: OnRatify) -> None:
        """Have something recorded in the database transaction that ratifies this one.

        Args:
            record: Called with the session, perhaps more than once. What it raises ends the
                transaction, and nothing is committed.
        """
        if not self._is_replay():
            self._check_open()
            self._committing.on_ratify.append(record)

    def read(
        self, name: str, *, columns: Sequence[str] | None = None, where: str | None = None
    ) -> pa.Table:
        """The rows as this transaction sees them: its base versions with its own changes."""
        with self._operation(name, reads=True) as member:
            change = member.change
            check_columns(columns, change.definition, str(change.head.name))
            scope = None if where is None else parse(where, change.definition.schema)
            change.reads.append(scope)
            return member.read(columns, scope)

    @property
    def spark(self) -> Any:
        """The session of a transaction on Spark; see `SparkTransaction.spark`.

        Raises:
            UnsupportedFeature: The transaction has none.
        """
        raise _needs_spark()

    def name(self, name: str) -> str:
        """What a table is called in that session; see `SparkTransaction.name`.

        Raises:
            UnsupportedFeature: The transaction has no session of Spark.
        """
        raise _needs_spark(name)

    def sql(
        self,
        text: str,
        /,
        args: Mapping[str, Any] | Sequence[Any] | None = None,  # noqa: ARG002  needs Spark
        **values: Any,  # noqa: ARG002  needs Spark
    ) -> Any:
        """Run a statement of Spark SQL by plain table names; see `SparkTransaction.sql`.

        Raises:
            UnsupportedFeature: The transaction has no session of Spark.
        """
        raise _needs_spark(text)

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
        if self._is_replay():
            return
        self._check_open()
        try:
            head = self._locks.take(table, wanted, patience)
            if head is not None:
                self._view.locked(head)
        except Locked:
            raise
        except BaseException as error:
            self.rollback()
            self._failure = error
            raise

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
            self.lock(str(name), mode=wanted[name], timeout=self._lock_timeout)

    def commit(self) -> CommitResult:
        """Make every change true at once, and publish it.

        A table that another transaction holds is waited for. Calling it again returns the same
        result.

        Raises:
            Conflict: Others changed what this transaction touched. Nothing was committed.
            Locked: Another transaction held a table to the end. Nothing was committed.
            OutcomeUnknown: The store stayed silent. Ask `lake.outcome` by the transaction's id.
        """
        if self._result is not None:
            return self._result
        self._check_open()
        try:
            self._prepare()
            ratified = self._committing.ratify()
        except OutcomeUnknown:
            # It stays open: `commit` may be called again and settles it, by its id.
            raise
        except BaseException:
            self.rollback()
            raise
        if not ratified and not self._committing.on_ratify:
            self.rollback()
            self._result = CommitResult(self.transaction_id, {}, attempts=self.attempts)
            return self._result
        self._context.counters.add("commits")
        self._state = TransactionState.RATIFIED
        self._registered.let_go()
        self._committing.discard_unused(ratified)
        self._result = self._committing.publish(ratified)
        self._ended(committed=True)
        if ratified and self._context.events:
            self._context.events.committed(commit_event(self._result, ratified))
        reach("commit.acknowledged")
        return self._result

    def rollback(self) -> None:
        """Undo everything: no table changed, and the files staged so far are deleted."""
        self._failure = None
        if self._state is not TransactionState.OPEN:
            return
        self._state = TransactionState.ROLLED_BACK
        if not self._registered.roll_back(self._before_rolled_back):
            # Ratified after all, or nobody knows: then every file stays.
            self._ended(committed=None)
            return
        for member in self._view.members.values():
            with suppress(LakewardError):
                member.stager.discard()
                self._context.storage.delete(member.change.aside)
        self._ended(committed=False)

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
        elif self._failure is not None:
            what = f"Transaction {self.transaction_id} was rolled back: an operation in it failed."
            hint = "Let the error end the block, or call rollback() to give up."
            raise TransactionClosed(
                what, hint=hint, transaction_id=self.transaction_id, state=self._state
            ) from self._failure
        elif self._state is TransactionState.OPEN and self._result is None:
            self.commit()

    @property
    def attempts(self) -> int:
        """How often it was tried, this time included."""
        return self._committing.attempts

    @property
    def bases(self) -> dict[str, int]:
        """The version at which it sees each table that it touched, by name."""
        return {str(n): m.change.head.version for n, m in sorted(self._view.members.items())}

    @property
    def is_open(self) -> bool:
        """Whether it can still be changed."""
        return self._state is TransactionState.OPEN and self._result is None

    # How it is done.

    def _prepare(self) -> None:
        """Bring together what shall be committed, where that is not done as it is asked for."""

    def _ended(self, *, committed: bool | None) -> None:  # noqa: ARG002  Spark asks for it
        """Let go of what the transaction worked with; None where nobody knows how it ended."""
        for member in self._view.members.values():
            # They have the data of merges, and nothing is done again from here on.
            member.change.steps.clear()

    def _is_replay(self) -> bool:
        """Whether a transaction of this, self-chosen, id was ratified before: then all is done."""
        if not self._chosen_id or self._registered.is_registered:
            return False
        if self._result is None:
            if not happened(self._context, self.transaction_id):
                return False
            with self._context.database.read() as session:
                done = recorded(session, self.transaction_id)
            self._state = TransactionState.RATIFIED
            self._result = self._committing.publish(done)
        return True

    def _operation(self, name: str, *, reads: bool = False) -> _Guarded:
        self._check_open()
        table = TableName.parse(name)
        strategy = self._strategies.for_table(table)
        keyed = isinstance(strategy, LastWriterWins)
        # What others do to a key counts from the cut on, so that must be taken before rows are.
        member = self._view.member(table, reads=reads or keyed)
        if isinstance(strategy, LastWriterWins) and not member.key:
            schema = member.change.definition.schema
            strategy.check(schema, name)
            member.key = tuple(schema.by_name[column] for column in strategy.key)
        return _Guarded(self, member)

    def _begin_at(self, head: Head, definition: Definition) -> Change:
        """The change of a table from a version of the caller's choice."""
        self._check_open()
        self._registered.ensure()
        return self._view.begin_at(head, definition).change

    def _before_rolled_back(self, session: Session) -> None:
        self._find_published(session)
        self._locks.release(session)

    def _find_published(self, session: Session) -> None:
        """On an open table its file may be there already: then it happened, whatever came after."""
        for member in self._view.members.values():
            head = member.change.head
            if not head.guarded and heads.by_id(session, head.table_id) is not None:
                locked = heads.lock(session, head.table_id, head.name)
                take_over(self._context, session, locked)

    def _check_open(self) -> None:
        if self.is_open:
            return
        state = self._state.value.replace("_", " ")
        what = f"Transaction {self.transaction_id} is {state}."
        raise TransactionClosed(
            what, hint="Begin a new one.", transaction_id=self.transaction_id, state=self._state
        )

    def outcome(self) -> Outcome:
        """What became of it, asked of the store."""
        return outcome(self._context, self.transaction_id)


class _Guarded:
    """An operation in progress: when it fails, the transaction is rolled back."""

    def __init__(self, transaction: Transaction, member: Member) -> None:
        self._transaction = transaction
        self._member = member

    def __enter__(self) -> Member:
        return self._member

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self._transaction.rollback()
            self._transaction._failure = error


def checked_isolation(text: str) -> Isolation:
    """The level of this name, in small letters or capitals.

    Raises:
        InvalidInput: There is none.
    """
    try:
        return Isolation(str(text).lower())
    except ValueError as error:
        what = f"{text!r} is not an isolation level."
        raise InvalidInput(what, hint=f"Use one of {_ISOLATIONS}.") from error


def _needs_spark(*_: object) -> UnsupportedFeature:
    what = "SQL needs a transaction on Spark."
    return UnsupportedFeature(what, hint="Begin it with lake.transaction(spark=spark).")


def _checked_id(text: object) -> str:
    if text is None:
        return new_transaction_id()
    if not isinstance(text, str) or not _ID.fullmatch(text):
        what = f"{text!r} is not a transaction id."
        raise InvalidInput(what, hint="Use up to 128 letters, digits, '-' and '_'.")
    return text
