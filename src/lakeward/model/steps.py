"""The named steps of a commit, so that crash tests can kill a process at each of them.

The code calls `reach` at each step. Tests and tracing set an observer; without an observer, `reach`
costs almost nothing.
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

IDENTITY_STEPS: Final = ("stage.numbered",)
"""Steps of a commit to a table with identity columns: values reserved, not yet in a file."""

BRANCH_STEPS: Final = ("branch.opened", "branch.worked", "branch.netted")
"""Steps of transactions in which other engines write, before those of the commit."""

ROW_STEPS: Final = ("rows.found", "rows.rewritten", "rows.written", "rows.marked", "rows.told")
"""Steps of changes of rows: all rows found, a file rewritten, new rows written, deletion vectors
written, change files written."""

QUARANTINE_STEPS: Final = ("quarantine.put-back", "quarantine.moved")
"""Steps of a commit that quarantines rows: updated rows restored, files with bad rows rewritten
without them."""

TAG_STEPS: Final = ("tag.prepared", "tag.inserted", "tag.committed", "publish.hinted")
"""Steps of making a tag: documents with refs written, rows inserted, committed, hints written."""

MOVE_STEPS: Final = ("move.read", "move.written", "move.staged")
"""Steps of a compaction before those of its commit: files found, a part written, all written."""

MIGRATE_STEPS: Final = ("migrate.created", "migrate.taken")
"""Steps of a migration, besides those of its commits: table created, a batch of files added."""

BIND_STEPS: Final = ("bind.marked",)
"""Steps of binding a store and a warehouse, when a lake is created: its marker written."""

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

VACUUM_STEPS: Final = (
    "vacuum.planned",
    "vacuum.retired",
    "vacuum.announced",
    "vacuum.deleted",
)
"""Steps of a vacuum: a table planned, versions that lose files retired, files that no version
refers to announced, some files deleted."""

POLICY_STEPS: Final = ("policy.locked", "policy.inserted", "policy.committed")
"""Steps of setting a policy: heads locked, rows inserted, committed."""

RENAME_STEPS: Final = ("rename.entered", "rename.recorded", "rename.committed")
"""Steps of renaming a table: the name changed, the commit recorded, both committed."""

_observer: Callable[[str], None] | None = None


def reach(step: str) -> None:
    """Report to the observer, if there is one, that a step has been reached."""
    if _observer is not None:
        _observer(step)


def observe(observer: Callable[[str], None] | None) -> None:
    """Call `observer` with the name of every step from now on; None removes the observer."""
    global _observer
    _observer = observer
