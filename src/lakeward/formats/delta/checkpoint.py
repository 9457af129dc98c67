"""Checkpoints: the state at a version in Parquet, so that readers skip old commits.

A V1 checkpoint is one file. If the table asks for V2, the file is a V2 checkpoint, and the file
actions of a large table are in sidecars.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from lakeward.formats.delta.identity import marks_of, published
from lakeward.formats.delta.publication import (
    LOG_DIRECTORY,
    add,
    app_transaction,
    domain_metadata,
    metadata,
    remove,
)
from lakeward.model.clock import now_ms
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
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
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
_DOMAIN: Final = pa.struct(
    [("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]
)
_V2_METADATA: Final = pa.struct([("version", pa.int64()), ("tags", STRINGS)])
_SIDECAR: Final = pa.struct(
    [
        ("path", pa.string()),
        ("sizeInBytes", pa.int64()),
        ("modificationTime", pa.int64()),
        ("tags", STRINGS),
    ]
)
_V2: Final = [pa.field("checkpointMetadata", _V2_METADATA), pa.field("sidecar", _SIDECAR)]
_OF_FILES: Final = pa.schema([("remove", _REMOVE), ("add", ADD)])
_ROW_GROUP: Final = 10_000
_PER_SIDECAR: Final = 100_000
SIDECARS: Final = "_sidecars"
IN_ONE_FILE: Final = 10_000
"""The largest number of files that a V2 checkpoint lists itself, without sidecars."""


def checkpoint_path(location: str, version: int) -> str:
    """Return the path of a version's checkpoint."""
    return f"{location}/{LOG_DIRECTORY}/{version:020d}.checkpoint.parquet"


def sidecar_path(location: str, name: str) -> str:
    """Return the path of a sidecar file."""
    return f"{location}/{LOG_DIRECTORY}/{SIDECARS}/{name}"


def last_checkpoint_path(location: str) -> str:
    """Return the path of the file that points to the newest checkpoint."""
    return f"{location}/{LOG_DIRECTORY}/_last_checkpoint"


def checkpoint_bytes(
    head: Head,
    definition: Definition,
    files: Iterable[LoggedFile],
    tombstones: Sequence[tuple[LoggedFile, int]],
    applications: Sequence[AppTransaction],
    *,
    domains: Mapping[str, str | None] | None = None,
) -> tuple[bytes, int]:
    """Return a checkpoint's bytes, and its number of actions.

    `tombstones` are recently removed files with the times of their removal; `applications` the
    newest transaction number of each application.
    """
    schema = definition.schema
    removes = removes_of(tombstones, schema)
    out = Checkpoint(head, definition, removes, applications, domains=domains)
    for adds in _arrays((add(f.file, schema, changed=False) for f in files), ADD):
        out.take(adds)
    return out.finish()


def removes_of(tombstones: Iterable[tuple[LoggedFile, int]], schema: Schema) -> list[pa.Array]:
    """Return recently removed files, each with the time of its removal, as `remove` actions."""
    return _arrays((remove(f, at, schema, changed=False) for f, at in tombstones), _REMOVE)


