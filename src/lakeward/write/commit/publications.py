"""Publishes ratified commits, and takes over foreign commits.

Commits are published in version order, with bytes from the log alone; so any number of processes
may publish them, repeatedly and concurrently. Commits that others published without the lake are
recorded, in order, before anything is read from or written to the table; or they are refused, if
the table was adopted with that setting. A commit of the lake itself whose file was published, and
whose database transaction a crash undid, is found in the same way and recognised by its id.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from lakeward.errors import LakewardError
from lakeward.formats.registry import LIGHT, format_of, light_publishers, publishers
from lakeward.log import audit, definitions, files, heads, transactions
from lakeward.model import event_names
from lakeward.model.clock import now_ms, to_datetime
from lakeward.write.commit.record import Draft, record

if TYPE_CHECKING:
    from lakeward.context import LakeContext
    from lakeward.formats.background import BackgroundWorker
    from lakeward.formats.ratified import Ratified
    from lakeward.log.database import Session
    from lakeward.model.commit import CommitInfo, Head
    from lakeward.model.definition import Definition
    from lakeward.model.file import LoggedFile
    from lakeward.model.history import ForeignActions
    from lakeward.model.names import TableName

_LOG = logging.getLogger(__name__)


def publish_member(
    context: LakeContext, member: Ratified, background: BackgroundWorker | None = None
) -> None:
    """Publish a commit just ratified, and before it all earlier versions not yet published.

    Raises:
        ForeignCommit: The file of a version was written by another writer.
        StorageError: The warehouse cannot be written now. The commit is ratified; publish it later.
    """
    for publisher in publishers(member.head):
        publisher.publish(context, member, background)


def checkpoint_if_due(
    context: LakeContext, member: Ratified, background: BackgroundWorker | None = None
) -> None:
    """Write the checkpoint that is due at a version which is published already."""
    for publisher in publishers(member.head):
        publisher.checkpoint_if_due(context, member, background)


def checkpoint_newest(context: LakeContext, head: Head) -> int:
    """Write a checkpoint of a table's newest version, which it returns."""
    with context.database.read() as session:
        current = heads.by_id(session, head.table_id) or head
        _, definition = definitions.at(session, head.table_id, current.version)
    for publisher in publishers(current):
        publisher.checkpoint(context, current, current.version, definition)
    return current.version


def publish_backlog(context: LakeContext, head: Head) -> int:
    """Publish all versions of a table that may be unpublished; return how many were checked."""
    count = max(publisher.publish_owed(context, head) for publisher in publishers(head))
    if count and context.events.wants(event_names.PUBLISHED):
        from lakeward.model.events import PublishedEvent

        now, versions = to_datetime(now_ms()), MappingProxyType({str(head.name): head.version})
        context.events.deliver(event_names.PUBLISHED, PublishedEvent(None, versions, now, None))
    return count


def publish_again(context: LakeContext, head: Head, versions: Iterable[int]) -> None:
    """Publish versions whose files were lost or damaged."""
    lost = list(versions)
    for publisher in publishers(head):
        publisher.publish_again(context, head, lost)


def publish_owed(context: LakeContext) -> dict[str, int]:
    """Publish the unpublished versions of all tables; return how many were checked of each."""
    with context.database.read() as session:
        owed = heads.unpublished(session)
    return {str(h.name): publish_backlog(context, h) for h in owed}


def recover(context: LakeContext) -> None:
    """Publish unpublished versions of all tables; errors are only logged.

    Then each format completes what processes that died after ratification left undone.
    """
    with context.database.read() as session:
        owed = heads.unpublished(session)
    for head in owed:
        try:
            publish_backlog(context, head)
        except LakewardError as error:
            _LOG.warning("Table %s is not wholly published: %s", head.name, error)
    for format_ in LIGHT.values():
        format_.recover(context)


def follow(context: LakeContext, head: Head) -> Head:
    """Take over foreign commits to a table, if it allows that; return the newest head.

    If the lake is open read-only, the head is returned unchanged.
    """
    if context.database.read_only is not None:
        return head
    with context.database.read() as session:
        moved = [p for p in publishers(head) if p.has_moved(context, session, head)]
        if head.drift == "refuse":
            moved = [p for p in moved if p.finds_own(context, session, head)]
    if not moved:
        return head
    with context.database.write() as session:
        return take_over(context, session, heads.lock(session, head.table_id, head.name))


def follow_all(context: LakeContext) -> None:
    """Take over foreign commits to all tables that allow it."""
    if context.database.read_only is not None:
        return
    with context.database.read() as session:
        found = [head for format_ in LIGHT.values() for head in format_.to_follow(session)]
    for head in found:
        follow(context, head)


