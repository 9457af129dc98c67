"""Views in the store's Iceberg catalog: the location of each view's current metadata document.

They are rows of the table in which Iceberg's `JdbcCatalog` keeps tables and views, distinguished by
their type.
"""

from __future__ import annotations

from lakeward.errors import AlreadyExists
from lakeward.log.catalog import CATALOG, identifier
from lakeward.log.database import Session
from lakeward.log.statement import Statement
from lakeward.model.names import TableName

_VIEW = f"catalog_name = '{CATALOG}' AND iceberg_type = 'VIEW'"
_OF_VIEW = f"{_VIEW} AND table_namespace = :namespace AND table_name = :name"
_ALL = Statement(
    f"""SELECT table_namespace, table_name FROM iceberg_tables WHERE {_VIEW}
    ORDER BY table_namespace, table_name"""  # noqa: S608  our names
)
_POINTER = Statement(
    f"SELECT metadata_location FROM iceberg_tables WHERE {_OF_VIEW}"  # noqa: S608  our names
)
_INSERT = Statement(
    f"""INSERT INTO iceberg_tables
    (catalog_name, table_namespace, table_name, metadata_location, iceberg_type)
    VALUES ('{CATALOG}', :namespace, :name, :location, 'VIEW') ON CONFLICT DO NOTHING"""  # noqa: S608  our names
)
_SWAP = Statement(
    f"""UPDATE iceberg_tables SET metadata_location = :new, previous_metadata_location = :before
    WHERE {_OF_VIEW} AND metadata_location = :old"""  # noqa: S608  our names
)
_RENAME = Statement(
    f"""UPDATE iceberg_tables SET table_namespace = :new_namespace, table_name = :new_name
    WHERE {_OF_VIEW}"""  # noqa: S608  our names
)
_DELETE = Statement(
    f"DELETE FROM iceberg_tables WHERE {_OF_VIEW}"  # noqa: S608  our names
)


def every(session: Session) -> list[tuple[str, str]]:
    """Return the namespace and name of every view, sorted."""
    return [(namespace, name) for namespace, name in session.rows(_ALL)]


def pointer(session: Session, name: TableName) -> str | None:
    """Return the location of a view's metadata document; None if there is no such view."""
    row = session.row(_POINTER, _key(name))
    return row[0] if row else None


def check_absent(session: Session, name: TableName) -> None:
    """Raise `AlreadyExists` if there is a view of a name."""
    if pointer(session, name) is not None:
        what = f"The lake has a view {name} already."
        raise AlreadyExists(what, hint="Choose another name.", view=str(name))


def insert(session: Session, name: TableName, location: str) -> bool:
    """Insert a view; return False if the catalog has a table or a view of that name."""
    return session.run(_INSERT, {**_key(name), "location": location}) == 1


def swap(session: Session, name: TableName, old: str, new: str) -> bool:
    """Replace a view's metadata location if it is still `old`; return whether it was."""
    return session.run(_SWAP, {**_key(name), "old": old, "new": new, "before": old}) == 1


def rename(session: Session, old: TableName, new: TableName) -> None:
    """Rename a view; keep the location of its metadata document."""
    namespace, name = identifier(new)
    session.run(_RENAME, {**_key(old), "new_namespace": namespace, "new_name": name})


def delete(session: Session, name: TableName) -> bool:
    """Delete a view, but not its metadata files; return whether there was one."""
    return session.run(_DELETE, _key(name)) == 1


def _key(name: TableName) -> dict[str, str]:
    namespace, view = identifier(name)
    return {"namespace": namespace, "name": view}
