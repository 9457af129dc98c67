"""Rule-based maintenance of all tables of a lake, within time windows and a budget."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lakeward.context import LakeContext
from lakeward.errors import InvalidInput, LakewardError, TableNotFound, UnsupportedFeature
from lakeward.model import arguments

if TYPE_CHECKING:
    from lakeward.maintain.autopilot import Chore, MaintenanceRun

_LOG = logging.getLogger(__name__)


class Maintaining:
    """The part of a lake's interface that chooses the most valuable maintenance and does it."""

    _context: LakeContext

    if TYPE_CHECKING:

        def table(self, name: str) -> Any:
            """Return a table of the lake."""

        def tables(self) -> list[Any]:
            """Return all tables of the lake."""

    def maintain(
        self,
        *,
        tables: Sequence[str] | None = None,
        window: str | None = None,
        budget: object = "30m",
        zorder_every: object = "1d",
        vacuum_every: object = "7d",
        dry_run: bool = False,
        progress: Callable[[int, int | None], None] | None = None,
    ) -> MaintenanceRun:
        """Do the most valuable maintenance first, until the budget or the window ends.

        A run stops between units of work, and the next call continues. If a chore fails, the
        others are done, and the result names it. Several processes may call it at once and share
        the work.

        Args:
            tables: Only these tables; all when None.
            window: When it may run, such as `02:00-05:00 Europe/Lisbon`; always when None.
            budget: No unit begins after this time.
            zorder_every: How often tables are clustered again.
            vacuum_every: How often tables are vacuumed.
            dry_run: Return what would be done, and change nothing.
            progress: Called with the number of chores done, and of all chores.

        Raises:
            InvalidInput: The window is invalid or never opens, a duration is invalid, or the budget
                is too short for every chore.
        """
        from lakeward.maintain.autopilot import (
            DROPPED,
            Chore,
            ChoreDone,
            ChoreFailed,
            MaintenanceRun,
            Rhythm,
            chores,
        )
        from lakeward.maintain.jobs import Budget
        from lakeward.maintain.vacuum.run import dropped_are_due
        from lakeward.model.duration import to_milliseconds
        from lakeward.model.maintenance import JobState
        from lakeward.model.window import Window

        arguments.flag(dry_run, "dry_run")
        text = arguments.optional_text(window, "window")
        open_hours = None if text is None else Window.parse(text)
        rhythm = Rhythm(
            to_milliseconds(zorder_every, "zorder_every"),
            to_milliseconds(vacuum_every, "vacuum_every"),
        )
        limit = Budget.of(budget)
        names = None if tables is None else arguments.texts(tables, "tables")
        chosen = self.tables() if names is None else [self.table(n) for n in names]
        snapshots = [t.at() for t in chosen]
        now = datetime.now(UTC)
        closes = None if open_hours is None else open_hours.closes_after(now)
        if open_hours is not None and closes is None and not dry_run:
            opens = open_hours.opens_after(now).isoformat(timespec="minutes")
            return MaintenanceRun("closed", opens=opens)
        if not dry_run:
            self._context.database.check_writable()
        left = chores(self._context, snapshots, rhythm)
        if names is None and dropped_are_due(self._context):
            left.append(Chore(DROPPED, "vacuum", "their grace period is over", 0))
        count, done = len(left), list[ChoreDone]()
        late, failed = list[tuple[Chore, LakewardError]](), list[ChoreFailed]()
        is_stopped = False
        while left and not is_stopped:
            if done and _is_over(limit, closes) and not dry_run:
                is_stopped = True
                break
            chore = left.pop(0)
            try:
                result = self._do(chore, _seconds(limit, closes), dry_run=dry_run)
            except LakewardError as error:
                if _is_too_long(error):
                    late.append((chore, error))
                else:
                    # The other tables are maintained nevertheless.
                    _LOG.warning("%s of %s failed: %s", chore.kind, chore.table, error)
                    failed.append(ChoreFailed(chore, str(error), error.exit_code))
                continue
            if result is None:
                continue
            done.append(ChoreDone(chore, result))
            if progress is not None:
                progress(count - len(left), count)
            is_stopped = result.state == JobState.STOPPED
        if late and not done and not failed:
            raise late[0][1]
        worked = [d for d in done if d.result.state != JobState.NOTHING]
        state = "nothing" if not worked else "planned" if dry_run else "done"
        if failed:
            state = "failed"
        elif is_stopped or late:
            state = "stopped"
        rest = (*(c for c, _ in late), *left)
        return MaintenanceRun(state, tuple(done), rest, tuple(failed))

    def _compact_small(self, name: str) -> None:
        """Compact the small files of a table whose policy asks for it, after a commit."""
        from lakeward.maintain.optimize.automatic import size_of_next_tier

        try:
            table = self.table(name)
        except TableNotFound:
            return
        size = size_of_next_tier(table.at())
        if size is not None:
            table.optimize(target_size=size)

    def _do(self, chore: Chore, seconds: float | None, *, dry_run: bool) -> Any:
        from lakeward.maintain.autopilot import DROPPED
        from lakeward.maintain.vacuum.run import vacuum_dropped

        try:
            if chore.table == DROPPED:
                return vacuum_dropped(self._context, seconds, dry_run=dry_run)
            method = getattr(self.table(chore.table), chore.kind, None)
            if method is None:
                return None
            return method(**chore.options, budget=seconds, dry_run=dry_run)
        except TableNotFound:
            # The table was dropped meanwhile.
            return None
        except UnsupportedFeature as error:
            # Only another engine can do it.
            _LOG.warning("%s of %s is left out: %s", chore.kind, chore.table, error)
            return None


def _is_too_long(error: LakewardError) -> bool:
    """Return whether a chore was refused because its smallest unit needs more time."""
    return isinstance(error, InvalidInput) and error.facts.get("parameter") == "budget"


def _is_over(limit: Any, closes: datetime | None) -> bool:
    return limit.is_spent or (closes is not None and datetime.now(UTC) >= closes)


def _seconds(limit: Any, closes: datetime | None) -> float | None:
    """Return the seconds until the budget or the window ends; None if neither does."""
    ends = [] if limit.seconds_left is None else [float(limit.seconds_left)]
    if closes is not None:
        ends.append(max(0.0, (closes - datetime.now(UTC)).total_seconds()))
    return min(ends) if ends else None
