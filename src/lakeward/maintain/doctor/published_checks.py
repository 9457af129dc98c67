"""Whether the published log is what our log says, byte for byte, and nothing else is there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import orjson
import pyarrow.compute as pc

from lakeward.errors import FileMissing, LakewardError, TableNotFound, VersionNotFound
from lakeward.formats.delta.checkpoint import last_checkpoint_path
from lakeward.formats.delta.parse import actions_of, commit_info_of, is_ours
from lakeward.formats.delta.publication import LOG_DIRECTORY, commit_bytes, commit_path
from lakeward.formats.delta.restore import state_of
from lakeward.formats.delta.segment import Checkpoint, Segment, segment_of
from lakeward.formats.delta.values import written_path
from lakeward.log import commits, files, retired
from lakeward.maintain.doctor.findings import CheckedTable, Definitions, Finding
from lakeward.model.commit import Commit, Head

_SESSION: Final = 1000
"""How many versions are compared under one view of the store, so that none is held for long."""
_FIX: Final = "Run `lakeward doctor --fix`: the file is written again from the log."
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
    """Every version that is not adopted is published as the log renders it."""
    with table.context.database.read() as session:
        head = table.head(session)
        first = commits.first_version(session, table.table_id) or 0
        # The log no longer has all rows of vacuumed versions.
        first = max(first, retired.pruned_to(session, table.table_id))
        first = max(first, retired.cleaned_to(session, table.table_id))
        definitions = table.definitions(session)
    for start in range(first, head.version + 1, _SESSION):
        with table.context.database.read() as session:
            for version in range(start, min(start + _SESSION, head.version + 1)):
                table.versions += 1
                table.on_progress()
                try:
                    commit = commits.full(session, table.table_id, version)
                except VersionNotFound:
                    # Reported as a gap.
                    continue
                if not commit.info.adopted:
                    yield from _compare(table, head, commit, definitions)


def foreign_commits(table: CheckedTable) -> Iterator[Finding]:
    """No version is published that the log does not have."""
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
    """Checkpoints can be read, the newest holds the files of its version, and the pointer fits."""
    listed = _segment(table)
    with table.context.database.read() as session:
        head = table.head(session)
    known = [c for c in listed.checkpoints if c.version <= head.version]
    for found in known:
        yield from _checkpoint(table, head, found, listed, newest=found is known[-1])
    yield from _pointer(table, head, known)


def _segment(table: CheckedTable) -> Segment:
    with table.context.database.read() as session:
        location = table.head(session).location
    try:
        return segment_of(table.context.storage, location)
    except TableNotFound:
        # Each missing commit is reported by itself.
        return Segment(location)


def _compare(
    table: CheckedTable, head: Head, commit: Commit, definitions: Definitions
) -> Iterator[Finding]:
    version = commit.version
    path = commit_path(head.location, version)
    expected = commit_bytes(head, commit, definitions.at(version))
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
    """What to do about a file that our log does not know: a lake's own commit may be needed."""
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


def _pointer(table: CheckedTable, head: Head, known: list[Checkpoint]) -> Iterator[Finding]:
    path = last_checkpoint_path(head.location)
    mend = f"Delete {path}: readers find their way without it, and the next checkpoint writes it."
    try:
        pointer: Any = orjson.loads(table.context.storage.read(path))
        version = pointer["version"]
    except FileMissing:
        return
    except (LookupError, TypeError, ValueError) as error:
        what = f"{path} cannot be read: {error}."
        yield table.error("last-checkpoint", what, mend)
        return
    if version not in {c.version for c in known}:
        what = f"{path} points to a checkpoint of version {version!r}, which is not there."
        yield table.error("last-checkpoint", what, mend)


def _without(listed: Segment, name: str) -> str:
    """What to do about a bad checkpoint, depending on whether readers can do without it."""
    if listed.commits and sorted(listed.commits) == list(range(max(listed.commits) + 1)):
        return (
            f"Delete {LOG_DIRECTORY}/{name} and {LOG_DIRECTORY}/_last_checkpoint: every commit is "
            "there, readers go by these."
        )
    return f"Restore {name} from a backup of the table: older commits are gone."
