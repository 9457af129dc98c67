"""Restores a dropped table, unless vacuum has deleted its files."""

from __future__ import annotations

from lakeward.context import LakeContext
from lakeward.errors import AlreadyExists, TableNotFound
from lakeward.formats.registry import publishers
from lakeward.log import audit, heads, retired
from lakeward.log.database import Session
from lakeward.model.clock import now_ms
from lakeward.model.commit import Head
from lakeward.model.names import TableName, hint_for_unknown
from lakeward.write.tables.policies import check_governed


def undrop(context: LakeContext, name: TableName) -> Head:
    """Restore the most recently dropped table of this name.

    Raises `AlreadyExists` if the name is in use, `TableNotFound` if no table of this name was
    dropped or its files are deleted, and `ConstraintViolation` if rows violate a policy that was
    set meanwhile.
    """
    while True:
        with context.database.read() as session:
            dropped = None if heads.find(session, name) else _newest_dropped(session, name)
        if dropped is not None:
            check_governed(context, dropped)
        found = _undrop(context, name, dropped)
        if found is not None:
            return found


def _undrop(context: LakeContext, name: TableName, checked: Head | None) -> Head | None:
    """Restore a dropped table; return None if another policy was set since it was checked."""
    with context.database.write() as session:
        context.database.lock_schema(session)
        context.check_bound(session)
        if heads.find(session, name) is not None:
            what = f"The lake has a table {name}, so the dropped one cannot come back."
            hint = "Drop the present table first."
            raise AlreadyExists(what, hint=hint, table=str(name))
        # Vacuum holds this lock while it retires versions.
        head, _ = heads.lock_ever(session, _newest_dropped(session, name).table_id)
        if checked is None or head.policy_id != checked.policy_id:
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
    raise TableNotFound(what, hint=hint_for_unknown(name, (h.name for h in known)), table=str(name))
