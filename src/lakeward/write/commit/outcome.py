"""Finds out whether a transaction was committed, and retries while the store does not respond.

If the response to a commit was lost, its outcome is unknown. It is looked up by the transaction's
id: the lookup locks the transaction's row, so it waits for a ratification that may still be
running, and its result is final.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

import tenacity

from lakeward.context import LakeContext
from lakeward.errors import (
    CorruptTable,
    OutcomeUnknown,
    StorageError,
    StoreError,
    StoreUnavailable,
    TransactionClosed,
    TransactionNotFound,
    UnsupportedFeature,
)
from lakeward.formats.base import Ratified
from lakeward.log import commits, definitions, heads, renames, transactions
from lakeward.log.database import Session
from lakeward.model.commit import TransactionState
from lakeward.model.records import in_json
from lakeward.write.commit.publications import follow_all
from lakeward.write.commit.ratify import Intent

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The state of a transaction, and the versions that it made, by table name at the commit."""

    transaction_id: str
    state: TransactionState
    versions: dict[str, int]

    @property
    @in_json
    def committed(self) -> bool:
        """Whether the transaction was ratified."""
        return self.state is TransactionState.RATIFIED


def outcome(context: LakeContext, transaction_id: str) -> Outcome:
    """Return the state of a transaction and its versions; final unless it is still open.

    Raises:
        TransactionNotFound: No transaction of that id was ever registered.
        StoreUnavailable: The store does not respond.
    """
    happened(context, transaction_id)
    database = context.database
    with database.write() if database.read_only is None else database.read() as session:
        if database.read_only is None:
            state = transactions.lock(session, transaction_id)
        else:
            found = transactions.get(session, transaction_id)
            state = None if found is None else found.state
        if state is None:
            what = f"The log knows no transaction {transaction_id}."
            raise TransactionNotFound(what, transaction_id=transaction_id)
        members = renames.members(session, transaction_id)
    return Outcome(transaction_id, state, {name: v for name, (v, _) in members.items()})


def happened(context: LakeContext, transaction_id: str) -> bool:
    """Return whether a transaction is ratified.

    A commit to an open table may be published and not yet in the log, so open tables are followed
    first.
    """
    for look in (False, True):
        if look:
            with suppress(CorruptTable, StorageError, UnsupportedFeature):
                follow_all(context)
        with context.database.read() as session:
            found = transactions.get(session, transaction_id)
        if found is None or found.state is TransactionState.RATIFIED:
            return found is not None
    return False


def ratify_surely(
    context: LakeContext, intent: Intent, ratify: Callable[[LakeContext, Intent], list[Ratified]]
) -> list[Ratified]:
    """Ratify, and retry while responses are lost; commit exactly once or raise an error.

    Raises:
        OutcomeUnknown: The store did not respond; no file of the transaction may be deleted.
    """
    doubtful = False

    def once() -> list[Ratified]:
        nonlocal doubtful
        try:
            return ratify(context, intent)
        except OutcomeUnknown:
            doubtful = True
            raise
        except TransactionClosed as closed:
            if closed.state is not TransactionState.RATIFIED:
                raise
            with context.database.read() as session:
                return recorded(session, intent.transaction_id)

    try:
        return patiently(context, once)
    except OutcomeUnknown as error:
        raise _unknown(intent.transaction_id) from error
    except StoreError as error:
        if doubtful:
            raise _unknown(intent.transaction_id) from error
        raise


def patiently(context: LakeContext, action: Callable[[], T]) -> T:
    """Run an idempotent action, and retry it while the store cannot be reached."""
    try:
        return action()
    except (OutcomeUnknown, StoreUnavailable):
        pass
    for attempt in _patiently(context):
        with attempt:
            return action()
    message = "unreachable"
    raise AssertionError(message)


def _patiently(context: LakeContext) -> tenacity.Retrying:
    return tenacity.Retrying(
        retry=tenacity.retry_if_exception_type((OutcomeUnknown, StoreUnavailable)),
        wait=tenacity.wait_random_exponential(multiplier=0.02, max=1.0),
        stop=tenacity.stop_after_delay(context.database.patience_seconds),
        reraise=True,
    )


def recorded(session: Session, transaction_id: str) -> list[Ratified]:
    """Return the members of a ratified transaction, read from the log."""
    return [
        _member(session, table_id, version)
        for _, table_id, version in commits.members(session, transaction_id)
    ]


def _member(session: Session, table_id: int, version: int) -> Ratified:
    # A commit stays ratified, even if its table was dropped since.
    head = heads.ever_by_id(session, table_id)
    commit = commits.full(session, table_id, version)
    _, definition = definitions.at(session, table_id, version)
    return Ratified(head, commit, definition)


def _unknown(transaction_id: str) -> OutcomeUnknown:
    what = f"The store did not say whether transaction {transaction_id} was committed."
    hint = "No file was deleted. Ask lake.outcome(transaction_id) when the store answers again."
    return OutcomeUnknown(what, hint=hint, transaction_id=transaction_id)
