"""How a table wants its files written, from its properties.

A value that makes no sense is refused when it is set, not when it is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from lakeward.engines.arrow.parquet import ParquetOptions
from lakeward.errors import InvalidInput
from lakeward.formats.properties import (
    APPEND_ONLY,
    CHANGE_FEED,
    CHECKPOINT_INTERVAL,
    COMPRESSION,
    DELTA_APPEND_ONLY,
    ICEBERG_COMPRESSION,
    ICEBERG_TARGET_FILE_SIZE,
    MERGE_ON_READ,
    TARGET_FILE_SIZE,
    size_bytes,
    vector_fraction,
)
from lakeward.write.plan.retry import Retry

_OF_FILES: Final = (
    *(TARGET_FILE_SIZE, ICEBERG_TARGET_FILE_SIZE),
    *(COMPRESSION, ICEBERG_COMPRESSION),
    MERGE_ON_READ,
)
_DEFAULT: Final = ParquetOptions()
_IN_PLACE_ROWS: Final = 131_072
"""Where few rows are changed in place, few others should have to be read to find them."""
_CODECS: Final = ("snappy", "zstd", "gzip", "lz4", "brotli", "none", "uncompressed")


def parquet_options(properties: Mapping[str, str]) -> ParquetOptions:
    """The options for writing a table's data files."""
    if properties.keys().isdisjoint(_OF_FILES):
        return _DEFAULT
    codec = _either(properties, COMPRESSION, ICEBERG_COMPRESSION) or _DEFAULT.compression
    codec = codec.lower()
    in_place = properties.get(MERGE_ON_READ) == "true"
    size = _either(properties, TARGET_FILE_SIZE, ICEBERG_TARGET_FILE_SIZE)
    return ParquetOptions(
        compression="none" if codec == "uncompressed" else codec,
        target_file_size=_DEFAULT.target_file_size if size is None else size_bytes(size),
        row_group_rows=_IN_PLACE_ROWS if in_place else _DEFAULT.row_group_rows,
    )


def check_properties(properties: Mapping[str, object]) -> dict[str, str]:
    """Properties as text, refused where they cannot be used.

    Raises:
        InvalidInput: A key or value makes no sense.
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
        if key.startswith(("delta.feature.", "delta.constraints.")):
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
    interval = out.get(CHECKPOINT_INTERVAL, "1")
    if not interval.isdigit():
        what = f"Property {CHECKPOINT_INTERVAL} is {interval!r}, which is no whole number."
        raise InvalidInput(what, property=CHECKPOINT_INTERVAL)
    _check_flags(out)
    vector_fraction(out)
    Retry.of(out)
    return out


def _either(properties: Mapping[str, str], *names: str) -> str | None:
    """The setting under the name that one format or the other gives it."""
    return next((properties[n] for n in names if n in properties), None)


def _check_flags(properties: Mapping[str, str]) -> None:
    for key in (
        DELTA_APPEND_ONLY,
        CHANGE_FEED,
        MERGE_ON_READ,
        APPEND_ONLY,
    ):
        if properties.get(key, "false") not in ("true", "false"):
            what = f"Property {key} is {properties[key]!r}."
            raise InvalidInput(what, hint="Use true or false.", property=key)
    refused = {
        "delta.columnMapping.mode",
        "delta.enableRowTracking",
        "delta.enableTypeWidening",
        "delta.universalFormat.enabledFormats",
        "delta.checkpointPolicy",
    }
    for key in refused & properties.keys():
        if properties[key] not in ("false", "none", "classic"):
            what = f"Property {key}={properties[key]} needs an engine that can write it."
            raise InvalidInput(what, hint="The embedded engine cannot yet.", property=key)
