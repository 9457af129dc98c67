"""Each table's head row: its name, location and newest version. Commits lock it."""

from __future__ import annotations

from lakeward.errors import AlreadyExists, TableNotFound
from lakeward.log import views
from lakeward.log.audit import Link
from lakeward.log.codec import head_of
from lakeward.log.database import Session
from lakeward.log.statement import Statement, insertion
from lakeward.log.tables import head
from lakeward.model.commit import Head
from lakeward.model.names import TableName, hint_for_unknown

_UNSEEN = ("created_ms", "dropped_ms", "dropped_position")
_NAMES = [name for name in head.columns if name not in _UNSEEN]
_COLUMNS = ", ".join(_NAMES)
_SELECT = f"SELECT {_COLUMNS} FROM lakeward_head WHERE dropped_ms IS NULL"  # noqa: S608  our names
_ALL = Statement(f"{_SELECT} ORDER BY namespace, name")
_NAMES_NOW = Statement(
    "SELECT namespace, name FROM lakeward_head WHERE dropped_ms IS NULL ORDER BY namespace, name"
)
_BY_NAME = Statement(f"{_SELECT} AND namespace = :namespace AND name = :name")
_BY_ID = Statement(f"{_SELECT} AND table_id = :table_id")
_EVER_BY_ID = Statement(
    f"SELECT {_COLUMNS} FROM lakeward_head WHERE table_id = :table_id"  # noqa: S608  our names
)
_BY_LOCATION = Statement(f"{_SELECT} AND location = :location")
_AT_MOMENT = Statement(
    f"""SELECT {_COLUMNS} FROM lakeward_head WHERE dropped_ms IS NULL OR dropped_ms > :moment
    ORDER BY CASE WHEN created_ms <= :moment THEN 0 ELSE 1 END, created_ms DESC"""  # noqa: S608  our names
)
_AT_POSITION = Statement(
    f"""SELECT {_COLUMNS} FROM lakeward_head
    WHERE dropped_ms IS NULL OR dropped_position > :position
    ORDER BY created_ms, table_id"""  # noqa: S608  our names
)
_SHARE = Statement("SELECT table_id FROM lakeward_head ORDER BY table_id FOR SHARE")
_LOCK = Statement(f"{_SELECT} AND table_id = :table_id FOR UPDATE")
_UNPUBLISHED = Statement(f"{_SELECT} AND version > published")
_UNGUARDED = Statement(f"{_SELECT} AND guarded = 0")
_OF_FORMAT = Statement(f"{_SELECT} AND format = :format")
_MOVED = Statement(
    f"""SELECT {", ".join(f"h.{name}" for name in _NAMES)} FROM lakeward_head h
    JOIN iceberg_tables i ON i.catalog_name = 'lakeward' AND i.table_name = h.name
      AND i.table_namespace = CASE WHEN h.namespace = '' THEN 'default' ELSE h.namespace END
    WHERE h.dropped_ms IS NULL AND h.format = 'iceberg' AND i.metadata_location <> h.pointer"""  # noqa: S608  column names of our own
)
_AT_LOCATION = Statement(
    "SELECT namespace, name FROM lakeward_head WHERE location = :location LIMIT 1"
)
# '0' is the character after '/', so this range is everything below a location.
_BELOW_LOCATION = Statement(
    """SELECT namespace, name FROM lakeward_head WHERE location > :below AND location < :behind
    LIMIT 1"""
)
# Another process may take the name between a look at it and the insertion.
_INSERT = insertion(
    head,
    "ON CONFLICT DO NOTHING RETURNING table_id",
    without=("table_id", "dropped_ms", "dropped_position"),
)
_ADVANCE = Statement(
    """UPDATE lakeward_head
    SET version = :version, timestamp_ms = :timestamp_ms, definition_id = :definition_id,
      audit_seq = :audit_seq, audit_hash = :audit_hash, pointer = :pointer
    WHERE table_id = :id"""
)
_SET_PUBLISHED = Statement(
    "UPDATE lakeward_head SET published = :new WHERE table_id = :id AND published < :new"
)
_SET_GUARD = Statement("UPDATE lakeward_head SET guarded = :new WHERE table_id = :id")
_SHARE_ONE = Statement("SELECT table_id FROM lakeward_head WHERE table_id = :table_id FOR SHARE")
_LOCK_EVER = Statement(
    f"SELECT {_COLUMNS}, dropped_ms FROM lakeward_head WHERE table_id = :table_id FOR UPDATE"  # noqa: S608  our names
)
_DROPPED = Statement(
    f"""SELECT {_COLUMNS}, dropped_ms FROM lakeward_head WHERE dropped_ms IS NOT NULL
    ORDER BY dropped_ms DESC, table_id DESC"""  # noqa: S608  our names
)
_HEIR = Statement(
    """SELECT 1 FROM lakeward_head WHERE location = :location AND table_id > :table_id LIMIT 1"""
)
_BEFORE = Statement(
    """SELECT table_id FROM lakeward_head WHERE location = :location AND table_id < :table_id
    ORDER BY table_id"""
)
_LAST = Statement(
    "SELECT table_id FROM lakeward_head WHERE location = :location ORDER BY table_id DESC LIMIT 1"
)
# The position of the drop stays: the next transaction must get a later one.
_UNDROP = Statement("UPDATE lakeward_head SET dropped_ms = NULL WHERE table_id = :id")
_SET_POLICY = Statement("UPDATE lakeward_head SET policy_id = :new WHERE table_id = :id")
_NAMES_EVER = Statement(
    "SELECT table_id, namespace, name, version FROM lakeward_head ORDER BY table_id"
)
_RENAME = Statement(
    "UPDATE lakeward_head SET namespace = :namespace, name = :name WHERE table_id = :id"
)
_DROP = Statement(
    """UPDATE lakeward_head SET dropped_ms = :now, dropped_position = :position
    WHERE table_id = :id"""
)


