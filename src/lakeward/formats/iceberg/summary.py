"""Writes commit information into snapshot summaries, and reads it from them and from others'."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from lakeward.formats.iceberg.document import Document
from lakeward.formats.iceberg.expiry import list_extra
from lakeward.formats.iceberg.timeline import Stop
from lakeward.model.commit import AppTransaction, Commit, CommitInfo

TRANSACTION_ID: Final = "lakeward.transaction-id"
VERSION: Final = "lakeward.version"
INFO: Final = "lakeward.info"
APPLICATIONS: Final = "lakeward.applications"
ANCHOR: Final = "lakeward.audit"
"""The key of the last hash of the audit trail before the commit."""
SNAPSHOT_ID: Final = "snapshot_id"
"""The key, in `extra` of a commit, of the id of its snapshot."""
SEQUENCE: Final = "sequence_number"
COUNTED: Final = (
    "numFiles",
    "numOutputRows",
    "numOutputBytes",
    "numRemovedFiles",
    "numRemovedBytes",
)
"""Metrics of a commit that are stored as counts in the summary of its snapshot."""
_OF_WRITERS: Final = ("added-", "changed-", "deleted-", "lakeward.", "removed-", "total-")
"""Prefixes of entries of a summary that are not properties of a user."""


def commit_summary(commit: Commit, document: Document, info: Mapping[str, Any]) -> dict[str, str]:
    """Return a snapshot's summary: Iceberg's counts, and the transaction of Lakeward."""
    added, removed = commit.added, commit.removed
    if not commit.info.data_change:
        operation = "replace"
    elif removed:
        operation = "overwrite" if added else "delete"
    else:
        operation = "append"
    counts = {
        "data-files": (len(added), len(removed)),
        "records": (sum(f.rows or 0 for f in added), sum(f.rows or 0 for f in removed)),
        "files-size": (sum(f.size for f in added), sum(f.size for f in removed)),
    }
    out = {**commit.info.properties, "operation": operation}
    for name, (plus, minus) in counts.items():
        if plus:
            out[f"added-{name}"] = str(plus)
        if minus:
            verb = "removed" if name == "files-size" else "deleted"
            out[f"{verb}-{name}"] = str(minus)
    before = {} if document.current is None else document.current.get("summary") or {}
    for name, (plus, minus) in counts.items():
        known = before.get(f"total-{name}") if document.current is not None else "0"
        if known is not None:
            out[f"total-{name}"] = str(int(known) + plus - minus)
    for name in ("total-delete-files", "total-position-deletes", "total-equality-deletes"):
        if name in before:
            out[name] = before[name]
    out[TRANSACTION_ID] = commit.info.transaction_id
    out[VERSION] = str(commit.version)
    out[INFO] = orjson.dumps(info).decode()
    if commit.info.anchor is not None:
        out[ANCHOR] = commit.info.anchor
    if commit.app_transactions:
        out[APPLICATIONS] = _applications(commit.app_transactions)
    return out


def snapshot_info(stop: Stop, version: int) -> CommitInfo:
    """Return the commit information of a state of the table that becomes `version` in the log."""
    snapshot = stop.snapshot
    if snapshot is None:
        extra = {SNAPSHOT_ID: None}
        return CommitInfo(f"iceberg-none-at-{version}", "DELETE", adopted=True, extra=extra)
    number = snapshot["snapshot-id"]
    extra = {SNAPSHOT_ID: number, SEQUENCE: snapshot.get("sequence-number", 0)}
    summary = snapshot.get("summary") or {}
    if stop.again:
        own_id = f"iceberg-{number}-at-{version}"
        return CommitInfo(
            own_id,
            "ROLLBACK",
            parameters={SNAPSHOT_ID: str(number)},
            adopted=True,
            extra=extra | list_extra(snapshot, own_id),
        )
    if TRANSACTION_ID in summary and summary.get(VERSION) == str(version):
        return _own(summary, extra | list_extra(snapshot, summary[TRANSACTION_ID]))
    own_id = f"iceberg-{number}"
    return CommitInfo(
        transaction_id=own_id,
        operation=str(summary.get("operation", "unknown")).upper(),
        metrics={
            k: v for k, v in summary.items() if k.startswith(("added-", "deleted-", "removed-"))
        },
        engine=_engine(summary),
        blind=summary.get("operation") == "append",
        data_change=summary.get("operation") != "replace",
        adopted=True,
        extra=extra | list_extra(snapshot, own_id),
    )


def settings_info(document: Document) -> CommitInfo:
    """Return the commit information of a change of only the table's definition."""
    name = document.location.rpartition("/")[2].removesuffix(".metadata.json")
    return CommitInfo(
        f"iceberg-{name}", "SET TABLE", adopted=True, extra={"metadata": document.location}
    )


def creation_info(uuid: str, created: Mapping[str, Any]) -> CommitInfo:
    """Return the commit information of a table's creation; complete if Lakeward created it."""
    return CommitInfo(
        transaction_id=created.get("transaction_id", f"create-{uuid}"),
        operation="CREATE TABLE",
        parameters=created.get("parameters", {}),
        actor=created.get("actor", ""),
        engine=created.get("engine", ""),
        adopted=True,
    )


def gap_info(uuid: str, version: int) -> CommitInfo:
    """Return placeholder commit information for a version whose snapshot is missing."""
    return CommitInfo(f"unknown-{uuid}-{version}", "UNKNOWN", adopted=True)


def version_of(stop: Stop) -> int | None:
    """Return the version that Lakeward recorded in a snapshot; None for other snapshots."""
    summary = (stop.snapshot or {}).get("summary") or {}
    text = str(summary.get(VERSION, ""))
    return int(text) if text.isdecimal() and TRANSACTION_ID in summary else None


def transaction_of(snapshot: Mapping[str, Any] | None) -> str | None:
    """Return the id of the Lakeward transaction that wrote a snapshot; None for other snapshots."""
    found = ((snapshot or {}).get("summary") or {}).get(TRANSACTION_ID)
    return None if found is None else str(found)


def properties_of(snapshot: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the entries of a snapshot's summary, without counts and entries of Lakeward."""
    summary = ((snapshot or {}).get("summary") or {}).items()
    return {k: str(v) for k, v in summary if not k.startswith(_OF_WRITERS) and k != "operation"}


def applications_of(stop: Stop) -> list[AppTransaction]:
    """Return the numbers that applications recorded with a commit."""
    if stop.again:
        return []
    summary = (stop.snapshot or {}).get("summary") or {}
    return [AppTransaction(*a) for a in _json(summary.get(APPLICATIONS), [])]


def _applications(source: Sequence[AppTransaction]) -> str:
    return orjson.dumps([[a.app_id, a.version, a.updated_ms] for a in source]).decode()


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
    """Return a commit's metrics, from the counts in the summary of its snapshot."""
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
    """Return the value of JSON text; the default if it is invalid or has another type."""
    try:
        found = orjson.loads(text)
    except (TypeError, ValueError):
        return default
    return found if isinstance(found, type(default)) else default
