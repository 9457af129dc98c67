"""Renames a table by a commit, so that published files have the new name.

The table keeps its id, its files and its history. Policies apply by name, so a name to which other
policies apply is rejected; so is a table that a foreign key or a branch refers to by name.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from lakeward.context import LakeContext
from lakeward.errors import (
    AlreadyExists,
    InvalidInput,
    LakewardError,
    PolicyViolation,
    UnsupportedFeature,
)
from lakeward.formats.base import Ratified
from lakeward.formats.registry import publishers
from lakeward.log import branches, foreign_keys, heads, policies, transactions, views
from lakeward.log.database import Session
from lakeward.log.renames import BEFORE, RENAME
from lakeward.model.commit import Head, Isolation, TransactionState, new_transaction_id
from lakeward.model.locks import LockMode
from lakeward.model.names import TableName
from lakeward.model.steps import reach
from lakeward.write.commit.conflict import check_locks
from lakeward.write.commit.new_table import own_info
from lakeward.write.commit.once import begin_own, end_own
from lakeward.write.commit.outcome import ratify_surely, recorded
from lakeward.write.commit.publications import publish_member, take_over_or_refuse
from lakeward.write.commit.ratify import Intent, timestamp_after
from lakeward.write.commit.record import Draft, discarding, record

_LOG = logging.getLogger(__name__)


def rename(
    context: LakeContext, old: TableName, new: TableName, transaction_id: str | None = None
) -> None:
    """Rename a table; `Lake.rename` documents the errors.

    With a transaction id, chosen by the caller, repeated calls rename the table once.
    """

    def once(context: LakeContext, intent: Intent) -> list[Ratified]:
        return _ratify(context, intent.transaction_id, old, new)

    own_id = transaction_id or new_transaction_id()
    intent = Intent(own_id, Isolation.SNAPSHOT, message=None, attempts=1, changes=())
    for member in ratify_surely(context, intent, once):
        try:
            publish_member(context, member)
        except LakewardError as error:
            # It has the new name; the next process that opens the lake publishes it.
            _LOG.warning("Table %s is renamed and not yet published: %s", new, error)


def _ratify(
    context: LakeContext, transaction_id: str, old: TableName, new: TableName
) -> list[Ratified]:
    with discarding() as members, context.database.write() as session:
        context.database.lock_schema(session)
        context.check_bound(session)
        if transactions.lock(session, transaction_id) is TransactionState.RATIFIED:
            # The commit succeeded, but its response was lost.
            return recorded(session, transaction_id)
        found = heads.get(session, old)
        locked = heads.lock(session, found.table_id, old)
        check_locks(context, session, [(locked, LockMode.WRITE)])
        head = take_over_or_refuse(context, session, locked)
        _check(session, head, new)
        begin_own(context, session, transaction_id, f"rename {old} to {new}")
        for publisher in publishers(head):
            publisher.leave(context, session, head)
        heads.rename(session, head.table_id, new)
        renamed = replace(head, name=new)
        for publisher in publishers(renamed):
            publisher.enter(context, session, renamed)
        reach("rename.entered")
        names = {BEFORE: str(old), "to": str(new)}
        definition = context.definition(session, renamed)
        info = own_info(context, transaction_id, RENAME, names)
        draft = Draft(timestamp_after([renamed]), info, definition, redefines=True)
        members.append(record(context, session, renamed, draft, []))
        end_own(context, session, transaction_id)
        reach("rename.recorded")
    reach("rename.committed")
    return members


def _check(session: Session, head: Head, new: TableName) -> None:
    """Raise an error if a table cannot be renamed."""
    old = head.name
    if not head.guarded:
        what = f"Table {old} is not guarded: others write it, and know it by its files."
        raise UnsupportedFeature(what, hint="Drop it and adopt it by another name.")
    taken = "Table" if heads.find(session, new) is not None else None
    if views.pointer(session, new) is not None:
        taken = "View"
    if taken is not None:
        what = f"Cannot rename {old} to {new}. {taken} already exists."
        raise AlreadyExists(what, hint="Choose another name.")
    for table_id, constraint in foreign_keys.referring_to(session, old):
        referring = heads.by_id(session, table_id)
        if referring is not None:
            what = (
                f"Foreign key {constraint} of {referring.name} refers to {old}: it cannot be"
                " renamed."
            )
            hint = f"Drop that foreign key of {referring.name} first."
            raise InvalidInput(what, hint=hint, table=str(old), constraint=constraint)
    if branches.live_directories(session, head.table_id):
        what = f"Table {old} has a branch, which knows it by this name."
        raise InvalidInput(what, hint="Publish or drop the branch first.", table=str(old))
    before, after = (policies.for_table(session, name) for name in (old, new))
    if before != after:
        what = f"Other policies apply to {new} than to {old}."
        hint = "Set the same policies for both names first."
        raise PolicyViolation(what, hint=hint, table=str(old))
