"""The named steps of a commit, reported as they are reached, so that crash tests can kill there.

Tests and tracing set an observer; without one `reach` costs almost nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

STEPS: Final = (
    "transaction.opened",
    "stage.file-created",
    "stage.file-written",
    "stage.done",
    "validate.done",
    "ratify.locked",
    "ratify.checked",
    "iceberg.prepared",
    "iceberg.swapped",
    "ratify.inserted",
    "ratify.committed",
    "publish.started",
    "publish.written",
    "publish.linked",
    "publish.done",
    "publish.hinted",
    "checkpoint.written",
    "checkpoint.done",
    "commit.acknowledged",
)

BRANCH_STEPS: Final = ("branch.opened", "branch.worked", "branch.netted")
"""Steps of transactions that other engines work in, which come before those of the commit."""

ROW_STEPS: Final = ("rows.found", "rows.rewritten", "rows.written", "rows.marked", "rows.told")
"""Steps of changes of rows, between the files that these write: all rows found, a file written
again, new rows written, files marked, change files written."""

TAG_STEPS: Final = ("tag.prepared", "tag.inserted", "tag.committed", "publish.hinted")
"""Steps of making a tag: documents with refs written, rows inserted, committed, hints written."""

MOVE_STEPS: Final = ("move.read", "move.written", "move.staged")
"""Steps of a compaction before those of its commit: files found, a part written, all written."""

MIGRATE_STEPS: Final = ("migrate.created", "migrate.taken")
"""Steps of a migration, beside those of its commits: table created, a batch of files taken in."""

BIND_STEPS: Final = ("bind.marked",)
"""Steps of binding a store and a warehouse, when a lake is made: its marker is written."""

RELOCATE_STEPS: Final = (
    "relocate.checked",
    "relocate.written",
    "relocate.logs",
    "relocate.changed",
    "bind.marked",
    "relocate.committed",
    "relocate.hinted",
)
"""Steps of relocating a lake: files found, metadata written, Delta logs rewritten, rows changed,
marker written, committed, hints renewed."""

VACUUM_STEPS: Final = ("vacuum.planned", "vacuum.retired", "vacuum.deleted")
"""Steps of a vacuum: a table is planned, versions that lose files are retired, some files are
deleted."""
POLICY_STEPS: Final = ("policy.locked", "policy.inserted", "policy.committed")
"""Steps of setting a policy: heads locked, rows inserted, committed."""

_observer: Callable[[str], None] | None = None


def reach(step: str) -> None:
    """Announce that a step has been reached."""
    if _observer is not None:
        _observer(step)


def observe(observer: Callable[[str], None] | None) -> None:
    """Call `observer` with the name of every step from now on; `None` ends it."""
    global _observer
    _observer = observer
