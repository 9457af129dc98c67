"""Table properties that affect the lake, by the names that each format uses for them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Final

from lakeward.errors import InvalidInput
from lakeward.model.duration import to_milliseconds

TARGET_FILE_SIZE: Final = "delta.targetFileSize"
COMPRESSION: Final = "delta.parquet.compression.codec"
DELTA_APPEND_ONLY: Final = "delta.appendOnly"
CHANGE_FEED: Final = "delta.enableChangeDataFeed"
CHECKPOINT_INTERVAL: Final = "delta.checkpointInterval"
CHECKPOINT_POLICY: Final = "delta.checkpointPolicy"
IN_COMMIT_TIMESTAMPS: Final = "delta.enableInCommitTimestamps"
MERGE_ON_READ: Final = "delta.enableDeletionVectors"
ROW_TRACKING: Final = "delta.enableRowTracking"
TYPE_WIDENING: Final = "delta.enableTypeWidening"
VECTOR_FRACTION: Final = "lakeward.mergeOnRead.fraction"
ICEBERG_TARGET_FILE_SIZE: Final = "write.target-file-size-bytes"
BLOOM: Final = "lakeward.bloom"
"""Columns, separated by commas, for whose values files have Bloom filters."""
ICEBERG_BLOOM: Final = "write.parquet.bloom-filter-enabled.column."
ICEBERG_COMPRESSION: Final = "write.parquet.compression-codec"
APPEND_ONLY: Final = "lakeward.append-only"
RETENTION: Final = "lakeward.retention"
ZORDER: Final = "lakeward.zorder"
"""Columns, separated by commas, by which maintenance clusters rows."""
DELTA_RETENTION: Final = "delta.deletedFileRetentionDuration"
_LOG_RETENTION_MS: Final = 30 * 86_400_000
RETENTION_MS: Final = 90 * 86_400_000
"""How long versions are kept readable unless a table's property sets another time."""
LOG_RETENTION: Final = "delta.logRetentionDuration"
_GC: Final = "gc.enabled"
_LOG_CLEANUP: Final = "delta.enableExpiredLogCleanup"
TRANSACTION_RETENTION: Final = "delta.setTransactionRetentionDuration"
SNAPSHOTS: Final = "lakeward.snapshots"
"""How many snapshots an Iceberg document lists at least."""
SNAPSHOT_AGE: Final = "lakeward.snapshot-age"
"""Up to which age an Iceberg document lists all snapshots."""
STATS_COLUMNS: Final = "delta.dataSkippingStatsColumns"
OUR_STATS_COLUMNS: Final = "lakeward.policy.stats_columns"
"""A JSON array of the columns with statistics, for formats without a property for it."""
_SMALL: Final = 0.1
_UNITS: Final = {"": 1, "b": 1, "kb": 2**10, "mb": 2**20, "gb": 2**30}
_ALIKE: Final = "The policies target_file_size, compression and append_only are for both formats."


_DELTA: Final = frozenset(
    f"delta.{name}"
    for name in (
        *("appendOnly", "autoOptimize.autoCompact", "autoOptimize.optimizeWrite"),
        *("checkpoint.writeStatsAsJson", "checkpoint.writeStatsAsStruct", "checkpointInterval"),
        *("checkpointPolicy", "dataSkippingNumIndexedCols", "dataSkippingStatsColumns"),
        *("deletedFileRetentionDuration", "enableChangeDataFeed", "enableDeletionVectors"),
        *("enableExpiredLogCleanup", "isolationLevel", "logRetentionDuration"),
        *("parquet.compression.codec", "randomPrefixLength", "randomizeFilePrefixes"),
        *("setTransactionRetentionDuration", "targetFileSize", "tuneFileSizesForRewrites"),
    )
)
"""The properties of Delta that may be set on a table."""


