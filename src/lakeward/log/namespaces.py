"""Namespaces of the Iceberg catalog inside the store, and their properties.

A namespace exists if it has a property `exists`, as in pyiceberg's `SqlCatalog` and Iceberg's
`JdbcCatalog`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from lakeward.log.catalog import CATALOG
from lakeward.log.database import Session
from lakeward.log.statement import Statement

EXISTS: Final = "exists"
"""The property that records a namespace; not a property of the user."""
_OF = f"catalog_name = '{CATALOG}' AND namespace = :namespace"
_ALL = Statement(
    f"""SELECT DISTINCT namespace FROM iceberg_namespace_properties
    WHERE catalog_name = '{CATALOG}' ORDER BY namespace"""  # noqa: S608  our names
)
_PROPERTIES = Statement(
    f"""SELECT property_key, property_value FROM iceberg_namespace_properties
    WHERE {_OF} ORDER BY property_key"""  # noqa: S608  our names
)
_SET = Statement(
    f"""INSERT INTO iceberg_namespace_properties
    (catalog_name, namespace, property_key, property_value)
    VALUES ('{CATALOG}', :namespace, :key, :value)
    ON CONFLICT (catalog_name, namespace, property_key)
    DO UPDATE SET property_value = excluded.property_value"""  # noqa: S608  our names
)
_UNSET = Statement(
    f"DELETE FROM iceberg_namespace_properties WHERE {_OF} AND property_key = :key"  # noqa: S608  our names
)
_DELETE = Statement(
    f"DELETE FROM iceberg_namespace_properties WHERE {_OF}"  # noqa: S608  our names
)


def entered(session: Session) -> list[str]:
    """Return the namespaces in the catalog, including those without tables."""
    return [row[0] for row in session.rows(_ALL)]


def enter(session: Session, namespace: str) -> None:
    """Insert a namespace, unless it exists."""
    set_properties(session, namespace, {EXISTS: "true"})


def properties(session: Session, namespace: str) -> dict[str, str]:
    """Return the properties of a namespace, without `exists`."""
    rows = session.rows(_PROPERTIES, {"namespace": namespace})
    return {key: value for key, value in rows if key != EXISTS}


def set_properties(session: Session, namespace: str, new: Mapping[str, str]) -> None:
    """Set properties of a namespace; keep its other properties."""
    for key, value in new.items():
        session.run(_SET, {"namespace": namespace, "key": key, "value": value})


def remove_properties(session: Session, namespace: str, keys: Iterable[str]) -> None:
    """Remove properties of a namespace."""
    for key in keys:
        session.run(_UNSET, {"namespace": namespace, "key": key})


def delete(session: Session, namespace: str) -> None:
    """Delete a namespace with its properties; do not touch its tables."""
    session.run(_DELETE, {"namespace": namespace})
