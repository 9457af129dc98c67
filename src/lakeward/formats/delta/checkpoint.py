"""Checkpoints: the state at a version in one Parquet file, so that readers need not replay."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from lakeward.formats.delta.publication import LOG_DIRECTORY, add, app_transaction, metadata, remove
from lakeward.model.commit import AppTransaction, Head
from lakeward.model.definition import Definition
from lakeward.model.file import LoggedFile
from lakeward.model.schema import Schema

_AT_ONCE: Final = 256
STRINGS: Final = pa.map_(pa.string(), pa.string())
VECTOR: Final = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
_TXN: Final = pa.struct(
    [("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())]
)
ADD: Final = pa.struct(
    [
        ("path", pa.string()),
        ("partitionValues", STRINGS),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("stats", pa.string()),
        ("tags", STRINGS),
        ("deletionVector", VECTOR),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
        ("clusteringProvider", pa.string()),
    ]
)
_REMOVE: Final = pa.struct(
    [
        ("path", pa.string()),
        ("deletionTimestamp", pa.int64()),
        ("dataChange", pa.bool_()),
        ("extendedFileMetadata", pa.bool_()),
        ("partitionValues", STRINGS),
        ("size", pa.int64()),
        ("deletionVector", VECTOR),
    ]
)
_METADATA: Final = pa.struct(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("description", pa.string()),
        ("format", pa.struct([("provider", pa.string()), ("options", STRINGS)])),
        ("schemaString", pa.string()),
        ("partitionColumns", pa.list_(pa.string())),
        ("configuration", STRINGS),
        ("createdTime", pa.int64()),
    ]
)
_PROTOCOL: Final = pa.struct(
    [
        ("minReaderVersion", pa.int32()),
        ("minWriterVersion", pa.int32()),
        ("readerFeatures", pa.list_(pa.string())),
        ("writerFeatures", pa.list_(pa.string())),
    ]
)
_COLUMNS: Final = (
    ("protocol", _PROTOCOL),
    ("metaData", _METADATA),
    ("txn", _TXN),
    ("remove", _REMOVE),
    ("add", ADD),
)


def checkpoint_path(location: str, version: int) -> str:
    """Where a version's checkpoint is."""
    return f"{location}/{LOG_DIRECTORY}/{version:020d}.checkpoint.parquet"


def last_checkpoint_path(location: str) -> str:
    """Where readers look for the newest checkpoint."""
    return f"{location}/{LOG_DIRECTORY}/_last_checkpoint"


def checkpoint_bytes(
    head: Head,
    definition: Definition,
    files: Iterable[LoggedFile],
    tombstones: Sequence[tuple[LoggedFile, int]],
    applications: Sequence[AppTransaction],
) -> tuple[bytes, int]:
    """A checkpoint's bytes, and how many actions are in it.

    Args:
        head: The table.
        definition: As of the version.
        files: The version's files.
        tombstones: Files removed of late, each with the time of its removal.
        applications: The newest number of each application.
    """
    schema = definition.schema
    adds = _arrays((add(f.file, schema, changed=False) for f in files), ADD)
    return checkpoint_of(head, definition, adds, removes_of(tombstones, schema), applications)


def removes_of(tombstones: Iterable[tuple[LoggedFile, int]], schema: Schema) -> list[pa.Array]:
    """Files removed of late, each with the time of its removal, as `remove` actions."""
    return _arrays((remove(f, at, schema, changed=False) for f, at in tombstones), _REMOVE)


def checkpoint_of(
    head: Head,
    definition: Definition,
    adds: Sequence[pa.Array],
    removes: Sequence[pa.Array],
    applications: Sequence[AppTransaction],
) -> tuple[bytes, int]:
    """The same of actions that are Arrow arrays already."""
    parts: dict[str, Sequence[pa.Array]] = {
        "protocol": [pa.array([dict(definition.protocol)], _PROTOCOL)],
        "metaData": [
            pa.array([_with_maps(metadata(head, definition), "configuration")], _METADATA)
        ],
        "txn": [pa.array([app_transaction(a) for a in applications], _TXN)],
        "remove": removes,
        "add": adds,
    }
    counts = {name: sum(map(len, arrays)) for name, arrays in parts.items()}
    total = sum(counts.values())
    columns, before = [], 0
    for name, kind in _COLUMNS:
        after = total - before - counts[name]
        chunks = [pa.nulls(before, kind), *parts[name], pa.nulls(after, kind)]
        columns.append(pa.chunked_array([c for c in chunks if len(c)] or [pa.nulls(0, kind)]))
        before += counts[name]
    table = pa.Table.from_arrays(columns, names=[name for name, _ in _COLUMNS])
    sink = pa.BufferOutputStream()
    # Paths and statistics do not repeat, so dictionaries of them would be waste.
    pq.write_table(table.combine_chunks(), sink, compression="zstd", use_dictionary=False)
    return sink.getvalue().to_pybytes(), total


def last_checkpoint_bytes(version: int, actions: int, size: int) -> bytes:
    """The pointer that readers follow."""
    return orjson.dumps({"version": version, "size": actions, "sizeInBytes": size})


def _arrays(actions: Iterable[dict[str, Any]], kind: pa.DataType) -> list[pa.Array]:
    """Actions as arrays of moderate length, because Arrow makes one in one go."""
    waiting = iter(actions)
    out = []
    while some := list(islice(waiting, _AT_ONCE)):
        out.append(pa.array([_with_maps(a, "partitionValues", "tags") for a in some], kind))
    return out


def _with_maps(action: dict[str, Any], *names: str) -> dict[str, Any]:
    """Arrow takes a map as pairs."""
    for name in names:
        if action.get(name) is not None:
            action[name] = list(action[name].items())
    if "format" in action:
        action["format"] = {**action["format"], "options": []}
    return action
