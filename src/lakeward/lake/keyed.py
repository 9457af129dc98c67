"""Appends with a key that the client chose: each is committed once, however often it is sent.

The key is the id of the append's transaction. It belongs to one request of one actor: its table and
its rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lakeward.context import LakeContext
from lakeward.log import commits, heads, onces, renames, transactions
from lakeward.log.database import Session
from lakeward.model.names import TableName

if TYPE_CHECKING:
    from lakeward.write.transaction.lifecycle import CommitResult
    from lakeward.write.transaction.transaction import Transaction


class KeyedAppends:
    """The method of a lake for appends with a key."""

    _context: LakeContext
    transaction: Callable[..., Transaction]

    def append_once(
        self,
        name: str,
        data: Any,
        *,
        key: str,
        message: str | None = None,
        digest: str | None = None,
    ) -> CommitResult:
        """Append rows to a table; if that was committed with this key before, return its result.

        `digest` identifies the rows: with another one, the key is refused.

        Raises:
            InvalidInput: The key was used for another change, or by another actor.
        """
        from lakeward.write.commit.once import described, was_made

        what = described("append", digest, message)
        tx = self.transaction(message=message, transaction_id=key)
        if not tx._is_replay():
            with tx:
                register_keyed(self._context, tx, key, what)
                tx.append(name, data)
        result = tx.commit()
        with self._context.database.read() as session:
            if not self._was_found_published(session, key):
                was_made(self._context, session, key, what)
            _check_table(session, key, name)
        return result

    def _was_found_published(self, session: Session, key: str) -> bool:
        """Return whether a commit of this actor was recorded by the file that it published.

        After a crash, the log learns of a commit to a table that is not guarded by that file, which
        does not say what was asked.
        """
        from lakeward.write.commit.outcome import recorded

        found = transactions.get(session, key)
        is_own = found is not None and found.actor == self._context.actor
        is_known = onces.find(session, key) is not None
        return is_own and not is_known and any(not m.head.guarded for m in recorded(session, key))


def register_keyed(context: LakeContext, tx: Transaction, key: str, what: str) -> None:
    """Register a transaction whose id is a client's key; record `what` was asked when it commits.

    Raises:
        InvalidInput: The key was used for another change, or by another actor.
    """
    from lakeward.write.commit.once import record, was_made

    # Others may register a transaction of this id at the same time.
    tx._register(lambda session: was_made(context, session, key, what))
    tx.on_ratify(lambda session: record(context, session, key, what))


def _check_table(session: Session, key: str, name: str) -> None:
    """Raise `InvalidInput` if a transaction changed more than a table and its quarantine table.

    Another table that has the name of the changed one since a drop is not that table.
    """
    from lakeward.write.commit.once import used_otherwise
    from lakeward.write.transaction.quarantine_table import quarantine_name

    asked = TableName.parse(name)
    head = heads.find(session, asked)
    changed = {i for now, i, _ in commits.members(session, key) if now == asked}
    if head is not None and changed - {head.table_id}:
        raise used_otherwise()
    made = renames.members(session, key)
    own = [then for then, (_, now) in made.items() if now == str(asked)]
    allowed = {*own, *(str(quarantine_name(TableName.parse(then))) for then in own)}
    if not made.keys() <= allowed:
        raise used_otherwise()
