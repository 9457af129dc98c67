"""Which files may hold the first rows of an order, by the values that the log has of them.

A file's rows lie between two places of the order. Files whose first place is behind the places of
enough other rows need not be read. Places are coarse: equal places do not mean equal values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from lakeward.model.file import LoggedFile
from lakeward.model.types import Decimal, Field, Primitive
from lakeward.model.values import Value, order_key

Place: TypeAlias = tuple[int, int]
"""A place in an order: before, among or behind the ordinary values, and there the order key."""
_FIRST: Final[Place] = (-1, 0)
_LAST: Final[Place] = (1, 0)
_FLOATS: Final = (Primitive("float"), Primitive("double"))
_KEYED: Final = frozenset({"boolean", "int8", "int16", "int32", "int64", "float", "double"}) | {
    *("string", "date", "timestamp", "timestamp_ntz")
}
"""Types whose order keys have the order of the values, and so decimals; those of others may not."""


@dataclass(frozen=True, slots=True)
class SortKey:
    """A column of an order; ties are left to the next one.

    Attributes:
        field: The column, which is not nested.
        descending: Whether large values come first.
        nulls_first: Whether nulls come before all else; None if only an engine knows.
        nan_first: Whether NaN comes before the numbers.
    """

    field: Field
    descending: bool = False
    nulls_first: bool | None = None
    nan_first: bool = False

    @property
    def has_places(self) -> bool:
        """Whether values have different places, so that files can be left out."""
        kind = self.field.type
        return isinstance(kind, Decimal) or (isinstance(kind, Primitive) and kind.name in _KEYED)

    def place(self, value: Value) -> Place:
        """Return the place of a neutral value."""
        if value is None:
            return _FIRST if self.nulls_first else _LAST
        if isinstance(value, float) and math.isnan(value):
            return _FIRST if self.nan_first else _LAST
        if not self.has_places:
            return 0, 0
        key = order_key(self.field.type, value)
        return 0, -key if self.descending else key


class Reach(NamedTuple):
    """Where the rows of a file lie in an order."""

    near: Place  # no row is before it
    far: Place | None  # none of `rows` is behind it; None if that is not known
    rows: int  # this many rows, at least, are not behind `far`


def reach(file: LoggedFile, key: SortKey) -> Reach:
    """Return where the rows of a file lie in the order of a column."""
    live, field_id = file.file.live_rows or 0, key.field.id
    if not key.has_places:
        return Reach(_FIRST, None, 0)
    if field_id in file.partition:
        return _of_one(file.partition[field_id], key, live)
    stats = file.file.stats
    if stats is None:
        return Reach(_FIRST, None, 0)
    nulls = stats.nulls.get(field_id)
    if nulls is not None and nulls == file.rows:
        return _of_one(None, key, live)
    ends = stats.minimum.get(field_id), stats.maximum.get(field_id)
    first, last = reversed(ends) if key.descending else ends
    near = _FIRST if first is None else key.place(first)
    if nulls != 0 and key.nulls_first is not False:
        near = _FIRST
    # Not of floats: a NaN, which may be behind all numbers, can be missing in their bounds.
    far = None if last is None or key.field.type in _FLOATS else key.place(last)
    if key.nulls_first or nulls == 0:
        return Reach(near, far, live)
    return Reach(near, far, 0 if nulls is None else max(live - nulls, 0))


def _of_one(value: Value, key: SortKey, rows: int) -> Reach:
    """Return the reach of a file that has only one value."""
    if value is None and key.nulls_first is None:
        return Reach(_FIRST, None, 0)
    place = key.place(value)
    return Reach(place, place, rows)


def among_first(files: Sequence[LoggedFile], key: SortKey, limit: int) -> list[LoggedFile]:
    """Return the files that may have one of the first rows; all if the log does not tell."""
    reaches = [reach(f, key) for f in files]
    rows = 0
    for far, count in sorted((r.far, r.rows) for r in reaches if r.far is not None and r.rows):
        rows += count
        if rows >= limit:
            return [f for f, r in zip(files, reaches, strict=True) if r.near <= far]
    return list(files)
