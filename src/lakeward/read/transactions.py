"""Transactions as the log knows them: open ones, and what became of the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from lakeward.errors import TransactionNotFound
from lakeward.log import commits, transactions
from lakeward.log.database import Session
from lakeward.log.transactions import Registration
from lakeward.model.clock import to_datetime
from lakeward.model.commit import TransactionState


@dataclass(frozen=True, slots=True)
class TransactionRecord:
    """A transaction that was registered.

    Attributes:
        transaction_id: By which it is known.
        state: Where it is.
        actor: Who.
        isolation: Its level.
        message: Why.
        process: The host and process that runs it, or ran it.
        opened: When it was registered.
        lease_until: Until when it may be open without a sign of life.
        ended: When it was closed; None while it is open.
        versions: What it made of each table, by name; nothing unless it is ratified.
    """

    transaction_id: str
    state: TransactionState
    actor: str
    isolation: str
    message: str | None
    process: str
    opened: datetime
    lease_until: datetime
    ended: datetime | None
    versions: Mapping[str, int]

    @property
    def committed(self) -> bool:
        """Whether it is in the log."""
        return self.state is TransactionState.RATIFIED


def records(
    session: Session, limit: int, state: TransactionState | None = None
) -> list[TransactionRecord]:
    """The newest transactions, or those of one state, newest first."""
    return [_record(session, r) for r in transactions.newest(session, limit, state)]


def record(session: Session, transaction_id: str) -> TransactionRecord:
    """A transaction by its id.

    Raises:
        TransactionNotFound: No transaction of that id was ever registered.
    """
    found = transactions.get(session, transaction_id)
    if found is None:
        what = f"The log knows no transaction {transaction_id}."
        raise TransactionNotFound(what, transaction_id=transaction_id)
    return _record(session, found)


def _record(session: Session, source: Registration) -> TransactionRecord:
    committed = source.state is TransactionState.RATIFIED
    members = commits.members(session, source.transaction_id) if committed else []
    return TransactionRecord(
        transaction_id=source.transaction_id,
        state=source.state,
        actor=source.actor,
        isolation=source.isolation,
        message=source.message,
        process=source.process,
        opened=to_datetime(source.opened_ms),
        lease_until=to_datetime(source.lease_until_ms),
        ended=None if source.ended_ms is None else to_datetime(source.ended_ms),
        versions={str(name): version for name, _, version in members},
    )