def all_heads(session: Session) -> list[Head]:
    """Return the heads of all tables, ordered by name."""
    return [head_of(row) for row in session.rows(_ALL)]


def names(session: Session) -> list[TableName]:
    """Return the names of all tables, in order."""
    return [TableName(*row) for row in session.rows(_NAMES_NOW)]


def at_moment(session: Session, moment_ms: int) -> list[Head]:
    """Return the heads of tables that may have existed at a time.

    Tables that were dropped later are included. Those that the lake had at that time come before
    those that were adopted later with an older history.
    """
    return [head_of(row) for row in session.rows(_AT_MOMENT, {"moment": moment_ms})]


def at_position(session: Session, position: int) -> list[Head]:
    """Return the heads of tables not dropped at a position, oldest first, and of later tables."""
    return [head_of(row) for row in session.rows(_AT_POSITION, {"position": position})]


def wait_for_commits(session: Session) -> None:
    """Wait in a write session until every commit that is under way has ended."""
    session.rows(_SHARE)


def share(session: Session, table_id: int) -> None:
    """Lock a table's head in shared mode until the session ends, so that others cannot lock it."""
    session.row(_SHARE_ONE, {"table_id": table_id})


def unpublished(session: Session) -> list[Head]:
    """Return the heads of tables whose newest version is not known to be published."""
    return [head_of(row) for row in session.rows(_UNPUBLISHED)]


def unguarded(session: Session) -> list[Head]:
    """Return the heads of open tables, to which others may write."""
    return [head_of(row) for row in session.rows(_UNGUARDED)]


def of_format(session: Session, name: str) -> list[Head]:
    """Return the heads of all tables of a format."""
    return [head_of(row) for row in session.rows(_OF_FORMAT, {"format": name})]


def moved(session: Session) -> list[Head]:
    """Return the heads of Iceberg tables whose metadata location another engine changed."""
    return [head_of(row) for row in session.rows(_MOVED)]


def find(session: Session, name: TableName) -> Head | None:
    """Return the head of the table of this name, or None."""
    row = session.row(_BY_NAME, {"namespace": name.namespace, "name": name.name})
    return head_of(row) if row else None


def get(session: Session, name: TableName) -> Head:
    """Return the head of the table of this name; raise `TableNotFound` if there is none."""
    found = find(session, name)
    if found is None:
        raise missing(session, name)
    return found


def missing(session: Session, name: TableName) -> TableNotFound:
    """Return the error that there is no table of this name; it suggests similar names."""
    what = f"The lake has no table {name}."
    hint = hint_for_unknown(name, names(session))
    return TableNotFound(what, hint=hint, table=str(name))


def by_id(session: Session, table_id: int) -> Head | None:
    """Return the head of the table of this id; None if the table was dropped."""
    row = session.row(_BY_ID, {"table_id": table_id})
    return head_of(row) if row else None


def ever_by_id(session: Session, table_id: int) -> Head:
    """Return the head of the table of this id, even if the table was dropped."""
    return head_of(session.row(_EVER_BY_ID, {"table_id": table_id}))


def by_location(session: Session, location: str) -> Head | None:
    """Return the head of the table at this location, or None."""
    row = session.row(_BY_LOCATION, {"location": location})
    return head_of(row) if row else None


