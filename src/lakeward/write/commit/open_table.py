"""Commits to a table that is not guarded: one table at a time, arbitrated by put-if-absent.

Others may write such a table past us, so a version is ours only once its published file is. The
file is put inside the ratifying database transaction: if another writer was faster, the transaction
is rolled back, their commit is taken over, and ours is checked against it and retried at the next
version.
If the process dies, or the database fails, after the file was put, the commit happened:
`publications` finds the file later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lakeward.context import LakeContext
from lakeward.errors import Conflict, LakewardError
from lakeward.formats.base import Ratified
from lakeward.formats.registry import format_of
from lakeward.log import commits, heads
from lakeward.log.database import Session
from lakeward.model.commit import Head
from lakeward.model.steps import reach
from lakeward.write.commit import conflict
from lakeward.write.commit.claimed import check_claims
from lakeward.write.commit.outcome import recorded
from lakeward.write.commit.publications import take_over_or_refuse
from lakeward.write.commit.ratify import (
    Intent,
    check_and_release_locks,
    check_guards,
    close,
    definition_after,
    draft_of,
    timestamp_after,
)
from lakeward.write.commit.record import Draft, record

_RACES: Final = 100


class _Lost(LakewardError):
    """Another writer published the version first."""


def ratify_open(context: LakeContext, intent: Intent) -> list[Ratified]:
    """Commit a transaction on one open table to the log, and publish it at the same time.

    Raises:
        Conflict: Others changed what it touched. Nothing was committed.
        Locked: Another transaction holds the table. Nothing was committed.
        StorageError: The published file could not be written. Nothing was committed.
    """
    (change,) = intent.changes
    intent.sync()

    def build(session: Session, head: Head) -> Draft:
        check_and_release_locks(context, session, intent)
        conflict.check(session, change, head, intent.isolation)
        if change.claims:
            check_claims(context, session, change, head)
        conflict.check_absent(session, intent.absent)
        check_guards(session, intent.guards, {head.table_id: head})
        for on_ratify in intent.on_ratify:
            on_ratify(session)
        reach("ratify.checked")
        definition = definition_after(context, session, change, head)
        return draft_of(context, intent, change, timestamp_after([head]), definition)

    return [commit_open(context, intent.transaction_id, change.head, build)]


def commit_open(
    context: LakeContext,
    transaction_id: str,
    base: Head,
    build: Callable[[Session, Head], Draft],
) -> Ratified:
    """Commit what `build` makes of the newest head; try again while others take the version."""
    for _ in range(_RACES):
        try:
            return _try(context, transaction_id, base, build)
        except _Lost:
            continue
    what = f"Table {base.name} lost {_RACES} races for a version."
    raise Conflict(what, hint="Run the transaction again.", table=str(base.name))


def _try(
    context: LakeContext,
    transaction_id: str,
    base: Head,
    build: Callable[[Session, Head], Draft],
) -> Ratified:
    with context.database.write() as session:
        head = take_over_or_refuse(context, session, heads.lock(session, base.table_id, base.name))
        if commits.members(session, transaction_id):
            # An earlier try put its file and lost the database transaction; drift found it.
            return recorded(session, transaction_id)[0]
        close(session, transaction_id)
        reach("ratify.locked")
        member = record(context, session, head, build(session, head))
        heads.set_published(session, head.table_id, member.commit.version)
        reach("ratify.inserted")
        if not format_of(head).put_commit(context, member):
            what = f"Version {member.commit.version} of {head.name} is taken."
            raise _Lost(what)
    reach("ratify.committed")
    return member
