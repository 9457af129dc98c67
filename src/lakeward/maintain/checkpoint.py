"""Writes checkpoints of tables, so that other engines open them without reading many commits.

The table with the most commits since its last checkpoint comes first. So a run that a budget
stopped is continued by the next one, and does not begin with the same tables again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from lakeward.context import LakeContext
from lakeward.formats.registry import publishers
from lakeward.maintain.jobs import Budget, Progress, run
from lakeward.model.commit import Head
from lakeward.model.maintenance import Done, Maintained, Plan, Unit
from lakeward.write.commit.publications import checkpoint_newest, follow, publish_backlog


def checkpoint(
    context: LakeContext,
    tables: Sequence[Head],
    *,
    only_outdated: bool = False,
    dry_run: bool = False,
    budget: Budget | None = None,
    progress: Progress | None = None,
) -> Maintained:
    """Write a checkpoint of the newest version of each table whose format has checkpoints.

    Args:
        context: The lake.
        tables: The tables.
        only_outdated: Leave out tables whose newest version has a checkpoint.
        dry_run: Only plan.
        budget: No checkpoint begins after the deadline, but at least one is written.
        progress: Called after each table.
    """
    if not dry_run:
        tables = [follow(context, head) for head in tables]
    found = [(_since_checkpoint(context, head), head) for head in tables]
    due = [(since, h) for since, h in found if since is not None and (since or not only_outdated)]
    units = tuple(_unit(head, since) for since, head in sorted(due, key=lambda d: -d[0]))
    plan = Plan("checkpoint", str(tables[0].name) if len(tables) == 1 else None, units)
    if dry_run:
        return Maintained(plan)
    execute = partial(_write, context)
    return Maintained(plan, run(context, plan, execute, budget=budget, progress=progress))


def _since_checkpoint(context: LakeContext, head: Head) -> int | None:
    """Return the number of commits since a table's last checkpoint; None without checkpoints."""
    kinds = [p for p in publishers(head) if p.has_checkpoints]
    if not kinds:
        return None
    last = [p.last_checkpoint(context, head) for p in kinds]
    return max(head.version + 1 if v is None else max(0, head.version - v) for v in last)


def _unit(head: Head, since: int) -> Unit:
    return Unit(
        table=str(head.name),
        what=f"write a checkpoint of version {head.version}",
        why="readers need not read the commits before it",
        gain=f"other engines read {since} commit{'' if since == 1 else 's'} fewer",
        work=head,
    )


def _write(context: LakeContext, unit: Unit) -> Done:
    head: Head = unit.work
    publish_backlog(context, head)
    return Done(facts={"version": checkpoint_newest(context, head), "table": unit.table})
