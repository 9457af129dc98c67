"""Changes of rows applied to rows, as multisets: what every consumer of changes does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

import lakeward as lw
from lakeward.model.types import Field, Struct
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
    found = [_as_shown(row, snapshot.schema, wanted) for row in snapshot.to_arrow().to_pylist()]
    return bag(found, wanted.names)


def _as_shown(row: Mapping[str, Any], had: Iterable[Field], wanted: Iterable[Field]) -> Any:
    """A row, or a struct in it, with other fields; those that it has not are null."""
    fields = {f.id: f for f in had}
    out = {}
    for field in wanted:
        old = fields.get(field.id)
        value = row[old.name] if old is not None else None
        if old is not None and value is not None and isinstance(field.type, Struct):
            assert isinstance(old.type, Struct)
            value = _as_shown(value, old.type.fields, field.type.fields)
        out[field.name] = value
    return out


def _check(rows: Rows, version: int | None) -> None:
    gone = [row for row, count in rows.items() if count < 0]
    assert not gone, f"version {version} deletes rows that are not there: {gone[:3]}"


def _hashable(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple((k, _hashable(v)) for k, v in value.items())
    return tuple(map(_hashable, value)) if isinstance(value, list) else value
