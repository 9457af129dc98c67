"""Settings by which Spark writes files as a table's policy says: codec, size, statistics, filters.

Some are settings of the session, and are reset to the user's values when another table is written.
Others are properties that only the branch has, and are not committed to the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakeward.engines.spark.workspace import Workspace
from lakeward.formats.properties import ICEBERG_BLOOM, size_bytes
from lakeward.model.definition import Definition
from lakeward.model.policy.policy import Policy
from lakeward.model.schema import Schema
from lakeward.model.types import ListOf, MapOf, Primitive, Struct, Type
from lakeward.read.describe import Totals

_CODECS: Final = {
    "none": "uncompressed",
    **{codec: codec for codec in ("uncompressed", "snappy", "gzip", "zstd")},
}
"""Spark's names of the codecs that every Spark has, by the names in policies."""
_DELTA: Final = "spark.databricks.delta."
_BLOOM: Final = "parquet.bloom.filter"
_MEGABYTE: Final = 2**20
_MEASURED_BYTES: Final = 2**20
"""The least size of a table from which the average size of its rows is computed."""
_WIDTHS: Final = {
    **dict.fromkeys(("boolean", "int8"), 1),
    "int16": 2,
    **dict.fromkeys(("int32", "float", "date"), 4),
    "string": 20,
    "binary": 100,
}


class SessionSettings:
    """Sets the settings of a session that a table's policy needs, and resets them."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._overridden: dict[str, str | None] = {}

    def use(self, wanted: Mapping[str, str]) -> None:
        """Set the `wanted` settings; reset others that were set before to the user's values."""
        conf = self._workspace.session.conf
        for key in [k for k in self._overridden if k not in wanted]:
            before = self._overridden.pop(key)
            conf.unset(key) if before is None else conf.set(key, before)
        for key, value in wanted.items():
            self._overridden.setdefault(key, conf.get(key, None))
            conf.set(key, value)


def of_delta(policy: Policy, row_bytes: float) -> dict[str, str]:
    """Return the session settings by which Spark writes a Delta table according to a policy.

    Spark writes a file for each task: the settings combine small results of tasks before they are
    written, and let a task begin another file after as many rows of `row_bytes` as fit.
    """
    out = _codec("spark.sql.parquet.compression.codec", policy)
    if policy.target_file_size is not None:
        size = size_bytes(str(policy.target_file_size))
        out["spark.sql.files.maxRecordsPerFile"] = str(max(1, int(size / row_bytes)))
        out[f"{_DELTA}optimizeWrite.enabled"] = "true"
        out[f"{_DELTA}optimizeWrite.binSize"] = str(max(1, round(size / _MEGABYTE)))
        out[f"{_DELTA}optimize.maxFileSize"] = str(size)
        out[f"{_DELTA}optimize.minFileSize"] = str(size)
    return out


def blooms_of_delta(policy: Policy, definition: Definition, stored: Schema) -> dict[str, str]:
    """Return the session settings by which Spark writes a Delta table with Bloom filters.

    Parquet leaves the filter of a column out where a dictionary has all values, so its columns get
    none. Filters are as large as the values need. `stored` has the names of columns in files.
    """
    own = definition.schema.by_name
    names = [stored.by_id[own[n].id].name for n in policy.bloom_filters or () if n in own]
    if not names:
        return {}
    out = {f"{_BLOOM}.adaptive.enabled": "true"}
    out |= {f"{_BLOOM}.enabled#{name}": "true" for name in names}
    return out | {f"parquet.enable.dictionary#{name}": "false" for name in names}


def row_bytes(schema: Schema, totals: Totals | None) -> float:
    """Return the estimated bytes of a row in files: the table's average so far, or by its types."""
    if totals is not None and totals.rows and totals.bytes >= _MEASURED_BYTES:
        return totals.bytes / totals.rows
    return sum(_width(field.type) for field in schema)


def of_iceberg(policy: Policy) -> dict[str, str]:
    """Return the session settings by which Spark writes an Iceberg table according to a policy."""
    return _codec("spark.sql.iceberg.compression-codec", policy)


def branch_of_delta(policy: Policy, definition: Definition) -> dict[str, str]:
    """Return the properties of a Delta branch that select the columns with statistics."""
    names = _measured(policy, definition)
    if names is None:
        return {}
    if not names:
        return {"delta.dataSkippingNumIndexedCols": "0"}
    return {"delta.dataSkippingStatsColumns": ",".join(f"`{name}`" for name in names)}


def branch_of_iceberg(policy: Policy, definition: Definition) -> dict[str, str]:
    """Return the properties of an Iceberg branch for file size, statistics and Bloom filters."""
    out: dict[str, str] = {}
    if policy.target_file_size is not None:
        out["write.target-file-size-bytes"] = str(size_bytes(str(policy.target_file_size)))
    names = _measured(policy, definition)
    if names is not None:
        out["write.metadata.metrics.default"] = "none"
        out |= {f"write.metadata.metrics.column.{name}": "full" for name in names}
    blooms = [n for n in policy.bloom_filters or () if n in definition.schema.by_name]
    if blooms:
        out["write.parquet.bloom-filter-adaptive-enabled"] = "true"
        out |= {f"{ICEBERG_BLOOM}{name}": "true" for name in blooms}
    return out


def _width(kind: Type) -> int:
    match kind:
        case Primitive(name):
            return _WIDTHS.get(name, 8)
        case Struct(fields):
            return sum(_width(field.type) for field in fields)
        case ListOf(element):
            return _width(element.type)
        case MapOf(key, value):
            return _width(key.type) + _width(value.type)
        case _:
            return 8


def _codec(setting: str, policy: Policy) -> dict[str, str]:
    codec = None if policy.compression is None else _CODECS.get(policy.compression)
    return {} if codec is None else {setting: codec}


def _measured(policy: Policy, definition: Definition) -> list[str] | None:
    """Return the table's columns with statistics; None if the policy does not choose columns."""
    if policy.stats_columns is None:
        return None
    return [name for name in policy.stats_columns if name in definition.schema.by_name]
