"""A new table entered into the lake: its head, its first version, its place in the warehouse."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from lakeward.context import LakeContext
from lakeward.errors import LakewardError
from lakeward.log import heads, transactions
from lakeward.log.database import Session
from lakeward.model.clock import now_ms
from lakeward.model.commit import (
    Commit,
    CommitInfo,
    Head,
    Isolation,
    TransactionState,
    new_transaction_id,
)
from lakeward.model.definition import Definition
from lakeward.model.file import DataFile
from lakeward.model.names import TableName
from lakeward.write.commit import iceberg
from lakeward.write.commit.new_table import enter, make_empty, new_head, register, told
from lakeward.write.commit.outcome import ratify_surely, recorded
from lakeward.write.commit.publish import publish_member
from lakeward.write.commit.ratify import Intent
from lakeward.write.commit.record import Ratified, insert

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a new table begins with.

    Attributes:
        operation: As history shows it.
        parameters: Of the operation; how it is partitioned unless given.
        files: Its first files.
        note: Called with the session and the new table's head before anything is committed.
    """

    operation: str = "CREATE TABLE"
    parameters: Mapping[str, str] | None = None
    files: tuple[DataFile, ...] = ()
    note: Callable[[Session, Head], None] = lambda _session, _head: None


def make(
    context: LakeContext,
    name: TableName,
    format: str,  # noqa: A002  the name users know
    definition: Definition,
    *,
    guard: bool,
    begin: Beginning | None = None,
) -> Head:
    """Make a table of a definition, with the files that it begins with.

    Raises:
        AlreadyExists: The name is taken, or a table lies where this one would.
        StorageError: The warehouse cannot be written; nothing was made.
        OutcomeUnknown: The store stayed silent. Ask `lake.outcome` by the error's transaction id.
    """
    first = begin or Beginning()

    def once(context: LakeContext, intent: Intent) -> list[Ratified]:
        return _ratify(
            context, intent.transaction_id, name, format, definition, guard=guard, begin=first
        )

    intent = Intent(new_transaction_id(), Isolation.SNAPSHOT, message=None, attempts=1, changes=())
    (member,) = ratify_surely(context, intent, once)
    try:
        publish_member(context, member)
    except LakewardError as error:
        # The table stands; whoever opens the lake next publishes it.
        _LOG.warning("Table %s is made and not yet published: %s", name, error)
    return member.head


def _ratify(
    context: LakeContext,
    transaction_id: str,
    name: TableName,
    format: str,  # noqa: A002  the name users know
    definition: Definition,
    *,
    guard: bool,
    begin: Beginning,
) -> list[Ratified]:
    with context.database.write() as session:
        context.database.lock_schema(session)
        context.check_bound(session)
        done = recorded(session, transaction_id)
        if done:
            # It happened, and the answer was lost.
            return done
        now = now_ms()
        is_iceberg = format == iceberg.FORMAT
        # Iceberg has no snapshot in a table's first document, so files come with the next version.
        later = bool(begin.files) and is_iceberg
        definition = replace(definition, created_ms=now)
        head = enter(context, session, new_head(context, session, name, format, guard=guard), now)
        begin.note(session, head)
        if later:
            empty = make_empty(context, session, head, definition, now)
            return [_add_files(context, session, empty, definition, transaction_id, begin)]
        register(context, session, transaction_id)
        commit = Commit(
            version=0,
            timestamp_ms=now,
            info=CommitInfo(
                transaction_id=transaction_id,
                operation=begin.operation,
                parameters=begin.parameters or told(definition),
                actor=context.actor,
                engine=context.engine,
            ),
            added=begin.files,
            definition=definition,
        )
        if is_iceberg:
            head = iceberg.begin(context, session, head, definition, commit)
        member = Ratified(
            replace(head, version=0, timestamp_ms=now, definition_id=0), commit, definition
        )
        insert(session, member, head)
        if is_iceberg:
            heads.set_published(session, head.table_id, 0)
        transactions.end(session, transaction_id, TransactionState.RATIFIED, now)
    return [member]


def _add_files(
    context: LakeContext,
    session: Session,
    head: Head,
    definition: Definition,
    transaction_id: str,
    begin: Beginning,
) -> Ratified:
    """The first files of an Iceberg table that was made in the same session."""
    register(context, session, transaction_id)
    now = head.timestamp_ms + 1
    info = CommitInfo(
        transaction_id=transaction_id,
        operation=begin.operation,
        parameters=begin.parameters or {},
        actor=context.actor,
        engine=context.engine,
    )
    commit = Commit(version=1, timestamp_ms=now, info=info, added=begin.files)
    advanced = replace(head, version=1, timestamp_ms=now)
    member = iceberg.extend(context, session, Ratified(advanced, commit, definition), aside=[])
    insert(session, member, head)
    transactions.end(session, transaction_id, TransactionState.RATIFIED, now)
    return member
