"""Transactions that clients send in several requests, perhaps to several processes of the service.

Their operations are kept in the store and their rows in the warehouse, until the commit executes
them in one transaction of the lake, whose id the client chose. So any process can handle the next
request, and a request that is sent twice counts once. A transaction to which nothing was added for
a day is deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from lakeward.context import LakeContext
from lakeward.errors import (
    AlreadyExists,
    Conflict,
    FileMissing,
    InvalidInput,
    LakewardError,
    TransactionNotFound,
)
from lakeward.log import onces, pending, transactions
from lakeward.log.database import Session
from lakeward.log.pending import PendingRow
from lakeward.model.clock import to_datetime
from lakeward.model.commit import TransactionState

if TYPE_CHECKING:
    from lakeward.write.transaction.lifecycle import CommitResult
    from lakeward.write.transaction.transaction import Transaction

DIRECTORY: Final = "_pending"
"""The directory of the rows of pending transactions, below the warehouse."""
MOST_OPERATIONS: Final = 1000
_KEPT_MS: Final = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class Pending:
    """A transaction that is not committed yet.

    Attributes:
        transaction_id: The id that the client chose.
        operations: Its operations, in the order in which the commit will execute them.
        actor: Who began the transaction.
        opened: When it was begun.
        bytes: The size of its rows, as they were sent.
    """

    transaction_id: str
    message: str | None
    isolation: str
    operations: tuple[Mapping[str, Any], ...]
    actor: str
    opened: datetime
    bytes: int


class PendingTransactions:
    """The methods of a lake for transactions that are sent in several requests."""

    _context: LakeContext
    transaction: Callable[..., Transaction]

    def begin_pending(
        self, transaction_id: str, *, message: str | None = None, isolation: str = "snapshot"
    ) -> Pending:
        """Begin a transaction with the given id; if this actor began it before, return that.

        Raises:
            AlreadyExists: The log has a transaction of this id.
            TransactionNotFound: Another actor began a transaction of this id.
        """
        self._context.database.check_writable()
        # Refuses arguments that the commit would refuse.
        self.transaction(transaction_id=transaction_id, message=message, isolation=isolation)
        self._forget_old()
        with self._context.database.write() as session:
            now = self._context.database.clock_ms(session)
            if transactions.get(session, transaction_id) is not None:
                what = f"The log has a transaction {transaction_id} already."
                raise AlreadyExists(what, hint="Choose a new id.", transaction_id=transaction_id)
            body = {"message": message, "isolation": isolation}
            first = PendingRow(0, body, self._context.actor, now)
            pending.insert(session, transaction_id, first)
            return self._found(session, transaction_id)

    def pending(self, transaction_id: str) -> Pending:
        """Return a transaction that this actor began and has not committed yet.

        Raises:
            TransactionNotFound: This actor has no such transaction.
        """
        with self._context.database.read() as session:
            return self._found(session, transaction_id)

    def add_pending(
        self,
        transaction_id: str,
        operation: Mapping[str, Any],
        *,
        data: bytes | None = None,
        number: int | None = None,
        most_bytes: int | None = None,
    ) -> Pending:
        """Add an operation to a transaction that was begun.

        Args:
            transaction_id: The transaction.
            operation: `op`, the name of a method of `Transaction`, `table`, and the method's other
                arguments.
            data: The rows of an append, an overwrite or a merge, in the operation's `format`.
            number: The place of the operation in the order, 1 for the first; an operation that is
                sent again with its number counts once. The next free place unless given.
            most_bytes: The most bytes of the rows of all operations; unlimited unless given.

        Raises:
            TransactionNotFound: There is no such transaction.
            InvalidInput: There are too many operations or bytes, or there is another operation at
                `number`.
        """
        self._context.database.check_writable()
        if number is not None:
            _check_place(number)
        body = {**operation, "bytes": 0 if data is None else len(data)}
        with self._context.database.read() as session:
            self._found(session, transaction_id)
            # Before the rows are stored; `_added` checks it again.
            _check_bytes(pending.rows(session, transaction_id), number, body["bytes"], most_bytes)
        if data is not None:
            # Named after the rows: a file that a failed request left is the file of the next one.
            name = f"{sha256(data).hexdigest()}.{operation['format']}"
            body["data"] = f"{DIRECTORY}/{transaction_id}/{name}"
            self._context.storage.make_directory(f"{DIRECTORY}/{transaction_id}")
            self._context.storage.put_if_absent(body["data"], data)
        while (added := self._added(transaction_id, body, number, most_bytes)) is None:
            pass
        return added

    def commit_pending(
        self, transaction_id: str, *, expected: Mapping[str, int] | None = None
    ) -> CommitResult:
        """Execute a transaction's operations in order and commit them; return the result.

        If the transaction was committed before, only return its result.

        Args:
            transaction_id: The transaction.
            expected: Versions that tables must have, by table name; the commit fails if another
                commit changes one of them first.

        Raises:
            TransactionNotFound: There is no such transaction.
            Conflict: A table is not at its expected version, or was changed meanwhile.
            InvalidInput: The id was used as the key of another request.
        """
        self._context.database.check_writable()
        with self._context.database.read() as session:
            done = transactions.get(session, transaction_id)
        is_done = done is not None and done.state is TransactionState.RATIFIED
        if is_done and done is not None and done.actor == self._context.actor:
            again = self.transaction(transaction_id=transaction_id)
            again._is_replay()
            result = again.commit()
            self._check_is_no_key(transaction_id)
            self._forget(transaction_id)
            return result
        asked = self.pending(transaction_id)
        begun = self.transaction(
            transaction_id=transaction_id, message=asked.message, isolation=asked.isolation
        )
        with begun as tx:
            for table, version in (expected or {}).items():
                self._check_version(tx, table, version)
            for operation in asked.operations:
                self._carry_out(tx, dict(operation))
        result = tx.commit()
        # A request with this key may have been committed meanwhile.
        self._check_is_no_key(transaction_id)
        self._forget(transaction_id)
        return result

    def roll_back_pending(self, transaction_id: str) -> None:
        """Delete the operations and rows of a transaction that was not committed."""
        self._context.database.check_writable()
        self.pending(transaction_id)
        self._forget(transaction_id)

    def _check_is_no_key(self, transaction_id: str) -> None:
        """Raise `InvalidInput` if the id was the idempotency key of an append or a commit."""
        from lakeward.write.commit.once import used_otherwise

        with self._context.database.read() as session:
            found = onces.find(session, transaction_id)
        if found is not None and found[0] != onces.NO_VERSION:
            raise used_otherwise()

    def _added(
        self,
        transaction_id: str,
        body: dict[str, Any],
        number: int | None,
        most_bytes: int | None,
    ) -> Pending | None:
        """Insert an operation at `number`, or at the next place; return the transaction.

        Return None if another request takes the place at this moment.
        """
        with self._context.database.write() as session:
            self._found(session, transaction_id)
            known = pending.rows(session, transaction_id)
            place = known[-1].seq + 1 if number is None else number
            _check_place(place)
            _check_bytes(known, place, body["bytes"], most_bytes)
            now = self._context.database.clock_ms(session)
            row = PendingRow(place, body, self._context.actor, now)
            if not pending.insert(session, transaction_id, row):
                known = pending.rows(session, transaction_id)
                there = next((row.body for row in known if row.seq == place), None)
                if number is None or there is None:
                    return None
                if there != body:
                    what = f"The transaction has another operation {place}."
                    raise InvalidInput(what, hint="Use the next number, or none.")
            return self._found(session, transaction_id)

    def _found(self, session: Session, transaction_id: str) -> Pending:
        rows = pending.rows(session, transaction_id)
        if not rows or rows[0].actor != self._context.actor:
            what = f"No transaction {transaction_id} was begun, or another one began it."
            raise TransactionNotFound(what, transaction_id=transaction_id)
        first, *rest = rows
        return Pending(
            transaction_id,
            first.body["message"],
            first.body["isolation"],
            tuple(row.body for row in rest),
            first.actor,
            to_datetime(first.added_ms),
            sum(row.body["bytes"] for row in rest),
        )

    def _check_version(self, tx: Transaction, table: str, version: int) -> None:
        """Require that the commit changes a table at `version`; raise `Conflict` if it is not."""
        with tx._operation(table, reads=True) as member:
            seen = member.change.head.version
            member.change.exact = True
        if seen != version:
            what = f"Table {table} is at version {seen}, and version {version} is expected."
            raise Conflict(what, hint="Read the table, and begin again.", table=table)

    def _carry_out(self, tx: Transaction, operation: dict[str, Any]) -> None:
        kind, table = operation.pop("op"), operation.pop("table")
        operation.pop("bytes")
        given = {name: value for name, value in operation.items() if value is not None}
        match kind:
            case "append" | "overwrite" | "merge":
                from lakeward.engines.arrow.received import Limits, read_received

                data = self._context.storage.read(given.pop("data"))
                # The rows were within the limits when they were sent.
                with read_received(data, given.pop("format"), Limits()) as rows:
                    getattr(tx, kind)(table, rows, **given)
            case "delete" | "update" | "create":
                getattr(tx, kind)(table, **given)
            case "alter":
                asked = tx.alter(table)
                for change in given["changes"]:
                    asked.sql(change)
            case "drop":
                tx.drop(table)
            case _:
                raise InvalidInput(f"There is no operation {kind!r}.")  # noqa: EM102

    def _forget(self, transaction_id: str) -> None:
        with self._context.database.write() as session:
            pending.delete(session, transaction_id)
        try:
            self._context.storage.delete_directory(f"{DIRECTORY}/{transaction_id}")
        except FileMissing:
            return

    def _forget_old(self) -> None:
        with self._context.database.read() as session:
            now = self._context.database.clock_ms(session)
            old = pending.older_than(session, now - _KEPT_MS)
        for transaction_id in old:
            try:
                self._forget(transaction_id)
            except LakewardError:
                continue


def _check_place(place: int) -> None:
    if not 1 <= place <= MOST_OPERATIONS:
        what = f"A transaction has at most {MOST_OPERATIONS} operations, numbered from 1 on."
        raise InvalidInput(what, hint="Commit what it has.")


def _check_bytes(
    known: Sequence[PendingRow], place: int | None, size: int, most: int | None
) -> None:
    """Raise `InvalidInput` if an operation at a place would make the rows of all too large.

    What is at the place already does not count: it is the same operation, sent before.
    """
    _, *operations = known
    others = sum(row.body["bytes"] for row in operations if row.seq != place)
    if most is not None and others + size > most:
        what = f"The rows of a transaction may have {most:,} bytes."
        raise InvalidInput(what, hint="Commit what it has.")
