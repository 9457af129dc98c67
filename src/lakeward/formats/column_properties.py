"""Properties that name columns; they follow when a column is renamed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import orjson

from lakeward.errors import InvalidInput
from lakeward.formats.properties import (
    BLOOM,
    ICEBERG_BLOOM,
    OUR_STATS_COLUMNS,
    STATS_COLUMNS,
    ZORDER,
)
from lakeward.model.definition import Definition
from lakeward.model.evolution.alterations import RenameColumn
from lakeward.model.evolution.paths import find, quoted, split_path
from lakeward.model.schema import Schema

BEFORE_A_COLUMN: Final = (
    ICEBERG_BLOOM,
    "write.metadata.metrics.column.",
    "write.parquet.bloom-filter-fpp.column.",
    "write.parquet.bloom-filter-ndv.column.",
    "write.parquet.dict-encoding-enabled.column.",
    "write.parquet.stats-enabled.column.",
)
"""Prefixes of Iceberg's properties that end with the path of a column."""


def with_renamed(before: Definition, after: Definition, change: RenameColumn) -> Definition:
    """Return a definition whose properties have the new name of a renamed column.

    Args:
        before: The definition before the rename.
        after: The definition with the new name of the column.
        change: The rename.
    """
    place = find(before.schema, change.path)
    old = [field.name for field in (*place.parents, place.field)]

    def named(entry: str, write: Callable[[str], str] = str) -> str:
        names = _renamed(entry, old, change.name, before.schema)
        if names is None:
            return entry
        return write(names[0]) if len(names) == 1 else ".".join(map(quoted, names))

    properties = {}
    for key, text in after.properties.items():
        prefix = next((p for p in BEFORE_A_COLUMN if key.startswith(p)), None)
        if prefix is not None:
            properties[prefix + named(key.removeprefix(prefix))] = text
        elif key in (BLOOM, ZORDER):
            properties[key] = _listed(text, named)
        elif key == STATS_COLUMNS:
            # Delta has paths here, in which a name with a dot is in backticks.
            properties[key] = _listed(text, lambda entry: named(entry, quoted))
        elif key == OUR_STATS_COLUMNS:
            properties[key] = orjson.dumps(list(map(named, orjson.loads(text)))).decode()
        else:
            properties[key] = text
    return after if properties == after.properties else replace(after, properties=properties)


def _listed(text: str, named: Callable[[str], str]) -> str:
    """Return a list of columns, separated by commas, with the new name; others stay as written."""
    entries = text.split(",")
    for place, entry in enumerate(entries):
        old = entry.strip()
        if old and (new := named(old)) != old:
            entries[place] = entry.replace(old, new)
    return ",".join(entries)


def _renamed(entry: str, old: Sequence[str], new: str, schema: Schema) -> list[str] | None:
    """Return the names of a path after one of them changed; None if the path has not that name."""
    try:
        names = split_path(entry, schema)
    except InvalidInput:
        return None
    if names[: len(old)] != old:
        return None
    return [*names[: len(old) - 1], new, *names[len(old) :]]
