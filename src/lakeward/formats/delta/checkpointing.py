"""Writes the checkpoint of a version from the log, as V1 or V2 by the table's property."""

from __future__ import annotations

import uuid
from typing import Final

import pyarrow as pa

from lakeward.context import LakeContext
from lakeward.formats.background import with_pauses
from lakeward.formats.delta import checkpoint as writing
from lakeward.formats.delta.columns import adds_of
from lakeward.formats.delta.values import vector_id
from lakeward.formats.properties import CHECKPOINT_POLICY
from lakeward.log import commits, domains, files, tombstones
from lakeward.log.database import Session
from lakeward.model.clock import now_ms
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.file import LoggedFile
from lakeward.model.steps import reach

_TOMBSTONES_MS: Final = 7 * 24 * 3600 * 1000
_AT_ONCE: Final = 256


def write_checkpoint(
    context: LakeContext, head: Head, version: int, definition: Definition
) -> None:
    """Write a checkpoint and its sidecars, then `_last_checkpoint`, which points to it."""
    storage = context.storage
    with context.database.read() as session:
        cut = commits.version_at(session, head.table_id, now_ms() - _TOMBSTONES_MS)
        old = -1 if cut is None else cut
        gone = _removed(session, head.table_id, old, version)
        times = {v: commits.one(session, head.table_id, v) for v in {f.removed for f in gone}}
        removed = [(f, c.timestamp_ms) for f in gone if (c := times[f.removed]) is not None]
        live = list(files.lines_at(session, head.table_id, version, _AT_ONCE))
        applications = commits.app_transactions_at(session, head.table_id, version)
        named = domains.at(session, head.table_id, version)

    def put_sidecar(data: bytes) -> str:
        name = f"{uuid.uuid4()}.parquet"
        storage.put(writing.sidecar_path(head.location, name), data)
        return name

    # After the session ends: an open read would keep SQLite's WAL from being truncated.
    removes = writing.removes_of(removed, definition.schema)
    is_v2 = definition.properties.get(CHECKPOINT_POLICY) == "v2"
    is_large = len(removed) + sum(lines.files for lines in live) > writing.IN_ONE_FILE
    made = writing.Checkpoint(
        head,
        definition,
        removes,
        applications,
        domains=named,
        v2=version if is_v2 else None,
        put_sidecar=put_sidecar if is_v2 and is_large else None,
    )
    for lines in with_pauses(live):
        made.take(adds_of(lines, definition.schema))
    data, actions = made.finish()
    del live, made, removes
    # Arrow's memory pool keeps freed memory, and this thread may never use it again.
    pa.default_memory_pool().release_unused()
    storage.put(writing.checkpoint_path(head.location, version), data)
    reach("checkpoint.written")
    pointer = writing.last_checkpoint_path(head.location)
    storage.put(pointer, writing.last_checkpoint_bytes(version, actions, len(data)))


def _removed(session: Session, table_id: int, after: int, version: int) -> list[LoggedFile]:
    """Return the files that were removed after `after` and are not in `version`, each once.

    The protocol wants one action for a path and its deletion vector: a reader may apply a `remove`
    after the `add` of the same file, and would miss its rows.
    """
    gone = files.removed_between(session, table_id, after, version)
    if not gone:
        return []
    again = tombstones.live_again(session, table_id, after, version)
    live = {(path, vector_id(vector)) for path, vector in again}
    newest = {
        (f.path, vector_id(f.file.deletion_vector)): f
        for f in sorted(gone, key=lambda f: f.removed)
    }
    return [f for key, f in newest.items() if key not in live]
