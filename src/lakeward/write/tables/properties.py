"""Checks table properties when they are set, so that no error occurs when they are used."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from lakeward.errors import InvalidInput
from lakeward.formats.delta.mapping import MODE, MODES, SETTINGS
from lakeward.formats.properties import (
    APPEND_ONLY,
    CHANGE_FEED,
    CHECKPOINT_INTERVAL,
    CHECKPOINT_POLICY,
    COMPRESSION,
    DELTA_APPEND_ONLY,
    DELTA_RETENTION,
    ICEBERG_COMPRESSION,
    ICEBERG_TARGET_FILE_SIZE,
    IN_COMMIT_TIMESTAMPS,
    LOG_RETENTION,
    MERGE_ON_READ,
    ROW_TRACKING,
    TARGET_FILE_SIZE,
    TRANSACTION_RETENTION,
    TYPE_WIDENING,
    interval_ms,
    retention_ms,
    size_bytes,
    vector_fraction,
)
from lakeward.model.constraints import PREFIXES
from lakeward.write.plan.retry import Retry
from lakeward.write.stage.stager import parquet_options

_CODECS: Final = ("snappy", "zstd", "gzip", "lz4", "brotli", "none", "uncompressed")


_ISOLATION: Final = "delta.isolationLevel"
_LEVELS: Final = ("Serializable", "WriteSerializable", "SnapshotIsolation")
_WHOLE_NUMBERS: Final = {
    CHECKPOINT_INTERVAL: 0,
    "delta.dataSkippingNumIndexedCols": -1,
    "delta.randomPrefixLength": 1,
}
"""Properties that are whole numbers, with the least value of each."""
_FLAGS: Final = (
    *(DELTA_APPEND_ONLY, CHANGE_FEED, MERGE_ON_READ, APPEND_ONLY, TYPE_WIDENING),
    *(IN_COMMIT_TIMESTAMPS, ROW_TRACKING, "delta.enableExpiredLogCleanup"),
    *("delta.checkpoint.writeStatsAsJson", "delta.checkpoint.writeStatsAsStruct"),
    *("delta.randomizeFilePrefixes", "delta.tuneFileSizesForRewrites"),
)


def check_properties(properties: Mapping[str, object]) -> dict[str, str]:
    """Return properties as text, after checking them.

    Raises:
        InvalidInput: A key or a value is invalid, or the property cannot be set by users.
    """
    out: dict[str, str] = {}
    for key, value in properties.items():
        if not key or "\x00" in key:
            what = f"{key!r} is not a property name."
            raise InvalidInput(what)
        if not isinstance(value, str | int | float | bool) or "\x00" in str(value):
            what = f"Property {key} must be text, a number or a boolean."
            raise InvalidInput(what, property=key)
        out[key] = str(value).lower() if isinstance(value, bool) else str(value)
    for key in out:
        is_kept = key.startswith(SETTINGS) and key != MODE
        if is_kept or key.startswith(("delta.feature.", "delta.constraints.", *PREFIXES)):
            what = f"Property {key} is not set by hand."
            hint = "Use `constraints=`; features follow from what the table uses."
            raise InvalidInput(what, hint=hint, property=key)
    for name in (COMPRESSION, ICEBERG_COMPRESSION):
        if name in out and out[name].lower() not in _CODECS:
            what = f"Property {name} is {out[name]!r}."
            raise InvalidInput(what, hint=f"Use one of {', '.join(_CODECS)}.", property=name)
    sizes = (TARGET_FILE_SIZE, ICEBERG_TARGET_FILE_SIZE)
    codec = parquet_options({k: v for k, v in out.items() if k not in sizes}).compression
    if codec != "none" and not pa.Codec.is_available(codec):
        what = f"This pyarrow was built without {codec}."
        raise InvalidInput(what, property=COMPRESSION)
    for name in sizes:
        if name in out:
            size_bytes(out[name], name)
    for key, least in _WHOLE_NUMBERS.items():
        if key in out and not (re.fullmatch(r"-?\d+", out[key]) and int(out[key]) >= least):
            what = f"Property {key} is {out[key]!r}, which is no whole number from {least} on."
            raise InvalidInput(what, property=key)
    for key in (LOG_RETENTION, DELTA_RETENTION, TRANSACTION_RETENTION):
        if key in out:
            interval_ms(out[key], key)
    if out.get(_ISOLATION, _LEVELS[0]).lower() not in map(str.lower, _LEVELS):
        what = f"Property {_ISOLATION} is {out[_ISOLATION]!r}."
        raise InvalidInput(what, hint=f"Use one of {', '.join(_LEVELS)}.", property=_ISOLATION)
    _check_flags(out)
    vector_fraction(out)
    retention_ms(out)
    Retry.of(out)
    return out


def _check_flags(properties: Mapping[str, str]) -> None:
    for key in _FLAGS:
        if properties.get(key, "false") not in ("true", "false"):
            what = f"Property {key} is {properties[key]!r}."
            raise InvalidInput(what, hint="Use true or false.", property=key)
    policy = properties.get(CHECKPOINT_POLICY, "classic")
    if policy not in ("classic", "v2"):
        what = f"Property {CHECKPOINT_POLICY} is {policy!r}."
        raise InvalidInput(what, hint="Use classic or v2.", property=CHECKPOINT_POLICY)
    refused = {
        "delta.universalFormat.enabledFormats",
    }
    for key in refused & properties.keys():
        if properties[key] not in ("false", "none", "classic"):
            what = f"Property {key}={properties[key]} needs an engine that can write it."
            raise InvalidInput(what, hint="The embedded engine cannot yet.", property=key)
    mode = properties.get(MODE, "none")
    if mode not in MODES:
        what = f"Property {MODE} is {mode!r}."
        raise InvalidInput(what, hint=f"Use one of {', '.join(MODES)}.", property=MODE)
