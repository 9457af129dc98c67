"""A table to be examined: where it is, and which rows it has by the account of who wrote it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

import lakeward as lw
from tests.foreign.language import Row
from tests.foreign.values import NESTED, exactly, from_arrow


@dataclass(slots=True)
class Subject:
    """A table with its rows.

    Attributes:
        name: What is special about it.
        format: `delta` or `iceberg`.
        location: As `lake.adopt` takes it.
        columns: Kinds by name.
        rows: Which it has.
        writable: The lake's own engine may delete from it.
        appends: It may at least append to it.
        reader: Reads the lake's version of it as others do; delta-rs or pyiceberg unless given.
        options: For `lake.adopt`.
    """

    name: str
    format: str
    location: str
    columns: dict[str, str]
    rows: list[Row]
    writable: bool = True
    appends: bool = False
    reader: Callable[[lw.Table], pa.Table] | None = None
    options: dict[str, Any] = field(default_factory=dict)


def same_rows(found: pa.Table, expected: Sequence[Row], columns: Sequence[str], what: str) -> None:
    """Assert that a reader gave exactly these rows, in whatever order."""
    given = from_arrow(found.select(list(columns)))
    a = sorted(_form(r, columns) for r in given)
    b = sorted(_form(r, columns) for r in expected)
    if a == b:
        return
    more = [r for r in a if r not in b]
    less = [r for r in b if r not in a]
    told = f"{what}\n  too many or other: {more[:5]}\n  missing: {less[:5]}"
    raise AssertionError(told)


def flat(columns: dict[str, str]) -> list[str]:
    """Columns that are not nested."""
    return [name for name, kind in columns.items() if kind not in NESTED]


def _form(row: Row, columns: Sequence[str]) -> tuple[Any, ...]:
    return tuple(exactly(row[c]) for c in columns)
