"""Directories of branches: recorded in the store before they are made, deleted by these records.

Nothing is deleted by age. When the transaction of a branch has ended, its directory is deleted,
except for the files that its commit needs. If the process died, the next one that opens the lake
deletes it.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from lakeward.errors import LakewardError
from lakeward.formats.delta.vectors import vector_path
from lakeward.log import branches, catalog, commits, files, heads, retired, transactions
from lakeward.log.branches import LoggedBranch
from lakeward.model.clock import now_ms
from lakeward.model.commit import TransactionState
from lakeward.write.commit.publications import follow

if TYPE_CHECKING:
    from lakeward.context import LakeContext
    from lakeward.log.database import Session
    from lakeward.model.commit import Head
    from lakeward.model.file import DataFile

_LOG = logging.getLogger(__name__)
PREFIX: Final = "txn-"
"""Prefix of the directory of a transaction's branch; the transaction's id and a token follow."""
SCRATCH: Final = "_lakeward/scratch"
"""The directory for files of transactions that no commit needs."""
NAMED_PREFIX: Final = "branch-"
"""Prefix of the directory of a named branch; an id follows."""


def note(context: LakeContext, owner: str, head: Head) -> str:
    """Record a transaction's branch of a table before it is made; return its directory.

    Its name has a token, since another process may open the same transaction again.
    """
    directory = f"{PREFIX}{owner}-{secrets.token_hex(4)}"
    with context.database.write(durable=context.database.is_remote) as session:
        if head.table_id:
            # Vacuum holds this lock while it retires versions.
            heads.share(session, head.table_id)
            retired.check(session, head, head.version)
        branches.insert(session, _row(context, owner, head, directory, None))
    return directory


def note_scratch(context: LakeContext, owner: str) -> str:
    """Record a transaction's scratch directory before it is created; return its path.

    No commit refers to the files in it, so they can be deleted when the transaction has ended.
    """
    place = f"{SCRATCH}/{PREFIX}{owner}-{secrets.token_hex(4)}"
    row = LoggedBranch(0, place, owner, None, 0, context.actor, now_ms())
    with context.database.write(durable=context.database.is_remote) as session:
        branches.insert(session, row)
    return place


def clear_scratch(context: LakeContext, place: str) -> None:
    """Delete a directory that `note_scratch` recorded, and its record."""
    context.storage.delete_directory(place)
    with context.database.write(durable=False) as session:
        branches.delete(session, 0, place)


def note_named(context: LakeContext, session: Session, name: str, owner: str, head: Head) -> None:
    """Record a table of a named branch, whose name must be unused."""
    branches.insert(session, _row(context, owner, head, f"{NAMED_PREFIX}{owner}", name))


def needed(
    head: Head, directory: str, added: Iterable[DataFile], changes: Iterable[DataFile]
) -> list[str]:
    """Return the files in a branch's directory that a commit needs.

    These are added files, their deletion vectors, and change files.
    """
    inside, paths = f"{directory}/", dict[str, None]()
    for file in added:
        paths[file.path] = None
        place = vector_path(file.deletion_vector or {})
        if place is not None:
            paths[place] = None
    paths.update(dict.fromkeys(file.path for file in changes))
    return [f"{head.location}/{path}" for path in paths if path.startswith(inside)]


def clear(context: LakeContext, head: Head, directory: str, keep: Collection[str] = ()) -> None:
    """Delete all files in a branch's directory, except for `keep`, and the branch's record."""
    place, storage = f"{head.location}/{directory}", context.storage
    if keep:
        inside = f"/{directory}/"
        listed = [f.path.partition(inside)[2] for f in storage.listing(place, recursive=True)]
        storage.delete([p for p in (f"{place}/{name}" for name in listed) if p not in keep])
    else:
        storage.delete_directory(place)
    with context.database.write(durable=False) as session:
        branches.delete(session, head.table_id, _noted(head, directory))


def sweep(context: LakeContext, owner: str | None = None) -> None:
    """Delete the directories of branches whose transactions have ended, all or those of one owner.

    Files that the log has are kept. Failures are logged; the next call tries again.
    """
    with context.database.read() as session:
        left = [b for b in branches.ended(session) if owner is None or b.owner == owner]
    for branch in left:
        try:
            _sweep(context, branch)
        except LakewardError as error:
            _LOG.warning("The branch %s could not be cleaned up: %s", branch.directory, error)


def _sweep(context: LakeContext, branch: LoggedBranch) -> None:
    if branch.table_id == 0:
        _sweep_made(context, branch)
        return
    with context.database.read() as session:
        head = heads.by_id(session, branch.table_id)
    if head is not None and not head.guarded:
        # A commit that was published and lost its database transaction is recorded now.
        follow(context, head)
    with context.database.read() as session:
        head = heads.ever_by_id(session, branch.table_id)
        if _is_open(session, branch):
            return
        keep = _kept(session, head, branch)
    if branch.name is not None:
        with context.database.write() as session:
            catalog.leave_branch(session, branch.name)
    clear(context, head, branch.directory, keep)


def _is_open(session: Session, branch: LoggedBranch) -> bool:
    found = transactions.get(session, branch.owner)
    return found is not None and found.state is TransactionState.OPEN


def _kept(session: Session, head: Head, branch: LoggedBranch) -> list[str]:
    """Return the files that the branch's commit needs; none if its transaction has no commit."""
    for _, table_id, version in commits.members(session, branch.owner):
        if table_id == branch.table_id:
            added = [f.file for f in files.added_at(session, table_id, version)]
            changes = commits.change_files(session, table_id, version)
            return needed(head, branch.directory, added, changes)
    return []


def _row(
    context: LakeContext, owner: str, head: Head, directory: str, name: str | None
) -> LoggedBranch:
    place = _noted(head, directory)
    return LoggedBranch(head.table_id, place, owner, name, head.version, context.actor, now_ms())


def _noted(head: Head, directory: str) -> str:
    """Return the directory as the store records it.

    It includes the table's location if the table is not in the log yet.
    """
    return f"{head.location}/{directory}" if head.table_id == 0 else directory


def _sweep_made(context: LakeContext, branch: LoggedBranch) -> None:
    """Delete the directory of a branch of a table that was new in the transaction.

    If the table was created, the files that its first commit needs are kept.
    """
    location, _, directory = branch.directory.rpartition("/")
    with context.database.read() as session:
        if _is_open(session, branch):
            return
        made = [
            heads.ever_by_id(session, table_id)
            for _, table_id, _ in commits.members(session, branch.owner)
        ]
        head = next((h for h in made if h.location == location), None)
        keep: list[str] = []
        if head is not None:
            own = replace(branch, table_id=head.table_id, directory=directory)
            keep = _kept(session, head, own)
    if head is None:
        context.storage.delete_directory(branch.directory)
    else:
        clear(context, head, directory, keep)
    with context.database.write(durable=False) as session:
        branches.delete(session, branch.table_id, branch.directory)
