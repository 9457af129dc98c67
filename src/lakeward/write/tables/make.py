"""A new table entered into the lake: its head, its first version, its place in the warehouse."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from lakeward.context import LakeContext
from lakeward.errors import LakewardError
from lakeward.log import transactions
from lakeward.log.database import Session
from lakeward.model.clock import now_ms
from lakeward.model.commit import (
    CommitInfo,
    Head,
    Isolation,
    TransactionState,
    new_transaction_id,
)
from lakeward.model.definition import Definition
from lakeward.model.file import DataFile
from lakeward.model.names import TableName
from lakeward.write.commit.new_table import begin_table, new_head, register, told
from lakeward.write.commit.outcome import ratify_surely, recorded
from lakeward.write.commit.publish import publish_member
from lakeward.write.commit.ratify import Intent
from lakeward.write.commit.record import Draft, Ratified, discarding

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
    note: Callable[[Session, Head], None] | None = None


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
    with discarding() as members, context.database.write() as session:
        context.database.lock_schema(session)
        context.check_bound(session)
        done = recorded(session, transaction_id)
        if done:
            # It happened, and the answer was lost.
            return done
        now = now_ms()
        definition = replace(definition, created_ms=now)
        register(context, session, transaction_id)
        info = CommitInfo(
            transaction_id=transaction_id,
            operation=begin.operation,
            parameters=begin.parameters or told(definition),
            actor=context.actor,
            engine=context.engine,
        )
        draft = Draft(now, info, definition, added=begin.files)
        new = new_head(context, session, name, format, guard=guard)
        members.append(begin_table(context, session, new, draft, [], begin.note))
        transactions.end(session, transaction_id, TransactionState.RATIFIED, now)
    return members
