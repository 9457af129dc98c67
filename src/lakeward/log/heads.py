"""Each table's head row: its name, where it is, and its newest version. Commits lock it."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import bindparam

from lakeward.errors import AlreadyExists, TableNotFound
from lakeward.log.audit import Link
from lakeward.log.codec import head_of
from lakeward.log.database import Session
from lakeward.log.statement import Statement, equal, insertion
from lakeward.log.tables import head
from lakeward.model.commit import Head
from lakeward.model.names import TableName

_COLUMNS = [c for c in head.c if c.name not in ("created_ms", "dropped_ms")]
_SELECT = sa.select(*_COLUMNS).where(head.c.dropped_ms.is_(None))

_ALL = Statement(_SELECT.order_by(head.c.namespace, head.c.name))
_BY_NAME = Statement(_SELECT.where(*equal(head, "namespace", "name")))
_BY_ID = Statement(_SELECT.where(*equal(head, "table_id")))
_EVER_BY_ID = Statement(sa.select(*_COLUMNS).where(*equal(head, "table_id")))
_BY_LOCATION = Statement(_SELECT.where(*equal(head, "location")))
_AT_MOMENT = Statement(
    sa.select(*_COLUMNS)
    .where(sa.or_(head.c.dropped_ms.is_(None), head.c.dropped_ms > bindparam("moment")))
    # Of several tables that had one name in turn, the one of that moment comes first.
    .order_by(
        head.c.namespace,
        head.c.name,
        sa.case((head.c.created_ms <= bindparam("moment"), 0), else_=1),
        head.c.created_ms.desc(),
    )
)
_SHARE = Statement(sa.select(head.c.table_id).order_by(head.c.table_id).with_for_update(read=True))
_LOCK = Statement(_SELECT.where(*equal(head, "table_id")).with_for_update())
_UNPUBLISHED = Statement(_SELECT.where(head.c.version > head.c.published))
_UNGUARDED = Statement(_SELECT.where(head.c.guarded == 0))
_OF_FORMAT = Statement(_SELECT.where(*equal(head, "format")))
_MOVED = Statement(
    f"""SELECT {", ".join(f"h.{c.name}" for c in _COLUMNS)} FROM lakeward_head h
    JOIN iceberg_tables i ON i.catalog_name = 'lakeward' AND i.table_name = h.name
      AND i.table_namespace = CASE WHEN h.namespace = '' THEN 'default' ELSE h.namespace END
    WHERE h.dropped_ms IS NULL AND h.format = 'iceberg' AND i.metadata_location <> h.pointer"""  # noqa: S608  column names of our own
)
_AT_LOCATION = Statement(
    sa.select(head.c.namespace, head.c.name).where(*equal(head, "location")).limit(1)
)
# '0' is the character after '/', so this range is everything below a location.
_BELOW_LOCATION = Statement(
    sa.select(head.c.namespace, head.c.name)
    .where(head.c.location > bindparam("below"), head.c.location < bindparam("behind"))
    .limit(1)
)
# Another process may take the name between a look at it and the insertion.
_INSERT = insertion(
    head, "ON CONFLICT DO NOTHING RETURNING table_id", without=("table_id", "dropped_ms")
)
_MOVED_ON = ("version", "timestamp_ms", "definition_id", "audit_seq", "audit_hash", "pointer")
_ADVANCE = Statement(
    sa.update(head)
    .where(head.c.table_id == bindparam("id"))
    .values({name: bindparam(name) for name in _MOVED_ON})
)
_SET_PUBLISHED = Statement(
    sa.update(head)
    .where(head.c.table_id == bindparam("id"), head.c.published < bindparam("new"))
    .values(published=bindparam("new"))
)
_SET_GUARD = Statement(
    sa.update(head).where(head.c.table_id == bindparam("id")).values(guarded=bindparam("new"))
)
_DROP = Statement(
    sa.update(head).where(head.c.table_id == bindparam("id")).values(dropped_ms=bindparam("now"))
)


def all_heads(session: Session) -> list[Head]:
    """Every table's head, by name."""
    return [head_of(row) for row in session.rows(_ALL)]


def at_moment(session: Session, moment_ms: int) -> list[Head]:
    """Heads of the tables that may have existed at a moment, by name, later dropped ones too.

    Of several tables that had one name in turn, the one of that moment comes first.
    """
    return [head_of(row) for row in session.rows(_AT_MOMENT, {"moment": moment_ms})]


def wait_for_commits(session: Session) -> None:
    """Wait in a write session for every commit that is under way."""
    session.rows(_SHARE)


def unpublished(session: Session) -> list[Head]:
    """Heads whose last known publication is older than their version."""
    return [head_of(row) for row in session.rows(_UNPUBLISHED)]


def unguarded(session: Session) -> list[Head]:
    """Heads of tables that others may write."""
    return [head_of(row) for row in session.rows(_UNGUARDED)]


