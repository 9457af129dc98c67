"""Which tables are locked, by whom, and who waits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from lakeward.cli.output import words
from lakeward.cli.output.base import View
from lakeward.model.locks import LockWait, TableLock

_COLUMNS = ("table", "", "mode", "transaction", "actor", "process", "since", "lease")


@dataclass(frozen=True, slots=True)
class LocksView(View):
    """The locks that are held now."""

    locks: tuple[TableLock, ...]

    def to_json(self) -> dict[str, Any]:
        """A list of locks, each with those who wait for its table."""
        return {
            "locks": [
                {
                    "table": lock.table,
                    **_who(lock),
                    "lease_left_seconds": lock.lease_left.total_seconds(),
                    "waiters": [_who(wait) for wait in lock.waiters],
                }
                for lock in self.locks
            ]
        }

    def to_text(self) -> Iterator[RenderableType]:
        """A line to each who holds or waits."""
        if not self.locks:
            yield Text("No table is locked.")
            return
        yield words.grid(_COLUMNS, self._lines(), right=("lease",))

    def _lines(self) -> Iterator[tuple[str, ...]]:
        last = {lock.table: lock for lock in self.locks}
        for lock in self.locks:
            left = f"{lock.lease_left.total_seconds():.1f} s"
            yield (lock.table, "held", *_cells(lock), left)
            if lock is last[lock.table]:
                # Those who share a table are waited for by the same.
                for wait in lock.waiters:
                    yield (lock.table, "waits", *_cells(wait), "")


def _who(source: TableLock | LockWait) -> dict[str, Any]:
    return {
        "mode": source.mode,
        "transaction_id": source.transaction_id,
        "actor": source.actor,
        "process": source.process,
        "since": source.since,
    }


def _cells(source: TableLock | LockWait) -> tuple[str, ...]:
    return (
        source.mode.value,
        source.transaction_id,
        source.actor,
        source.process,
        words.moment(source.since),
    )
