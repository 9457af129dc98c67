"""A commit of the log as the bytes of `_delta_log/N.json`.

The bytes depend on the commit alone, so publishing again writes the same file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from lakeward.formats.delta.protocol import has_in_commit_timestamps
from lakeward.formats.delta.schema import schema_string
from lakeward.formats.delta.values import (
    partition_values,
    stats_json,
    vector_id,
    written_path,
)
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
    schema, at, changed = definition.schema, commit.timestamp_ms, commit.info.data_change
    if commit.app_transactions:
        lines += [{"txn": app_transaction(t)} for t in commit.app_transactions]
    if commit.domains:
        domains = sorted(commit.domains.items())
        lines += [{"domainMetadata": domain_metadata(name, text)} for name, text in domains]
    if commit.removed:
        # A file whose entry changes, such as by row ids, is added again and not removed: the
        # protocol allows one action for a file and its deletion vector, and readers skip others.
        again = set(map(_key, commit.added))
        gone = [f for f in commit.removed if _key(f.file) not in again]
        lines += [{"remove": remove(f, at, schema, changed=changed)} for f in gone]
    lines += [{"add": add(f, schema, changed=changed)} for f in commit.added]
    if commit.change_files:
        lines += [{"cdc": change_file(f, schema)} for f in commit.change_files]
    return b"\n".join(map(orjson.dumps, lines)) + b"\n"


def commit_info(commit: Commit, definition: Definition) -> dict[str, Any]:
    """The `commitInfo` action: first in the file, with the timestamp that orders commits."""
    info: CommitInfo = commit.info
    out: dict[str, Any] = {}
    if has_in_commit_timestamps(definition):
        out["inCommitTimestamp"] = commit.timestamp_ms
    out["timestamp"] = commit.timestamp_ms
    out["operation"] = info.operation
    out["operationParameters"] = _texts(info.parameters)
    out["operationMetrics"] = _texts(info.metrics)
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


def _texts(source: Mapping[str, Any]) -> dict[str, str]:
    """The values as texts: strings and numbers as they are, others as JSON."""
    out: dict[str, str] = {}
    for key, value in source.items():
        plain = type(value) is str or type(value) is int
        out[key] = str(value) if plain else orjson.dumps(value).decode()
    return out


def _key(file: DataFile) -> tuple[str, str | None]:
    """What tells a file's entry from others in a log: its path, and its deletion vector."""
    return file.path, vector_id(file.deletion_vector)
