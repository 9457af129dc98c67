"""A table's publications: ratified commits written out, and foreign commits taken in.

Commits are published in version order, with bytes from the log alone; so anybody may publish them,
any number of times, at once. Commits that others published past the log are recorded, in order,
before anything is read from or written to the table; or they are refused, if the table was adopted
so. A commit of the lake's own whose file was published, and whose database transaction a crash
undid, is found in the same way and known by its id.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from lakeward.errors import LakewardError
from lakeward.formats.registry import LIGHT, format_of, light_publishers, publishers
from lakeward.log import audit, files, heads, transactions
from lakeward.model import events
from lakeward.model.clock import now_ms, to_datetime
from lakeward.model.events import PublishedEvent
from lakeward.write.commit.record import Draft, record

if TYPE_CHECKING:
    from lakeward.context import LakeContext
    from lakeward.formats.background import BackgroundWorker
    from lakeward.formats.ratified import Ratified
    from lakeward.log.database import Session
    from lakeward.model.commit import Head
    from lakeward.model.definition import Definition
    from lakeward.model.file import LoggedFile
    from lakeward.model.history import ForeignActions
    from lakeward.model.names import TableName

_LOG = logging.getLogger(__name__)


def publish_member(
    context: LakeContext, member: Ratified, background: BackgroundWorker | None = None
) -> None:
    """Publish a commit just ratified, and before it whatever earlier versions still miss.

    Raises:
        ForeignCommit: A file of another writer has a version's name.
        StorageError: The warehouse cannot be written now. The commit stands; publish again later.
    """
    for publisher in publishers(member.head):
        publisher.publish(context, member, background)


def checkpoint_if_due(
    context: LakeContext, member: Ratified, background: BackgroundWorker | None = None
) -> None:
    """Write the checkpoint that is due at a version which is published already."""
    for publisher in publishers(member.head):
        publisher.checkpoint_if_due(context, member, background)


def publish_backlog(context: LakeContext, head: Head) -> int:
    """Publish all versions of a table that may be unpublished; return how many were checked."""
    count = max(publisher.publish_owed(context, head) for publisher in publishers(head))
    if count and context.events.wants(events.PUBLISHED):
        now, versions = to_datetime(now_ms()), MappingProxyType({str(head.name): head.version})
        context.events.deliver(events.PUBLISHED, PublishedEvent(None, versions, now, None))
    return count


def publish_again(context: LakeContext, head: Head, versions: Iterable[int]) -> None:
    """Publish versions whose files were lost or damaged."""
    lost = list(versions)
    for publisher in publishers(head):
        publisher.publish_again(context, head, lost)


def publish_owed(context: LakeContext) -> dict[str, int]:
    """Publish the unpublished versions of all tables; return how many each table had checked."""
    with context.database.read() as session:
        owed = heads.unpublished(session)
    return {str(h.name): publish_backlog(context, h) for h in owed}


def recover(context: LakeContext) -> None:
    """Publish what others ratified and did not publish; only report what cannot be published."""
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
    """Take over what others committed to a table, if it allows that; return the newest head.

    A lake that is open read-only shows the last version that the log knows.
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
    """Take over what others committed to any table that allows it."""
    if context.database.read_only is not None:
        return
    with context.database.read() as session:
        found = [head for format_ in LIGHT.values() for head in format_.to_follow(session)]
    for head in found:
        follow(context, head)


def current(context: LakeContext, name: TableName) -> Head:
    """Return a table's newest head, foreign commits included; raise `TableNotFound` without one."""
    with context.database.read() as session:
        head = heads.get(session, name)
        known = not may_have_drifted(session, head)
    return head if known else follow(context, head)


def may_have_drifted(session: Session, head: Head) -> bool:
    """Return whether a table must be followed before it is used, as far as the store knows."""
    return any(p.may_have_moved(session, head) for p in light_publishers(head))


def take_over_or_refuse(
    context: LakeContext, session: Session, head: Head, *, actor: str | None = None
) -> Head:
    """Record every foreign commit that follows a locked head; return the head after them.

    Args:
        context: The lake.
        session: Of the database transaction that has locked the head.
        head: The locked head.
        actor: Who made these commits, if that is known.

    Raises:
        ForeignCommit: The table refuses foreign commits, or another table has its place.
        CorruptTable: A foreign commit cannot be understood.
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
    """Record the foreign commits that a table allows behind its locked head; return the newest.

    Raises:
        CorruptTable: A foreign commit cannot be understood.
    """
    for publisher in publishers(head):
        record_one = partial(_record_one, context, session, actor)
        head = publisher.take_over(context, session, head, record_one)
    return head


def _record_one(
    context: LakeContext,
    session: Session,
    actor: str | None,
    head: Head,
    definition: Definition,
    found: ForeignActions,
) -> tuple[Head, Definition]:
    after = found.definition or definition
    draft = Draft(
        timestamp_ms=found.timestamp_ms,
        info=found.info if actor is None else replace(found.info, actor=actor),
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
    ours = transactions.found_published(session, found.info.transaction_id, now_ms())
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
    """Return the live files that the commit ends, and those that it adds again."""
    vector_id = format_of(head).vector_id
    again = [(f.path, vector_id(f.deletion_vector)) for f in found.added]
    gone: dict[tuple[int, int], LoggedFile] = {}
    for path, vector in dict.fromkeys((*found.removed, *again)):
        for live in files.live_at_path(session, head.table_id, path):
            if vector_id(live.file.deletion_vector) == vector:
                gone[live.added, live.ordinal] = live
    return [gone[key] for key in sorted(gone)]
