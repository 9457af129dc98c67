"""Tables of a lake as assets of Airflow: `lakeward://CONNECTION/TABLE`."""

from __future__ import annotations

from typing import Any
from urllib.parse import SplitResult

from airflow.sdk import Asset

from lakeward.model.names import TableName


def sanitize_uri(uri: SplitResult) -> SplitResult:
    """Check an address, and bring it into its one form.

    Raises:
        ValueError: It names no connection and table.
    """
    name = uri.path.strip("/")
    if not uri.netloc or not name or "/" in name:
        what = "an asset of a lake is lakeward://CONNECTION/TABLE"
        raise ValueError(what)
    return uri._replace(path=f"/{TableName.parse(name)}", query="", fragment="")


def create_asset(*, table: str, lake_conn_id: str, extra: dict[str, Any] | None = None) -> Asset:
    """The asset of a table."""
    name = str(TableName.parse(table))
    return Asset(uri=f"lakeward://{lake_conn_id}/{name}", extra=extra)
