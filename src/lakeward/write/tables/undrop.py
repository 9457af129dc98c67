"""Restores a dropped table, unless vacuum has deleted its files."""

from __future__ import annotations

from collections.abc import Sequence

from lakeward.context import LakeContext
from lakeward.errors import AlreadyExists, TableNotFound
from lakeward.formats.registry import publishers
from lakeward.log import audit, heads, retired, views
from lakeward.log.database import Session
from lakeward.model.clock import now_ms
from lakeward.model.commit import Head
from lakeward.model.names import TableName, hint_for_unknown
from lakeward.write.keys.guards import Guard
from lakeward.write.keys.reactions import check_foreign_keys
from lakeward.write.tables.policies import check_governed


def undrop(context: LakeContext, name: TableName) -> Head:
    """Restore the most recently dropped table of this name.

    Raises `AlreadyExists` if the name is in use, `TableNotFound` if no table of this name was
    dropped or its files are deleted, `ConstraintViolation` if rows violate a policy that was set
    meanwhile, or refer to rows that are no longer there, and `InvalidInput` if a foreign key refers
    to a table or a unique key that is no longer there.
    """
    while True:
        guards: Sequence[Guard] = ()
        with context.database.read() as session:
            dropped = None if heads.find(session, name) else _newest_dropped(session, name)
        if dropped is not None:
            guards = _check(context, dropped)
        found = _undrop(context, name, dropped, guards)
        if found is not None:
            return found


def _check(context: LakeContext, dropped: Head) -> Sequence[Guard]:
    """Check the rows of a dropped table, unless vacuum has deleted them; see `check_foreign_keys`.

    Foreign keys to the table itself need no check: its rows are the same as before the drop.
    """
    with context.database.read() as session:
        if retired.is_retired(session, dropped.table_id, dropped.version):
            return ()
        definition = context.definition(session, dropped)
    check_governed(context, dropped)
    return check_foreign_keys(context, dropped, definition, own=dropped.name)


def _undrop(
    context: LakeContext, name: TableName, checked: Head | None, guards: Sequence[Guard]
) -> Head | None:
    """Restore a dropped table; return None if it must be checked again.

    That is so if another policy was set, or tables that it refers to were changed.
    """
    with context.database.write() as session:
        context.database.lock_schema(session)
        context.check_bound(session)
        if heads.find(session, name) is not None:
            what = f"The lake has a table {name}, so the dropped one cannot come back."
            hint = "Drop the present table first."
            raise AlreadyExists(what, hint=hint, table=str(name))
        views.check_absent(session, name)
        # Vacuum holds this lock while it retires versions.
        head, _ = heads.lock_ever(session, _newest_dropped(session, name).table_id)
        if checked is None or head.policy_id != checked.policy_id:
            return None
        others = {g.head.table_id: g.head for g in guards}
        locked = {i: heads.lock(session, i, others[i].name) for i in sorted(others)}
        if not all(g.holds(session, locked[g.head.table_id]) for g in guards):
            return None
        if retired.is_retired(session, head.table_id, head.version):
            what = f"The files of the dropped table {name} were vacuumed."
            raise TableNotFound(what, hint="Only its history is left.", table=str(name))
        taken = heads.by_location(session, head.location)
        if taken is not None:
            what = f"Table {taken.name} has the files of the dropped table {name} by now."
            raise AlreadyExists(what, table=str(name), location=head.location)
        if heads.has_heir(session, head):
            what = f"Another table took over the files of the dropped table {name}."
            hint = "Bring back that one; its history has the versions of both."
            raise AlreadyExists(what, hint=hint, table=str(name), location=head.location)
        at_ms = max(now_ms(), head.timestamp_ms + 1)
        head = audit.record(session, head, at_ms=at_ms, actor=context.actor, action="UNDROP TABLE")
        heads.undrop(session, head.table_id)
        heads.advance(session, head)
        for publisher in publishers(head):
            publisher.enter(context, session, head)
        return head


def _newest_dropped(session: Session, name: TableName) -> Head:
    known = [head for head, _ in heads.dropped(session)]
    for head in known:
        if head.name == name:
            return head
    what = f"No table {name} was dropped."
    hint = hint_for_unknown(name, (h.name for h in known)) if known else "No dropped table is left."
    raise TableNotFound(what, hint=hint, table=str(name))