def current(context: LakeContext, name: TableName) -> Head:
    """Return a table's newest head, with foreign commits; raise `TableNotFound` if missing."""
    with context.database.read() as session:
        head = heads.get(session, name)
        known = not may_have_drifted(session, head)
    return head if known else follow(context, head)


def may_have_drifted(session: Session, head: Head) -> bool:
    """Return whether foreign commits to a table are possible, according to the store."""
    return any(p.may_have_moved(session, head) for p in light_publishers(head))


def take_over_or_refuse(
    context: LakeContext, session: Session, head: Head, *, actor: str | None = None
) -> Head:
    """Record every foreign commit that follows a locked head; return the head after them.

    Args:
        context: The lake.
        session: The session that has locked the head.
        head: The locked head.
        actor: Who made these commits, if that is known.

    Raises:
        ForeignCommit: The table refuses foreign commits, or another table is at its location.
        CorruptTable: A foreign commit is malformed.
    """
    head = take_over(context, session, head, actor=actor)
    if head.drift == "refuse":
        for publisher in publishers(head):
            if publisher.has_moved(context, session, head):
                raise publisher.refused(head)
    return head


def take_over(
    context: LakeContext, session: Session, head: Head, *, actor: str | None = None
) -> Head:
    """Record the foreign commits after a locked head, if the table allows; return the newest head.

    Raises:
        CorruptTable: A foreign commit is malformed.
    """
    for publisher in publishers(head):
        record_one = partial(record_foreign, context, session, Author(actor))
        head = publisher.take_over(context, session, head, record_one)
    return head


@dataclass(frozen=True, slots=True)
class Author:
    """The author of a foreign commit, as far as the lake knows.

    Attributes:
        actor: The actor; None for the one in the published files.
        transaction_id: The transaction of the lake that the commit belongs to, if any.
        position: The position of that transaction in the commit order of the lake.
        members: How many tables that transaction changes.
    """

    actor: str | None = None
    transaction_id: str | None = None
    position: int | None = None
    members: int = 1

    def signed(self, info: CommitInfo) -> CommitInfo:
        """Return the information of a commit, with this author."""
        if self.actor is None:
            return info
        if self.transaction_id is None:
            return replace(info, actor=self.actor)
        return replace(
            info,
            actor=self.actor,
            transaction_id=self.transaction_id,
            members=self.members,
        )


def record_foreign(
    context: LakeContext,
    session: Session,
    author: Author,
    head: Head,
    definition: Definition,
    found: ForeignActions,
) -> tuple[Head, Definition]:
    """Record one foreign commit after a locked head; return the new head and definition."""
    after = found.definition or definition
    info = author.signed(found.info)
    draft = Draft(
        timestamp_ms=found.timestamp_ms,
        info=info,
        position=author.position,
        definition=after,
        redefines=found.definition is not None,
        added=found.added,
        removed=tuple(_removed(session, head, found)),
        app_transactions=tuple(sorted(found.app_transactions, key=lambda a: a.app_id)),
        change_files=found.change_files,
        domains=found.domains,
    )
    if record(context, session, head, draft).commit.version != found.version:
        message = f"version {found.version} of {head.name} does not follow {head.version}"
        raise AssertionError(message)
    ours = transactions.found_published(session, info.transaction_id, now_ms())
    if ours:
        from lakeward.write.commit import progress

        progress.restore(session, info, draft.app_transactions)
    current = heads.lock(session, head.table_id, head.name)
    if not ours:
        current = audit.record(
            session,
            current,
            at_ms=now_ms(),
            actor=context.actor,
            action="ADOPT COMMIT",
            version=found.version,
        )
        heads.advance(session, current)
    if not current.guarded and format_of(head).is_guarded(after):
        heads.set_guarded(session, head.table_id, guarded=True)
        current = replace(current, guarded=True)
    return current, after


def _removed(session: Session, head: Head, found: ForeignActions) -> list[LoggedFile]:
    """Return the live files that the commit removes or adds again."""
    vector_id = format_of(head).vector_id
    again = [(f.path, vector_id(f.deletion_vector)) for f in found.added]
    gone: dict[tuple[int, int], LoggedFile] = {}
    for path, vector in dict.fromkeys((*found.removed, *again)):
        for live in files.live_at_path(session, head.table_id, path):
            if vector_id(live.file.deletion_vector) == vector:
                gone[live.added, live.ordinal] = live
    return [gone[key] for key in sorted(gone)]
