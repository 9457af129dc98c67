"""Tables of a lake as assets of Airflow, with the URI `lakeward://CONNECTION/TABLE`."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import SplitResult

from airflow.sdk import Asset, AssetWatcher

from lakeward.integrations.airflow.triggers import LakewardCommitTrigger
from lakeward.model.names import TableName

_POLL_SECONDS: Final = 30.0


def sanitize_uri(uri: SplitResult) -> SplitResult:
    """Check the URI of an asset, and return it in its normal form.

    Raises:
        ValueError: The URI does not have the form `lakeward://CONNECTION/TABLE`.
    """
    name = uri.path.strip("/")
    if not uri.netloc or not name or "/" in name:
        what = "an asset of a lake is lakeward://CONNECTION/TABLE"
        raise ValueError(what)
    return uri._replace(path=f"/{TableName.parse(name)}", query="", fragment="")


def create_asset(
    *,
    table: str,
    lake_conn_id: str,
    extra: dict[str, Any] | None = None,
    watch: bool = False,
    poll_seconds: float = _POLL_SECONDS,
) -> Asset:
    """Return the asset of a table.

    Args:
        table: The table.
        lake_conn_id: The connection of the lake.
        extra: The `extra` of the asset.
        watch: Whether every commit to the table, of any program, is an event of the asset: the
            triggerer polls the lake. Otherwise only tasks with this outlet make events.
        poll_seconds: The pause between two polls.
    """
    name = str(TableName.parse(table))
    watchers = []
    if watch:
        trigger = LakewardCommitTrigger(name, lake_conn_id, poll_seconds)
        watchers.append(AssetWatcher(name=f"lakeward {name}", trigger=trigger))
    return Asset(uri=f"lakeward://{lake_conn_id}/{name}", extra=extra, watchers=watchers)
