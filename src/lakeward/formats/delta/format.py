"""Delta's side of the format contract: `_delta_log/N.json`, put if absent, with checkpoints.

Versions are published in order, and their bytes depend on the log alone, so anybody may publish
them, any number of times, at once. A file that is ours but torn is made whole. A file that is not
ours is left alone and reported, and nothing after it is published.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Final

import pyarrow as pa

from lakeward.context import LakeContext
from lakeward.errors import (
    AlreadyExists,
    FileMissing,
    ForeignCommit,
    LakewardError,
    OutcomeUnknown,
    StorageError,
)
from lakeward.formats.background import BackgroundWorker, with_pauses
from lakeward.formats.base import Adoption, Format, Ratified, TakeOver
from lakeward.formats.delta import mapping, protocol
from lakeward.formats.delta.altering import DeltaAlterations
from lakeward.formats.delta.defining import DeltaDefinitions
from lakeward.formats.delta.publication import LOG_DIRECTORY, commit_bytes, commit_path
from lakeward.formats.delta.values import vector_id
from lakeward.formats.properties import CHANGE_FEED, CHECKPOINT_INTERVAL
from lakeward.log import commits, definitions, files, heads, transactions
from lakeward.log.database import Session
from lakeward.model.clock import now_ms
from lakeward.model.commit import Commit, Head
from lakeward.model.definition import Definition
from lakeward.model.expressions.nodes import Expression
from lakeward.model.history import ForeignActions
from lakeward.model.names import TableName
from lakeward.model.steps import reach
from lakeward.storage.base import Storage

_LOG = logging.getLogger(__name__)
_TOMBSTONES_MS: Final = 7 * 24 * 3600 * 1000
_NOTE_EVERY: Final = 100
_CHECKPOINT_EVERY: Final = 100
_AT_ONCE: Final = 256


class DeltaFormat(DeltaDefinitions, DeltaAlterations, Format):
    """Delta Lake tables."""

    name: ClassVar[str] = "delta"
    always_guarded: ClassVar[bool] = False
    begins_empty: ClassVar[bool] = False
    has_catalog: ClassVar[bool] = False
    columns_by_id: ClassVar[bool] = False
    publishes_last: ClassVar[bool] = False

    def check_writable(self, definition: Definition, table: str) -> None:
        """Check the protocol and its features."""
        protocol.check_writable(definition, table)

    def finds_by_id(self, definition: Definition) -> bool:
        """Look for column mapping by ids."""
        return mapping.MODE in definition.properties and mapping.is_by_id(definition)

    def stored(self, definition: Definition) -> Definition:
        """Use the names in files, and the ids of column mapping, if columns are mapped."""
        is_mapped = mapping.MODE in definition.properties
        return mapping.physical(definition) if is_mapped else definition

    def in_files(
        self, definition: Definition, columns: Sequence[str], where: Expression | None
    ) -> tuple[Definition, Sequence[str], Expression | None]:
        """Use the names in files, if columns are mapped."""
        if mapping.MODE not in definition.properties:
            return definition, columns, where
        return mapping.in_files(definition, columns, where)

    def has_change_feed(self, definition: Definition) -> bool:
        """Look at the property that asks for it."""
        return definition.properties.get(CHANGE_FEED, "").lower() == "true"

    def write_commit(
        self, context: LakeContext, session: Session, member: Ratified, metadata_files: list[str]
    ) -> Ratified:
        """Write the version's file without a name."""
        head, commit = member.head, member.commit
        if commit.version == 0:
            context.storage.make_directory(f"{head.location}/{LOG_DIRECTORY}")
        path = commit_path(head.location, commit.version)
        prepared = context.storage.prepare(path, commit_bytes(head, commit, member.definition))
        return Ratified(head, commit, member.definition, prepared)

    def put_commit(self, context: LakeContext, member: Ratified) -> bool:
        """Put the version's file if its name is free, and make the name safe."""
        path = commit_path(member.head.location, member.commit.version)
        data = commit_bytes(member.head, member.commit, member.definition)
        try:
            first = context.storage.put_if_absent(path, data)
        except StorageError:
            # The name may or may not have been taken; if the file is ours, the commit happened.
            if not context.storage.exists(path) or context.storage.read(path) != data:
                raise
            first = True
        if not first:
            return False
        # The log must not know a version whose name a power cut could still give to somebody else.
        try:
            context.storage.sync_names([path])
        except StorageError as error:
            what = f"{path} is there, and it is not sure that its name is safe."
            raise OutcomeUnknown(what, transaction_id=member.commit.info.transaction_id) from error
        return True

    def publish(
        self, context: LakeContext, member: Ratified, background: BackgroundWorker | None
    ) -> None:
        """Give the prepared file its name, after versions before it that are missing."""
        head, version = member.head, member.commit.version
        reach("publish.started")
        try:
            if version and not _exists(context, head, version - 1):
                with context.database.turn(head.table_id):
                    _publish_range(context, head, _owed_from(context, head, version), version - 1)
            if member.prepared is None or not member.prepared.put():
                _put(context, head, member.commit, member.definition)
        finally:
            if member.prepared is not None:
                member.prepared.discard()
        reach("publish.done")
        due = self.checkpoint_if_due(context, member, background)
        if not due and version % _NOTE_EVERY == 0:
            _leave(background, lambda: _note_published(context, head, version))

    def publish_owed(self, context: LakeContext, head: Head) -> int:
        """Publish all versions after the one up to which all are surely published."""
        first = head.published + 1
        with context.database.turn(head.table_id):
            _publish_range(context, head, first, head.version)
        _note_published(context, head, head.version)
        return head.version - first + 1

    def publish_again(self, context: LakeContext, head: Head, versions: Iterable[int]) -> None:
        """Put lost files, and write torn ones again."""
        with context.database.turn(head.table_id):
            for version in versions:
                _publish_range(context, head, version, version)

    def checkpoint_if_due(
        self, context: LakeContext, member: Ratified, background: BackgroundWorker | None
    ) -> bool:
        """Write a checkpoint every so many versions.

        Readers do not need it, so the background worker writes it; if the process dies before,
        the next version that is due has one.
        """
        head, definition, version = member.head, member.definition, member.commit.version
        interval = int(definition.properties.get(CHECKPOINT_INTERVAL, _CHECKPOINT_EVERY))
        due = bool(interval and version and version % interval == 0)
        due = due and protocol.is_writable(definition)
        if due:
            _leave(background, lambda: self.checkpoint(context, head, version, definition))
        return due

    def checkpoint(
        self, context: LakeContext, head: Head, version: int, definition: Definition
    ) -> None:
        """Write a checkpoint if the lake knows all features that a reader needs; point to it."""
        from lakeward.formats.delta import checkpoint as writing
        from lakeward.formats.delta.columns import adds_of

        if not protocol.is_writable(definition):
            return
        storage = context.storage
        with context.database.read() as session:
            cut = commits.version_at(session, head.table_id, now_ms() - _TOMBSTONES_MS)
            old = -1 if cut is None else cut
            gone = files.removed_between(session, head.table_id, old, version)
            times = {v: commits.one(session, head.table_id, v) for v in {f.removed for f in gone}}
            tombstones = [(f, c.timestamp_ms) for f in gone if (c := times[f.removed]) is not None]
            live = list(files.lines_at(session, head.table_id, version, _AT_ONCE))
            applications = commits.app_transactions_at(session, head.table_id, version)
        # Rendered after the session, which would keep the store's own log from being truncated.
        removes = writing.removes_of(tombstones, definition.schema)
        made = writing.Checkpoint(head, definition, removes, applications)
        for lines in with_pauses(live):
            made.take(adds_of(lines, definition.schema))
        data, actions = made.finish()
        del live, made, removes
        # Arrow keeps what it was given, and this thread may never come back for it.
        pa.default_memory_pool().release_unused()
        storage.put(writing.checkpoint_path(head.location, version), data)
        reach("checkpoint.written")
        pointer = writing.last_checkpoint_path(head.location)
        storage.put(pointer, writing.last_checkpoint_bytes(version, actions, len(data)))
        _note_published(context, head, version)
        reach("checkpoint.done")

    def to_follow(self, session: Session) -> list[Head]:
        """Return the tables that are not guarded."""
        return heads.unguarded(session)

    def may_have_moved(self, session: Session, head: Head) -> bool:
        """Return whether the table is not guarded."""
        return not head.guarded

    def has_moved(self, context: LakeContext, session: Session, head: Head) -> bool:
        """Look for the file of the next version."""
        return not head.guarded and _exists(context, head, head.version + 1)

    def finds_own(self, context: LakeContext, session: Session, head: Head) -> bool:
        """Look for the transaction of the next version's file in the log."""
        return _next(context, session, head, context.definition(session, head)) is not None

    def take_over(
        self, context: LakeContext, session: Session, head: Head, record: TakeOver
    ) -> Head:
        """Record the published versions that follow the log's newest one."""
        if not self.has_moved(context, session, head):
            return head
        definition = context.definition(session, head)
        while (found := _next(context, session, head, definition)) is not None:
            head, definition = record(head, definition, found)
        return head

    def refused(self, head: Head) -> ForeignCommit:
        """Name the file that is not taken over."""
        path = commit_path(head.location, head.version + 1)
        version = head.version + 1
        what = f"Somebody else committed version {version} of {head.name}."
        hint = "It refuses drift: drop it and adopt it anew to take that, or move the file away."
        return ForeignCommit(what, hint=hint, table=str(head.name), version=version, path=path)

    def vector_id(self, vector: Any) -> str | None:
        """Return the identity that Delta gives a deletion vector."""
        return vector_id(vector)

    def occupies(self, storage: Storage, location: str) -> str | None:
        """Look for a `_delta_log` with files in it."""
        log = storage.listing(f"{location}/{LOG_DIRECTORY}")
        has_log = storage.exists(commit_path(location, 0)) or any(True for _ in log)
        return "a Delta log" if has_log else None

    def find(self, context: LakeContext, location: str, *, expected: bool) -> str | None:
        """Return the directory, if it has a `_delta_log`."""
        log = f"{location}/{LOG_DIRECTORY}"
        return location if expected or log in context.storage.directories(location) else None

    def read_table(
        self, context: LakeContext, name: TableName, source: str, *, take_over: bool
    ) -> Adoption:
        """Read the log's newest checkpoint and all commits that are still there."""
        from lakeward.formats.delta.history import read_history

        history = read_history(context.storage, source)
        is_guarded = self.is_guarded(history.definitions[-1][1])
        if is_guarded and not take_over:
            what = f"The table at {context.storage.uri(source)} is guarded by a lake."
            hint = "Work with it through that lake; if that lake is gone, adopt it with take_over."
            raise AlreadyExists(what, hint=hint, location=source)
        return Adoption(source, history, is_guarded)