def check_known(key: str) -> None:
    """Raise `InvalidInput` for a `delta.` property that Delta does not define."""
    if key.startswith("delta.") and key not in _DELTA:
        near = difflib.get_close_matches(key, sorted(_DELTA), 1)
        what = f"Delta has no table property {key}."
        hint = f"Did you mean {near[0]}?" if near else "Properties of your own need another prefix."
        raise InvalidInput(what, hint=hint, property=key)


def is_append_only(properties: Mapping[str, str]) -> bool:
    """Return whether the table rejects removals of rows."""
    return "true" in (properties.get(DELTA_APPEND_ONLY), properties.get(APPEND_ONLY))


def bloom_columns(properties: Mapping[str, str]) -> frozenset[str]:
    """Return the columns that have Bloom filters."""
    named = {name.strip() for name in properties.get(BLOOM, "").split(",")}
    iceberg = {
        key.removeprefix(ICEBERG_BLOOM)
        for key, value in properties.items()
        if key.startswith(ICEBERG_BLOOM) and value == "true"
    }
    return frozenset((named | iceberg) - {""})


def vector_fraction(properties: Mapping[str, str]) -> float:
    """Return the largest share of a file's rows that are deleted by a deletion vector.

    If more rows are to be deleted, the file is rewritten.
    """
    text = properties.get(VECTOR_FRACTION, str(_SMALL))
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found <= 1:
        what = f"Property {VECTOR_FRACTION} is {text!r}."
        raise InvalidInput(what, hint="Use a number from 0 to 1.", property=VECTOR_FRACTION)
    return found


def retention_ms(properties: Mapping[str, str]) -> int:
    """Return how long the table keeps its versions readable, in milliseconds."""
    for name in (RETENTION, DELTA_RETENTION):
        if name in properties:
            return interval_ms(properties[name], name)
    return RETENTION_MS


def log_retention_ms(properties: Mapping[str, str]) -> int:
    """Return how long published commits are kept for other engines, in milliseconds."""
    text = properties.get(LOG_RETENTION, "").strip()
    return interval_ms(text, LOG_RETENTION) if text else _LOG_RETENTION_MS


def keeps_files(properties: Mapping[str, str]) -> str | None:
    """Return the setting by which none of a table's files may be deleted; None without one.

    That is Iceberg's `gc.enabled`: other tables that the lake does not know may use the files.
    """
    return _if_false(properties, _GC)


def keeps_metadata(properties: Mapping[str, str]) -> str | None:
    """Return the setting by which no published metadata may be deleted; None without one."""
    return keeps_files(properties) or _if_false(properties, _LOG_CLEANUP)


def _if_false(properties: Mapping[str, str], key: str) -> str | None:
    return f"{key}=false" if properties.get(key, "true").strip().lower() == "false" else None


def interval_ms(text: str, name: str) -> int:
    """Return a duration such as `interval 30 days` in milliseconds.

    Raises `InvalidInput` if it is not a duration.
    """
    try:
        return to_milliseconds(text.strip().lower().removeprefix("interval "), name)
    except InvalidInput as error:
        what = f"Property {name} is {text[:60]!r}, which is not a duration."
        hint = "Write it as `interval 30 days` or 30d."
        raise InvalidInput(what, hint=hint, property=name) from error


def size_bytes(text: str, name: str = TARGET_FILE_SIZE) -> int:
    """Return a size such as `128mb` in bytes; raise `InvalidInput` if it is not a size."""
    cleaned = text.strip().lower()
    number = cleaned.rstrip("kmgb")
    unit = cleaned[len(number) :]
    if not number.strip().isdigit() or unit not in _UNITS or int(number) < 1:
        what = f"Property {name} is {text!r}, which is no size."
        raise InvalidInput(what, hint="Write it as 134217728 or 128mb.", property=name)
    return int(number) * _UNITS[unit]


def foreign_property(key: str, table: str, owner: str) -> InvalidInput:
    """Return the error for a property of another format, which would have no effect."""
    what = f"Property {key} is for {owner} tables, and has no meaning for {table} tables."
    return InvalidInput(what, hint=f"Leave it out. {_ALIKE}", property=key)
