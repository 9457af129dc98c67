"""Changes of rows applied to rows, as multisets: what every consumer of changes does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

import lakeward as lw
from lakeward.read.changes import CHANGE_COLUMNS

Rows = Counter[tuple[Any, ...]]
_SIGNS = {"insert": 1, "update_postimage": 1, "delete": -1, "update_preimage": -1}


def bag(rows: Iterable[Mapping[str, Any]], names: list[str]) -> Rows:
    """Rows as a multiset, in the order of some columns."""
    return Counter(tuple(_hashable(row.get(n)) for n in names) for row in rows)


def applied(before: Rows, changes: pa.Table) -> Rows:
    """The rows after some changes; a deleted row must be there when its version is reached."""
    names = [n for n in changes.column_names if n not in CHANGE_COLUMNS]
    after = Counter(before)
    version = None
    for row in changes.to_pylist():
        if row["_commit_version"] != version:
            _check(after, version)
            assert version is None or row["_commit_version"] > version
            version = row["_commit_version"]
        after[tuple(_hashable(row[n]) for n in names)] += _SIGNS[row["_change_type"]]
    _check(after, version)
    return +after


def rows_in(table: lw.Table, version: int, shown: int) -> Rows:
    """The rows of a version in the columns of another, which are the same by their ids."""
    snapshot, wanted = table.at(version=version), table.at(version=shown).schema
    names = {f.id: f.name for f in snapshot.schema}
    found = [
        {f.name: row[names[f.id]] for f in wanted if f.id in names}
        for row in snapshot.to_arrow().to_pylist()
    ]
    return bag(found, wanted.names)


def _check(rows: Rows, version: int | None) -> None:
    gone = [row for row, count in rows.items() if count < 0]
    assert not gone, f"version {version} deletes rows that are not there: {gone[:3]}"


def _hashable(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple((k, _hashable(v)) for k, v in value.items())
    return tuple(map(_hashable, value)) if isinstance(value, list) else value
