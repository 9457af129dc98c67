"""Commits of an Iceberg REST client, written out and not sent yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pyarrow as pa
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableRequest, Namespace, TableIdentifier, Transaction
from pyiceberg.types import LongType, NestedField

from tests.support.service import Service


def catalog_of(service: Service, role: str = "admin", tables: str = "*") -> RestCatalog:
    """pyiceberg's client with a token of a role."""
    token = service.lake.create_token("engine", role=role, tables=tables)
    return RestCatalog("lake", uri=f"{service.url}/iceberg", token=token.secret)


def totals(*amounts: float) -> pa.Table:
    """Rows for `sales.totals`."""
    return pa.table({"region": ["x"] * len(amounts), "amount": list(amounts)})


def staged(table: Any, rows: pa.Table) -> dict[str, Any]:
    """The commit that appends rows to a table."""
    return requested(table, lambda tx: tx.append(rows))


def requested(table: Any, change: Callable[[Transaction], object]) -> dict[str, Any]:
    """The commit of what `change` does to a table in a transaction of pyiceberg."""
    tx = Transaction(table)
    change(tx)
    return commit_of(tx, *table.name())


def created(catalog: RestCatalog, name: tuple[str, str], *appends: pa.Table) -> dict[str, Any]:
    """The commit that creates a table of a column `n`, with a snapshot for each of `appends`."""
    schema = Schema(NestedField(1, "n", LongType()))
    tx = catalog.create_table_transaction(name, schema)
    for rows in appends:
        tx.append(rows)
    # pyiceberg requires the same when it commits the transaction itself.
    return {**commit_of(tx, *name), "requirements": [{"type": "assert-create"}]}


def commit_of(tx: Any, *name: str) -> dict[str, Any]:
    """The commit of a transaction of pyiceberg to the table of this name."""
    request = CommitTableRequest(
        identifier=TableIdentifier(namespace=Namespace(list(name[:-1])), name=name[-1]),
        requirements=tx._requirements,
        updates=tx._updates,
    )
    found: dict[str, Any] = orjson.loads(request.model_dump_json())
    return found
