"""Publication: ratified commits written out as ordinary `_delta_log` files.

In version order, put-if-absent, bytes from the log alone; so anybody may do it, any number of
times, at once, and the result is the same. A file that is ours but torn is made whole. A file that
is not ours is left alone and reported, and nothing after it is published.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

import pyarrow as pa

from lakeward.context import LakeContext
from lakeward.errors import FileMissing, ForeignCommit, LakewardError
from lakeward.formats.delta.checkpoint import (
    Checkpoint,
    checkpoint_path,
    last_checkpoint_bytes,
    last_checkpoint_path,
    removes_of,
)
from lakeward.formats.delta.columns import adds_of
from lakeward.formats.delta.protocol import is_writable
from lakeward.formats.delta.publication import commit_bytes, commit_path
from lakeward.log import commits, definitions, files, heads
from lakeward.model.clock import now_ms
from lakeward.model.commit import Commit, Head
from lakeward.model.definition import Definition
from lakeward.model.steps import reach
from lakeward.write.commit import iceberg
from lakeward.write.commit.background import BackgroundWorker, with_pauses
from lakeward.write.commit.iceberg_hint import publish_hint, renew_hints
from lakeward.write.commit.record import Ratified
from lakeward.write.plan.options import checkpoint_interval

_LOG = logging.getLogger(__name__)
_TOMBSTONES_MS = 7 * 24 * 3600 * 1000
_NOTE_EVERY = 100
_AT_ONCE = 256


def publish_member(
    context: LakeContext, member: Ratified, background: BackgroundWorker | None = None
) -> None:
    """Publish a commit just ratified, and before it whatever is still owed.

    Args:
        context: The lake's.
        member: What was ratified.
        background: Does what need not be waited for, a checkpoint above all; at once without.

    Raises:
        ForeignCommit: Somebody else's file is in the way.
        StorageError: The warehouse cannot be written now. The commit stands; publish again later.
    """
    head, version = member.head, member.commit.version
    if head.format == iceberg.FORMAT:
        # Its metadata was written before it was ratified.
        publish_hint(context, head)
        return
    reach("publish.started")
    try:
        if version and not _is_published(context, head, version - 1):
            with context.database.turn(head.table_id):
                _publish_range(context, head, _owed_from(context, head, version), version - 1)
        if member.prepared is None or not member.prepared.put():
            _put(context, head, member.commit, member.definition)
    finally:
        if member.prepared is not None:
            member.prepared.discard()
    reach("publish.done")
    if not checkpoint_if_due(context, member, background) and version % _NOTE_EVERY == 0:
        _leave(background, lambda: _note_published(context, head, version))


def checkpoint_if_due(
    context: LakeContext, member: Ratified, background: BackgroundWorker | None = None
) -> bool:
    """Write a checkpoint when the table's policy asks for one at this version.

    Readers do not need it, so with `behind` it is written soon; a process that dies before leaves
    it to the next version that is due.
    """
    head, definition = member.head, member.definition
    version = member.commit.version
    interval = checkpoint_interval(definition.properties)
    # A checkpoint must hold everything that a reader needs, features we do not know included.
    due = interval and version and version % interval == 0 and is_writable(definition)
    if due:
        _leave(background, lambda: write_checkpoint(context, head, version, definition))
    return bool(due)


def publish_backlog(context: LakeContext, head: Head) -> int:
    """Publish all that a table owes; how many versions were looked at."""
    first = head.published + 1
    with context.database.turn(head.table_id):
        _publish_range(context, head, first, head.version)
    _note_published(context, head, head.version)
    return head.version - first + 1


def publish_again(context: LakeContext, head: Head, versions: Iterable[int]) -> None:
    """Publish versions that were published before and are lost or torn.

    Raises:
        ForeignCommit: Somebody else's file is in the way.
    """
    with context.database.turn(head.table_id):
        for version in versions:
            _publish_range(context, head, version, version)


def publish_owed(context: LakeContext) -> dict[str, int]:
    """Publish what is owed of all tables; how many versions of each were looked at.

    Raises:
        ForeignCommit: Somebody else's file is in the way.
    """
    with context.database.read() as session:
        owed = heads.unpublished(session)
    return {str(h.name): publish_backlog(context, h) for h in owed}


def recover(context: LakeContext) -> None:
    """Publish what others ratified and did not publish; what cannot be is only reported."""
    with context.database.read() as session:
        owed = heads.unpublished(session)
    for head in owed:
        try:
            publish_backlog(context, head)
        except LakewardError as error:
            _LOG.warning("Table %s is not wholly published: %s", head.name, error)
    renew_hints(context)


def write_checkpoint(
    context: LakeContext, head: Head, version: int, definition: Definition
) -> None:
    """Write a checkpoint of a version and point readers to it."""
    storage = context.storage
    with context.database.read() as session:
        cut = commits.version_at(session, head.table_id, now_ms() - _TOMBSTONES_MS)
        gone = files.removed_between(session, head.table_id, -1 if cut is None else cut, version)
        times = {v: commits.one(session, head.table_id, v) for v in {f.removed for f in gone}}
        tombstones = [(f, c.timestamp_ms) for f in gone if (c := times[f.removed]) is not None]
        live = list(files.lines_at(session, head.table_id, version, _AT_ONCE))
        applications = commits.app_transactions_at(session, head.table_id, version)
    # Rendered after the session, which would keep the store's own log from being tidied up.
    removes = removes_of(tombstones, definition.schema)
    made = Checkpoint(head, definition, removes, applications)
    for lines in with_pauses(live):
        made.take(adds_of(lines, definition.schema))
    data, actions = made.finish()
    del live, made, removes
    # Arrow keeps what it was given, and this thread may never come back for it.
    pa.default_memory_pool().release_unused()
    storage.put(checkpoint_path(head.location, version), data)
    reach("checkpoint.written")
    pointer = last_checkpoint_path(head.location)
    storage.put(pointer, last_checkpoint_bytes(version, actions, len(data)))
    _note_published(context, head, version)
    reach("checkpoint.done")


def _leave(background: BackgroundWorker | None, job: Callable[[], None]) -> None:
    if background is None:
        job()
    else:
        background.do(job)


def _note_published(context: LakeContext, head: Head, version: int) -> None:
    """Note how far publication surely got; beyond it the next to open the lake looks itself."""
    context.storage.sync_names([commit_path(head.location, version)])
    with context.database.write(durable=False) as session:
        heads.set_published(session, head.table_id, version)


def _owed_from(context: LakeContext, head: Head, version: int) -> int:
    """The first version to look at before this one: the newest that is there, or what is owed.

    Versions are published in order, so before a sound one nothing is owed. Looking back from the
    newest takes as long as there is something to do, however long ago the store noted how far
    publication got.
    """
    with context.database.read() as session:
        current = heads.by_id(session, head.table_id)
    surely = head.published if current is None else current.published
    while version - 1 > surely:
        version -= 1
        if _is_published(context, head, version):
            break
    return version


def _is_published(context: LakeContext, head: Head, version: int) -> bool:
    return context.storage.exists(commit_path(head.location, version))


def _publish_range(context: LakeContext, head: Head, first: int, last: int) -> None:
    for version in range(first, last + 1):
        with context.database.read() as session:
            commit = commits.full(session, head.table_id, version)
            _, definition = definitions.at(session, head.table_id, version)
        if not commit.info.adopted and not _is_there(context, head, commit, definition):
            _put(context, head, commit, definition)


def _is_there(context: LakeContext, head: Head, commit: Commit, definition: Definition) -> bool:
    """Whether the version is published as the log has it; reading is cheaper than writing."""
    try:
        found = context.storage.read(commit_path(head.location, commit.version))
    except FileMissing:
        return False
    return found == commit_bytes(head, commit, definition)


def _put(context: LakeContext, head: Head, commit: Commit, definition: Definition) -> None:
    path = commit_path(head.location, commit.version)
    data = commit_bytes(head, commit, definition)
    if context.storage.put_if_absent(path, data):
        return
    found = context.storage.read(path)
    if found == data:
        return
    if data.startswith(found):
        _LOG.warning("%s was torn and is written again from the log", path)
        context.storage.put(path, data)
        return
    what = f"{path} is not the commit that the log has as version {commit.version} of {head.name}."
    hint = "Move the file away, or adopt it; then run `lakeward publish`. Nothing was overwritten."
    raise ForeignCommit(what, hint=hint, table=str(head.name), version=commit.version, path=path)
