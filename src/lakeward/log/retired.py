"""Retired versions: those that cannot be read, because vacuum may have deleted their files.

Vacuum retires versions while it holds the lock of the table's head, and deletes files only after
that is committed. Code that starts to hold an old version (a tag, a clone, a branch, a pin, a
restore) checks that it is not retired: under the same lock, or after its own hold is committed.
"""

from __future__ import annotations

from collections.abc import Iterable

from lakeward.errors import VersionNotFound
from lakeward.log import heads
from lakeward.log.database import Session
from lakeward.log.statement import Statement, insertion
from lakeward.log.tables import promise, retired
from lakeward.model.commit import Head
from lakeward.model.file import LIVE

_RANGES = Statement(
    """SELECT from_version, until_version FROM lakeward_retired WHERE table_id = :table_id
    ORDER BY from_version"""
)
_COVERING = Statement(
    """SELECT until_version FROM lakeward_retired
    WHERE table_id = :table_id AND from_version <= :version AND until_version > :version"""
)
_PATH = Statement(
    """SELECT 1 FROM lakeward_file f JOIN lakeward_retired r ON r.table_id = f.table_id
      AND r.from_version <= f.added_version AND r.until_version >= f.removed_version
    WHERE f.table_id = :table_id AND f.path = :path LIMIT 1"""
)
_DELETE = Statement("DELETE FROM lakeward_retired WHERE table_id = :table_id")
_INSERT = insertion(retired, "")
_FIRST = Statement("SELECT min(version) FROM lakeward_commit WHERE table_id = :table_id")
_PROMISE = Statement(
    """SELECT kept_from, pruned_to, cleaned_to FROM lakeward_promise
    WHERE table_id = :table_id"""
)
_FORGOTTEN = Statement("SELECT table_id FROM lakeward_promise WHERE pruned_to = :live")
_DELETE_PROMISE = Statement("DELETE FROM lakeward_promise WHERE table_id = :table_id")
_INSERT_PROMISE = insertion(promise, "")


def ranges(session: Session, table_id: int) -> list[tuple[int, int]]:
    """Return retired versions as half-open ranges, oldest first."""
    return [(low, high) for low, high in session.rows(_RANGES, {"table_id": table_id})]


def is_retired(session: Session, table_id: int, version: int) -> bool:
    """Return whether a version is retired."""
    return session.row(_COVERING, {"table_id": table_id, "version": version}) is not None


def has_path(session: Session, table_id: int, path: str) -> bool:
    """Return whether the log has the file at a path in a range of versions that are all retired."""
    return session.row(_PATH, {"table_id": table_id, "path": path}) is not None


def check(session: Session, head: Head, version: int) -> None:
    """Raise `VersionNotFound` for a retired version."""
    if not is_retired(session, head.table_id, version):
        return
    oldest = oldest_readable(session, head.table_id)
    newer = next_readable(session, head.table_id, version)
    what = f"Version {version} of {head.name} was vacuumed: files that it needs are deleted."
    hint = f"The oldest version that can be read is {oldest}"
    hint += "." if newer in (oldest, None) else f"; the next one after {version} is {newer}."
    raise VersionNotFound(what, hint=hint, table=str(head.name), version=version, oldest=oldest)


def oldest_readable(session: Session, table_id: int) -> int | None:
    """Return the oldest readable version; None for a table without versions."""
    first: int | None = session.row(_FIRST, {"table_id": table_id})[0]
    return None if first is None else next_readable(session, table_id, first)


def next_readable(session: Session, table_id: int, version: int) -> int:
    """Return the oldest readable version at or after `version`."""
    for low, high in ranges(session, table_id):
        if low <= version < high:
            version = high
    return version


def intact_from(session: Session, table_id: int, version: int) -> int:
    """Return the first version, from `version` on, since which none is retired."""
    return max([version, *(high for _, high in ranges(session, table_id))])


