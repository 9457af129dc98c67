"""A commit of the log as the bytes of `_delta_log/N.json`.

The bytes depend on the commit alone, so publishing again writes the same file.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from lakeward.formats.delta.protocol import has_in_commit_timestamps
from lakeward.formats.delta.schema import schema_string
from lakeward.formats.delta.values import partition_values, stats_json, written_path
from lakeward.formats.directories import LOG_DIRECTORY as LOG_DIRECTORY
from lakeward.formats.properties import ROW_TRACKING
from lakeward.model.commit import AppTransaction, Commit, CommitInfo, Head
from lakeward.model.definition import Definition
from lakeward.model.file import DataFile, LoggedFile
from lakeward.model.schema import Schema

_OF_ROWS: Final = ("baseRowId", "defaultRowCommitVersion")
"""What a file that is removed still says of its rows."""


AUDIT_TAG: Final = "lakeward.audit"
"""The tag of `commitInfo` that keeps the end of the audit trail before the commit."""


def commit_path(location: str, version: int) -> str:
    """Path of a version's published commit."""
    return f"{location}/{LOG_DIRECTORY}/{version:020d}.json"


def commit_bytes(head: Head, commit: Commit, definition: Definition) -> bytes:
    """The published bytes of a commit, under the definition that holds at its version."""
    lines: list[dict[str, Any]] = [{"commitInfo": commit_info(commit, definition)}]
    if commit.definition is not None:
        lines.append({"protocol": dict(commit.definition.protocol)})
        lines.append({"metaData": metadata(head, commit.definition)})
    lines.extend({"txn": app_transaction(t)} for t in commit.app_transactions)
    lines.extend(
        {"domainMetadata": domain_metadata(name, text)}
        for name, text in sorted(commit.domains.items())
    )
    changed = commit.info.data_change
    lines.extend(
        {"remove": remove(f, commit.timestamp_ms, definition.schema, changed=changed)}
        for f in commit.removed
    )
    lines.extend({"add": add(f, definition.schema, changed=changed)} for f in commit.added)
    lines.extend({"cdc": change_file(f, definition.schema)} for f in commit.change_files)
    return b"\n".join(map(orjson.dumps, lines)) + b"\n"


def commit_info(commit: Commit, definition: Definition) -> dict[str, Any]:
    """The `commitInfo` action: first in the file, with the timestamp that orders commits."""
    info: CommitInfo = commit.info
    out: dict[str, Any] = {}
    if has_in_commit_timestamps(definition):
        out["inCommitTimestamp"] = commit.timestamp_ms
    out["timestamp"] = commit.timestamp_ms
    out["operation"] = info.operation
    out["operationParameters"] = {k: _text(v) for k, v in info.parameters.items()}
    out["operationMetrics"] = {k: _text(v) for k, v in info.metrics.items()}
    out["engineInfo"] = info.engine
    out["txnId"] = info.transaction_id
    out["isBlindAppend"] = info.blind
    if info.actor:
        out["userName"] = info.actor
    if info.message is not None:
        out["userMetadata"] = info.message
    out["tags"] = {
        **info.properties,
        "lakeward.members": str(info.members),
        "lakeward.attempts": str(info.attempts),
    }
    if definition.properties.get(ROW_TRACKING) == "true":
        out["tags"]["delta.rowTracking.preserved"] = "true"

    if info.anchor is not None:
        out["tags"][AUDIT_TAG] = info.anchor
    return out


def metadata(head: Head, definition: Definition) -> dict[str, Any]:
    """The `metaData` action."""
    configuration = dict(definition.properties)
    for name, expression in definition.constraints.items():
        configuration[f"delta.constraints.{name}"] = expression
    out: dict[str, Any] = {"id": head.uuid, "name": str(head.name)}
    if definition.comment is not None:
        out["description"] = definition.comment
    out["format"] = {"provider": "parquet", "options": {}}
    out["schemaString"] = schema_string(definition.schema)
    out["partitionColumns"] = definition.partition_names
    out["configuration"] = configuration
    if definition.created_ms is not None:
        out["createdTime"] = definition.created_ms
    return out


def app_transaction(source: AppTransaction) -> dict[str, Any]:
    """The `txn` action."""
    out: dict[str, Any] = {"appId": source.app_id, "version": source.version}
    if source.updated_ms is not None:
        out["lastUpdated"] = source.updated_ms
    return out


def domain_metadata(domain: str, configuration: str | None) -> dict[str, Any]:
    """Return a `domainMetadata` action; a `configuration` of None removes the domain."""
    gone = configuration is None
    return {"domain": domain, "configuration": configuration or "", "removed": gone}


def add(file: DataFile, schema: Schema, *, changed: bool) -> dict[str, Any]:
    """The `add` action."""
    out: dict[str, Any] = {
        "path": written_path(file),
        "partitionValues": partition_values(file, schema),
        "size": file.size,
        "modificationTime": file.modified_ms,
        "dataChange": changed,
    }
    stats = stats_json(file, schema)
    if stats is not None:
        out["stats"] = stats
    if file.deletion_vector is not None:
        out["deletionVector"] = dict(file.deletion_vector)
    if file.extra:
        out.update(file.extra)
    return out


def change_file(file: DataFile, schema: Schema) -> dict[str, Any]:
    """The `cdc` action."""
    out: dict[str, Any] = {
        "path": written_path(file),
        "partitionValues": partition_values(file, schema),
        "size": file.size,
        "dataChange": False,
    }
    if file.extra:
        out.update(file.extra)
    return out


def remove(
    source: LoggedFile, timestamp_ms: int, schema: Schema, *, changed: bool
) -> dict[str, Any]:
    """The `remove` action."""
    file = source.file
    out: dict[str, Any] = {
        "path": written_path(file),
        "deletionTimestamp": timestamp_ms,
        "dataChange": changed,
        "extendedFileMetadata": True,
        "partitionValues": partition_values(file, schema),
        "size": file.size,
    }
    if file.deletion_vector is not None:
        out["deletionVector"] = dict(file.deletion_vector)
    if file.extra:
        out.update({k: file.extra[k] for k in _OF_ROWS if k in file.extra})
    return out


def _text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
