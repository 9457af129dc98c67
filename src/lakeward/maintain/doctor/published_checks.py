"""Checks that the published log equals the log byte for byte, and that nothing else is there.

Each check yields a finding for every violation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import orjson
import pyarrow.compute as pc

from lakeward.errors import FileMissing, LakewardError, TableNotFound, VersionNotFound
from lakeward.formats.delta.checkpoint import last_checkpoint_path
from lakeward.formats.delta.parse import actions_of, commit_info_of, is_ours
from lakeward.formats.delta.publication import (
    LOG_DIRECTORY,
    commit_bytes,
    commit_path,
    head_of_commit,
)
from lakeward.formats.delta.restore import state_of
from lakeward.formats.delta.segment import Checkpoint, Segment, segment_of
from lakeward.formats.delta.values import written_path
from lakeward.log import commits, files, retired
from lakeward.log.database import Session
from lakeward.maintain.doctor.findings import CheckedTable, Definitions, Finding
from lakeward.model.commit import Commit, Head

_SESSION: Final = 1000
"""The number of versions compared in one read session, so that no session is long."""
_FIX: Final = "Run `lakeward doctor --fix`: the file is written again from the log."
_REPLACE: Final = (
    "Run `lakeward doctor --fix`: a checkpoint of the newest version replaces it. Until then other "
    "engines cannot read the table."
)
_FOREIGN: Final = (
    "Learn who wrote it and whether its rows are needed; then move the file away and run "
    "`lakeward publish`. Nothing was overwritten."
)
_FORGOTTEN: Final = (
    "A lake wrote it: this store is older than the files, as after a backup was put back, or "
    "another store writes here too. Move no file. Keep this store aside and run `lakeward rebuild` "
    "on an empty one; what only this store knows must be done again. Nothing was overwritten."
)


def published_commits(table: CheckedTable) -> Iterator[Finding]:
    """Check that every version that was not adopted is published as the log renders it."""
    with table.context.database.read() as session:
        head = table.head(session)
        first = commits.first_version(session, table.table_id) or 0
        first = max(first, retired.cleaned_to(session, table.table_id))
        definitions = table.definitions(session)
        kept = min(retired.kept_from(session, table.table_id), head.version + 1)
    if first < kept:
        yield from _lost(table, first, kept)
    for start in range(first, head.version + 1, _SESSION):
        with table.context.database.read() as session:
            # The log may lack rows of vacuumed versions.
            low = max(start, retired.kept_from(session, table.table_id))
            for version in range(low, min(start + _SESSION, head.version + 1)):
                table.versions += 1
                table.on_progress()
                try:
                    commit = commits.full(session, table.table_id, version)
                except VersionNotFound:
                    # Reported as a gap.
                    continue
                if not commit.info.adopted:
                    yield from _compare(table, session, head, commit, definitions)


def _lost(table: CheckedTable, first: int, last: int) -> Iterator[Finding]:
    """Find missing commits of vacuumed versions that no checkpoint replaces."""
    listed = _segment(table)
    replaced = max((c.version for c in listed.checkpoints), default=-1)
    missing = [v for v in range(max(first, replaced + 1), last) if v not in listed.commits]
    for version in missing:
        with table.context.database.read() as session:
            commit = commits.one(session, table.table_id, version)
        if commit is not None and not commit.info.adopted:
            path = commit_path(listed.location, version)
            what = f"{path} is missing, and version {version} of {table.name} was vacuumed."
            yield table.error("published-lost", what, _REPLACE, version=version)


def foreign_commits(table: CheckedTable) -> Iterator[Finding]:
    """Check that no version is published that the log does not have."""
    # Listed before the head is read: whatever is ours is in the log before it is published.
    listed = _segment(table)
    with table.context.database.read() as session:
        head = table.head(session)
    for version in sorted(v for v in listed.commits if v > head.version):
        path = commit_path(head.location, version)
        if head.guarded:
            what = f"{path} is beyond version {head.version}, the newest of {table.name}."
            yield table.error("foreign-commit", what, _advice(table, path), version=version)
        elif head.drift == "refuse":
            what = f"Somebody else committed version {version} of {table.name}, which refuses it."
            mend = "Drop the table and adopt it anew to take the commit, or move the file away."
            yield table.error("foreign-commit", what, mend, version=version)
        else:
            what = f"Somebody else committed version {version} of {table.name}."
            mend = "Nothing: the next to use the table takes it over."
            yield table.warning("drift", what, mend, version=version)


def checkpoints(table: CheckedTable) -> Iterator[Finding]:
    """Check that checkpoints can be read.

    The newest must hold the files of its version, and `_last_checkpoint` must refer to one that
    exists.
    """
    with table.context.database.read() as session:
        path = last_checkpoint_path(table.head(session).location)
    # Read before the listing: a checkpoint is written before the pointer to it.
    try:
        pointer = table.context.storage.read(path)
    except FileMissing:
        pointer = None
    listed = _segment(table)
    with table.context.database.read() as session:
        head = table.head(session)
    known = [c for c in listed.checkpoints if c.version <= head.version]
    for found in known:
        yield from _checkpoint(table, head, found, listed, newest=found is known[-1])
    if pointer is not None:
        yield from _pointer(table, path, pointer, known)


def _segment(table: CheckedTable) -> Segment:
    with table.context.database.read() as session:
        location = table.head(session).location
    try:
        return segment_of(table.context.storage, location)
    except TableNotFound:
        # Each missing commit is reported by itself.
        return Segment(location)


def _compare(
    table: CheckedTable, session: Session, head: Head, commit: Commit, definitions: Definitions
) -> Iterator[Finding]:
    version = commit.version
    path = commit_path(head.location, version)
    named = head_of_commit(session, head, commit)
    expected = commit_bytes(named, commit, definitions.at(version))
    try:
        found = table.context.storage.read(path)
    except FileMissing:
        if version > head.published:
            what = f"Version {version} of {table.name} is committed and not yet published."
            mend = "Run `lakeward publish`; the next to open the lake does the same."
            yield table.warning("owed", what, mend, version=version)
        else:
            what = f"{path} is missing, though version {version} of {table.name} was published."
            yield table.error("published-missing", what, _FIX, version=version)
        return
    if found == expected:
        return
    if expected.startswith(found):
        what = f"{path} is torn: it ends after {len(found)} of {len(expected)} bytes."
        yield table.error("published-torn", what, _FIX, version=version)
        return
    what = f"{path} is not the commit that the log has as version {version} of {table.name}."
    yield table.error("published-foreign", what, _advice(table, path, commit), version=version)


def _advice(table: CheckedTable, path: str, known: Commit | None = None) -> str:
    """Return what to do about a file that is not in the log, but may be a commit of a lake."""
    try:
        info = actions_of(table.context.storage.read(path)).info
    except (LakewardError, ValueError):
        return _FOREIGN
    found = commit_info_of(info, "", 0)
    changed = known is not None and found.transaction_id == known.info.transaction_id
    return _FORGOTTEN if is_ours(found) and not changed else _FOREIGN


def _checkpoint(
    table: CheckedTable, head: Head, found: Checkpoint, listed: Segment, *, newest: bool
) -> Iterator[Finding]:
    name = found.paths[0].rpartition("/")[2]
    mend = _without(listed, name)
    try:
        state = state_of(table.context.storage, head.location, found)
    except LakewardError as error:
        what = f"Checkpoint {name} of {table.name} cannot be read: {error.what}"
        yield table.error("checkpoint-unreadable", what, mend, version=found.version)
        return
    if not newest:
        return
    paths = [add["path"] for add in state.actions.adds]
    for rows in state.columns:
        paths += pc.struct_field(rows, "path").to_pylist()
    with table.context.database.read() as session:
        if retired.is_retired(session, table.table_id, found.version):
            # Vacuum pruned the rows of the log that name the files of this version.
            return
        live = files.at(session, table.table_id, found.version)
        expected = sorted(written_path(f.file) for f in live)
    if sorted(paths) != expected:
        what = (
            f"Checkpoint {name} of {table.name} lists {len(paths)} files that are not the "
            f"{len(expected)} of version {found.version}."
        )
        yield table.error("checkpoint-wrong", what, mend, version=found.version)


def _pointer(
    table: CheckedTable, path: str, data: bytes, known: list[Checkpoint]
) -> Iterator[Finding]:
    mend = f"Delete {path}: readers find their way without it, and the next checkpoint writes it."
    try:
        version: Any = orjson.loads(data)["version"]
    except (LookupError, TypeError, ValueError) as error:
        what = f"{path} cannot be read: {error}."
        yield table.error("last-checkpoint", what, mend)
        return
    if version not in {c.version for c in known}:
        what = f"{path} points to a checkpoint of version {version!r}, which is not there."
        yield table.error("last-checkpoint", what, mend)


def _without(listed: Segment, name: str) -> str:
    """Return what to do about a bad checkpoint; it depends on whether all commits exist."""
    if listed.commits and sorted(listed.commits) == list(range(max(listed.commits) + 1)):
        return (
            f"Delete {LOG_DIRECTORY}/{name} and {LOG_DIRECTORY}/_last_checkpoint: every commit is "
            "there, readers go by these."
        )
    return f"Restore {name} from a backup of the table: older commits are gone."
