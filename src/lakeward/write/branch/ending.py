"""The end of a named branch: it is published or dropped, once, whatever other processes do.

The row of the transaction that has the branch's id decides which. While this row is open and its
lease is valid, a process publishes the branch, and nobody can drop it. Dropping closes the row, so
a publisher that is still at work cannot commit, and no other one can open the row again.
"""

from __future__ import annotations

from lakeward.context import LakeContext
from lakeward.errors import Conflict, NotFound
from lakeward.log import branches, heads, transactions
from lakeward.log.database import Session
from lakeward.model.commit import Head, Isolation, TransactionState
from lakeward.write.commit.publications import take_over


def check_exists(session: Session, name: str, owner: str) -> None:
    """Raise `NotFound` if a named branch was published or dropped."""
    found = transactions.get(session, owner)
    is_published = found is not None and found.state is TransactionState.RATIFIED
    if is_published or not branches.of_owner(session, owner):
        what = f"The branch {name!r} was {'published' if is_published else 'dropped'} before."
        raise NotFound(what, hint="`lakeward branch list` lists the branches.", branch=name)


def close(
    context: LakeContext, session: Session, name: str, owner: str, tables: list[Head]
) -> list[Head]:
    """Close a named branch, so that it cannot be published; return its tables' locked heads.

    Dropped tables are left out. Raises `NotFound` if the branch was published or dropped before,
    and `Conflict` if a process publishes it now.
    """
    tables = sorted(tables, key=lambda h: h.table_id)
    # The order in which ratification locks: open tables, the transaction, guarded tables.
    locked = [take_over(context, session, head) for head in _locked(session, tables, guarded=False)]
    now = context.database.clock_ms(session)
    is_new = transactions.register(
        session,
        now,
        transaction_id=owner,
        actor=context.actor,
        isolation=str(Isolation.SNAPSHOT),
        message=None,
    )
    transactions.lock(session, owner)
    check_exists(session, name, owner)
    if not is_new and _is_at_work(session, owner, now):
        what = f"Another process publishes the branch {name!r} now."
        hint = "Wait until it has ended; if it died, the branch can be dropped after a minute."
        raise Conflict(what, hint=hint, branch=name)
    transactions.end(session, owner, TransactionState.ROLLED_BACK, now)
    branches.unname(session, owner)
    return [*locked, *_locked(session, tables, guarded=True)]


def _is_at_work(session: Session, owner: str, now: int) -> bool:
    found = transactions.get(session, owner)
    if found is None or found.state is not TransactionState.OPEN:
        return False
    return found.lease_until_ms >= now


def _locked(session: Session, tables: list[Head], *, guarded: bool) -> list[Head]:
    """Lock and return the newest heads of the tables that still exist and are guarded, or not."""
    found = (heads.by_id(session, table.table_id) for table in tables)
    return [
        heads.lock(session, head.table_id, head.name)
        for head in found
        if head is not None and head.guarded is guarded
    ]
