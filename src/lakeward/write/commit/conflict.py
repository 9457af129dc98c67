"""Detects conflicts of a change with commits since its base version, and with locks of others.

Blind appends conflict with nothing, unless the table was altered so that their rows do not fit.
Other changes conflict with every new definition, and with a commit that removed one of the same
files or added a file that may have rows of the replaced scope. A serializable transaction also
conflicts with commits that changed what it read. A write lock excludes every other change of the
table; a read lock excludes all but blind appends.

Commits that only moved rows to other files (compactions) are no conflict: they divide the commits
since the base version into spans, and only changes within the spans count. A change that removes a
file whose rows were moved must be planned again at that version: the conflict has the kind `MOVED`,
and `transaction.resolve` plans again, so that no writer fails because of a compaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from lakeward.context import LakeContext
from lakeward.errors import Conflict, Locked
from lakeward.formats.registry import format_of
from lakeward.log import commits, definitions, files, heads, locks, retired
from lakeward.log.database import Session
from lakeward.model.commit import Head, Isolation
from lakeward.model.evolution.fit import Misfit
from lakeward.model.expressions.nodes import Expression
from lakeward.model.file import LoggedFile
from lakeward.model.locks import Claim, LockMode
from lakeward.model.names import TableName
from lakeward.read.plan import file_may_match, plan, to_prune_by
from lakeward.write.commit.kinds import HINT as _HINT
from lakeward.write.commit.kinds import Kind as Kind
from lakeward.write.commit.policy_change import check_policy
from lakeward.write.plan.change import Change
from lakeward.write.stage.lacking import unguarded

_DOING: Final = {LockMode.READ: "reading", LockMode.WRITE: "writing"}


def check(session: Session, change: Change, current: Head, isolation: Isolation) -> None:
    """Raise `Conflict` if the change cannot be made on top of the current head."""
    if change.returns is not None:
        # Vacuum retires versions under the same lock, before it deletes their files.
        retired.check(session, current, change.returns.version)
    base, put_back = change.head, change.put_back_from
    if put_back is not None and retired.is_retired(session, current.table_id, put_back):
        why = f"vacuumed version {put_back}, whose files this transaction would put back"
        raise conflict(session, change, current, Kind.VACUUMED, why)
    if current.policy_id != base.policy_id:
        check_policy(session, change, current)
    if current.version == base.version:
        return
    if change.exact:
        why = "committed, and this commit requires the version before"
        raise conflict(session, change, current, Kind.VERSION, why)
    if current.definition_id != base.definition_id:
        _check_definition(session, change, current)
    for path in change.claims:
        live = files.live_at_path(session, current.table_id, path)
        if live:
            why = f"added file {path}, which this transaction adds too"
            raise conflict(session, change, current, Kind.PATH, why, live[0].added, file=path)
    if change.is_blind:
        return
    if retired.is_retired(session, current.table_id, base.version):
        # The log no longer has all files that were removed since.
        why = f"vacuumed version {base.version}, which this transaction began with"
        raise conflict(session, change, current, Kind.VACUUMED, why)
    after = base.version
    for move in _moves(session, change, current):
        _check_span(session, change, current, isolation, after, move - 1)
        taken = [
            f for f in files.removed_at(session, current.table_id, move) if _removes(change, f)
        ]
        if taken:
            path = taken[0].path
            why = f"moved rows of file {path}, which this transaction removes or rewrites"
            raise conflict(session, change, current, Kind.MOVED, why, move, file=path)
        after = move
    _check_span(session, change, current, isolation, after, current.version)


def check_same_definition(session: Session, change: Change, base: Head) -> None:
    """Raise `Conflict` if the table was altered between a base and the version of a change."""
    current = change.head
    if current.definition_id != base.definition_id:
        first = definitions.first_version(session, base.table_id, base.definition_id + 1)
        why = "changed the table's definition after this transaction had added rows"
        before = replace(change, head=base)
        raise conflict(session, before, current, Kind.DEFINITION, why, first)


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
    """Return a `Conflict` with the version, the transaction and the reason of the other commit.

    `reason` is a predicate whose subject is the other transaction.
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
    """Raise `Locked` if a lock of a transaction other than `by` excludes one of the needed modes.

    The session has locked the tables' heads. Transactions whose lease has expired are closed. If
    there are no locks, this costs one query of an empty table.
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


def needs(changes: Iterable[Change]) -> Iterator[tuple[Head, LockMode]]:
    """Yield the table of each change, with the lock mode that the change needs."""
    for change in changes:
        yield change.head, LockMode.READ if change.is_blind else LockMode.WRITE


def locked(
    name: TableName, mode: LockMode, holders: Sequence[Claim], now: int, waited: float = 0.0
) -> Locked:
    """Return a `Locked` error with the table, the transaction that holds it, and for how long."""
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
    """Raise `Conflict` unless a blind change adds rows that fit the new definition."""
    base = change.head
    first = definitions.first_version(session, current.table_id, base.definition_id + 1)
    new = definitions.get(session, current.table_id, current.definition_id)
    new = replace(new, rules=change.definition.rules)
    found = format_of(current).misfit(change.definition, new) or unguarded(change, new)
    if found is None and change.is_blind:
        return
    if found is None:
        found = Misfit("changed the table's definition")
    facts = {} if found.column is None else {"column": found.column}
    raise conflict(session, change, current, Kind.DEFINITION, found.reason, first, **facts)


def _moves(session: Session, change: Change, current: Head) -> list[int]:
    """Return the versions since the base that only moved rows; none if the change moves rows."""
    if not change.data_change:
        return []
    return commits.moves(session, current.table_id, change.head.version, current.version)


def _removes(change: Change, file: LoggedFile) -> bool:
    return (file.added, file.ordinal) in change.removed


def _check_span(
    session: Session, change: Change, current: Head, isolation: Isolation, after: int, until: int
) -> None:
    """Raise `Conflict` if a version after `after`, up to `until`, changed something relevant."""
    if until <= after:
        return
    removed = files.removed_since(session, current.table_id, after, until) if change.removed else ()
    gone = next((f for f in removed if _removes(change, f)), None)
    if gone is not None:
        why = f"removed or rewrote file {gone.path}, which this transaction removes or rewrites too"
        raise conflict(session, change, current, Kind.REMOVED, why, gone.removed, file=gone.path)
    added = _first_added(session, change, current, change.scopes, after, until)
    if added is not None:
        why = f"added rows that this transaction may have to replace or remove (file {added.path})"
        raise conflict(session, change, current, Kind.ADDED, why, added.added, file=added.path)
    if isolation is Isolation.SERIALIZABLE:
        _check_reads(session, change, current, after, until)


def _first_added(
    session: Session,
    change: Change,
    current: Head,
    scopes: Iterable[Expression | None],
    after: int,
    until: int,
) -> LoggedFile | None:
    for scope in scopes:
        condition = to_prune_by(scope, change.definition)
        found = plan(session, current.table_id, until, condition, after=after)
        first = next(iter(found), None)
        if first is not None:
            return first
    return None


def _check_reads(session: Session, change: Change, current: Head, after: int, until: int) -> None:
    if not change.reads:
        return
    added = _first_added(session, change, current, change.reads, after, until)
    if added is not None:
        why = f"added rows where this transaction read (file {added.path})"
        raise conflict(session, change, current, Kind.READ, why, added.added, file=added.path)
    read = [to_prune_by(scope, change.definition) for scope in change.reads]
    for file in files.removed_since(session, current.table_id, after, until):
        if any(r is None or file_may_match(r, file.file) for r in read):
            why = f"removed or rewrote rows where this transaction read (file {file.path})"
            raise conflict(session, change, current, Kind.READ, why, file.removed, file=file.path)
