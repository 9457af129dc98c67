"""A lake that was moved, opened for that alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from lakeward.lake import opening
from lakeward.maintain.rebuild import is_published_below
from lakeward.maintain.relocate import Relocated
from lakeward.maintain.relocate import relocate as relocate_context

__all__ = ["is_published_below", "relocate"]


def relocate(
    target: str | Path = "./lake",
    *,
    warehouse: str | Path | None = None,
    storage_options: Mapping[str, str] | None = None,
    dry_run: bool = False,
) -> Relocated:
    """Make a lake whose files were moved or copied whole at its new place.

    Move or copy the files yourself first. Then this looks whether they are there, rewrites what
    names them in full (Iceberg metadata with all snapshots, Delta logs of clones and branches, rows
    of the log), and lets the store record the new place. When it is cut off, run it again.

    A copy becomes a lake of its own: the original and its files stay as they are.

    Args:
        target: The lake, where its store is now.
        warehouse: Where the tables' files are now; the target's directory if they were there
            before, or else the place that the store records.
        storage_options: As `lakeward.open` takes them.
        dry_run: Look and count, and change nothing.

    Raises:
        WrongWarehouse: The warehouse belongs to another lake.
        FileMissing: Files of the newest versions are not there. Nothing was changed.
        Locked: A transaction is open.
        UnsupportedFeature: Something in the lake cannot be moved. Nothing was changed.
    """
    context = opening.unchecked(target, warehouse, storage_options)
    try:
        return relocate_context(context, dry_run=dry_run)
    finally:
        context.database.close()
