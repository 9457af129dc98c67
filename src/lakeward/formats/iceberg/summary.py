"""What a snapshot's summary tells of its commit; a lake's own tell all that its log knew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from lakeward.formats.iceberg.document import Document
from lakeward.formats.iceberg.timeline import Stop
from lakeward.model.commit import AppTransaction, CommitInfo

TRANSACTION_ID: Final = "lakeward.transaction-id"
VERSION: Final = "lakeward.version"
INFO: Final = "lakeward.info"
APPLICATIONS: Final = "lakeward.applications"
SNAPSHOT_ID: Final = "snapshot_id"
"""The key of a commit's `extra` that keeps which snapshot it is."""
SEQUENCE: Final = "sequence_number"
COUNTED: Final = (
    "numFiles",
    "numOutputRows",
    "numOutputBytes",
    "numRemovedFiles",
    "numRemovedBytes",
)
"""Metrics of a commit that are the counts of its snapshot."""


def snapshot_info(stop: Stop, version: int) -> CommitInfo:
    """What is told of the commit that led to a state of the table.

    Args:
        stop: The state.
        version: Which the log has for it.
    """
    snapshot = stop.snapshot
    if snapshot is None:
        extra = {SNAPSHOT_ID: None}
        return CommitInfo(f"iceberg-none-at-{version}", "DELETE", adopted=True, extra=extra)
    number = snapshot["snapshot-id"]
    extra = {SNAPSHOT_ID: number, SEQUENCE: snapshot.get("sequence-number", 0)}
    told = snapshot.get("summary") or {}
    if stop.again:
        return CommitInfo(
            f"iceberg-{number}-at-{version}",
            "ROLLBACK",
            parameters={SNAPSHOT_ID: str(number)},
            adopted=True,
            extra=extra,
        )
    if TRANSACTION_ID in told and told.get(VERSION) == str(version):
        return _own(told, extra)
    return CommitInfo(
        transaction_id=f"iceberg-{number}",
        operation=str(told.get("operation", "unknown")).upper(),
        metrics={k: v for k, v in told.items() if k.startswith(("added-", "deleted-", "removed-"))},
        engine=_engine(told),
        blind=told.get("operation") == "append",
        data_change=told.get("operation") != "replace",
        adopted=True,
        extra=extra,
    )


def settings_info(document: Document) -> CommitInfo:
    """What is told of a commit that changed the table's definition and none of its rows."""
    name = document.location.rpartition("/")[2].removesuffix(".metadata.json")
    return CommitInfo(
        f"iceberg-{name}", "SET TABLE", adopted=True, extra={"metadata": document.location}
    )


def creation_info(uuid: str, told: Mapping[str, Any]) -> CommitInfo:
    """What is told of the making of a table; all of it where a lake made it."""
    return CommitInfo(
        transaction_id=told.get("transaction_id", f"create-{uuid}"),
        operation="CREATE TABLE",
        parameters=told.get("parameters", {}),
        actor=told.get("actor", ""),
        engine=told.get("engine", ""),
        adopted=True,
    )


def gap_info(uuid: str, version: int) -> CommitInfo:
    """What is told of a version that left no snapshot behind."""
    return CommitInfo(f"unknown-{uuid}-{version}", "UNKNOWN", adopted=True)


def version_of(stop: Stop) -> int | None:
    """The version that a lake gave a snapshot, where it was written by one."""
    told = (stop.snapshot or {}).get("summary") or {}
    text = str(told.get(VERSION, ""))
    return int(text) if text.isdecimal() and TRANSACTION_ID in told else None


def transaction_of(snapshot: Mapping[str, Any] | None) -> str | None:
    """The transaction of the lake's that wrote a snapshot, if one did."""
    found = ((snapshot or {}).get("summary") or {}).get(TRANSACTION_ID)
    return None if found is None else str(found)


def members_of(snapshot: Mapping[str, Any]) -> int:
    """How many tables the transaction that wrote a snapshot changed."""
    return int(_json((snapshot.get("summary") or {}).get(INFO), {}).get("members", 1))


def applications_of(stop: Stop) -> list[AppTransaction]:
    """How far applications got with a commit."""
    if stop.again:
        return []
    told = (stop.snapshot or {}).get("summary") or {}
    return [AppTransaction(*a) for a in _json(told.get(APPLICATIONS), [])]


def _own(told: Mapping[str, str], extra: Mapping[str, Any]) -> CommitInfo:
    body = _json(told.get(INFO), {})
    return CommitInfo(
        transaction_id=told[TRANSACTION_ID],
        operation=body.get("operation", "WRITE"),
        parameters=body.get("parameters", {}),
        metrics={**_metrics(told), **body.get("metrics", {})},
        actor=body.get("actor", ""),
        engine=body.get("engine", ""),
        message=body.get("message"),
        members=body.get("members", 1),
        attempts=body.get("attempts", 1),
        blind=body.get("blind", False),
        data_change=told.get("operation") != "replace",
        adopted=True,
        extra=extra,
    )


def _metrics(told: Mapping[str, str]) -> dict[str, int]:
    """A commit's metrics, from the counts of its snapshot."""
    counts = {
        "numFiles": told.get("added-data-files", "0"),
        "numOutputRows": told.get("added-records", "0"),
        "numOutputBytes": told.get("added-files-size", "0"),
    }
    if "deleted-data-files" in told:
        counts["numRemovedFiles"] = told["deleted-data-files"]
        counts["numRemovedBytes"] = told.get("removed-files-size", "0")
    return {name: int(count) for name, count in counts.items()}


def _engine(told: Mapping[str, str]) -> str:
    name = told.get("engine-name", "spark" if "spark.app.id" in told else "")
    return f"{name} {told['engine-version']}" if "engine-version" in told else name


def _json(text: Any, default: Any) -> Any:
    """The value of JSON text, or the default where it is none of that kind."""
    try:
        found = orjson.loads(text)
    except (TypeError, ValueError):
        return default
    return found if isinstance(found, type(default)) else default
