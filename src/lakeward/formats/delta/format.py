"""The format contract for Delta: `_delta_log/N.json`, put if absent, with checkpoints.

Versions are published in order, and their bytes depend on the log alone, so several processes may
publish them, any number of times, concurrently. A truncated file of the lake is written again. A
file of another writer is not overwritten: an error reports it, and no later version is published.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Final

from lakeward.context import LakeContext
from lakeward.errors import (
    AlreadyExists,
    ForeignCommit,
    LakewardError,
    OutcomeUnknown,
    StorageError,
)
from lakeward.formats.adoption import Adoption
from lakeward.formats.background import BackgroundWorker
from lakeward.formats.base import Format, Ratified, TakeOver
from lakeward.formats.delta import intervals, mapping, protocol
from lakeward.formats.delta.altering import DeltaAlterations
from lakeward.formats.delta.clustering import clustering_columns
from lakeward.formats.delta.defining import DeltaDefinitions
from lakeward.formats.delta.identity import newest_marks
from lakeward.formats.delta.light import LightDelta
from lakeward.formats.delta.numbering import DeltaNumbers
from lakeward.formats.delta.owed import DeltaOwed
from lakeward.formats.delta.publication import LOG_DIRECTORY, commit_bytes, commit_path
from lakeward.formats.delta.published_files import (
    exists,
    note_published,
    owed_from,
    publish_range,
    put,
)
from lakeward.formats.delta.taken_over import taken_over
from lakeward.formats.delta.values import vector_id
from lakeward.formats.delta.vectors import vector_path
from lakeward.formats.properties import CHANGE_FEED, CHECKPOINT_INTERVAL
from lakeward.log import commits, retired, totals, transactions
from lakeward.log.database import Session
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.expressions.nodes import Expression
from lakeward.model.history import ForeignActions
from lakeward.model.names import TableName
from lakeward.model.policy.rules import said
from lakeward.model.steps import reach
from lakeward.storage.base import Storage

_NOTE_EVERY: Final = 100
_CHECKPOINT_EVERY: Final = 100


class DeltaFormat(LightDelta, DeltaOwed, DeltaNumbers, DeltaDefinitions, DeltaAlterations, Format):
    """Delta Lake tables."""

    always_guarded: ClassVar[bool] = False
    begins_empty: ClassVar[bool] = False
    has_catalog: ClassVar[bool] = False
    metadata_directory: ClassVar[str] = LOG_DIRECTORY
    has_checkpoints: ClassVar[bool] = True
    columns_by_id: ClassVar[bool] = False
    publishes_last: ClassVar[bool] = False

    def check_writable(self, definition: Definition, table: str) -> None:
        """Raise `UnsupportedFeature` if the table has features that the lake cannot write."""
        protocol.check_writable(definition, table)

    def clustered_by(self, session: Session, head: Head, definition: Definition) -> list[str]:
        """Return the table's clustering columns, read from the log."""
        return clustering_columns(session, head, definition)

    def finds_by_id(self, definition: Definition) -> bool:
        """Return whether columns are mapped by ids."""
        return mapping.MODE in definition.properties and mapping.is_by_id(definition)

    def stored(self, definition: Definition) -> Definition:
        """Return the definition with names in files and mapped ids, if columns are mapped."""
        is_mapped = mapping.MODE in definition.properties
        return mapping.physical(definition) if is_mapped else definition

    def in_files(
        self, definition: Definition, columns: Sequence[str], where: Expression | None
    ) -> tuple[Definition, Sequence[str], Expression | None]:
        """Return the arguments with columns renamed to their names in files, if mapped."""
        if mapping.MODE not in definition.properties:
            return definition, columns, where
        return mapping.in_files(definition, columns, where)

    def has_change_feed(self, definition: Definition) -> bool:
        """Return whether the table's property enables the change feed."""
        return definition.properties.get(CHANGE_FEED, "").lower() == "true"

    def write_commit(
        self, context: LakeContext, session: Session, member: Ratified, metadata_files: list[str]
    ) -> Ratified:
        """Write the version's file, without publishing it under its final name."""
        head, commit = member.head, member.commit
        if commit.version == 0:
            context.storage.make_directory(f"{head.location}/{LOG_DIRECTORY}")
        path = commit_path(head.location, commit.version)
        prepared = context.storage.prepare(path, commit_bytes(head, commit, member.definition))
        return Ratified(head, commit, member.definition, prepared)

    def put_commit(self, context: LakeContext, member: Ratified) -> bool:
        """Put the version's file if no other writer has, and make its name durable."""
        path = commit_path(member.head.location, member.commit.version)
        data = commit_bytes(member.head, member.commit, member.definition)
        try:
            first = context.storage.put_if_absent(path, data)
        except StorageError:
            # The file may exist in spite of the error; if it has our bytes, the commit succeeded.
            if not context.storage.exists(path) or context.storage.read(path) != data:
                raise
            first = True
        if not first:
            return False
        # After a power cut, no other writer may be able to put a version that the log has.
        try:
            context.storage.sync_names([path])
        except StorageError as error:
            what = f"{path} is there, and it is not sure that its name is safe."
            raise OutcomeUnknown(what, transaction_id=member.commit.info.transaction_id) from error
        return True

    def publish(
        self, context: LakeContext, member: Ratified, background: BackgroundWorker | None
    ) -> None:
        """Publish the prepared file under its final name, after missing earlier versions."""
        head, version = member.head, member.commit.version
        reach("publish.started")
        try:
            if version and not exists(context, head, version - 1):
                with context.database.turn(head.table_id):
                    publish_range(context, head, owed_from(context, head, version), version - 1)
            if member.prepared is None or not member.prepared.put():
                put(context, head, member.commit, member.definition)
        finally:
            if member.prepared is not None:
                member.prepared.discard()
        reach("publish.done")
        due = self.checkpoint_if_due(context, member, background)
        if not due and version % _NOTE_EVERY == 0:
            _leave(background, lambda: note_published(context, head, version))

    def publish_owed(self, context: LakeContext, head: Head) -> int:
        """Publish all versions after the one up to which all are known to be published."""
        first = head.published + 1
        with context.database.turn(head.table_id):
            publish_range(context, head, first, head.version)
        note_published(context, head, head.version)
        return head.version - first + 1

    def publish_again(self, context: LakeContext, head: Head, versions: Iterable[int]) -> None:
        """Write lost files, and truncated ones again."""
        with context.database.turn(head.table_id):
            for version in versions:
                publish_range(context, head, version, version)

    def checkpoint_if_due(
        self, context: LakeContext, member: Ratified, background: BackgroundWorker | None
    ) -> bool:
        """Write a checkpoint if one is due and worth its cost; return whether one was due.

        An interval that is set, by property or rule, counts whatever the cost. Readers can do
        without a checkpoint, so the background worker writes it; if the process dies before, or the
        worker is busy, the next version that is due gets one. If the cost is too high, commits are
        compacted.
        """
        head, definition, version = member.head, member.definition, member.commit.version
        own = definition.properties.get(CHECKPOINT_INTERVAL)
        chosen = said(definition.rules, "checkpoint_interval", own)
        interval = _CHECKPOINT_EVERY if chosen is None else int(chosen)
        due = bool(interval and version and version % interval == 0)
        if not due or not protocol.is_writable(definition):
            return False

        def write() -> None:
            if chosen is not None or intervals.pays_off(context, head, version):
                self.checkpoint(context, head, version, definition)
            else:
                self._compact_log(context, head, version)

        if background is None or chosen is not None:
            _leave(background, write)
        else:
            background.offer(write)
        return True

    def _compact_log(self, context: LakeContext, head: Head, version: int) -> None:
        from lakeward.formats.delta.log_compaction import write_compacted

        write_compacted(context, head, version - _CHECKPOINT_EVERY + 1, version)
        note_published(context, head, version)

    def checkpoint(
        self, context: LakeContext, head: Head, version: int, definition: Definition
    ) -> None:
        """Write a checkpoint and `_last_checkpoint`, if the lake supports the table's features."""
        from lakeward.formats.delta.checkpointing import write_checkpoint

        if not protocol.is_writable(definition):
            return
        write_checkpoint(context, head, version, definition)
        intervals.note(context, head, version)
        note_published(context, head, version)
        reach("checkpoint.done")

    def last_checkpoint(self, context: LakeContext, head: Head) -> int | None:
        """Return the version in `_last_checkpoint`, if the file can be read."""
        return intervals.last_checkpoint(context, head)

    def unknown_commit(self, context: LakeContext, session: Session, head: Head) -> str | None:
        """Return the commit file of the version after the head, if there is one."""
        path = commit_path(head.location, head.version + 1)
        return path if context.storage.exists(path) else None

    def taken_over(self, context: LakeContext, head: Head) -> str | None:
        """Return a later commit, unless it may be one of the lake."""
        return taken_over(context.storage, head)

    def old_metadata(
        self, context: LakeContext, session: Session, head: Head, before_ms: int
    ) -> tuple[list[str], int]:
        """Return commits and checkpoints before a checkpoint that replaces them.

        Also returns the version of that checkpoint, or 0.
        """
        oldest = commits.version_at(session, head.table_id, before_ms) or 0

        def count(version: int) -> int | None:
            if retired.is_retired(session, head.table_id, version):
                return None
            return totals.at(session, head.table_id, version).files

        # Loads Arrow.
        from lakeward.formats.delta.cleaning import old_files

        return old_files(context.storage, head.location, min(oldest, head.published), count)

    def has_moved(self, context: LakeContext, session: Session, head: Head) -> bool:
        """Return whether the table is open and the file of the next version exists."""
        return not head.guarded and exists(context, head, head.version + 1)

    def finds_own(self, context: LakeContext, session: Session, head: Head) -> bool:
        """Return whether the transaction that wrote the next version's file is in the log."""
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
        """Return an error with the path of the foreign commit's file."""
        path = commit_path(head.location, head.version + 1)
        version = head.version + 1
        what = f"Somebody else committed version {version} of {head.name}."
        hint = "It refuses drift: drop it and adopt it anew to take that, or move the file away."
        return ForeignCommit(what, hint=hint, table=str(head.name), version=version, path=path)

    def vector_files(self, vector: Any) -> list[str]:
        """Return the file of a vector; none for an inline vector."""
        found = vector_path(vector)
        return [] if found is None else [found]

    def vector_id(self, vector: Any) -> str | None:
        """Return the unique id that Delta defines for a deletion vector."""
        return vector_id(vector)

    def occupies(self, storage: Storage, location: str) -> str | None:
        """Return "a Delta log" if a directory has a `_delta_log` with files; None otherwise."""
        log = storage.listing(f"{location}/{LOG_DIRECTORY}")
        has_log = storage.exists(commit_path(location, 0)) or any(True for _ in log)
        return "a Delta log" if has_log else None

    def find(self, context: LakeContext, location: str, *, expected: bool) -> str | None:
        """Return the directory, if it has a `_delta_log` or is expected to; None otherwise."""
        log = f"{location}/{LOG_DIRECTORY}"
        return location if expected or log in context.storage.directories(location) else None

    def anchors(self, context: LakeContext, head: Head) -> Iterator[tuple[int, str]]:
        """Yield version and anchor of the published commits that still exist."""
        from lakeward.formats.delta.anchors import published_anchors

        return published_anchors(context.storage, head.location)

    def read_table(
        self, context: LakeContext, name: TableName, source: str, *, take_over: bool
    ) -> Adoption:
        """Read the log's newest checkpoint and all commits that still exist."""
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


def _next(
    context: LakeContext, session: Session, head: Head, definition: Definition
) -> ForeignActions | None:
    """Return the published commit that follows a head, if it may be taken over; None otherwise."""
    from lakeward.formats.delta.history import read_commit

    try:
        found = read_commit(
            context.storage,
            head.location,
            head.version + 1,
            definition,
            uuid=head.uuid,
            after_ms=head.timestamp_ms,
            marks=newest_marks(session, head.table_id),
        )
    except LakewardError:
        if head.drift == "refuse":
            return None
        raise
    if found is None or head.drift != "refuse":
        return found
    ours = transactions.get(session, found.info.transaction_id) is not None
    return found if ours else None
