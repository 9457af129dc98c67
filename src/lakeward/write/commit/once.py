"""Idempotent changes: with a key that the client chose, a change is made once.

A change records its key in the database transaction that makes it, with the actor and a description
of what was asked, so that all of it is stored or nothing. The key then stands for this request of
this actor only: any other use of it is refused. The key of a commit is also its transaction's id.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import orjson

from lakeward.context import LakeContext
from lakeward.errors import InvalidInput, TransactionClosed
from lakeward.log import onces, transactions
from lakeward.log.database import Session
from lakeward.model.commit import TransactionState
from lakeward.write.commit.new_table import register


def described(change: str, *asked: Any) -> str:
    """Return a description of a change that identifies it: its name and a digest of its JSON."""
    body = orjson.dumps(asked, option=orjson.OPT_SORT_KEYS)
    return f"{change} {sha256(body).hexdigest()}"


def is_first(context: LakeContext, session: Session, key: str | None, what: str) -> bool:
    """Record the key of a change; return False if the change was made before.

    Args:
        context: The lake.
        session: The database transaction in which the change is made.
        key: The client's key; None for a change that may be repeated.
        what: A description of the change, which identifies it.

    Raises:
        InvalidInput: The key was used for another change, or by another actor.
    """
    if key is None:
        return True
    if was_made(context, session, key, what):
        return False
    record(context, session, key, what)
    return True


def was_made(context: LakeContext, session: Session, key: str, what: str) -> bool:
    """Return whether a change was made with this key.

    Raises:
        InvalidInput: The key was used for another change, or by another actor.
    """
    found = onces.find(session, key)
    if found is not None:
        if found != (what, context.actor):
            raise used_otherwise()
        return True
    begun = transactions.get(session, key)
    if begun is not None and (
        begun.state is TransactionState.RATIFIED or begun.actor != context.actor
    ):
        raise used_otherwise()
    return False


def record(context: LakeContext, session: Session, key: str, what: str) -> None:
    """Record the key of a change in the database transaction that makes the change.

    Raises:
        InvalidInput: The key was used meanwhile.
    """
    now = context.database.clock_ms(session)
    if not onces.insert(session, key, what, context.actor, now):
        raise used_otherwise()


def begin_own(
    context: LakeContext, session: Session, transaction_id: str, message: str | None = None
) -> None:
    """Register a transaction with a chosen id, which ends in the same session.

    A transaction of this id that was rolled back or has expired is opened again.

    Raises:
        InvalidInput: The id was used for another change, or by another actor.
        TransactionClosed: A transaction of this id is ratified, or open elsewhere.
    """
    if onces.find(session, transaction_id) is not None:
        raise used_otherwise()
    state = transactions.lock(session, transaction_id)
    if state is None:
        register(context, session, transaction_id, message)
        return
    if state in (TransactionState.RATIFIED, TransactionState.OPEN):
        what = f"Transaction {transaction_id} is {state.value} already."
        raise TransactionClosed(what, transaction_id=transaction_id, state=state)
    begun = transactions.get(session, transaction_id)
    if begun is not None and begun.actor != context.actor:
        raise used_otherwise()
    transactions.reopen(session, transaction_id, context.database.clock_ms(session))


def end_own(context: LakeContext, session: Session, transaction_id: str) -> None:
    """Ratify the transaction that `begin_own` registered."""
    now = context.database.clock_ms(session)
    transactions.end(session, transaction_id, TransactionState.RATIFIED, now)


def used_otherwise() -> InvalidInput:
    """Return the error for a key that was used for another change, or by another actor."""
    what = "The idempotency key was used for another change, or by another caller."
    return InvalidInput(what, hint="Choose a new key for each change.")
