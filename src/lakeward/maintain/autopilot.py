"""Chooses the most valuable maintenance: small files first where they cost most, then the rest.

Tables are compacted when their health score calls for it, clustered again once a day by the columns
of the last clustering (or those in the property `lakeward.zorder`), and vacuumed once a week. Also
once a week, published metadata is expired of tables that have many versions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from lakeward.context import LakeContext
from lakeward.errors import InvalidInput
from lakeward.formats.policy import settings
from lakeward.formats.properties import ZORDER, keeps_files, keeps_metadata
from lakeward.log import commits, jobs
from lakeward.log.database import Session
from lakeward.maintain.health import examine_table
from lakeward.maintain.optimize.planning import OPERATION, last_layout
from lakeward.model.duration import for_people
from lakeward.model.health import Health
from lakeward.model.layout import Layout, LayoutKind, layout_from, layout_of
from lakeward.model.maintenance import JobState, Maintained
from lakeward.model.records import HIDDEN
from lakeward.read.snapshot import TableSnapshot

DROPPED: Final = "(dropped tables)"
"""The `table` of the chore that vacuums dropped tables."""
_PACKED: Final = ("small_files", "deleted_rows")
_MANY_VERSIONS: Final = 100
"""The number of versions from which on metadata is expired; that of fewer is small."""
_FINISHED: Final = (JobState.DONE, JobState.NOTHING)


@dataclass(frozen=True, slots=True)
class Chore:
    """One piece of maintenance of one table.

    Attributes:
        table: The table's full name, or `DROPPED`.
        kind: `optimize`, `vacuum` or `expire`.
        why: The reason.
        points: The chore's value, in points of the table's health.
        options: Arguments of the table's method `kind`.
    """

    table: str
    kind: str
    why: str
    points: int
    options: Mapping[str, Any] = field(default_factory=dict, metadata=HIDDEN)


@dataclass(frozen=True, slots=True)
class ChoreDone:
    """A chore with its result; for a dry run, with its plan."""

    chore: Chore
    result: Maintained


@dataclass(frozen=True, slots=True)
class ChoreFailed:
    """A chore that failed, with the error and its exit code."""

    chore: Chore
    error: str
    exit_code: int


@dataclass(frozen=True, slots=True)
class MaintenanceRun:
    """The result of a call of `lake.maintain`.

    Attributes:
        state: `done`, `nothing`, `stopped` when the budget or the window ended, `failed` when a
            chore failed, `planned` for a dry run with chores, `closed` outside of the window.
        done: Completed chores, in order.
        left: Chores that were not started, also because they would not fit in the time left.
        failed: Chores that failed; the others were done nevertheless.
        opens: When the window opens next, if it is closed now.
    """

    state: str
    done: tuple[ChoreDone, ...] = ()
    left: tuple[Chore, ...] = ()
    failed: tuple[ChoreFailed, ...] = ()
    opens: str | None = None


@dataclass(frozen=True, slots=True)
class Rhythm:
    """How often tables are clustered and vacuumed, in milliseconds."""

    zorder_ms: int
    vacuum_ms: int


def chores(context: LakeContext, snapshots: Iterable[TableSnapshot], rhythm: Rhythm) -> list[Chore]:
    """Return the chores worth doing for some tables, most valuable first."""
    found = [c for s in snapshots for c in _of_table(context, s, rhythm)]
    return sorted(found, key=lambda c: (-c.points, c.kind, c.table))


def _of_table(context: LakeContext, snapshot: TableSnapshot, rhythm: Rhythm) -> Iterator[Chore]:
    health = examine_table(context, snapshot)
    with context.database.read() as session:
        now = context.database.clock_ms(session)
        layout = _layout(session, snapshot)
        clustered = _clustered(session, snapshot, layout)
        vacuumed = _last_run(session, now, "vacuum", health.table)
        expired = _last_run(session, now, "expire", health.table)
        made = commits.first_timestamp_ms(session, snapshot.log_head.table_id) or now
    is_due = layout.columns and (clustered is None or now - clustered >= rhythm.zorder_ms)
    if is_due:
        age = "never was" if clustered is None else f"was {for_people(now - clustered)} ago"
        options = {layout.kind.value: list(layout.columns)}
        why = f"{layout}: {age}"
        yield Chore(
            health.table, "optimize", why, _points(health, (*_PACKED, "clustering")), options
        )
    elif _points(health, _PACKED):
        reasons = [r.what for r in health.reasons if r.kind in _PACKED]
        yield Chore(health.table, "optimize", "; ".join(reasons), _points(health, _PACKED))
    own = settings(snapshot.log_head, snapshot.definition)
    dead = _points(health, ("tombstones",))
    since = made if vacuumed is None else vacuumed
    is_old = now - since >= rhythm.vacuum_ms or (dead and vacuumed is None)
    if is_old and keeps_files(own) is None:
        yield Chore(health.table, "vacuum", f"vacuum {_ago(now, vacuumed)}", dead)
    is_long = snapshot.version >= _MANY_VERSIONS and keeps_metadata(own) is None
    if is_long and (expired is None or now - expired >= rhythm.vacuum_ms):
        points = _points(health, ("log",))
        yield Chore(health.table, "expire", f"expire {_ago(now, expired)}", points)


def _last_run(session: Session, now: int, kind: str, table: str) -> int | None:
    """Return when the last completed run of a kind began, in milliseconds; None without one."""
    own = jobs.newest(session, now, kind=kind, table=table, limit=20)
    of_all = (
        j for j in jobs.newest(session, now, kind=kind, table=None, limit=20) if j.table is None
    )
    ended = [j for j in (*own, *of_all) if j.state in _FINISHED]
    last = max(ended, key=lambda j: j.started, default=None)
    return None if last is None else int(last.started.timestamp() * 1000)


def _ago(now: int, moment: int | None) -> str:
    return "never ran" if moment is None else f"ran {for_people(now - moment)} ago"


def _layout(session: Session, snapshot: TableSnapshot) -> Layout:
    """Return the layout that a table should have: of its property, or of its last clustering."""
    definition = snapshot.definition
    named = [c.strip() for c in definition.properties.get(ZORDER, "").split(",") if c.strip()]
    found = Layout(LayoutKind.ZORDER, tuple(named))
    if not named:
        found = last_layout(session, snapshot.log_head)
    if not found.columns:
        return Layout()
    try:
        return layout_of(definition, snapshot.name, **{found.kind.value: found.columns})
    except InvalidInput:
        # Its columns were dropped or changed since.
        return Layout()


def _clustered(session: Session, snapshot: TableSnapshot, layout: Layout) -> int | None:
    """Return when the table was last clustered in this layout, in milliseconds, or None."""
    if layout.kind is LayoutKind.PACK:
        return None
    found = commits.each_of(session, snapshot.log_head.table_id, OPERATION)
    same = (c.timestamp_ms for c in found if layout_from(c.info.parameters) == layout)
    return next(same, None)


def _points(health: Health, kinds: tuple[str, ...]) -> int:
    return sum(r.points for r in health.reasons if r.kind in kinds)
