"""Undoes one commit of a table, and keeps the commits after it.

Files that the commit added are removed, files that it removed are added again. That is possible as
long as no later commit changed one of them, and the parts of the definition that the commit changed
are unchanged since.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, TypeVar

from lakeward.context import LakeContext
from lakeward.errors import Conflict, UnsupportedFeature
from lakeward.formats.registry import format_of
from lakeward.log import commits, definitions, files
from lakeward.log.database import Session
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.file import LIVE, LoggedFile
from lakeward.write.history.restore import Step, check_present, check_readable, without_common

V = TypeVar("V")
_HINT: Final = "Undo the later transactions first, or restore the table: t.restore(version=…)."


def undoing(context: LakeContext, session: Session, head: Head, version: int) -> Step:
    """Return the step that undoes a version of a table; the table is at the version of `head`.

    Raises `Conflict` if a later commit changed the same files or the same part of the definition,
    `UnsupportedFeature` if the version created the table, `VersionNotFound` if it or the version
    before it was vacuumed, or a file is missing.
    """
    if version == 0 or commits.one(session, head.table_id, version - 1) is None:
        what = f"Version {version} of table {head.name} is its first: it cannot be undone."
        hint = f"lake.drop({str(head.name)!r}) takes the table away."
        raise UnsupportedFeature(what, hint=hint, table=str(head.name), version=version)
    check_readable(context, session, head, version - 1)
    # The log may lack files that a vacuumed version added.
    check_readable(context, session, head, version)
    gone = []
    for file in files.added_at(session, head.table_id, version):
        now = file if file.removed > head.version else _again(session, head, file)
        if now is None:
            why = f"removed or rewrote file {file.path}, which it added"
            by = files.last_removed(session, head.table_id, head.version, file.path)
            raise _conflict(session, head, version, by, why, file=file.path)
        gone.append(now)
    back = files.removed_at(session, head.table_id, version)
    back, gone = without_common(head, back, gone)
    known = {f.path for f in gone}
    for file in back:
        live = files.live_at_path(session, head.table_id, file.path)
        again = next((f for f in live if f.path not in known and f.added <= head.version), None)
        if again is not None:
            why = f"added file {file.path} again, which it removed"
            raise _conflict(session, head, version, again.added, why, file=file.path)
    check_present(context, session, head, version - 1, back)
    wanted = _definition(session, head, version, back)
    return Step(head, back, gone, wanted, version - 1)


def _definition(
    session: Session, head: Head, version: int, back: list[LoggedFile]
) -> Definition | None:
    """Return the definition without a version's changes; None if that is the current one."""
    _, before = definitions.at(session, head.table_id, version - 1)
    number, after = definitions.at(session, head.table_id, version)
    current, now = definitions.at(session, head.table_id, head.version)
    later = definitions.first_version(session, head.table_id, number + 1) if current > number else 0

    def check_fit(wanted: Definition) -> None:
        """Raise `Conflict` if the rows that come back do not fit a newer definition."""
        found = format_of(head).misfit(before, wanted) if back and current > number else None
        if found is not None:
            raise _conflict(session, head, version, later, found.reason)

    if after == before:
        check_fit(now)
        return None
    shape = ("schema", "partition_by", "derived", "comment", "whole_files")
    changed = [name for name in shape if getattr(before, name) != getattr(after, name)]
    for name in changed:
        if getattr(now, name) != getattr(after, name):
            why = f"changed its {name.replace('_', ' ')} again"
            raise _conflict(session, head, version, later, why)
    newer = _newer(session, head, version) if set(changed) - {"comment"} else None
    if newer is not None:
        why = "added rows with the columns that it left"
        raise _conflict(session, head, version, newer.added, why, file=newer.path)
    parts = {name: getattr(before, name) for name in changed}
    for name in ("properties", "constraints"):
        kept, clash = _taken_back(*(getattr(d, name) for d in (before, after, now)))
        if clash is not None:
            why = f"changed {clash} again"
            raise _conflict(session, head, version, later, why)
        parts[name] = kept
    wanted = format_of(head).restored(now, replace(now, **parts))
    check_fit(wanted)
    return None if wanted == now else wanted


def _again(session: Session, head: Head, file: LoggedFile) -> LoggedFile | None:
    """Return the live entry of a file that was removed and added again unchanged; None if none."""
    name = format_of(head).vector_id

    def identity(of: LoggedFile) -> str | None:
        vector = of.file.deletion_vector
        return None if vector is None else name(vector)

    live = files.live_at_path(session, head.table_id, file.path)
    return next((f for f in live if identity(f) == identity(file)), None)


def _newer(session: Session, head: Head, version: int) -> LoggedFile | None:
    """Return a file added after a version and not among that version's files; None if none."""
    for file in files.at(session, head.table_id, head.version, after=version):
        if not files.at_path(session, head.table_id, version, file.path):
            return file
    return None


def _taken_back(
    before: Mapping[str, V], after: Mapping[str, V], now: Mapping[str, V]
) -> tuple[dict[str, V], str | None]:
    """Return `now` without the change from `before` to `after`.

    Also returns a key whose value changed again since, so that it cannot be undone, or None.
    """
    out = dict(now)
    for key in before.keys() | after.keys():
        if before.get(key) == after.get(key):
            continue
        if now.get(key) != after.get(key):
            return out, key
        if key in before:
            out[key] = before[key]
        else:
            del out[key]
    return out, None


def _conflict(
    session: Session, head: Head, version: int, later: int | None, why: str, **facts: str
) -> Conflict:
    """Return the error for a later commit that changed what is to be undone."""
    found = None if later in (None, LIVE) else commits.one(session, head.table_id, int(later or 0))
    who, told = "A later commit", {}
    if found is not None:
        info = found.info
        who = f"Version {later} (transaction {info.transaction_id}, {info.operation})"
        told = {"other_version": later, "other_transaction_id": info.transaction_id}
    what = f"Version {version} of table {head.name} cannot be undone. {who} {why}."
    return Conflict(
        what,
        hint=_HINT,
        table=str(head.name),
        base_version=version,
        version=head.version,
        reason=why,
        **told,
        **facts,
    )
