"""The Iceberg catalog inside the store: the location of each table's current metadata document.

pyiceberg's `SqlCatalog` and Iceberg's `JdbcCatalog` use these two tables, so engines that support
either catalog open the lake's Iceberg tables directly. Every commit replaces a table's location by
compare-and-set on its row; Lakeward does so inside the ratifying transaction.
"""

from __future__ import annotations

from typing import Final

from lakeward.errors import AlreadyExists
from lakeward.log.database import Session
from lakeward.log.statement import Statement
from lakeward.model.names import TableName
from lakeward.model.namespaces import DEFAULT

CATALOG: Final = "lakeward"
"""The catalog's name, by which engines open it."""
NAMESPACE: Final = DEFAULT
"""The namespace, in the catalog, of tables without a namespace, because Iceberg requires one."""

# The same tables hold views, which other engines and the REST catalog make.
_TABLE = "(iceberg_type IS NULL OR iceberg_type = 'TABLE')"
_OF_TABLE = (
    f"catalog_name = '{CATALOG}' AND table_namespace = :namespace AND table_name = :name"
    f" AND {_TABLE}"
)
_POINTER = Statement(
    f"SELECT metadata_location FROM iceberg_tables WHERE {_OF_TABLE}"  # noqa: S608  our names
)
_LOCK = Statement(
    f"SELECT metadata_location FROM iceberg_tables WHERE {_OF_TABLE} FOR UPDATE"  # noqa: S608  our names
)
_ALL = Statement(
    f"""SELECT table_namespace, table_name, metadata_location FROM iceberg_tables
    WHERE catalog_name = '{CATALOG}' AND {_TABLE}"""  # noqa: S608  our names
)
_INSERT = Statement(
    """INSERT INTO iceberg_tables
    (catalog_name, table_namespace, table_name, metadata_location, iceberg_type)
    VALUES (:catalog, :namespace, :name, :location, 'TABLE') ON CONFLICT DO NOTHING"""
)
_SWAP = Statement(
    f"""UPDATE iceberg_tables SET metadata_location = :new, previous_metadata_location = :before
    WHERE {_OF_TABLE} AND metadata_location = :old"""  # noqa: S608  our names
)
_POINTING = Statement(
    f"""SELECT table_namespace, table_name FROM iceberg_tables
    WHERE catalog_name = '{CATALOG}' AND metadata_location = :location
    ORDER BY table_namespace, table_name"""  # noqa: S608  our names
)
_RENAME = Statement(
    f"""UPDATE iceberg_tables SET table_namespace = :new_namespace, table_name = :new_name
    WHERE {_OF_TABLE}"""  # noqa: S608  our names
)
_DELETE = Statement(
    f"DELETE FROM iceberg_tables WHERE {_OF_TABLE}"  # noqa: S608  our names
)
_EXISTS = Statement(
    """INSERT INTO iceberg_namespace_properties
    (catalog_name, namespace, property_key, property_value)
    VALUES (:catalog, :namespace, 'exists', 'true') ON CONFLICT DO NOTHING"""
)
_BRANCH_POINTER = Statement(
    """SELECT metadata_location FROM iceberg_tables
    WHERE catalog_name = :catalog AND table_namespace = :namespace AND table_name = :name"""
)
_LEAVE = Statement("DELETE FROM iceberg_tables WHERE catalog_name = :catalog")
_LEAVE_NAMESPACES = Statement(
    "DELETE FROM iceberg_namespace_properties WHERE catalog_name = :catalog"
)


def identifier(name: TableName) -> tuple[str, str]:
    """Return a table's namespace and name in the catalog."""
    return name.namespace or NAMESPACE, name.name


def pointer(session: Session, name: TableName) -> str | None:
    """Return the location of a table's metadata document; None if it is not in the catalog."""
    row = session.row(_POINTER, _key(name))
    return row[0] if row else None


def pointers(session: Session) -> dict[tuple[str, str], str | None]:
    """Return the location of every table's metadata document, by namespace and name."""
    return {(namespace, name): place for namespace, name, place in session.rows(_ALL)}


def lock(session: Session, name: TableName) -> str | None:
    """Lock a table's row until the session ends, and return what `pointer` returns."""
    row = session.row(_LOCK, _key(name))
    return row[0] if row else None


def insert(session: Session, name: TableName, location: str) -> None:
    """Insert a table; raise `AlreadyExists` if the catalog has a table of that name."""
    if not _insert(session, CATALOG, name, location):
        namespace, table = identifier(name)
        what = f"The lake's Iceberg catalog has a table {namespace}.{table} already."
        hint = "Choose another name, or drop that table with the engine that made it."
        raise AlreadyExists(what, hint=hint, table=str(name))


def swap(session: Session, name: TableName, old: str, new: str) -> bool:
    """Replace a table's metadata location if it is still `old`; return whether it was."""
    params = {**_key(name), "old": old, "new": new, "before": old}
    return session.run(_SWAP, params) == 1


def pointing_to(session: Session, location: str) -> list[str]:
    """Return the names of the tables whose current metadata document is at a location."""
    return [f"{n}.{t}" for n, t in session.rows(_POINTING, {"location": location})]


def rename(session: Session, old: tuple[str, str], name: TableName) -> None:
    """Rename a table; keep the location of its metadata document."""
    namespace, table = identifier(name)
    session.run(_EXISTS, {"catalog": CATALOG, "namespace": namespace})
    new = {"new_namespace": namespace, "new_name": table}
    session.run(_RENAME, {"namespace": old[0], "name": old[1], **new})


def delete(session: Session, name: TableName) -> None:
    """Delete a table from the catalog; its files stay."""
    session.run(_DELETE, _key(name))


def branch_catalog(branch: str) -> str:
    """Return the name of a branch's catalog, whose rows are in the same two tables."""
    return f"branch_{branch}"


def enter_branch(session: Session, branch: str, name: TableName, location: str) -> None:
    """Insert a table into a branch's catalog, unless it exists there."""
    _insert(session, branch_catalog(branch), name, location)


def branch_pointer(session: Session, branch: str, name: TableName) -> str | None:
    """Return the location of the metadata document of a branch's table, or None."""
    row = session.row(_BRANCH_POINTER, {"catalog": branch_catalog(branch), **_key(name)})
    return row[0] if row else None


def leave_branch(session: Session, branch: str) -> None:
    """Delete all tables and namespaces of a branch's catalog."""
    session.run(_LEAVE, {"catalog": branch_catalog(branch)})
    session.run(_LEAVE_NAMESPACES, {"catalog": branch_catalog(branch)})


def _insert(session: Session, catalog: str, name: TableName, location: str) -> bool:
    key = {"catalog": catalog, **_key(name)}
    session.run(_EXISTS, key)
    return session.run(_INSERT, {**key, "location": location}) == 1


def _key(name: TableName) -> dict[str, str]:
    namespace, table = identifier(name)
    return {"namespace": namespace, "name": table}