def retire(session: Session, table_id: int, new: Iterable[tuple[int, int]]) -> None:
    """Retire ranges of versions; the caller holds the lock of the table's head."""
    merged = merge([*ranges(session, table_id), *new])
    session.run(_DELETE, {"table_id": table_id})
    rows = [{"table_id": table_id, "from_version": a, "until_version": b} for a, b in merged]
    session.many(_INSERT, rows)


def merge(given: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge overlapping version ranges and sort them."""
    out: list[tuple[int, int]] = []
    for low, high in sorted(given):
        if out and low <= out[-1][1]:
            out[-1] = (out[-1][0], max(high, out[-1][1]))
        elif low < high:
            out.append((low, high))
    return out


def first_readable(session: Session, table_id: int) -> set[int]:
    """Return the first version of every run of readable versions."""
    first: int = session.row(_FIRST, {"table_id": table_id})[0] or 0
    starts = {first, *(high for _, high in ranges(session, table_id))}
    return {v for v in starts if not is_retired(session, table_id, v)}


def kept_from(session: Session, table_id: int) -> int:
    """Return the first version from which vacuum kept everything; 0 if it never ran."""
    return _promise(session, table_id)["kept_from"]


def pruned_to(session: Session, table_id: int) -> int:
    """Return the version before which a vacuum has deleted all rows that it could.

    A vacuum that runs or was killed may have deleted rows of later versions: see `check_complete`.
    """
    return _promise(session, table_id)["pruned_to"]


def forgotten(session: Session) -> set[int]:
    """Return the ids of dropped tables whose files were all deleted by a vacuum that completed."""
    return {row[0] for row in session.rows(_FORGOTTEN, {"live": LIVE})}


def cleaned_to(session: Session, table_id: int) -> int:
    """Return the version before which published commits, covered by a checkpoint, were deleted."""
    return _promise(session, table_id)["cleaned_to"]


def check_complete(session: Session, head: Head, version: int) -> None:
    """Raise `VersionNotFound` if the log may lack rows about what a version added and removed.

    Vacuum notes `kept_from` before it deletes the first row of a version before it.
    """
    if version >= kept_from(session, head.table_id):
        return
    what = f"Version {version} of {head.name} was vacuumed: the log lacks rows of its commit."
    raise VersionNotFound(what, table=str(head.name), version=version)


def check_changes(session: Session, table_id: int, version: int) -> None:
    """Raise `VersionNotFound` if the rows that a version changed are no longer known.

    To read them, the version's change files and the files of the version before it are needed.
    """
    kept = kept_from(session, table_id)
    if version > kept or not kept:
        return
    if version == kept and not is_retired(session, table_id, version - 1):
        return
    name = str(heads.ever_by_id(session, table_id).name)
    what = f"The changes of version {version} of {name} were vacuumed."
    hint = f"Changes can be read from version {kept + 1} on."
    raise VersionNotFound(what, hint=hint, table=name, version=version, oldest=kept + 1)


def removals_lost(session: Session, table_id: int, versions: Iterable[int]) -> int | None:
    """Return the first of some versions whose removed files the log may lack; None without one.

    Vacuum deletes the rows of files only after it retired the versions that had the files, and the
    last of these is the version before the removal.
    """
    known = ranges(session, table_id)
    return next((v for v in versions if any(low < v <= high for low, high in known)), None)


def note(session: Session, table_id: int, **versions: int) -> None:
    """Raise the recorded `kept_from`, `pruned_to` and `cleaned_to` of a table."""
    known = _promise(session, table_id)
    new = {name: max(known[name], versions.get(name, 0)) for name in known}
    session.run(_DELETE_PROMISE, {"table_id": table_id})
    session.run(_INSERT_PROMISE, {"table_id": table_id, **new})


def _promise(session: Session, table_id: int) -> dict[str, int]:
    row = session.row(_PROMISE, {"table_id": table_id}) or (0, 0, 0)
    return dict(zip(("kept_from", "pruned_to", "cleaned_to"), map(int, row), strict=True))
