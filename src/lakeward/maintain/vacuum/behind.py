"""Checks whether the store is older than the warehouse, as after an old backup was restored.

Such a store lacks the newest versions, clones, tags and branches, so it cannot prove that nobody
needs a file. It is recognized by what others published since the backup: a version after the newest
one of a table, or a table that is not in the store.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from lakeward.context import LakeContext
from lakeward.errors import LakewardError, StoreError
from lakeward.formats.delta.history import read_history
from lakeward.formats.delta.parse import is_ours
from lakeward.formats.iceberg.document import METADATA_DIRECTORY
from lakeward.formats.iceberg.newest import Candidates
from lakeward.formats.iceberg.summary import transaction_of
from lakeward.formats.registry import publishers
from lakeward.log import heads, integrity, transactions
from lakeward.log.database import Session
from lakeward.maintain.published import published_tables
from lakeward.model.commit import Head
from lakeward.write.commit.publications import take_over_or_refuse

_LOOKS: Final = 10
"""How often the check is repeated if others cannot be kept from committing."""


def check_lake_not_behind(context: LakeContext) -> None:
    """Raise `StoreError` if the warehouse has a version or a table that is not in the store."""
    with context.database.read() as session:
        dropped = [
            head
            for head, _ in heads.dropped(session)
            if not heads.has_heir(session, head) and taken_over(context, head) is None
        ]
        suspects = [
            head
            for head in heads.all_heads(session) + dropped
            # Others may commit to an open table; `follow` checks such a table.
            if head.guarded and unknown_commit(context, session, head) is not None
        ]
        locations = set(integrity.other_locations(session, 0))
    for head in suspects:
        _check_again(context, head)
    for log, location in published_tables(context.storage, known=locations):
        _check_known(context, log, location)


def check_table_not_behind(context: LakeContext, head: Head) -> None:
    """Raise `StoreError` if published files of a table are newer than the log."""
    with context.database.read() as session:
        current = heads.by_id(session, head.table_id) or head
        if unknown_commit(context, session, current) is None:
            return
    _check_again(context, head)


def check_not_behind(context: LakeContext, session: Session, head: Head) -> None:
    """Raise `StoreError` if published files of a table are newer than its locked head."""
    path = unknown_commit(context, session, head)
    if path is not None:
        what = (
            f"The store is older than the warehouse: {path} of {head.name} was published after"
            f" version {head.version}, the newest that the store knows. Nothing was deleted."
        )
        raise _older(what, table=str(head.name), path=path)


def unknown_commit(context: LakeContext, session: Session, head: Head) -> str | None:
    """Return a published file of a version that is not in the store, or None."""
    found = (p.unknown_commit(context, session, head) for p in publishers(head))
    return next((path for path in found if path is not None), None)


def taken_over(context: LakeContext, head: Head) -> str | None:
    """Return a published file by which another lake or engine uses a dropped table, or None."""
    found = (p.taken_over(context, head) for p in publishers(head))
    return next((path for path in found if path is not None), None)


def _check_again(context: LakeContext, head: Head) -> None:
    """Raise `StoreError` if a table has an unknown commit while nobody else can commit to it.

    A session that began before a commit has less than the warehouse; that is no sign of a backup.
    """
    for left in reversed(range(_LOOKS)):
        read_only = context.database.read_only is not None
        with context.database.read() if read_only else context.database.write() as session:
            try:
                check_not_behind(context, session, _newest(context, session, head))
            except StoreError:
                if not left or (head.guarded and not read_only):
                    raise
            else:
                return


def _newest(context: LakeContext, session: Session, head: Head) -> Head:
    """Return the newest head of a table, locked if the store can be written."""
    if context.database.read_only is not None:
        return heads.ever_by_id(session, head.table_id)
    locked, dropped_ms = heads.lock_ever(session, head.table_id)
    if locked.guarded or dropped_ms is not None:
        return locked
    return take_over_or_refuse(context, session, locked)


def _check_known(context: LakeContext, log: str, location: str) -> None:
    """Raise `StoreError` if a table was created by a transaction that is not in the store."""
    author = None
    with suppress(LakewardError):
        author = _author(context, log, location)
    if author is None:
        return
    with context.database.read() as session:
        if transactions.get(session, author) is not None:
            # A copy of a table of the lake.
            return
    place = context.storage.uri(location)
    what = (
        f"The store is older than the warehouse: a lake made the table at {place}, which the store"
        " does not know. It may use files of other tables. Nothing was deleted."
    )
    raise _older(what, location=place)


def _author(context: LakeContext, log: str, location: str) -> str | None:
    """Return the lake's transaction that wrote the newest version of a table; None if by others."""
    if log == METADATA_DIRECTORY:
        document, _ = Candidates.at(context.storage, location).newest(lambda _: True)
        return transaction_of(document.current)
    newest = read_history(context.storage, location).commits[-1]
    return newest.info.transaction_id if is_ours(newest.info) else None


def _older(what: str, **facts: object) -> StoreError:
    hint = "A backup was put back. Put back a newer one, or rebuild the store."
    return StoreError(what, hint=hint, **facts)
