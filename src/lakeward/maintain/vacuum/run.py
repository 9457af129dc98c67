"""Runs a vacuum.

Before the first file of a table is deleted, vacuum locks the table's head, determines again which
versions are kept, and retires the versions that lose files in the same database transaction. So a
tag, a clone, a branch, a pin or a restore either comes first and is seen here, or finds its version
retired and is refused. Files in no version are announced under the same lock, so that no
transaction adds one by its path while it is deleted. A killed vacuum has deleted only files that
nobody can reach; the next one deletes the rest, and the rows of the log about all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from lakeward.context import LakeContext
from lakeward.errors import Conflict, InvalidInput
from lakeward.log import branches, commits, heads, pruning, reach, retired, unrecorded
from lakeward.log.database import Session
from lakeward.log.shrinking import shrink
from lakeward.maintain.jobs import Budget, Progress, run
from lakeward.maintain.vacuum.behind import (
    check_lake_not_behind,
    check_not_behind,
    taken_over,
    unknown_commit,
)
from lakeward.maintain.vacuum.dead import roll_back_dead
from lakeward.maintain.vacuum.files import Why, foreign_refs, named_by_others, named_since
from lakeward.maintain.vacuum.kept import Kept, kept_of_dropped, kept_versions, may_be_read
from lakeward.maintain.vacuum.plan import (
    Clock,
    Limits,
    TablePlan,
    cutoff_ms,
    in_batches,
    plan_dropped,
    plan_table,
    why_all_is_kept,
)
from lakeward.model import steps
from lakeward.model.commit import Head
from lakeward.model.file import LIVE
from lakeward.model.maintenance import Done, Maintained, Plan, Unit
from lakeward.write.commit.publications import follow, publish_backlog, take_over_or_refuse

_THREADS: Final = 8
_BATCH: Final = 125
_REMOTE_BATCH: Final = 1000
_PAUSE_SECONDS: Final = 0.001
"""The pause between two steps, in which writers can work."""
_TRIES: Final = 5
_UNRECORDED: Final = (Why.UNKNOWN.value, Why.LEFT.value)


def vacuum(
    context: LakeContext,
    tables: Sequence[Head],
    limits: Limits,
    *,
    dropped: bool = False,
    dry_run: bool = False,
    budget: Budget | None = None,
    progress: Progress | None = None,
) -> Maintained:
    """Delete the files of tables that nothing needs; with `dry_run` only plan it.

    With `dropped`, also delete files of dropped tables whose grace period is over. Raises
    `InvalidInput` for a single table whose properties forbid it; of several it is left out.
    """
    one = str(tables[0].name) if len(tables) == 1 and not dropped else None
    if one is not None:
        _check_allowed(context, tables[0])
    if context.database.read_only is None:
        # Unpublished versions are kept, so publish first to be able to delete more.
        for head in tables:
            _bring_up_to_date(context, head)
        _prune_unrecorded(context)
    check_lake_not_behind(context)
    clock = Clock.read(context)
    if context.database.read_only is None and not dry_run:
        roll_back_dead(context, clock)
    over = _over(context, limits, clock) if dropped else []
    if dry_run:
        plans = [plan_table(context, head, limits, clock) for head in tables]
        plans += [plan_dropped(context, head, at, limits, clock) for head, at in over]
        return Maintained(_plan(plans, one))
    settled = _Settled(context, limits, clock)
    for head in tables:
        settled.add(partial(plan_table, context, head, limits, clock))
    for head, at in over:
        settled.add(partial(plan_dropped, context, head, at, limits, clock))
    plan = _plan(settled.plans, one)
    execute = partial(_unit, context)
    return Maintained(plan, run(context, plan, execute, budget=budget, progress=progress))


def dropped_are_due(context: LakeContext) -> bool:
    """Return whether the grace period of a dropped table is over."""
    with context.database.read() as session:
        if not heads.dropped(session):
            return False
    over = _over(context, Limits(), Clock.read(context))
    with context.database.read() as session:
        because = (why_all_is_kept(context, session, head, dropped=True) for head, _ in over)
        return any(why is None for why in because)


def vacuum_dropped(context: LakeContext, seconds: float | None, *, dry_run: bool) -> Maintained:
    """Delete the files of dropped tables whose grace period is over, within a time budget."""
    return vacuum(context, [], Limits(), dropped=True, dry_run=dry_run, budget=Budget.of(seconds))


def _plan(plans: Iterable[TablePlan], table: str | None) -> Plan:
    known = list(plans)
    return Plan(
        "vacuum",
        table,
        tuple(unit for plan in known for unit in plan.units()),
        tuple(note for plan in known for note in plan.notes()),
        {"tables": [plan.facts() for plan in known]},
    )


def _check_allowed(context: LakeContext, head: Head) -> None:
    """Raise `InvalidInput` if a property of a table forbids to delete its files."""
    with context.database.read() as session:
        current = heads.by_id(session, head.table_id) or head
        because = why_all_is_kept(context, session, current, dropped=False)
    if because is not None:
        what = (
            f"Table {head.name} has {because}: its files must not be deleted. Nothing was deleted."
        )
        hint = "Other tables may use them. If not, set the property to true first."
        raise InvalidInput(what, hint=hint, table=str(head.name))


def _bring_up_to_date(context: LakeContext, head: Head) -> None:
    """Adopt foreign commits and publish ratified ones, so that fewer versions must be kept."""
    current = follow(context, head)
    publish_backlog(context, current)


def _prune_unrecorded(context: LakeContext) -> None:
    """Delete claims and announcements that are no longer valid."""
    with context.database.read() as session:
        found = unrecorded.has_any(session)
    if found:
        with context.database.write(durable=False) as session:
            unrecorded.prune(session, context.database.clock_ms(session))


def _over(context: LakeContext, limits: Limits, clock: Clock) -> list[tuple[Head, int]]:
    """Return dropped tables whose grace period is over, with the time of the drop."""
    out = []
    with context.database.read() as session:
        for head, dropped_ms in heads.dropped(session):
            cutoff = cutoff_ms(context, session, head, limits, clock.versions_ms)
            if dropped_ms <= cutoff and not _stays(session, head):
                out.append((head, dropped_ms))
    return out


def _stays(session: Session, head: Head) -> bool:
    """Return whether a dropped table has no files left, or its files must not be deleted.

    They must not be if the table was adopted, or if another table was adopted in its place.
    """
    if retired.pruned_to(session, head.table_id) == LIVE or heads.has_heir(session, head):
        return True
    first = commits.first_version(session, head.table_id)
    made = None if first is None else commits.one(session, head.table_id, first)
    return made is None or made.info.adopted


def _is_used(context: LakeContext, session: Session, head: Head, dropped_ms: int) -> bool:
    """Return whether a dropped table may be read, or another table uses its files by now."""
    if may_be_read(session, dropped_ms) or heads.has_heir(session, head):
        return True
    return taken_over(context, head) is not None


@dataclass
class _Settled:
    """Plans whose versions are retired, so that nothing can begin to need their files."""

    context: LakeContext
    limits: Limits
    clock: Clock
    plans: list[TablePlan] = field(default_factory=list)

    def add(self, make: Callable[[], TablePlan]) -> None:
        """Make a plan and retire its versions; plan again if more versions must be kept meanwhile.

        Raise `Conflict` if that happens too often.
        """
        for left in reversed(range(_TRIES)):
            plan = make()
            steps.reach("vacuum.planned")
            try:
                if plan.has_work:
                    self._retire(plan)
            except Conflict:
                if not left:
                    raise
                if plan.dropped_ms is None:
                    # What others committed was taken over in the session that is rolled back.
                    _bring_up_to_date(self.context, plan.head)
            else:
                self.plans.append(plan)
                return

    def _retire(self, plan: TablePlan) -> None:
        context, table_id = self.context, plan.head.table_id
        with context.database.write() as session:
            context.check_bound(session)
            for dropped_id in heads.before_at_location(session, plan.head):
                heads.lock_ever(session, dropped_id)
            head, dropped_ms = heads.lock_ever(session, table_id)
            if dropped_ms != plan.dropped_ms:
                # Dropped, brought back, or both: its grace period begins again.
                raise _changed(head)
            if dropped_ms is not None and _is_used(context, session, head, dropped_ms):
                raise _changed(head)
            if dropped_ms is None:
                head = take_over_or_refuse(context, session, head)
                if head.pointer != plan.head.pointer:
                    _check_refs(context, session, plan, head)
            if not plan.kept.covers(self._kept(session, head, dropped_ms)):
                raise _changed(head)
            added = named_since(context, session, plan.head)
            added |= named_by_others(context, session, plan.head)
            added |= unrecorded.claimed(session, table_id)
            if not plan.sizes.keys().isdisjoint(added):
                # A restore, or a transaction that adds files by their paths, needs them again.
                raise _changed(head)
            for dropped_id, held in plan.kept.earlier.items():
                lost = reach.retired_ranges(session, dropped_id, LIVE, sorted(held))
                retired.retire(session, dropped_id, lost)
            lost = reach.retired_ranges(session, table_id, plan.kept.kept_from, plan.kept.held)
            if dropped_ms is not None and not plan.kept.held:
                lost = [(0, LIVE)]
            retired.retire(session, table_id, lost)
            # A dropped table may be brought back: its next versions are complete again.
            kept_from = min(plan.kept.kept_from, head.version + 1)
            retired.note(session, table_id, kept_from=kept_from)
        steps.reach("vacuum.retired")

    def _kept(self, session: Session, head: Head, dropped_ms: int | None) -> Kept:
        context = self.context
        if head.guarded or dropped_ms is not None:
            check_not_behind(context, session, head)
        elif unknown_commit(context, session, head) is not None:
            # Others committed since the head was locked.
            raise _changed(head)
        if dropped_ms is not None:
            return kept_of_dropped(context, session, head, self.clock.versions_ms)
        cutoff = cutoff_ms(context, session, head, self.limits, self.clock.versions_ms)
        return kept_versions(context, session, head, cutoff, self.clock.versions_ms)


def _check_refs(context: LakeContext, session: Session, plan: TablePlan, head: Head) -> None:
    """Raise `Conflict` if another engine created a tag or branch since the table was planned."""
    if not foreign_refs(context, session, head).items() <= plan.refs.items():
        raise _changed(head)


def _changed(head: Head) -> Conflict:
    what = f"The versions to keep of {head.name} changed repeatedly during the vacuum."
    return Conflict(what, hint="Nothing was deleted. Run it again.", table=str(head.name))


def _unit(context: LakeContext, unit: Unit) -> Done:
    """Delete one batch of files, or the log rows of files that are deleted."""
    plan, names = unit.work
    if names is None:
        return Done(facts={"rows_pruned": _forget(context, plan)})
    if unit.why not in _UNRECORDED:
        with context.database.read() as session:
            # A restore, or an adopted table, may have named a file again meanwhile.
            added = named_since(context, session, plan.head)
            added |= named_by_others(context, session, plan.head)
        return _delete(context, plan, [name for name in names if name not in added])
    announcement, names = _announced(context, plan, names)
    steps.reach("vacuum.announced")
    done = _delete(context, plan, names)
    with context.database.write(durable=False) as session:
        unrecorded.withdraw(session, announcement)
    return done


def _announced(
    context: LakeContext, plan: TablePlan, names: Sequence[str]
) -> tuple[str, Sequence[str]]:
    """Announce the deletion of files that are in no version; return its id and the files.

    Files that an open transaction or a new version adds by their paths are left out.
    """
    table_id = plan.head.table_id
    with context.database.write() as session:
        heads.lock_ever(session, table_id)
        added = named_since(context, session, plan.head) | unrecorded.claimed(session, table_id)
        added |= named_by_others(context, session, plan.head)
        left = [name for name in names if name not in added]
        now = context.database.clock_ms(session)
        return unrecorded.announce(session, table_id, left, now), left


def _delete(context: LakeContext, plan: TablePlan, names: Sequence[str]) -> Done:
    storage, location = context.storage, plan.head.location

    def some(batch: Sequence[str]) -> None:
        storage.delete_below(location, batch)
        steps.reach("vacuum.deleted")

    if storage.is_remote or len(names) <= _BATCH:
        for batch in in_batches(names, _REMOTE_BATCH):
            some(batch)
    else:
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(some, in_batches(names, _BATCH)))
    return Done(frees=sum(plan.sizes.get(name, 0) for name in names), files=len(names))


def _forget(context: LakeContext, plan: TablePlan) -> int:
    """Delete the log rows of deleted files, in small steps; return how many.

    If files were too young to be deleted, keep all rows, so that the next vacuum finds them.
    """
    table_id, kept = plan.head.table_id, plan.kept
    if plan.young:
        return 0
    if kept.kept_from == LIVE and not kept.held:
        with context.database.write(durable=False) as session:
            pruning.purge(session, table_id)
            branches.delete_clone(session, table_id)
            retired.note(session, table_id, pruned_to=LIVE)
        shrink(context.database)
        return 0
    gone = 0
    place: pruning.Place | None = pruning.START
    while place is not None:
        with context.database.write(durable=False) as session:
            count, place = pruning.prune_files(
                session, table_id, kept.kept_from, kept.held, after=place
            )
        gone += count
        time.sleep(_PAUSE_SECONDS)
    with context.database.write(durable=False) as session:
        gone += pruning.prune_changes(session, table_id, kept.kept_from)
        retired.note(session, table_id, pruned_to=min(kept.kept_from, plan.head.version + 1))
    shrink(context.database)
    return gone
