"""Adapts a lake to a new place, after its files were moved or copied there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from lakeward.lake import opening
from lakeward.maintain.rebuild import is_published_below
from lakeward.maintain.relocate import Relocated
from lakeward.maintain.relocate import relocate as relocate_context
from lakeward.model.progress import Progress, reported

__all__ = ["is_published_below", "relocate"]


def relocate(
    target: str | Path = "./lake",
    *,
    warehouse: str | Path | None = None,
    storage_options: Mapping[str, str] | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Relocated:
    """Adapt a lake to the new place of its files, after all of them were moved or copied.

    Move or copy the files yourself first. Then this function checks that they exist, rewrites
    everything that contains full paths (Iceberg metadata with all snapshots, Delta logs of clones
    and branches, rows of the log), and records the new place in the store. If it is interrupted,
    run it again.

    A copy becomes an independent lake: the original and its files are not changed.

    Args:
        target: The lake at the present place of its store.
        warehouse: The new place of the tables' files; by default the target's directory if they
            were in the lake's directory before, otherwise the place that the store records.
        storage_options: As `lakeward.open` takes them.
        dry_run: Check and count only; change nothing.
        progress: Called with the number of files checked, and of all files.

    Raises:
        WrongWarehouse: The warehouse belongs to another lake.
        FileMissing: Files of the newest versions are not there. Nothing was changed.
        Locked: A transaction is open.
        UnsupportedFeature: Something in the lake cannot be moved. Nothing was changed.
    """
    context = opening.unchecked(target, warehouse, storage_options)
    try:
        with reported(progress):
            return relocate_context(context, dry_run=dry_run)
    finally:
        context.database.close()
