"""Commit information in snapshot summaries; a lake's own summaries have all of it."""

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
ANCHOR: Final = "lakeward.audit"
"""The end of the audit trail before the commit."""
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
    """The commit information of a state that is `version` in the log."""
    snapshot = stop.snapshot
    if snapshot is None:
        extra = {SNAPSHOT_ID: None}
        return CommitInfo(f"iceberg-none-at-{version}", "DELETE", adopted=True, extra=extra)
    number = snapshot["snapshot-id"]
    extra = {SNAPSHOT_ID: number, SEQUENCE: snapshot.get("sequence-number", 0)}
    summary = snapshot.get("summary") or {}
    if stop.again:
        return CommitInfo(
            f"iceberg-{number}-at-{version}",
            "ROLLBACK",
            parameters={SNAPSHOT_ID: str(number)},
            adopted=True,
            extra=extra,
        )
    if TRANSACTION_ID in summary and summary.get(VERSION) == str(version):
        return _own(summary, extra)
    return CommitInfo(
        transaction_id=f"iceberg-{number}",
        operation=str(summary.get("operation", "unknown")).upper(),
        metrics={
            k: v for k, v in summary.items() if k.startswith(("added-", "deleted-", "removed-"))
        },
        engine=_engine(summary),
        blind=summary.get("operation") == "append",
        data_change=summary.get("operation") != "replace",
        adopted=True,
        extra=extra,
    )


def settings_info(document: Document) -> CommitInfo:
    """The commit information of a change of the table's definition alone."""
    name = document.location.rpartition("/")[2].removesuffix(".metadata.json")
    return CommitInfo(
        f"iceberg-{name}", "SET TABLE", adopted=True, extra={"metadata": document.location}
    )


def creation_info(uuid: str, created: Mapping[str, Any]) -> CommitInfo:
    """The commit information of a table's creation, complete if a lake made it."""
    return CommitInfo(
        transaction_id=created.get("transaction_id", f"create-{uuid}"),
        operation="CREATE TABLE",
        parameters=created.get("parameters", {}),
        actor=created.get("actor", ""),
        engine=created.get("engine", ""),
        adopted=True,
    )


def gap_info(uuid: str, version: int) -> CommitInfo:
    """The commit information of a version without a snapshot."""
    return CommitInfo(f"unknown-{uuid}-{version}", "UNKNOWN", adopted=True)


def version_of(stop: Stop) -> int | None:
    """The version that a lake gave a snapshot; None for snapshots of others."""
    summary = (stop.snapshot or {}).get("summary") or {}
    text = str(summary.get(VERSION, ""))
    return int(text) if text.isdecimal() and TRANSACTION_ID in summary else None


def transaction_of(snapshot: Mapping[str, Any] | None) -> str | None:
    """The lake's transaction that wrote a snapshot, if one did."""
    found = ((snapshot or {}).get("summary") or {}).get(TRANSACTION_ID)
    return None if found is None else str(found)


def applications_of(stop: Stop) -> list[AppTransaction]:
    """The application numbers that a commit recorded."""
    if stop.again:
        return []
    summary = (stop.snapshot or {}).get("summary") or {}
    return [AppTransaction(*a) for a in _json(summary.get(APPLICATIONS), [])]


def _own(summary: Mapping[str, str], extra: Mapping[str, Any]) -> CommitInfo:
    body = _json(summary.get(INFO), {})
    return CommitInfo(
        transaction_id=summary[TRANSACTION_ID],
        operation=body.get("operation", "WRITE"),
        parameters=body.get("parameters", {}),
        metrics={**_metrics(summary), **body.get("metrics", {})},
        actor=body.get("actor", ""),
        engine=body.get("engine", ""),
        message=body.get("message"),
        members=body.get("members", 1),
        attempts=body.get("attempts", 1),
        blind=body.get("blind", False),
        properties=body.get("properties", {}),
        data_change=summary.get("operation") != "replace",
        adopted=True,
        extra=extra,
    )


def _metrics(summary: Mapping[str, str]) -> dict[str, int]:
    """A commit's metrics, from the counts of its snapshot."""
    counts = {
        "numFiles": summary.get("added-data-files", "0"),
        "numOutputRows": summary.get("added-records", "0"),
        "numOutputBytes": summary.get("added-files-size", "0"),
    }
    if "deleted-data-files" in summary:
        counts["numRemovedFiles"] = summary["deleted-data-files"]
        counts["numRemovedBytes"] = summary.get("removed-files-size", "0")
    return {name: int(count) for name, count in counts.items()}


def _engine(summary: Mapping[str, str]) -> str:
    name = summary.get("engine-name", "spark" if "spark.app.id" in summary else "")
    return f"{name} {summary['engine-version']}" if "engine-version" in summary else name


def _json(text: Any, default: Any) -> Any:
    """The value of JSON text, or the default if it is not of the default's type."""
    try:
        found = orjson.loads(text)
    except (TypeError, ValueError):
        return default
    return found if isinstance(found, type(default)) else default
