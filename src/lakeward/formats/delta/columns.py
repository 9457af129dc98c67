"""Very many files as `add` actions, in Arrow columns: no object is made for any of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final, TypeAlias

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.formats.delta.bulk_stats import stats_texts
from lakeward.formats.delta.checkpoint import ADD, STRINGS, VECTOR
from lakeward.formats.delta.schema import physical_name
from lakeward.formats.delta.values import partition_text
from lakeward.formats.delta.vectors import absolute_vector, address
from lakeward.model.schema import Schema

FileRow: TypeAlias = tuple[
    str, int, int | None, int, str | None, str | None, str | None, str | None
]
"""Path, size, rows, time of writing; partition, statistics, vector and extra as their JSON."""

_PLAIN: Final = r"^[A-Za-z0-9_.=-][A-Za-z0-9_./=-]*$"
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
    told = [None if e is None else orjson.loads(e) for e in extras]
    columns: dict[str, pa.Array] = {
        "path": _addresses(paths, root, as_spark=as_spark),
        "partitionValues": _maps([_partition(p, schema) for p in partitions]),
        "size": pa.array(sizes, pa.int64()),
        "modificationTime": pa.array(written, pa.int64()),
        "dataChange": pa.repeat(False, len(rows)),
        "stats": stats_texts(stats, counts, [v is not None for v in vectors], schema),
        "deletionVector": pa.array([_vector(v, root) for v in vectors], VECTOR),
    }
    for name in _EXTRA:
        kind = ADD.field(name).type
        if not any(told):
            columns[name] = pa.nulls(len(rows), kind)
            continue
        values = [None if e is None else e.get(name) for e in told]
        if kind == STRINGS:
            values = [None if v is None else list(v.items()) for v in values]
        columns[name] = pa.array(values, kind)
    return pa.StructArray.from_arrays([columns[f.name] for f in ADD], fields=list(ADD))


def _addresses(paths: Sequence[str], root: str, *, as_spark: bool) -> pa.Array:
    found = pa.array(paths, pa.string())
    # Below the table, and of nothing that a URL would escape.
    if pc.all(pc.match_substring_regex(found, _PLAIN)).as_py():
        return pc.binary_join_element_wise(address("", root, as_spark=as_spark), found, "")
    return pa.array([address(p, root, as_spark=as_spark) for p in paths], pa.string())


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


def _vector(text: str | None, root: str) -> dict[str, Any] | None:
    return None if text is None else absolute_vector(orjson.loads(text), root)
