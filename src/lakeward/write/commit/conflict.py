"""Conflicts of a change with commits since its base version, and with locks of others.

Blind appends meet no conflict, unless the table was altered so that their rows do not fit it. Other
changes conflict with every new definition, and with a commit that removed one of the same files, or
that added a file which may hold rows of the replaced scope. A serializable transaction also
conflicts with commits that changed what it read. A lock for writing excludes every other change of
the table, a lock for reading all but blind appends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any, Final

from lakeward.context import LakeContext
from lakeward.errors import Conflict, Locked
from lakeward.formats.registry import format_of
from lakeward.log import commits, definitions, files, heads, locks
from lakeward.log.database import Session
from lakeward.model.commit import Head, Isolation
from lakeward.model.evolution.fit import Misfit
from lakeward.model.expressions.nodes import Expression
from lakeward.model.file import LoggedFile
from lakeward.model.locks import Claim, LockMode
from lakeward.model.names import TableName
from lakeward.read.plan import file_may_match, plan, to_prune_by
from lakeward.write.plan.change import Change

_HINT: Final = "Nothing was committed. Run the transaction again; lake.run does so by itself."
_DOING: Final = {LockMode.READ: "reading", LockMode.WRITE: "writing"}


class Kind(StrEnum):
    """What the other commit did; `Conflict.kind`."""

    DEFINITION = "definition"
    PATH = "path"
    REMOVED = "removed"
    ADDED = "added"
    READ = "read"


def check(session: Session, change: Change, current: Head, isolation: Isolation) -> None:
    """Raise `Conflict` if the change cannot be made on top of the current head."""
    base = change.head
    if current.version == base.version:
        return
    if current.definition_id != base.definition_id:
        _check_definition(session, change, current)
    for path in change.claims:
        live = files.live_at_path(session, current.table_id, path)
        if live:
            why = f"added file {path}, which this transaction adds too"
            raise conflict(session, change, current, Kind.PATH, why, live[0].added, file=path)
    if change.is_blind:
        return
    gone = _lost(session, change, current)
    if gone is not None:
        why = f"removed or rewrote file {gone.path}, which this transaction removes or rewrites too"
        raise conflict(session, change, current, Kind.REMOVED, why, gone.removed, file=gone.path)
    added = _first_added(session, change, current, change.scopes)
    if added is not None:
        why = f"added rows that this transaction may have to replace or remove (file {added.path})"
        raise conflict(session, change, current, Kind.ADDED, why, added.added, file=added.path)
    if isolation is Isolation.SERIALIZABLE:
        _check_reads(session, change, current)


def check_absent(session: Session, names: Iterable[TableName]) -> None:
    """Raise `Conflict` if a table exists that the transaction looked for and did not find."""
    for name in names:
        if heads.find(session, name) is not None:
            what = f"Table {name} was made after this transaction had found that there is none."
            reason = "made the table"
            raise Conflict(what, hint=_HINT, table=str(name), kind=Kind.READ, reason=reason)


def conflict(
    session: Session,
    change: Change,
    current: Head,
    kind: Kind,
    reason: str,
    version: int | None = None,
    **facts: Any,
) -> Conflict:
    """Return the error that names the other commit, by its version, and what it did.

    `reason` follows the name of the other transaction in a sentence.
    """
    base = change.head.version
    other = None if version is None else commits.one(session, current.table_id, version)
    if other is None:
        who, found = "Somebody", {}
    else:
        info = other.info
        who = f"Version {version} (transaction {info.transaction_id}, {info.operation})"
        found = {"other_version": version, "other_transaction_id": info.transaction_id}
    what = (
        f"Table {current.name} went from version {base} to {current.version} meanwhile. "
        f"{who} {reason}."
    )
    return Conflict(
        what,
        hint=_HINT,
        table=str(current.name),
        base_version=base,
        version=current.version,
        kind=kind,
        reason=reason,
        **found,
        **facts,
    )


def check_locks(
    context: LakeContext, session: Session, needs: Iterable[tuple[Head, LockMode]], *, by: str = ""
) -> None:
    """Raise `Locked` if another transaction than `by` holds a table in a mode that excludes a need.

    The session has locked the tables' heads. Transactions whose lease ran out are closed. If
    nobody locks anything this costs one look at an empty table.
    """
    if not locks.any_of_others(session, by):
        return
    now = context.database.clock_ms(session)
    held = [c for c in locks.claims(session).held if c.transaction_id != by]
    for head, mode in needs:
        others = [c for c in held if c.table_id == head.table_id and c.mode.excludes(mode)]
        left = locks.close_expired(session, others, now)
        if left:
            raise locked(head.name, mode, left, now)


def needs(changes: Iterable[Change]) -> list[tuple[Head, LockMode]]:
    """Return the lock mode that each change needs of its table."""
    return [(c.head, LockMode.READ if c.is_blind else LockMode.WRITE) for c in changes]


def locked(
    name: TableName, mode: LockMode, holders: Sequence[Claim], now: int, waited: float = 0.0
) -> Locked:
    """Return the error that names the table, the transaction that holds it, and for how long."""
    first = holders[0]
    seconds = max(0.0, (now - first.since_ms) / 1000)
    what = (
        f"Table {name} is {'locked' if first.is_held else 'waited for'} for {_DOING[first.mode]} by"
        f" transaction {first.transaction_id} of {first.actor} ({first.process}), for"
        f" {seconds:.1f} s now"
    )
    if waited:
        what += f"; {waited:.1f} s of waiting to have it for {_DOING[mode]} were not enough"
    hint = "`lakeward locks` shows who holds what. Try again, or give it more time."
    return Locked(
        f"{what}.",
        hint=hint,
        table=str(name),
        mode=mode.value,
        holders=[c.transaction_id for c in holders],
        held_seconds=seconds,
        waited_seconds=waited,
    )


def _check_definition(session: Session, change: Change, current: Head) -> None:
    """Pass if the rows that a blind change adds fit the new definition as they are."""
    base = change.head
    first = definitions.first_version(session, current.table_id, base.definition_id + 1)
    new = definitions.get(session, current.table_id, current.definition_id)
    found = format_of(current).misfit(change.definition, new)
    if found is None and change.is_blind:
        return
    if found is None:
        found = Misfit("changed the table's definition")
    facts = {} if found.column is None else {"column": found.column}
    raise conflict(session, change, current, Kind.DEFINITION, found.reason, first, **facts)


def _lost(session: Session, change: Change, current: Head) -> LoggedFile | None:
    if not change.removed:
        return None
    removed = files.removed_since(session, current.table_id, change.head.version, current.version)
    return next((f for f in removed if (f.added, f.ordinal) in change.removed), None)


def _first_added(
    session: Session, change: Change, current: Head, scopes: Iterable[Expression | None]
) -> LoggedFile | None:
    after = change.head.version
    for scope in scopes:
        condition = to_prune_by(scope, change.definition)
        found = plan(session, current.table_id, current.version, condition, after=after)
        first = next(iter(found), None)
        if first is not None:
            return first
    return None


def _check_reads(session: Session, change: Change, current: Head) -> None:
    if not change.reads:
        return
    base = change.head.version
    added = _first_added(session, change, current, change.reads)
    if added is not None:
        why = f"added rows where this transaction read (file {added.path})"
        raise conflict(session, change, current, Kind.READ, why, added.added, file=added.path)
    read = [to_prune_by(scope, change.definition) for scope in change.reads]
    for file in files.removed_since(session, current.table_id, base, current.version):
        if any(r is None or file_may_match(r, file.file) for r in read):
            why = f"removed or rewrote rows where this transaction read (file {file.path})"
            raise conflict(session, change, current, Kind.READ, why, file.removed, file=file.path)
