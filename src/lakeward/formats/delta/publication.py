"""Converts a commit of the log to the bytes of `_delta_log/N.json`.

The bytes depend on the commit alone, so publishing again writes the same file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from lakeward.context import LakeContext
from lakeward.formats.delta.identity import marks_of, published, with_marks
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
from lakeward.log import commits, definitions, renames, retired
from lakeward.log.database import Session
from lakeward.model.commit import AppTransaction, Commit, CommitInfo, Head
from lakeward.model.definition import Definition
from lakeward.model.file import DataFile, LoggedFile
from lakeward.model.schema import Schema

_OF_ROWS: Final = ("baseRowId", "defaultRowCommitVersion")
"""The keys about row ids that a `remove` action keeps."""


AUDIT_TAG: Final = "lakeward.audit"
"""The tag of `commitInfo` with the newest entry of the audit trail before the commit."""


def commit_path(location: str, version: int) -> str:
    """Return the path of a version's published commit."""
    return f"{location}/{LOG_DIRECTORY}/{version:020d}.json"


def head_of_commit(session: Session, head: Head, commit: Commit) -> Head:
    """Return the head with the name to publish a commit with: the table's name at its version."""
    if commit.definition is None and not _marks(commit):
        return head  # Only `metaData` has the name.
    return renames.head_at(session, head, commit.version)


def recorded(context: LakeContext, head: Head, version: int) -> tuple[Head, Commit, Definition]:
    """Return what the bytes of a version are computed from, as the log has it.

    Raises:
        VersionNotFound: Vacuum has deleted rows of the version, so its bytes are not known.
    """
    with context.database.read() as session:
        retired.check_complete(session, head, version)
        commit = commits.full(session, head.table_id, version)
        _, definition = definitions.at(session, head.table_id, version)
        return head_of_commit(session, head, commit), commit, definition


def commit_bytes(head: Head, commit: Commit, definition: Definition) -> bytes:
    """Return the published bytes of a commit.

    `definition` is the one at its version, and `head` has the table's name at its version.
    """
    lines: list[dict[str, Any]] = [{"commitInfo": commit_info(commit, definition)}]
    marks = _marks(commit)
    if commit.definition is not None:
        lines.append({"protocol": dict(commit.definition.protocol)})
    if commit.definition is not None or marks:
        lines.append({"metaData": metadata(head, definition, marks)})
    schema, at, changed = definition.schema, commit.timestamp_ms, commit.info.data_change
    if commit.app_transactions:
        lines += [{"txn": app_transaction(t)} for t in commit.app_transactions]
    if commit.domains:
        named = published(commit.domains)
        lines += [{"domainMetadata": domain_metadata(name, text)} for name, text in named]
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
    """Return the `commitInfo` action: first in the file, with the timestamp that orders commits."""
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


def metadata(
    head: Head, definition: Definition, marks: Mapping[int, int] | None = None
) -> dict[str, Any]:
    """Return the `metaData` action; `marks` are the high watermarks of identity columns."""
    configuration = dict(definition.properties)
    for name, expression in definition.constraints.items():
        configuration[f"delta.constraints.{name}"] = expression
    out: dict[str, Any] = {"id": head.uuid, "name": str(head.name)}
    if definition.comment is not None:
        out["description"] = definition.comment
    out["format"] = {"provider": "parquet", "options": {}}
    out["schemaString"] = schema_string(with_marks(definition.schema, marks or {}))
    out["partitionColumns"] = definition.partition_names
    out["configuration"] = configuration
    if definition.created_ms is not None:
        out["createdTime"] = definition.created_ms
    return out


def app_transaction(source: AppTransaction) -> dict[str, Any]:
    """Return the `txn` action."""
    out: dict[str, Any] = {"appId": source.app_id, "version": source.version}
    if source.updated_ms is not None:
        out["lastUpdated"] = source.updated_ms
    return out


def domain_metadata(domain: str, configuration: str | None) -> dict[str, Any]:
    """Return a `domainMetadata` action; a `configuration` of None removes the domain."""
    gone = configuration is None
    return {"domain": domain, "configuration": configuration or "", "removed": gone}


def add(file: DataFile, schema: Schema, *, changed: bool) -> dict[str, Any]:
    """Return the `add` action."""
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
    """Return the `cdc` action."""
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
    """Return the `remove` action."""
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


def _marks(commit: Commit) -> dict[int, int]:
    """Return the high watermarks of identity columns that a commit publishes."""
    return marks_of(commit.domains) if commit.domains else {}


def _texts(source: Mapping[str, Any]) -> dict[str, str]:
    """Return the values as texts: strings and numbers as they are, others as JSON."""
    out: dict[str, str] = {}
    for key, value in source.items():
        # The log has the same text for a class derived from `str`.
        plain = type(value) is str or type(value) is int or isinstance(value, str)
        out[key] = str(value) if plain else orjson.dumps(value).decode()
    return out


def _key(file: DataFile) -> tuple[str, str | None]:
    """Return what identifies a file's entry in a log: its path and its deletion vector's id."""
    return file.path, vector_id(file.deletion_vector)