def of_format(session: Session, name: str) -> list[Head]:
    """Heads of the tables of a format."""
    return [head_of(row) for row in session.rows(_OF_FORMAT, {"format": name})]


def moved(session: Session) -> list[Head]:
    """Heads of Iceberg tables whose catalog pointer another engine moved."""
    return [head_of(row) for row in session.rows(_MOVED)]


def find(session: Session, name: TableName) -> Head | None:
    """The head of the table of this name, if there is one."""
    row = session.row(_BY_NAME, {"namespace": name.namespace, "name": name.name})
    return head_of(row) if row else None


def get(session: Session, name: TableName) -> Head:
    """The head of the table of this name; `TableNotFound` if there is none."""
    found = find(session, name)
    if found is None:
        raise missing(name)
    return found


def missing(name: TableName) -> TableNotFound:
    """The error that there is no table of this name."""
    what = f"The lake has no table {name}."
    return TableNotFound(what, hint="`lakeward tables` lists what it has.", table=str(name))


def by_id(session: Session, table_id: int) -> Head | None:
    """The head of the table of this id, unless it was dropped."""
    row = session.row(_BY_ID, {"table_id": table_id})
    return head_of(row) if row else None


def ever_by_id(session: Session, table_id: int) -> Head:
    """The head of the table of this id, even when it was dropped."""
    return head_of(session.row(_EVER_BY_ID, {"table_id": table_id}))


def by_location(session: Session, location: str) -> Head | None:
    """The head of the table at this location, if there is one."""
    row = session.row(_BY_LOCATION, {"location": location})
    return head_of(row) if row else None


def overlapping(session: Session, location: str) -> TableName | None:
    """A table, dropped or not, whose location is this one, above it or below it."""
    row = session.row(_AT_LOCATION, {"location": location})
    return TableName(*row) if row else nested(session, location)


def nested(session: Session, location: str) -> TableName | None:
    """A table, dropped or not, whose location is above or below this one.

    Tables must not nest: a cleanup of the outer one would delete the inner one's files.
    """
    row = session.row(_BELOW_LOCATION, {"below": f"{location}/", "behind": f"{location}0"})
    while row is None and "/" in location.strip("/"):
        location = location.rpartition("/")[0]
        row = session.row(_AT_LOCATION, {"location": location})
    return TableName(*row) if row else None


def lock(session: Session, table_id: int, name: TableName) -> Head:
    """Lock the head until the session ends, and return it; `TableNotFound` if it was dropped."""
    row = session.row(_LOCK, {"table_id": table_id})
    if row is None:
        what = f"The table {name} was dropped meanwhile."
        raise TableNotFound(what, table=str(name))
    return head_of(row)


def insert(session: Session, new: Head, created_ms: int) -> int:
    """Insert a new table's head; its id. `AlreadyExists` if name or location is taken."""
    row = session.row(
        _INSERT,
        {
            "uuid": new.uuid,
            "namespace": new.name.namespace,
            "name": new.name.name,
            "format": new.format,
            "location": new.location,
            "guarded": int(new.guarded),
            "drift": new.drift,
            "version": new.version,
            "timestamp_ms": new.timestamp_ms,
            "definition_id": new.definition_id,
            "published": new.published,
            "audit_seq": new.audit_seq,
            "audit_hash": new.audit_hash,
            "created_ms": created_ms,
            "pointer": new.pointer,
        },
    )
    if row is None:
        taken = "table" if find(session, new.name) is not None else "table at the location of"
        what = f"The lake has a {taken} {new.name} already."
        raise AlreadyExists(what, hint="Drop it, or choose another name.", table=str(new.name))
    return int(row[0])


def advance(session: Session, new: Head, link: Link | None = None) -> None:
    """Update a locked head, with a new end of its audit trail if `link` is given."""
    session.run(
        _ADVANCE,
        {
            "id": new.table_id,
            "version": new.version,
            "timestamp_ms": new.timestamp_ms,
            "definition_id": new.definition_id,
            "audit_seq": new.audit_seq if link is None else link.seq,
            "audit_hash": new.audit_hash if link is None else link.hash,
            "pointer": new.pointer,
        },
    )


def set_published(session: Session, table_id: int, version: int) -> None:
    """Record that every version up to this one is published and synced."""
    session.run(_SET_PUBLISHED, {"id": table_id, "new": version})


def set_guarded(session: Session, table_id: int, *, guarded: bool) -> None:
    """Record whether the table is guarded."""
    session.run(_SET_GUARD, {"id": table_id, "new": int(guarded)})


def drop(session: Session, table_id: int, now: int) -> None:
    """Mark a table as dropped; its rows and files stay until they are vacuumed."""
    session.run(_DROP, {"id": table_id, "now": now})
