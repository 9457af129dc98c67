"""Commits to a table that is not guarded: one table at a time, arbitrated by put-if-absent.

Others may write such a table without the lake, so a commit succeeds only if its file is published
first. The file is put inside the ratifying database transaction: if another writer was faster, the
transaction is rolled back, the other commit is taken over, and the lake's commit is checked against
it and retried at the next version. If the process dies, or the database fails, after the file was
put, the commit counts as made: `publications` finds the file later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from lakeward.context import LakeContext
from lakeward.errors import Conflict, LakewardError, UnsupportedFeature
from lakeward.formats.base import Ratified
from lakeward.formats.registry import format_of
from lakeward.log import commits, heads
from lakeward.log.database import Session
from lakeward.model.commit import Head
from lakeward.model.steps import reach
from lakeward.write.commit import conflict
from lakeward.write.commit.claimed import check_and_release_claims
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
from lakeward.write.plan.change import Change

_RACES: Final = 100


class _Lost(LakewardError):
    """Another writer published the version first."""


def check_alone(touched: Sequence[Change], dropped: Sequence[Change]) -> None:
    """Raise an error if a table that is not guarded would be committed together with others."""
    name = next((c.head.name for c in touched if not c.head.guarded), None)
    if name is not None and len({(c.head.name, c.head.table_id) for c in (*touched, *dropped)}) > 1:
        what = f"Table {name} is not guarded, so it cannot commit together with others."
        hint = "Adopt it with guard=True, or commit it alone."
        raise UnsupportedFeature(what, hint=hint, table=str(name))


def ratify_open(context: LakeContext, intent: Intent) -> list[Ratified]:
    """Commit a transaction on one open table to the log, and publish it in the same step.

    Raises:
        Conflict: Others changed what the transaction read or changed. Nothing was committed.
        Locked: Another transaction holds the table. Nothing was committed.
        StorageError: The published file could not be written. Nothing was committed.
    """
    (change,) = intent.changes
    intent.sync()

    def build(session: Session, head: Head) -> Draft:
        check_and_release_locks(context, session, intent)
        conflict.check(session, change, head, intent.isolation)
        if change.claims:
            check_and_release_claims(context, session, intent.transaction_id, change, head)
        conflict.check_absent(session, intent.absent)
        check_guards(session, intent.guards, {head.table_id: head})
        for on_ratify in intent.on_ratify:
            on_ratify(session)
        reach("ratify.checked")
        definition = definition_after(context, session, change, head)
        return draft_of(context, intent, change, timestamp_after([head]), definition)

    own = (intent.transaction_id, intent.opened_ms)
    return [commit_open(context, own, change.head, build)]


def commit_open(
    context: LakeContext,
    own: tuple[str, int | None],
    base: Head,
    build: Callable[[Session, Head], Draft],
) -> Ratified:
    """Commit the draft that `build` returns for the newest head.

    `own` is the transaction's id and the time when it was opened, None if nobody chose the id.
    Tries again while other writers take the version; raises `Conflict` after many tries.
    """
    for _ in range(_RACES):
        try:
            return _try(context, own, base, build)
        except _Lost:
            continue
    what = f"Table {base.name} lost {_RACES} races for a version."
    raise Conflict(what, hint="Run the transaction again.", table=str(base.name))


def _try(
    context: LakeContext,
    own: tuple[str, int | None],
    base: Head,
    build: Callable[[Session, Head], Draft],
) -> Ratified:
    transaction_id, opened_ms = own
    with context.database.write() as session:
        head = take_over_or_refuse(context, session, heads.lock(session, base.table_id, base.name))
        if commits.members(session, transaction_id):
            # An earlier try put its file, lost the database transaction, and was taken over.
            return recorded(session, transaction_id)[0]
        close(session, transaction_id, opened_ms)
        reach("ratify.locked")
        member = record(context, session, head, build(session, head))
        heads.set_published(session, head.table_id, member.commit.version)
        reach("ratify.inserted")
        if not format_of(head).put_commit(context, member):
            what = f"Version {member.commit.version} of {head.name} is taken."
            raise _Lost(what)
    reach("ratify.committed")
    return member
