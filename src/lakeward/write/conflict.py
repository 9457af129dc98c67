"""Whether what others committed since the base version stands in the way of a change.

Blind appends meet no conflict. A change that removes or replaces rows conflicts with a commit that
removed one of the same files, or that added a file which may hold rows of the replaced scope. A
serializable transaction also conflicts with whoever changed what it read. Changes to other files
and other partitions pass.
"""

from __future__ import annotations

from collections.abc import Iterable

from lakeward.errors import Conflict
from lakeward.log import files
from lakeward.log.database import Session
from lakeward.model.commit import Head, Isolation
from lakeward.model.expression import Expression
from lakeward.model.file import LoggedFile
from lakeward.read.plan import file_may_match, plan
from lakeward.write.change import Change


def check(session: Session, change: Change, current: Head, isolation: Isolation) -> None:
    """Pass when the change can be made on top of the current head.

    Raises:
        Conflict: It cannot; says what stands in the way.
    """
    base = change.head
    if current.version == base.version:
        return
    if current.definition_id != base.definition_id:
        raise _conflict(current, "its definition was changed")
    for path in change.claims:
        if files.live_at_path(session, current.table_id, path):
            raise _conflict(current, f"file {path} was added", file=path)
    if change.is_blind:
        return
    gone = _lost(session, change, current)
    if gone is not None:
        raise _conflict(current, f"file {gone.path} was removed", file=gone.path)
    scopes = list(change.scopes)
    if isolation is Isolation.SERIALIZABLE:
        scopes += change.reads
    added = _first_added(session, current, base.version, scopes)
    if added is not None:
        what = f"rows were added where this transaction looked or wrote (file {added.path})"
        raise _conflict(current, what, file=added.path)
    if isolation is Isolation.SERIALIZABLE:
        _check_reads(session, change, current)


def _lost(session: Session, change: Change, current: Head) -> LoggedFile | None:
    if not change.removed:
        return None
    removed = files.removed_since(session, current.table_id, change.head.version, current.version)
    return next((f for f in removed if (f.added, f.ordinal) in change.removed), None)


def _first_added(
    session: Session, current: Head, after: int, scopes: Iterable[Expression | None]
) -> LoggedFile | None:
    for scope in scopes:
        found = plan(session, current.table_id, current.version, scope, after=after)
        first = next(iter(found), None)
        if first is not None:
            return first
    return None


def _check_reads(session: Session, change: Change, current: Head) -> None:
    if not change.reads:
        return
    removed = files.removed_since(session, current.table_id, change.head.version, current.version)
    for file in removed:
        if any(r is None or file_may_match(r, file.file) for r in change.reads):
            what = f"rows that this transaction read were removed (file {file.path})"
            raise _conflict(current, what, file=file.path)


def _conflict(current: Head, reason: str, **facts: object) -> Conflict:
    what = f"Table {current.name} changed up to version {current.version}: {reason}."
    hint = "Nothing was committed. Run the transaction again; lake.run does so by itself."
    return Conflict(
        what, hint=hint, table=str(current.name), version=current.version, reason=reason, **facts
    )