class Checkpoint:
    """A checkpoint that encodes files as they arrive, so that they need not fit in memory.

    Args:
        head: The table.
        definition: The table's definition at the version.
        removes: Recently removed files, as `remove` actions.
        applications: The newest transaction number of each application.
        domains: Domain metadata.
        v2: The version, for a V2 checkpoint.
        put_sidecar: Stores the bytes of a sidecar and returns its name; then all file actions are
            in sidecars. Only for V2.
    """

    def __init__(
        self,
        head: Head,
        definition: Definition,
        removes: Sequence[pa.Array],
        applications: Sequence[AppTransaction],
        *,
        domains: Mapping[str, str | None] | None = None,
        v2: int | None = None,
        put_sidecar: Callable[[bytes], str] | None = None,
    ) -> None:
        kinds = [*_SCHEMA]
        configured = domains or {}
        named = [domain_metadata(name, text) for name, text in published(configured)]
        kinds += [pa.field("domainMetadata", _DOMAIN)] if named else []
        kinds += _V2 if v2 is not None else []
        self._main = _Part(pa.schema(kinds))
        self._actions = 0
        self._put_sidecar = put_sidecar
        self._sidecars: list[dict[str, Any]] = []
        self._files = self._main if put_sidecar is None else _Part(_OF_FILES)
        if v2 is not None:
            self._put("checkpointMetadata", pa.array([{"version": v2, "tags": []}], _V2_METADATA))
        described = metadata(head, definition, marks_of(configured))
        described = _with_maps(described, "configuration")
        self._put("protocol", pa.array([dict(definition.protocol)], _PROTOCOL))
        self._put("metaData", pa.array([described], _METADATA))
        self._put("txn", pa.array([app_transaction(a) for a in applications], _TXN))
        self._put("domainMetadata", pa.array(named, _DOMAIN))
        for some in removes:
            self._put_files("remove", some)

    def take(self, adds: pa.Array) -> None:
        """Add files, given as `add` actions."""
        self._put_files("add", adds)

    def finish(self) -> tuple[bytes, int]:
        """Return the checkpoint's bytes and its number of actions, after storing the sidecars."""
        self._end_sidecar()
        self._put("sidecar", pa.array(self._sidecars, _SIDECAR))
        return self._main.finish(), self._actions

    def _put(self, kind: str, actions: pa.Array) -> None:
        self._main.put(kind, actions)
        self._actions += len(actions)

    def _put_files(self, kind: str, actions: pa.Array) -> None:
        self._files.put(kind, actions)
        self._actions += len(actions)
        if self._files.actions >= _PER_SIDECAR:
            self._end_sidecar()

    def _end_sidecar(self) -> None:
        if self._put_sidecar is None or not self._files.actions:
            return
        data = self._files.finish()
        name = self._put_sidecar(data)
        about = {"path": name, "sizeInBytes": len(data), "modificationTime": now_ms(), "tags": []}
        self._sidecars.append(about)
        self._files = _Part(_OF_FILES)


class _Part:
    """One Parquet file of actions."""

    def __init__(self, schema: pa.Schema) -> None:
        self.actions = 0
        self._schema = schema
        self._sink = pa.BufferOutputStream()
        # Paths and statistics are unique, so dictionary encoding would only cost space.
        self._writer = pq.ParquetWriter(
            self._sink, schema, compression="zstd", use_dictionary=False
        )
        self._waiting: list[pa.RecordBatch] = []

    def put(self, kind: str, actions: pa.Array) -> None:
        if not len(actions):
            return
        columns = [
            actions if f.name == kind else pa.nulls(len(actions), f.type) for f in self._schema
        ]
        self._waiting.append(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        self.actions += len(actions)
        if sum(batch.num_rows for batch in self._waiting) >= _ROW_GROUP:
            self._flush()

    def finish(self) -> bytes:
        self._flush()
        self._writer.close()
        return bytes(self._sink.getvalue().to_pybytes())

    def _flush(self) -> None:
        if self._waiting:
            # Each flush writes one row group.
            self._writer.write_table(pa.Table.from_batches(self._waiting).combine_chunks())
            self._waiting = []


def last_checkpoint_bytes(version: int, actions: int, size: int) -> bytes:
    """Return the content of `_last_checkpoint`."""
    return orjson.dumps({"version": version, "size": actions, "sizeInBytes": size})


def _arrays(actions: Iterable[dict[str, Any]], kind: pa.DataType) -> list[pa.Array]:
    """Return actions as arrays of at most `_AT_ONCE` items."""
    waiting = iter(actions)
    out = []
    while some := list(islice(waiting, _AT_ONCE)):
        out.append(pa.array([_with_maps(a, "partitionValues", "tags") for a in some], kind))
    return out


def _with_maps(action: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return an action whose maps are lists of pairs, as Arrow requires."""
    for name in names:
        if action.get(name) is not None:
            action[name] = list(action[name].items())
    if "format" in action:
        action["format"] = {**action["format"], "options": []}
    return action
