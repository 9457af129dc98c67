"""Checkpoints: the state at a version in one Parquet file, so that readers skip old commits."""

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
_SCHEMA: Final = pa.schema(
    [
        ("protocol", _PROTOCOL),
        ("metaData", _METADATA),
        ("txn", _TXN),
        ("remove", _REMOVE),
        ("add", ADD),
    ]
)
_ROW_GROUP: Final = 10_000


def checkpoint_path(location: str, version: int) -> str:
    """Path of a version's checkpoint."""
    return f"{location}/{LOG_DIRECTORY}/{version:020d}.checkpoint.parquet"


def last_checkpoint_path(location: str) -> str:
    """Path of the file that names the newest checkpoint."""
    return f"{location}/{LOG_DIRECTORY}/_last_checkpoint"


def checkpoint_bytes(
    head: Head,
    definition: Definition,
    files: Iterable[LoggedFile],
    tombstones: Sequence[tuple[LoggedFile, int]],
    applications: Sequence[AppTransaction],
) -> tuple[bytes, int]:
    """A checkpoint's bytes, and its number of actions.

    `tombstones` are recently removed files with the times of their removal; `applications` the
    newest number of each application.
    """
    schema = definition.schema
    out = Checkpoint(head, definition, removes_of(tombstones, schema), applications)
    for adds in _arrays((add(f.file, schema, changed=False) for f in files), ADD):
        out.take(adds)
    return out.finish()


def removes_of(tombstones: Iterable[tuple[LoggedFile, int]], schema: Schema) -> list[pa.Array]:
    """Recently removed files, each with the time of its removal, as `remove` actions."""
    return _arrays((remove(f, at, schema, changed=False) for f, at in tombstones), _REMOVE)


class Checkpoint:
    """A checkpoint that encodes files as they come, so that they need not fit in memory."""

    def __init__(
        self,
        head: Head,
        definition: Definition,
        removes: Sequence[pa.Array],
        applications: Sequence[AppTransaction],
    ) -> None:
        self._sink = pa.BufferOutputStream()
        # Paths and statistics do not repeat, so dictionaries of them would be waste.
        self._writer = pq.ParquetWriter(
            self._sink, _SCHEMA, compression="zstd", use_dictionary=False
        )
        self._actions = 0
        self._waiting: list[pa.RecordBatch] = []
        described = _with_maps(metadata(head, definition), "configuration")
        self._put("protocol", pa.array([dict(definition.protocol)], _PROTOCOL))
        self._put("metaData", pa.array([described], _METADATA))
        self._put("txn", pa.array([app_transaction(a) for a in applications], _TXN))
        for some in removes:
            self._put("remove", some)

    def take(self, adds: pa.Array) -> None:
        """Add files, given as `add` actions."""
        self._put("add", adds)
        if sum(batch.num_rows for batch in self._waiting) >= _ROW_GROUP:
            self._flush()

    def finish(self) -> tuple[bytes, int]:
        """The checkpoint's bytes, and its number of actions."""
        self._flush()
        self._writer.close()
        return self._sink.getvalue().to_pybytes(), self._actions

    def _put(self, kind: str, actions: pa.Array) -> None:
        if len(actions):
            columns = [
                actions if f.name == kind else pa.nulls(len(actions), f.type) for f in _SCHEMA
            ]
            self._waiting.append(pa.RecordBatch.from_arrays(columns, schema=_SCHEMA))
            self._actions += len(actions)

    def _flush(self) -> None:
        if self._waiting:
            # Each flush writes one row group.
            self._writer.write_table(pa.Table.from_batches(self._waiting).combine_chunks())
            self._waiting = []


def last_checkpoint_bytes(version: int, actions: int, size: int) -> bytes:
    """The content of `_last_checkpoint`."""
    return orjson.dumps({"version": version, "size": actions, "sizeInBytes": size})


def _arrays(actions: Iterable[dict[str, Any]], kind: pa.DataType) -> list[pa.Array]:
    """Actions as arrays of moderate length."""
    waiting = iter(actions)
    out = []
    while some := list(islice(waiting, _AT_ONCE)):
        out.append(pa.array([_with_maps(a, "partitionValues", "tags") for a in some], kind))
    return out


def _with_maps(action: dict[str, Any], *names: str) -> dict[str, Any]:
    """An action whose maps are lists of pairs, as Arrow takes them."""
    for name in names:
        if action.get(name) is not None:
            action[name] = list(action[name].items())
    if "format" in action:
        action["format"] = {**action["format"], "options": []}
    return action
