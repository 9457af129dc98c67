"""Very many files as `add` actions, in Arrow columns: no object is made for any of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final, TypeAlias

import orjson
import pyarrow as pa

from lakeward.formats.delta.checkpoint import ADD, STRINGS, VECTOR
from lakeward.formats.delta.schema import physical_name
from lakeward.formats.delta.values import partition_text, stats_text
from lakeward.formats.delta.vectors import absolute_vector, address
from lakeward.model.schema import Schema

FileRow: TypeAlias = tuple[
    str, int, int | None, int, str | None, str | None, str | None, str | None
]
"""Path, size, rows, time of writing; partition, statistics, vector and extra as their JSON."""

_PLAIN: Final = re.compile(r"[\w./=-]+", re.ASCII)
_EXTRA: Final = ("tags", "baseRowId", "defaultRowCommitVersion", "clusteringProvider")


def absolute_adds(
    rows: Sequence[FileRow], schema: Schema, root: str, *, as_spark: bool
) -> pa.StructArray:
    """The files of a table under their full addresses, as `add` actions of another log.

    Args:
        rows: The files, as the log keeps them.
        schema: The table's columns.
        root: The table's full address.
        as_spark: How addresses are spelled; see `address`.
    """
    paths, sizes, counts, written, partitions, stats, vectors, extras = zip(*rows, strict=True)
    base = address("", root, as_spark=as_spark)
    told = [None if e is None else orjson.loads(e) for e in extras]
    columns: dict[str, pa.Array] = {
        "path": pa.array(
            [base + p if _plain(p) else address(p, root, as_spark=as_spark) for p in paths],
            pa.string(),
        ),
        "partitionValues": _maps([_partition(p, schema) for p in partitions]),
        "size": pa.array(sizes, pa.int64()),
        "modificationTime": pa.array(written, pa.int64()),
        "dataChange": pa.repeat(False, len(rows)),
        "stats": pa.array(
            [
                _stats(text, count, schema, has_vector=vector is not None)
                for text, count, vector in zip(stats, counts, vectors, strict=True)
            ],
            pa.string(),
        ),
        "deletionVector": pa.array([_vector(v, root) for v in vectors], VECTOR),
    }
    for name in _EXTRA:
        values = [None if e is None else e.get(name) for e in told]
        kind = ADD.field(name).type
        if kind == STRINGS:
            values = [None if v is None else list(v.items()) for v in values]
        columns[name] = pa.array(values, kind)
    return pa.StructArray.from_arrays([columns[f.name] for f in ADD], fields=list(ADD))


def _plain(path: str) -> bool:
    """Whether a path below the table is spelled as it is."""
    return not path.startswith("/") and _PLAIN.fullmatch(path) is not None


@lru_cache(maxsize=4096)
def _partition(text: str | None, schema: Schema) -> tuple[tuple[str, str | None], ...]:
    if text is None:
        return ()
    values = {int(i): v for i, v in orjson.loads(text).items()}
    known = ((schema.by_id.get(i), v) for i, v in sorted(values.items()))
    return tuple((physical_name(f), partition_text(f, v)) for f, v in known if f is not None)


def _maps(rows: Sequence[tuple[tuple[str, str | None], ...]]) -> pa.Array:
    offsets = list(accumulate(map(len, rows), initial=0))
    keys = pa.array([k for row in rows for k, _ in row], pa.string())
    items = pa.array([v for row in rows for _, v in row], pa.string())
    return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, items)


def _stats(text: str | None, rows: int | None, schema: Schema, *, has_vector: bool) -> str | None:
    if text is not None:
        return stats_text(text, rows, schema, has_vector=has_vector)
    return None if rows is None else orjson.dumps({"numRecords": rows}).decode()


def _vector(text: str | None, root: str) -> dict[str, Any] | None:
    return None if text is None else absolute_vector(orjson.loads(text), root)
