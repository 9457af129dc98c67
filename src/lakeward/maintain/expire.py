"""Deletes published metadata that no reader needs any more.

The log has the whole history. Published metadata need not: other engines read the newest versions
and those younger than the retention of the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from lakeward.context import LakeContext
from lakeward.errors import InvalidInput
from lakeward.formats.policy import settings
from lakeward.formats.properties import keeps_metadata, log_retention_ms
from lakeward.formats.registry import publishers
from lakeward.log import heads, retired
from lakeward.maintain.jobs import Budget, Progress, run
from lakeward.maintain.vacuum.behind import check_table_not_behind
from lakeward.maintain.vacuum.plan import Clock, in_batches
from lakeward.model.commit import Head
from lakeward.model.duration import to_milliseconds
from lakeward.model.maintenance import Done, Maintained, Plan, Unit
from lakeward.write.commit.publications import follow, publish_backlog

_FLOOR_MS: Final = 3_600_000
"""Younger metadata may be in use by a reader; it is not deleted without force."""
_AT_ONCE: Final = 1000


def expire(
    context: LakeContext,
    tables: Sequence[Head],
    *,
    retention: object = None,
    force: bool = False,
    dry_run: bool = False,
    budget: Budget | None = None,
    progress: Progress | None = None,
) -> Maintained:
    """Delete published metadata of tables that no reader needs; with `dry_run` only plan it."""
    given = None if retention is None else to_milliseconds(retention, "retention")
    if given is not None and given < _FLOOR_MS and not force:
        what = "A retention below one hour would delete metadata that readers are using."
        raise InvalidInput(what, hint="Give force=True (--force).", parameter="retention")
    clock = Clock.read(context)
    units: list[Unit] = []
    notes: list[str] = []
    for head in tables:
        if context.database.read_only is None:
            publish_backlog(context, follow(context, head))
        forbidden = _forbidden(context, head)
        if forbidden is None:
            units += _units(context, head, given, clock)
        else:
            notes.append(f"{head.name}: {forbidden}: nothing is deleted.")
    one = str(tables[0].name) if len(tables) == 1 else None
    plan = Plan("expire", one, tuple(units), tuple(notes))
    if dry_run:
        return Maintained(plan)
    execute = partial(_delete, context)
    return Maintained(plan, run(context, plan, execute, budget=budget, progress=progress))


def _forbidden(context: LakeContext, head: Head) -> str | None:
    """Return the setting by which a table keeps all its published metadata; None without one."""
    with context.database.read() as session:
        current = heads.by_id(session, head.table_id) or head
        return keeps_metadata(settings(current, context.definition(session, current)))


def _units(context: LakeContext, head: Head, given: int | None, clock: Clock) -> list[Unit]:
    check_table_not_behind(context, head)
    with context.database.read() as session:
        current = heads.by_id(session, head.table_id) or head
        length = given
        if length is None:
            length = log_retention_ms(settings(current, context.definition(session, current)))
        found = [
            p.old_metadata(context, session, current, clock.versions_ms - length)
            for p in publishers(current)
        ]
    names = [n for some, _ in found for n in some]
    facts = context.storage.look_below(current.location, names)
    latest = clock.files_ms - min(length, _FLOOR_MS)
    old = sorted(n for n, f in facts.items() if f.modified_ms <= latest)
    cleaned = max((version for _, version in found), default=0)
    units = []
    for some in in_batches(old, _AT_ONCE):
        size = sum(facts[n].size for n in some)
        units.append(
            Unit(
                table=str(current.name),
                what=f"delete {len(some)} metadata files",
                why="no version that is promised to other engines needs them",
                gain=f"{size:,} bytes freed",
                frees=size,
                files=len(some),
                work=(current, some, cleaned),
            )
        )
    return units


def _delete(context: LakeContext, unit: Unit) -> Done:
    head, names, cleaned = unit.work
    if cleaned:
        with context.database.write() as session:
            retired.note(session, head.table_id, cleaned_to=cleaned)
    context.storage.delete_below(head.location, names)
    return Done(frees=unit.frees, files=unit.files)
