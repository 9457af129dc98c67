"""Directories of branches: recorded in the store before they are made, cleaned up by these rows.

Nothing is deleted by age. When the transaction of a branch is over, its directory is deleted, but
for the files that its commit needs. For processes that died the next one to open the lake does so.
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
"""Prefix of the directory of a transaction's branch; the transaction's id follows."""
SCRATCH: Final = "_lakeward/scratch"
"""Where transactions keep files that no commit needs."""
NAMED_PREFIX: Final = "branch-"
"""Prefix of the directory of a named branch; an id follows."""


def note(context: LakeContext, owner: str, head: Head) -> str:
    """Record a transaction's branch of a table before it is made; returns its directory."""
    plain = f"{PREFIX}{owner}"
    with context.database.write(durable=context.database.is_remote) as session:
        if head.table_id:
            # Vacuum holds this lock while it retires versions.
            heads.share(session, head.table_id)
            retired.check(session, head, head.version)
        # A process may have died under the same id, if users choose ids.
        for directory in (plain, f"{plain}-{secrets.token_hex(4)}"):
            if branches.insert(session, _row(context, owner, head, directory, None)):
                return directory
    message = f"two tokens for {plain} were the same"
    raise AssertionError(message)


def note_scratch(context: LakeContext, owner: str) -> str:
    """Record a directory of a transaction before it is made; no commit needs what is in it."""
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
    """Record a table of a named branch, whose name is free."""
    branches.insert(session, _row(context, owner, head, f"{NAMED_PREFIX}{owner}", name))


def needed(
    head: Head, directory: str, added: Iterable[DataFile], changes: Iterable[DataFile]
) -> list[str]:
    """The files of a branch's directory that a commit needs: added ones, vectors, change files."""
    inside, paths = f"{directory}/", dict[str, None]()
    for file in added:
        paths[file.path] = None
        place = vector_path(file.deletion_vector or {})
        if place is not None:
            paths[place] = None
    paths.update(dict.fromkeys(file.path for file in changes))
    return [f"{head.location}/{path}" for path in paths if path.startswith(inside)]


def clear(context: LakeContext, head: Head, directory: str, keep: Collection[str] = ()) -> None:
    """Delete all files in a branch's directory, except for `keep`, and the branch's row."""
    place, storage = f"{head.location}/{directory}", context.storage
    if keep:
        inside = f"/{directory}/"
        listed = [f.path.partition(inside)[2] for f in storage.listing(place, recursive=True)]
        storage.delete([p for p in (f"{place}/{name}" for name in listed) if p not in keep])
    else:
        storage.delete_directory(place)
    with context.database.write(durable=False) as session:
        branches.delete(session, head.table_id, _noted(head, directory))


def sweep(context: LakeContext) -> None:
    """Clean up branches of transactions that are over; what fails is left for the next call."""
    with context.database.read() as session:
        left = branches.ended(session)
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
    """The files that the branch's commit needs; none where its transaction has no commit."""
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
    """The directory as the store records it.

    It includes the table's location where the table is not in the log yet.
    """
    return f"{head.location}/{directory}" if head.table_id == 0 else directory


def _sweep_made(context: LakeContext, branch: LoggedBranch) -> None:
    """Clean up the branch of a table that its transaction did not create in the end."""
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
