"""Writes the published files of versions, from the log."""

from __future__ import annotations

import logging
from typing import Final

from lakeward.context import LakeContext
from lakeward.errors import FileMissing, ForeignCommit
from lakeward.formats.delta.publication import commit_bytes, commit_path, recorded
from lakeward.log import heads, retired
from lakeward.model import progress
from lakeward.model.commit import Commit, Head
from lakeward.model.definition import Definition

_LOG: Final = logging.getLogger(__name__)


def note_published(context: LakeContext, head: Head, version: int) -> None:
    """Make the name of a published file durable, and record in the store that it is published."""
    context.storage.sync_names([commit_path(head.location, version)])
    with context.database.write(durable=False) as session:
        heads.set_published(session, head.table_id, version)


def owed_from(context: LakeContext, head: Head, version: int) -> int:
    """Return the first version before `version` that may be missing, or the newest that exists.

    Versions are published in order, so none is missing before one that exists. The search goes back
    from the newest version, so its cost is proportional to the work to publish.
    """
    with context.database.read() as session:
        current = heads.by_id(session, head.table_id)
    surely = head.published if current is None else current.published
    while version - 1 > surely:
        version -= 1
        if exists(context, head, version):
            break
    return version


def exists(context: LakeContext, head: Head, version: int) -> bool:
    """Return whether a version's file exists."""
    return context.storage.exists(commit_path(head.location, version))


def publish_range(context: LakeContext, head: Head, first: int, last: int) -> None:
    """Write the files of a range of versions that do not exist or are truncated.

    Raises:
        ForeignCommit: The file of a version was written by another writer.
        VersionNotFound: A file is missing, and vacuum has deleted rows of its version.
    """
    with context.database.read() as session:
        kept = retired.kept_from(session, head.table_id)
    for version in progress.counted(range(first, last + 1), last + 1 - first):
        if version < kept and exists(context, head, version):
            continue
        named, commit, definition = recorded(context, head, version)
        if not commit.info.adopted and not _is_there(context, named, commit, definition):
            put(context, named, commit, definition)


def _is_there(context: LakeContext, head: Head, commit: Commit, definition: Definition) -> bool:
    """Return whether a version's published file has the bytes that are computed from the log."""
    try:
        found = context.storage.read(commit_path(head.location, commit.version))
    except FileMissing:
        return False
    return found == commit_bytes(head, commit, definition)


def put(context: LakeContext, head: Head, commit: Commit, definition: Definition) -> None:
    """Write the file of a version, unless it exists; raise `ForeignCommit` for another content."""
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