def _leave(background: BackgroundWorker | None, job: Callable[[], None]) -> None:
    if background is None:
        job()
    else:
        background.do(job)


def _note_published(context: LakeContext, head: Head, version: int) -> None:
    """Make a published file's name safe, and note in the store how far publication got."""
    context.storage.sync_names([commit_path(head.location, version)])
    with context.database.write(durable=False) as session:
        heads.set_published(session, head.table_id, version)


def _owed_from(context: LakeContext, head: Head, version: int) -> int:
    """Return the first version before this one that may be missing, or the newest that is there.

    Versions are published in order, so before a sound one none is missing. The search goes back
    from the newest, so it takes as long as there is something to publish.
    """
    with context.database.read() as session:
        current = heads.by_id(session, head.table_id)
    surely = head.published if current is None else current.published
    while version - 1 > surely:
        version -= 1
        if _exists(context, head, version):
            break
    return version


def _exists(context: LakeContext, head: Head, version: int) -> bool:
    return context.storage.exists(commit_path(head.location, version))


def _publish_range(context: LakeContext, head: Head, first: int, last: int) -> None:
    for version in range(first, last + 1):
        with context.database.read() as session:
            commit = commits.full(session, head.table_id, version)
            _, definition = definitions.at(session, head.table_id, version)
        if not commit.info.adopted and not _is_there(context, head, commit, definition):
            _put(context, head, commit, definition)


def _is_there(context: LakeContext, head: Head, commit: Commit, definition: Definition) -> bool:
    """Return whether the version is published as the log has it; reading is the cheaper test."""
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


def _next(
    context: LakeContext, session: Session, head: Head, definition: Definition
) -> ForeignActions | None:
    """Return the published commit that follows a head, if it may be taken over."""
    from lakeward.formats.delta.history import read_commit

    try:
        found = read_commit(
            context.storage,
            head.location,
            head.version + 1,
            definition,
            uuid=head.uuid,
            after_ms=head.timestamp_ms,
        )
    except LakewardError:
        if head.drift == "refuse":
            return None
        raise
    if found is None or head.drift != "refuse":
        return found
    ours = transactions.get(session, found.info.transaction_id) is not None
    return found if ours else None