def overlapping(session: Session, location: str) -> TableName | None:
    """Return a table, dropped or not, at this location or above or below it; None without one."""
    row = session.row(_AT_LOCATION, {"location": location})
    return TableName(*row) if row else nested(session, location)


def nested(session: Session, location: str) -> TableName | None:
    """Return a table, dropped or not, whose location is above or below this one, or None.

    Tables must not nest: a cleanup of the outer table would delete the files of the inner one.
    """
    row = session.row(_BELOW_LOCATION, {"below": f"{location}/", "behind": f"{location}0"})
    while row is None and "/" in location.strip("/"):
        location = location.rpartition("/")[0]
        row = session.row(_AT_LOCATION, {"location": location})
    return TableName(*row) if row else None


def lock(session: Session, table_id: int, name: TableName) -> Head:
    """Lock a head until the session ends, and return it; raise `TableNotFound` if it is dropped."""
    row = session.row(_LOCK, {"table_id": table_id})
    if row is None:
        what = f"The table {name} was dropped meanwhile."
        raise TableNotFound(what, table=str(name))
    return head_of(row)


def insert(session: Session, new: Head, created_ms: int) -> int:
    """Insert a new table's head; return the table's id.

    Raise `AlreadyExists` if there is a table or a view of its name, or a table at its location.
    """
    views.check_absent(session, new.name)
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
            "policy_id": new.policy_id,
        },
    )
    if row is None:
        taken = "table" if find(session, new.name) is not None else "table at the location of"
        what = f"The lake has a {taken} {new.name} already."
        raise AlreadyExists(what, hint="Choose another name.", table=str(new.name))
    return int(row[0])


def advance(session: Session, new: Head, link: Link | None = None) -> None:
    """Store the new state of a locked head; `link`, if given, is the new end of its audit trail."""
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
    """Record that every version up to and including this one is published and synced."""
    session.run(_SET_PUBLISHED, {"id": table_id, "new": version})


def set_guarded(session: Session, table_id: int, *, guarded: bool) -> None:
    """Record whether a table is guarded."""
    session.run(_SET_GUARD, {"id": table_id, "new": int(guarded)})


def ever(session: Session) -> list[tuple[int, TableName, int]]:
    """Return the id, name and version of every table, including dropped ones, by id."""
    return [(i, TableName(space, name), v) for i, space, name, v in session.rows(_NAMES_EVER)]


def set_policy(session: Session, table_id: int, policy_id: int) -> None:
    """Record the newest policy that matches a table, so that readers of the head reload it."""
    session.run(_SET_POLICY, {"id": table_id, "new": policy_id})


def rename(session: Session, table_id: int, new: TableName) -> None:
    """Change the name of a table; the caller has checked that no table has the new name."""
    params = {"id": table_id, "namespace": new.namespace, "name": new.name}
    session.run(_RENAME, params)


def drop(session: Session, table_id: int, now: int, position: int) -> None:
    """Mark a table as dropped; its rows and files stay until they are vacuumed.

    Cuts at this position or a later one do not contain the table.
    """
    session.run(_DROP, {"id": table_id, "now": now, "position": position})


def undrop(session: Session, table_id: int) -> None:
    """Mark a dropped table as live again; its name and location must be free."""
    session.run(_UNDROP, {"id": table_id})


def dropped(session: Session) -> list[tuple[Head, int]]:
    """Return heads of dropped tables, each with the time of the drop, newest first."""
    return [(head_of(row[:-1]), row[-1]) for row in session.rows(_DROPPED)]


def lock_ever(session: Session, table_id: int) -> tuple[Head, int | None]:
    """Lock a head, even of a dropped table; return it and the time of the drop, or None."""
    row = session.row(_LOCK_EVER, {"table_id": table_id})
    return head_of(row[:-1]), row[-1]


def has_heir(session: Session, head: Head) -> bool:
    """Return whether another table was adopted later at the location of this dropped table."""
    params = {"location": head.location, "table_id": head.table_id}
    return session.row(_HEIR, params) is not None


def last_at_location(session: Session, location: str) -> int | None:
    """Return the id of the table, dropped or not, that had a location last; None if none had."""
    row = session.row(_LAST, {"location": location})
    return None if row is None else int(row[0])


def before_at_location(session: Session, head: Head) -> list[int]:
    """Return the ids of dropped tables that had this table's location before, oldest first."""
    params = {"location": head.location, "table_id": head.table_id}
    return [row[0] for row in session.rows(_BEFORE, params)]
