"""Table properties that the lake acts on, under the names that each format gives them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Final

from lakeward.errors import InvalidInput

TARGET_FILE_SIZE: Final = "delta.targetFileSize"
COMPRESSION: Final = "delta.parquet.compression.codec"
DELTA_APPEND_ONLY: Final = "delta.appendOnly"
CHANGE_FEED: Final = "delta.enableChangeDataFeed"
CHECKPOINT_INTERVAL: Final = "delta.checkpointInterval"
MERGE_ON_READ: Final = "delta.enableDeletionVectors"
TYPE_WIDENING: Final = "delta.enableTypeWidening"
VECTOR_FRACTION: Final = "lakeward.mergeOnRead.fraction"
ICEBERG_TARGET_FILE_SIZE: Final = "write.target-file-size-bytes"
ICEBERG_COMPRESSION: Final = "write.parquet.compression-codec"
APPEND_ONLY: Final = "lakeward.append-only"
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
    """Raise `InvalidInput` for a name that Delta keeps for itself and gives no meaning."""
    if key.startswith("delta.") and key not in _DELTA:
        near = difflib.get_close_matches(key, sorted(_DELTA), 1)
        what = f"Delta has no table property {key}."
        hint = f"Did you mean {near[0]}?" if near else "Properties of your own need another prefix."
        raise InvalidInput(what, hint=hint, property=key)


def is_append_only(properties: Mapping[str, str]) -> bool:
    """Return whether the table takes no removals."""
    return "true" in (properties.get(DELTA_APPEND_ONLY), properties.get(APPEND_ONLY))


def vector_fraction(properties: Mapping[str, str]) -> float:
    """Return up to which share of a file's rows a deletion vector is used to delete them."""
    text = properties.get(VECTOR_FRACTION, str(_SMALL))
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found <= 1:
        what = f"Property {VECTOR_FRACTION} is {text!r}."
        raise InvalidInput(what, hint="Use a number from 0 to 1.", property=VECTOR_FRACTION)
    return found


def size_bytes(text: str, name: str = TARGET_FILE_SIZE) -> int:
    """Return a size such as `128mb` in bytes; raise `InvalidInput` if it is none."""
    cleaned = text.strip().lower()
    number = cleaned.rstrip("kmgb")
    unit = cleaned[len(number) :]
    if not number.strip().isdigit() or unit not in _UNITS or int(number) < 1:
        what = f"Property {name} is {text!r}, which is no size."
        raise InvalidInput(what, hint="Write it as 134217728 or 128mb.", property=name)
    return int(number) * _UNITS[unit]


def foreign_property(key: str, table: str, owner: str) -> InvalidInput:
    """Return the error that a property belongs to another format, where it would mean nothing."""
    what = f"Property {key} is for {owner} tables, and this is to be a {table} table."
    return InvalidInput(what, hint=f"Leave it out. {_ALIKE}", property=key)
