"""The Iceberg catalog inside the store: the current metadata document of every table.

pyiceberg's `SqlCatalog` and Iceberg's `JdbcCatalog` share these two tables, so engines with either
open the lake's Iceberg tables directly. Every commit moves a table's pointer by compare-and-set on
its row; the lake does so inside the ratifying transaction.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from sqlalchemy import bindparam

from lakeward.errors import AlreadyExists
from lakeward.log.database import Session
from lakeward.log.statement import Statement
from lakeward.log.tables import iceberg_namespace, iceberg_table
from lakeward.model.names import TableName

CATALOG: Final = "lakeward"
"""The catalog's name, by which engines open it."""
NAMESPACE: Final = "default"
"""The namespace of tables without one, because Iceberg requires one."""

_OF_TABLE = (
    iceberg_table.c.catalog_name == CATALOG,
    iceberg_table.c.table_namespace == bindparam("namespace"),
    iceberg_table.c.table_name == bindparam("name"),
)
_POINTER = Statement(sa.select(iceberg_table.c.metadata_location).where(*_OF_TABLE))
_LOCK = Statement(sa.select(iceberg_table.c.metadata_location).where(*_OF_TABLE).with_for_update())
_ALL = Statement(
    sa.select(
        iceberg_table.c.table_namespace,
        iceberg_table.c.table_name,
        iceberg_table.c.metadata_location,
    ).where(iceberg_table.c.catalog_name == CATALOG)
)
_INSERT = Statement(
    """INSERT INTO iceberg_tables
    (catalog_name, table_namespace, table_name, metadata_location, iceberg_type)
    VALUES (:catalog, :namespace, :name, :location, 'TABLE') ON CONFLICT DO NOTHING"""
)
_SWAP = Statement(
    sa.update(iceberg_table)
    .where(*_OF_TABLE, iceberg_table.c.metadata_location == bindparam("old"))
    .values(metadata_location=bindparam("new"), previous_metadata_location=bindparam("before"))
)
_POINTING = Statement(
    sa.select(iceberg_table.c.table_namespace, iceberg_table.c.table_name)
    .where(
        iceberg_table.c.catalog_name == CATALOG,
        iceberg_table.c.metadata_location == bindparam("location"),
    )
    .order_by(iceberg_table.c.table_namespace, iceberg_table.c.table_name)
)
_RENAME = Statement(
    sa.update(iceberg_table)
    .where(*_OF_TABLE)
    .values(table_namespace=bindparam("new_namespace"), table_name=bindparam("new_name"))
)
_DELETE = Statement(sa.delete(iceberg_table).where(*_OF_TABLE))
_EXISTS = Statement(
    """INSERT INTO iceberg_namespace_properties
    (catalog_name, namespace, property_key, property_value)
    VALUES (:catalog, :namespace, 'exists', 'true') ON CONFLICT DO NOTHING"""
)
_BRANCH_POINTER = Statement(
    sa.select(iceberg_table.c.metadata_location).where(
        iceberg_table.c.catalog_name == bindparam("catalog"), *_OF_TABLE[1:]
    )
)
_LEAVE = Statement(
    sa.delete(iceberg_table).where(iceberg_table.c.catalog_name == bindparam("catalog"))
)
_LEAVE_NAMESPACES = Statement(
    sa.delete(iceberg_namespace).where(iceberg_namespace.c.catalog_name == bindparam("catalog"))
)


def identifier(name: TableName) -> tuple[str, str]:
    """A table's namespace and name in the catalog."""
    return name.namespace or NAMESPACE, name.name


def pointer(session: Session, name: TableName) -> str | None:
    """The location of a table's metadata document; None if the catalog has no such table."""
    row = session.row(_POINTER, _key(name))
    return row[0] if row else None


def pointers(session: Session) -> dict[tuple[str, str], str | None]:
    """Every table's current metadata document, by namespace and name."""
    return {(namespace, name): place for namespace, name, place in session.rows(_ALL)}


def lock(session: Session, name: TableName) -> str | None:
    """The same as `pointer`, with a lock on the row until the session ends."""
    row = session.row(_LOCK, _key(name))
    return row[0] if row else None


def insert(session: Session, name: TableName, location: str) -> None:
    """Insert a table; `AlreadyExists` if the catalog has one of that name."""
    if not _insert(session, CATALOG, name, location):
        namespace, table = identifier(name)
        what = f"The lake's Iceberg catalog has a table {namespace}.{table} already."
        hint = "Choose another name, or drop that table with the engine that made it."
        raise AlreadyExists(what, hint=hint, table=str(name))


def swap(session: Session, name: TableName, old: str, new: str) -> bool:
    """Move a table's pointer, if it still is `old`; whether it was."""
    params = {**_key(name), "old": old, "new": new, "before": old}
    return session.run(_SWAP, params) == 1


def pointing_to(session: Session, location: str) -> list[str]:
    """The names of the tables whose current metadata document is at a location."""
    return [f"{n}.{t}" for n, t in session.rows(_POINTING, {"location": location})]


def rename(session: Session, old: tuple[str, str], name: TableName) -> None:
    """Rename a table and keep its pointer."""
    namespace, table = identifier(name)
    session.run(_EXISTS, {"catalog": CATALOG, "namespace": namespace})
    new = {"new_namespace": namespace, "new_name": table}
    session.run(_RENAME, {"namespace": old[0], "name": old[1], **new})


def delete(session: Session, name: TableName) -> None:
    """Delete a table from the catalog; its files stay."""
    session.run(_DELETE, _key(name))


def branch_catalog(branch: str) -> str:
    """The name of a branch's own catalog, which is in the same two tables."""
    return f"branch_{branch}"


def enter_branch(session: Session, branch: str, name: TableName, location: str) -> None:
    """Insert a table of a branch, unless it exists."""
    _insert(session, branch_catalog(branch), name, location)


def branch_pointer(session: Session, branch: str, name: TableName) -> str | None:
    """The location of the metadata document of a branch's table, or None."""
    row = session.row(_BRANCH_POINTER, {"catalog": branch_catalog(branch), **_key(name)})
    return row[0] if row else None


def leave_branch(session: Session, branch: str) -> None:
    """Delete all tables of a branch from the catalog."""
    session.run(_LEAVE, {"catalog": branch_catalog(branch)})
    session.run(_LEAVE_NAMESPACES, {"catalog": branch_catalog(branch)})


def _insert(session: Session, catalog: str, name: TableName, location: str) -> bool:
    key = {"catalog": catalog, **_key(name)}
    session.run(_EXISTS, key)
    return session.run(_INSERT, {**key, "location": location}) == 1


def _key(name: TableName) -> dict[str, str]:
    namespace, table = identifier(name)
    return {"namespace": namespace, "name": table}
