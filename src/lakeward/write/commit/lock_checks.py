"""Locks of others, honoured by whoever commits a change.

A blind append needs the table as a reader does: whoever holds it for writing is in the way. Any
other change, and dropping the table, needs it alone. Where nobody locks anything that costs one
look at an empty table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from lakeward.context import LakeContext
from lakeward.errors import Locked
from lakeward.log import locks
from lakeward.log.database import Session
from lakeward.model.commit import Head
from lakeward.model.locks import Claim, LockMode
from lakeward.model.names import TableName
from lakeward.write.plan.change import Change

_DOING: Final = {LockMode.READ: "reading", LockMode.WRITE: "writing"}


def check_locks(
    context: LakeContext, session: Session, needs: Iterable[tuple[Head, LockMode]], *, by: str = ""
) -> None:
    """Pass when no other transaction holds the tables in a way that excludes what is needed.

    Args:
        context: The lake's.
        session: Which has locked the tables' heads.
        needs: Each table with the mode that the change needs it in.
        by: The transaction that commits; its own locks are in nobody's way.

    Raises:
        Locked: Somebody does; `table` and `mode` say what is lacking.
    """
    if not locks.any_of_others(session, by):
        return
    now = context.database.clock_ms(session)
    held = [c for c in locks.claims(session).held if c.transaction_id != by]
    for head, mode in needs:
        others = [c for c in held if c.table_id == head.table_id and c.mode.excludes(mode)]
        left = locks.close_the_dead(session, others, now)
        if left:
            raise locked(head.name, mode, left, now)


def needs(changes: Iterable[Change]) -> list[tuple[Head, LockMode]]:
    """What each change needs its table for."""
    return [(c.head, LockMode.READ if c.is_blind else LockMode.WRITE) for c in changes]


def locked(
    name: TableName, mode: LockMode, in_the_way: Sequence[Claim], now: int, waited: float = 0.0
) -> Locked:
    """The error that names the table, who is in the way, and for how long."""
    first = in_the_way[0]
    seconds = max(0.0, (now - first.since_ms) / 1000)
    what = (
        f"Table {name} is {'locked' if first.is_held else 'waited for'} for {_DOING[first.mode]} by"
        f" transaction {first.transaction_id} of {first.actor} ({first.process}), for"
        f" {seconds:.1f} s now"
    )
    if waited:
        what += f"; {waited:.1f} s of waiting to have it for {_DOING[mode]} were not enough"
    hint = "`lakeward locks` shows who holds what. Try again, or give it more time."
    return Locked(
        f"{what}.",
        hint=hint,
        table=str(name),
        mode=mode.value,
        holders=[c.transaction_id for c in in_the_way],
        held_seconds=seconds,
        waited_seconds=waited,
    )
