"""The table properties that Iceberg defines, to find misspelled ones.

Other properties stay allowed: Iceberg lets users and engines define their own.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from typing import Final

from lakeward.errors import InvalidInput
from lakeward.formats.column_properties import BEFORE_A_COLUMN

_ALIKE: Final = 0.93
"""The similarity, as `difflib` measures it, from which a key is taken for a misspelled one."""


def _below(prefix: str, names: Iterable[str]) -> Iterator[str]:
    return (f"{prefix}.{name}" for name in names)


_AVRO: Final = ("avro.compression-codec", "avro.compression-level")
_ORC: Final = (
    *("orc.block-size-bytes", "orc.compression-codec", "orc.compression-strategy"),
    *("orc.stripe-size-bytes", "orc.vectorized.batch-size"),
)
_PARQUET: Final = (
    *("parquet.compression-codec", "parquet.compression-level", "parquet.dict-size-bytes"),
    *("parquet.page-row-limit", "parquet.page-size-bytes", "parquet.page-version"),
    *("parquet.row-group-check-max-record-count", "parquet.row-group-check-min-record-count"),
    "parquet.row-group-size-bytes",
)
_FILES: Final = (*_AVRO, *_ORC, *_PARQUET, "format.default", "target-file-size-bytes")
_CHANGES: Final = ("delete", "merge", "update")
_OF_CHANGES: Final = ("distribution-mode", "isolation-level", "mode")
_WRITE: Final = (
    *_FILES,
    *_below("delete", (*_FILES, "granularity")),
    *("data.path", "distribution-mode", "folder-storage.path", "location-provider.impl"),
    *("manifest-lists.enabled", "manifest.compression-codec", "manifest.compression-level"),
    *(f"{change}.{key}" for change in _CHANGES for key in _OF_CHANGES),
    *("merge.cardinality-check.enabled", "metadata.compression-codec"),
    *("metadata.delete-after-commit.enabled", "metadata.metrics.default"),
    *("metadata.metrics.max-inferred-column-defaults", "metadata.path"),
    *("metadata.previous-versions-max", "object-storage.enabled"),
    *("object-storage.partitioned-paths", "object-storage.path", "orc.bloom.filter.columns"),
    *("orc.bloom.filter.fpp", "parquet.bloom-filter-adaptive-enabled"),
    *("parquet.bloom-filter-max-bytes", "parquet.row-group-limit"),
    *("parquet.row-group-size-track-uncompressed", "parquet.shred-variants"),
    *("parquet.variant-inference-buffer-size", "py-location-provider.impl"),
    *("spark.accept-any-schema", "spark.advisory-partition-size-bytes"),
    *("spark.auto-schema-evolution.enabled", "spark.fanout.enabled", "summary.partition-limit"),
    *("upsert.enabled", "wap.enabled"),
)
_TIMES: Final = ("max-wait-ms", "min-wait-ms", "num-retries", "total-timeout-ms")
KNOWN: Final = frozenset(
    (
        *_below("write", _WRITE),
        *_below("commit.retry", _TIMES),
        *_below("commit.status-check", _TIMES),
        *("commit.manifest-merge.enabled", "commit.manifest.min-count-to-merge"),
        *("commit.manifest.target-size-bytes", "compatibility.snapshot-id-inheritance.enabled"),
        *("encryption.data-key-length", "encryption.key-id", "engine.hive.enabled"),
        *("engine.hive.lock-enabled", "format-version", "gc.enabled"),
        *("history.expire.max-ref-age-ms", "history.expire.max-snapshot-age-ms"),
        *("history.expire.min-snapshots-to-keep", "identifier-fields.rely"),
        *("read.data-planning-mode", "read.delete-planning-mode"),
        *("read.orc.vectorization.batch-size", "read.orc.vectorization.enabled"),
        *("read.parquet.vectorization.batch-size", "read.parquet.vectorization.enabled"),
        *("read.split.adaptive-size.enabled", "read.split.metadata-target-size"),
        *("read.split.open-file-cost", "read.split.planning-lookback", "read.split.target-size"),
        "schema.name-mapping.default",
    )
)
"""The properties of Iceberg and of PyIceberg, without those that end with a column's name."""


def check_spelling(key: str) -> None:
    """Raise `InvalidInput` if a property is probably one of Iceberg's, but misspelled."""
    if key in KNOWN or key.startswith(BEFORE_A_COLUMN):
        return
    plain = key.lower().replace("_", "-")
    near = difflib.get_close_matches(plain, sorted(KNOWN), 1, _ALIKE)
    for prefix in BEFORE_A_COLUMN:
        names = plain.split(".")[: prefix.count(".")]
        if difflib.get_close_matches(".".join((*names, "")), [prefix], 1, _ALIKE):
            near = [f"{prefix}<column>"]
    if near:
        what = f"Iceberg has no table property {key}."
        raise InvalidInput(what, hint=f"Did you mean {near[0]}?", property=key)
