"""Finds a lake near a directory that has none, so that the error can suggest it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Final

from lakeward.errors import LakeNotFound

STORE_FILE: Final = "lakeward.db"
_LOOKED_AT: Final = 1000
"""The maximal number of entries of a directory that are examined."""


def lake_not_found(directory: Path) -> LakeNotFound:
    """Return the error for a directory without a lake; it suggests the nearest lake."""
    near = nearest_lake(directory)
    meant = "" if near is None else f"Did you mean {near}? "
    hint = f"{meant}To make a lake here, run `lakeward init`, or lw.open(...) with create=True."
    return LakeNotFound(
        f"There is no lake at {directory}.",
        hint=hint,
        directory=str(directory),
        nearest=None if near is None else str(near),
    )


def nearest_lake(directory: Path) -> Path | None:
    """Return the nearest lake, or None.

    That is a lake in a parent directory, the only lake inside the directory, or a lake beside it
    with a similar name.
    """
    for parent in directory.parents:
        if _is_lake(parent):
            return parent
    inside = list(_lakes_in(directory))
    if len(inside) == 1:
        return inside[0]
    beside = {lake.name: lake for lake in _lakes_in(directory.parent)}
    alike = get_close_matches(directory.name, beside, n=1)
    if alike:
        return beside[alike[0]]
    return next(iter(beside.values())) if len(beside) == 1 else None


def _lakes_in(directory: Path) -> Iterator[Path]:
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in islice(entries, _LOOKED_AT):
            if _is_lake(Path(entry.path)):
                yield Path(entry.path)


def _is_lake(directory: Path) -> bool:
    try:
        return (directory / STORE_FILE).is_file()
    except OSError:
        return False
