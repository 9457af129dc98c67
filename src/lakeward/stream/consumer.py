"""Consumers read the changes of the lake; the log keeps the position of each.

The position is updated in the same database transaction that commits what the consumer writes to
the lake. So each change is processed exactly once, even if processes are killed. Two processes of
the same consumer do not process a change twice: the position can be updated only if it is still
where it was when processing began, so the second process is refused.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from lakeward.context import LakeContext, LakeLike, context_of
from lakeward.errors import Conflict, InvalidInput
from lakeward.log import consumers
from lakeward.log.consumers import ConsumerRow
from lakeward.log.database import Session
from lakeward.log.waiting import waiter
from lakeward.model import arguments
from lakeward.model.clock import now_ms, to_datetime
from lakeward.model.commit import new_transaction_id
from lakeward.model.names import TableName
from lakeward.model.shown import Shown
from lakeward.read.lake_changes import LakeChange, lake_changes, placed_changes
from lakeward.write.commit.progress import of_consumer
from lakeward.write.commit.publications import follow_all

if TYPE_CHECKING:
    from lakeward.write.transaction.transaction import Transaction

_WAIT_SECONDS: Final = 5.0
_MARK: Final = "-by-"


@dataclass(frozen=True, slots=True)
class ConsumerRecord:
    """A consumer as the log records it.

    Attributes:
        position: The position of the last processed transaction.
        transaction_id: The consumer's transaction that set the position; None if it wrote nothing.
        actor: Who set the position.
        moved: When the position was set.
    """

    name: str
    position: int
    transaction_id: str | None
    actor: str
    moved: datetime


class Consumer(Shown):
    """Reads the transactions of the lake in order, after the last processed one.

    Transactions that the consumer begins itself, with `transaction`, are not returned to it.
    """

    def __init__(
        self, lake: LakeLike, name: str, tables: Sequence[TableName] | None, start: int
    ) -> None:
        self._lake = lake
        self._context: LakeContext = context_of(lake)
        self._name = name
        self._tables = tables
        own = hashlib.sha256(name.encode()).hexdigest()[:12]
        self._suffix = f"{_MARK}{own}"
        self._start = start
        if self._context.database.read_only is None:
            with self._context.database.write() as session:
                consumers.add(session, self._row(start, None))

    def __repr__(self) -> str:
        return f"Consumer({self._name!r}, position={self.position})"

    @property
    def name(self) -> str:
        """The consumer's name in the log."""
        return self._name

    @property
    def position(self) -> int:
        """The position of the last processed transaction."""
        with self._context.database.read() as session:
            return self._stored(session)

    def __iter__(self) -> Iterator[LakeChange]:
        """Yield the committed transactions that are not processed yet."""
        follow_all(self._context)
        return self._after(self.position)

    def follow(self, *, timeout: float | None = None) -> Iterator[LakeChange]:
        """Yield the unprocessed transactions, then every new one as it is committed.

        On PostgreSQL a commit wakes the consumer; on SQLite it polls, at first often and then with
        pauses of up to a quarter of a second.

        Args:
            timeout: End after this many seconds without a new transaction; if None, never end.
        """
        limit = None if timeout is None else arguments.number(timeout, "timeout")
        follow_all(self._context)
        found = followed(self._context, self.position, self._tables, limit)
        return (c for c in found if not c.transaction_id.endswith(self._suffix))

    def transaction(
        self, change: LakeChange, *, message: str | None = None, **options: Any
    ) -> Transaction:
        """Begin a lake transaction whose commit also marks a change as processed.

        Either both happen or neither does, so what it writes for a change is written exactly once.

        Args:
            change: The change to mark as processed, with all transactions before it.
            message: Why; kept with the commit.
            options: As in `Lake.transaction`, except `transaction_id`: the consumer gives its
                transactions ids by which it knows them.

        Raises:
            InvalidInput: A `transaction_id` was given.
            Conflict: Another process of the same consumer has already processed the change.
        """
        if "transaction_id" in options:
            what = "A transaction of a consumer takes no transaction_id."
            hint = "Leave it out: the consumer's position ensures that a change is processed once."
            raise InvalidInput(what, hint=hint, parameter="transaction_id")
        before = self._before(change)
        own_id = f"{new_transaction_id()}{self._suffix}"
        begun: Transaction = self._lake.transaction(
            message=message, transaction_id=own_id, **options
        )
        begun.on_ratify(
            lambda session: self._move(session, before, change, begun.transaction_id),
            of_consumer(self._name, change.position),
        )
        return begun

    def done(self, change: LakeChange) -> None:
        """Mark a change, and all before it, as processed.

        For effects outside of the lake: call this when they are durable. If the process dies
        before, the change is returned again.

        Raises:
            Conflict: Another process of the same consumer has already processed the change.
        """
        before = self._before(change)
        with self._context.database.write() as session:
            self._move(session, before, change, None)

    def rewind(self, position: int) -> None:
        """Set the consumer's position; the transactions after it are returned next.

        Args:
            position: The position of a transaction; 0 for the beginning.
        """
        arguments.whole(position, "position")
        # Else a commit that is found later would set the position that it has.
        follow_all(self._context)
        with self._context.database.write() as session:
            consumers.delete(session, self._name)
            consumers.add(session, self._row(position, None))

    def forget(self) -> None:
        """Delete the consumer's position from the log."""
        follow_all(self._context)
        with self._context.database.write() as session:
            consumers.delete(session, self._name)

    def _after(self, position: int) -> Iterator[LakeChange]:
        for change in lake_changes(self._context, position, self._tables):
            if not change.transaction_id.endswith(self._suffix):
                yield change

    def _before(self, change: LakeChange) -> int:
        if not isinstance(change, LakeChange):
            what = f"`change` is {type(change).__name__}, not a change of the lake."
            raise InvalidInput(
                what, hint="Give a change that the consumer returned.", parameter="change"
            )
        before = self.position
        if before >= change.position:
            raise self._refused(change)
        return before

    def _move(
        self, session: Session, before: int, change: LakeChange, transaction_id: str | None
    ) -> None:
        if not consumers.move(session, self._row(change.position, transaction_id), before):
            raise self._refused(change)

    def _refused(self, change: LakeChange) -> Conflict:
        what = (
            f"The consumer {self._name} is done with transaction {change.transaction_id} already,"
            " or another process moved it. Nothing was committed."
        )
        return Conflict(what, hint="Run only one process of this consumer at a time, and continue.")

    def _stored(self, session: Session) -> int:
        found = consumers.get(session, self._name)
        return self._start if found is None else found.position

    def _row(self, position: int, transaction_id: str | None) -> ConsumerRow:
        return ConsumerRow(self._name, position, transaction_id, self._context.actor, now_ms())


def followed(
    context: LakeContext, after: int, tables: Sequence[TableName] | None, timeout: float | None
) -> Iterator[LakeChange]:
    """Yield the transactions after a position, then new ones as they are committed.

    End after `timeout` seconds without a new transaction; if None, never end.
    """
    waiting = waiter(context.database)
    try:
        last = time.monotonic()
        while True:
            follow_all(context)
            # Transactions of other tables move the position too: they are not read again.
            for position, change in placed_changes(context, after, tables):
                after = position
                if change is not None:
                    yield change
                    last = time.monotonic()
            left = _WAIT_SECONDS
            if timeout is not None:
                left = last + timeout - time.monotonic()
                if left <= 0:
                    return
            waiting.wait(min(left, _WAIT_SECONDS))
    finally:
        waiting.close()


def record_of(source: ConsumerRow) -> ConsumerRecord:
    """Return a consumer's row as a record."""
    return ConsumerRecord(
        source.name,
        source.position,
        source.transaction_id,
        source.actor,
        to_datetime(source.moved_ms),
    )
