"""The lake's Iceberg tables as pyiceberg sees them, through the catalog in the lake's store."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import sqlalchemy as sa
from pyiceberg.catalog.sql import SqlCatalog

import lakeward as lw
from lakeward.log import catalog
from lakeward.log.drivers.postgres import PostgresDatabase
from lakeward.log.drivers.sqlite import SqliteDatabase
from lakeward.model.names import TableName
from tests.support.inside import context_of


def catalog_url(lake: lw.Lake) -> str:
    """The store's address, as SQLAlchemy takes it."""
    database = context_of(lake).database
    if isinstance(database, SqliteDatabase):
        return f"sqlite:///{database.path}"
    assert isinstance(database, PostgresDatabase)
    return database._url.replace("postgresql://", "postgresql+psycopg://", 1)


def stranger_catalog(lake: lw.Lake, name: str = catalog.CATALOG) -> SqlCatalog:
    """pyiceberg's own catalog over the lake's store; it keeps no connection open."""
    url = catalog_url(lake)
    found = SqlCatalog(
        name,
        uri=url,
        warehouse=lake.warehouse,
        **context_of(lake).storage.iceberg_properties(),
    )
    found.engine.dispose()
    found.engine = sa.create_engine(url, poolclass=sa.NullPool)
    return found


def stranger_table(lake: lw.Lake, name: str) -> Any:
    """A table as pyiceberg loads it."""
    found = stranger_catalog(lake)
    try:
        return found.load_table(catalog.identifier(TableName.parse(name)))
    finally:
        found.engine.dispose()


def stranger_arrow(lake: lw.Lake, name: str, snapshot_id: int | None = None) -> pa.Table:
    """The rows that pyiceberg reads."""
    return stranger_table(lake, name).scan(snapshot_id=snapshot_id).to_arrow()
