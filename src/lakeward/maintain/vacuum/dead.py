"""Rolls back transactions whose processes died long ago, so that they hold no version any more.

Opening the lake does this, too. But a process that maintains a lake may keep it open for weeks.
"""

from __future__ import annotations

from lakeward.context import LakeContext
from lakeward.log import locks, pins, transactions
from lakeward.maintain.vacuum.kept import CLOCKS_DIFFER_MS
from lakeward.maintain.vacuum.plan import Clock
from lakeward.write.branch.directory import sweep


def roll_back_dead(context: LakeContext, clock: Clock) -> None:
    """Roll back transactions whose lease expired long ago, by more than clocks may differ."""
    before = clock.versions_ms - CLOCKS_DIFFER_MS
    with context.database.read() as session:
        dead = any(t.lease_until_ms < before for t in transactions.still_open(session))
    if not dead:
        return
    with context.database.write() as session:
        transactions.expire(session, before)
        pins.expire(session, before)
        locks.sweep(session)
    sweep(context)
