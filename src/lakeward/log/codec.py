"""Conversion between rows of the log and records of the model, without loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from lakeward.errors import StoreCorrupt
from lakeward.model.commit import CommitInfo, Head
from lakeward.model.file import DataFile, FileStats, LoggedFile
from lakeward.model.names import TableName
from lakeward.model.values import Value, from_json, to_json


def dumps(value: Any) -> str:
    """Return a value as compact JSON text."""
    return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()


def loads(text: str) -> Any:
    """Parse JSON text; raise `StoreCorrupt` if it is not valid."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        what = f"The store is damaged: a row holds text that is no JSON ({error})."
        hint = "`lakeward doctor` shows more. Restore a backup, or run `lakeward rebuild`."
        raise StoreCorrupt(what, hint=hint) from error


def info_text(info: CommitInfo) -> str:
    """Return, as JSON, the parts of a commit's info that have no column."""
    body: dict[str, Any] = {"engine": info.engine, "members": info.members}
    if info.parameters:
        body["parameters"] = info.parameters
    if info.metrics:
        body["metrics"] = info.metrics
    if info.message is not None:
        body["message"] = info.message
    if info.attempts != 1:
        body["attempts"] = info.attempts
    if info.blind:
        body["blind"] = True
    if not info.data_change:
        body["data_change"] = False
    if info.adopted:
        body["adopted"] = True
    if info.extra is not None:
        body["extra"] = info.extra
    if info.anchor is not None:
        body["anchor"] = info.anchor
    if info.properties:
        body["properties"] = info.properties
    return dumps(body)


def info_of(transaction_id: str, operation: str, actor: str, text: str) -> CommitInfo:
    """Return the commit info read from its columns and from the text that `info_text` wrote."""
    body = loads(text)
    return CommitInfo(
        transaction_id=transaction_id,
        operation=operation,
        actor=actor,
        engine=body["engine"],
        members=body["members"],
        parameters=body.get("parameters", {}),
        metrics=body.get("metrics", {}),
        message=body.get("message"),
        attempts=body.get("attempts", 1),
        blind=body.get("blind", False),
        data_change=body.get("data_change", True),
        adopted=body.get("adopted", False),
        extra=body.get("extra"),
        anchor=body.get("anchor"),
        properties=body.get("properties", {}),
    )


LINE_COLUMNS: Final = (
    *("path", "size", "row_count", "modified_ms"),
    *("partition", "stats", "deletion_vector", "extra"),
)
"""The columns of a file's row that describe the file itself."""
FILE_COLUMNS: Final = ("table_id", "added_version", "ordinal", "removed_version", *LINE_COLUMNS)


def file_row(table_id: int, source: LoggedFile) -> tuple[Any, ...]:
    """Return a file as a row, in the order of `FILE_COLUMNS`."""
    f = source.file
    return (
        table_id,
        source.added,
        source.ordinal,
        source.removed,
        f.path,
        f.size,
        f.rows,
        f.modified_ms,
        partition_text(f.partition),
        dumps(f.stats.to_json()) if f.stats else None,
        optional_text(f.deletion_vector),
        optional_text(f.extra),
    )


def partition_text(values: Mapping[int, Value]) -> str | None:
    """Return partition values as stored in the log: equal partitions have equal text."""
    return dumps({i: to_json(v) for i, v in sorted(values.items())}) if values else None


def partition_of(text: str | None) -> dict[int, Value]:
    """Return the partition values read from text that `partition_text` wrote."""
    return {int(k): from_json(v) for k, v in loads(text).items()} if text else {}


def optional_text(value: Mapping[str, Any] | None) -> str | None:
    """Return a value as compact JSON text; None for None."""
    return None if value is None else dumps(value)


def file_of(row: Any) -> LoggedFile:
    """Return the file read from a row of `FILE_COLUMNS` without the table id."""
    added, ordinal, removed, path, size, rows, modified, partition, stats, vector, extra = row
    return LoggedFile(
        DataFile(
            path=path,
            size=size,
            rows=rows,
            modified_ms=modified,
            partition=partition_of(partition),
            stats=FileStats.from_json(loads(stats)) if stats else None,
            deletion_vector=loads(vector) if vector else None,
            extra=loads(extra) if extra else None,
        ),
        added,
        ordinal,
        removed,
    )


def head_of(row: Any) -> Head:
    """Return the head read from a row of `lakeward_head` as `heads` selects it."""
    table_id, uuid, namespace, name, format_name, location, guarded, *rest = row
    return Head(
        table_id, uuid, TableName(namespace, name), format_name, location, bool(guarded), *rest
    )
