"""Whether the store is older than the warehouse, as after an old backup was put back.

Such a store does not know the newest versions, clones, tags and branches, so it cannot prove that
nobody needs a file. What others published since the backup tells: a version after the newest one
of any table, or a table that the store has never known.
"""

from __future__ import annotations

from contextlib import suppress

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


def check_lake_not_behind(context: LakeContext) -> None:
    """Raise `StoreError` if the warehouse has a version or a table that the store does not know."""
    with context.database.read() as session:
        known = heads.all_heads(session) + [head for head, _ in heads.dropped(session)]
        for head in known:
            # Others may commit to a table that is not guarded; it is looked at when it is followed.
            if head.guarded and not heads.has_heir(session, head):
                check_not_behind(context, session, head)
        locations = set(integrity.other_locations(session, 0))
    for log, location in published_tables(context.storage, known=locations):
        _check_known(context, log, location)


def check_not_behind(context: LakeContext, session: Session, head: Head) -> None:
    """Raise `StoreError` if published files of a table are newer than the log."""
    path = unknown_commit(context, session, head)
    if path is not None:
        what = (
            f"The store is older than the warehouse: {path} of {head.name} was published after"
            f" version {head.version}, the newest that the store knows. Nothing was deleted."
        )
        raise _older(what, table=str(head.name), path=path)


def unknown_commit(context: LakeContext, session: Session, head: Head) -> str | None:
    """A published file of a version that the store does not know."""
    found = (p.unknown_commit(context, session, head) for p in publishers(head))
    return next((path for path in found if path is not None), None)


def _check_known(context: LakeContext, log: str, location: str) -> None:
    """Raise `StoreError` if a transaction that the store never knew made a table."""
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
    """The transaction of a lake that wrote the newest version of a table; None for others."""
    if log == METADATA_DIRECTORY:
        document, _ = Candidates.at(context.storage, location).newest(lambda _: True)
        return transaction_of(document.current)
    newest = read_history(context.storage, location).commits[-1]
    return newest.info.transaction_id if is_ours(newest.info) else None


def _older(what: str, **facts: object) -> StoreError:
    hint = "A backup was put back. Put back a newer one, or rebuild the store."
    return StoreError(what, hint=hint, **facts)
