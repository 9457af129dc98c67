"""The one commit point: it assigns every version of every table, and inserts its rows in the log.

Creating, cloning, ratifying and taking over foreign commits call `record` with a locked head;
adopting a table calls `record_history` with a new one. Nothing else inserts commits, definitions or
files (`tests/unit/test_contracts.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from lakeward.formats.ratified import Ratified
from lakeward.formats.registry import publishers
from lakeward.log import audit, commits, definitions, files, heads, positions, retired
from lakeward.log.indexing import IndexedFields, index_again, returned_fields
from lakeward.model.commit import AppTransaction, Commit, CommitInfo, Return
from lakeward.model.definition import Definition
from lakeward.model.file import LIVE, DataFile, LoggedFile

if TYPE_CHECKING:
    from lakeward.context import LakeContext
    from lakeward.log.database import Session
    from lakeward.model.commit import Head
    from lakeward.model.history import TableHistory


@dataclass(frozen=True, slots=True)
class Draft:
    """A commit that has no version yet.

    Attributes:
        timestamp_ms: The time of the commit, later than that of the previous version.
        info: The actor, operation and message of the commit.
        definition: The table's definition after the commit.
        redefines: Whether the commit changes the definition.
        added: Added files in order; the other fields are as in `Commit`.
        position: Position of its transaction in the commit order; None for the next one.
    """

    timestamp_ms: int
    info: CommitInfo
    definition: Definition
    redefines: bool = False
    added: tuple[DataFile, ...] = ()
    removed: tuple[LoggedFile, ...] = ()
    app_transactions: tuple[AppTransaction, ...] = ()
    change_files: tuple[DataFile, ...] = ()
    returns: Return | None = None
    position: int | None = None
    domains: Mapping[str, str | None] = field(default_factory=dict)


def record(
    context: LakeContext,
    session: Session,
    before: Head,
    draft: Draft,
    metadata_files: list[str] | None = None,
) -> Ratified:
    """Assign the version after a locked head to a commit, insert it and advance the head.

    With `metadata_files` the table's formats write the commit's files first, and add the names of
    metadata files to that list. Without it the files exist, or the caller writes them.
    """
    if draft.returns is not None:
        # The head is locked, so vacuum can no longer retire that version.
        retired.check(session, before, draft.returns.version)
    version = before.version + 1
    commit = Commit(
        version=version,
        timestamp_ms=draft.timestamp_ms,
        info=_anchored(context, draft, before, version),
        added=draft.added,
        removed=draft.removed,
        definition=draft.definition if draft.redefines else None,
        app_transactions=draft.app_transactions,
        change_files=draft.change_files,
        returns=draft.returns,
        position=positions.take(session) if draft.position is None else draft.position,
        domains=draft.domains,
    )
    head = before.advanced(version, draft.timestamp_ms, before.definition_id + draft.redefines)
    member = Ratified(head, commit, draft.definition)
    if not draft.info.adopted:
        for publisher in publishers(head):
            member = publisher.numbered(session, member)
    if metadata_files is not None:
        for publisher in publishers(head):
            member = publisher.write_commit(context, session, member, metadata_files)
    try:
        _insert(session, member)
    except BaseException:
        discard([member])
        raise
    return member


def record_history(
    session: Session, head: Head, history: TableHistory, places: Sequence[int] | None = None
) -> None:
    """Insert all versions of an adopted table, with their own numbers, for its new head.

    `places` are their positions in the commit order; the next ones unless given.
    """
    starts = {version: number for number, (version, _) in enumerate(history.definitions)}
    for number, (version, definition) in enumerate(history.definitions):
        definitions.insert(session, head.table_id, number, version, definition)
    applications: dict[int, list[AppTransaction]] = {}
    for version, application in history.app_transactions:
        applications.setdefault(version, []).append(application)
    if places is None:
        places = positions.take_many(session, len(history.commits))
    told = (
        replace(
            commit,
            app_transactions=tuple(applications.get(commit.version, ())),
            position=place,
        )
        for place, commit in zip(places, history.commits, strict=True)
    )
    commits.insert_many(session, head.table_id, told, starts)
    for indexed, group in _by_index(history):
        files.insert(session, head.table_id, group, indexed)


class discarding:  # noqa: N801  used as a function, and as quick as one
    """Yield a list to collect members in; delete their prepared files if the block raises."""

    __slots__ = ("_members",)

    def __enter__(self) -> list[Ratified]:
        self._members: list[Ratified] = []
        return self._members

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            discard(self._members)


def discard(members: Iterable[Ratified]) -> None:
    """Delete the prepared files of members that were not ratified."""
    for member in members:
        if member.prepared is not None:
            member.prepared.discard()


def _anchored(context: LakeContext, draft: Draft, before: Head, version: int) -> CommitInfo:
    """Return the info with the commit's own entry of the audit trail, unless it is foreign."""
    info, at_ms = draft.info, draft.timestamp_ms
    if info.adopted:
        return info
    return info.anchored(audit.anchor_of(before, context.identity, info, version, at_ms))


def _insert(session: Session, member: Ratified) -> None:
    head, commit = member.head, member.commit
    table_id, version = head.table_id, commit.version
    if commit.definition is not None:
        definitions.insert(session, table_id, head.definition_id, version, commit.definition)
    changed = None if commit.definition is None else head.definition_id
    commits.insert(session, table_id, commit, changed)
    new = [LoggedFile(f, version, n, LIVE) for n, f in enumerate(commit.added)]
    files.insert(session, table_id, new, member.definition.indexed)
    if files.remove(session, table_id, version, commit.removed) != len(commit.removed):
        # Conflict detection has checked that these files are live.
        message = f"a file that version {version} of {head.name} removes is not live"
        raise AssertionError(message)
    if commit.definition is not None and head.definition_id:
        former = definitions.get(session, table_id, head.definition_id - 1)
        if returned_fields(former, commit.definition):
            index_again(session, table_id, version)
    heads.advance(session, head, audit.add_commit(session, head, commit))


def _by_index(history: TableHistory) -> Iterator[tuple[Any, list[LoggedFile]]]:
    """Yield, for each choice of indexed fields, these fields and the files that have it."""
    indexed = IndexedFields(history.definitions)
    for _, group in groupby(
        ((indexed.of(f.added, f.removed), f) for f in history.files), key=lambda pair: id(pair[0])
    ):
        pairs = list(group)
        yield pairs[0][0], [file for _, file in pairs]
