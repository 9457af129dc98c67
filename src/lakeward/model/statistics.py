"""The statistics of a table's version and of its columns, and their sum over files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from lakeward.model.file import DataFile
from lakeward.model.schema import Schema
from lakeward.model.transform import python_value
from lakeward.model.types import Field
from lakeward.model.values import from_json, sort_key, to_json


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """Statistics of a column's values.

    Attributes:
        nulls: How many values are null; None if a file has no count.
        minimum: A lower bound of the values; None if it is not known, or all are null.
        maximum: An upper bound.
        exact: Whether both bounds are values of the column, according to the files' statistics.
        distinct: The estimated number of different values; None unless requested.
        distinct_low: The number is not lower with a probability of 97.5%.
        distinct_high: The number is not higher with a probability of 97.5%.
    """

    nulls: int | None
    minimum: Any
    maximum: Any
    exact: bool
    distinct: int | None = None
    distinct_low: int | None = None
    distinct_high: int | None = None


@dataclass(frozen=True, slots=True)
class TableStatistics:
    """The size of a version, and the statistics of its columns.

    Attributes:
        table: The table's name.
        version: The version.
        rows: Rows without those that deletion vectors delete; None if an adopted log has no count.
        files: Number of data files.
        bytes: Total size of the data files.
        columns: Statistics of the columns, by name.
    """

    table: str
    version: int
    rows: int | None
    files: int
    bytes: int
    columns: Mapping[str, ColumnStatistics]


@dataclass(frozen=True, slots=True)
class Growth:
    """The size of a table after a commit.

    Attributes:
        version: The version.
        timestamp: When the version was committed.
        operation: The operation of the commit.
        rows: Rows after the commit, including those that deletion vectors delete.
        files: Files after the commit.
        bytes: Bytes after the commit.
    """

    version: int
    timestamp: datetime
    operation: str
    rows: int
    files: int
    bytes: int


class Sums:
    """Combines the statistics of files. What is unknown of one file is unknown of all."""

    def __init__(self, schema: Schema, before: Mapping[str, Any] | None = None) -> None:
        self._fields = tuple(schema.fields)
        body: Any = before or {"rows": 0, "files": 0, "bytes": 0, "columns": {}}
        self.rows: int | None = body["rows"]
        self.files: int = body["files"]
        self.bytes: int = body["bytes"]
        self._columns: dict[int, dict[str, Any]] = {
            int(key): {**one, "min": from_json(one["min"]), "max": from_json(one["max"])}
            for key, one in body["columns"].items()
        }

    def add(self, files: Iterable[DataFile]) -> None:
        """Add the statistics of files."""
        for file in files:
            first = self.files == 0
            self.files += 1
            self.bytes += file.size
            live = file.live_rows
            self.rows = None if self.rows is None or live is None else self.rows + live
            for field in self._fields:
                self._add(field, file, first=first)

    def _add(self, field: Field, file: DataFile, *, first: bool) -> None:
        new = _of_file(field, file)
        if field.id not in self._columns:
            # Files before this one do not know the column.
            self._columns[field.id] = new if first else {**_UNKNOWN}
            return
        own = self._columns[field.id]
        nulls = (own["nulls"], new["nulls"])
        own["nulls"] = None if None in nulls else sum(nulls)
        own["known"] = own["known"] and new["known"]
        own["exact"] = own["exact"] and new["exact"]
        ordered = partial(sort_key, field.type)
        for key, choose in (("min", min), ("max", max)):
            both = [v for v in (own[key], new[key]) if v is not None]
            own[key] = choose(both, key=ordered) if both else None

    def body(self) -> dict[str, Any]:
        """Return the sums as JSON values, from which `before` continues."""
        columns = {
            str(key): {**one, "min": to_json(one["min"]), "max": to_json(one["max"])}
            for key, one in self._columns.items()
        }
        return {"rows": self.rows, "files": self.files, "bytes": self.bytes, "columns": columns}

    def columns(self) -> dict[str, ColumnStatistics]:
        """Return the statistics of each column, by its name."""
        return {field.name: self._column(field) for field in self._fields}

    def _column(self, field: Field) -> ColumnStatistics:
        if self.files == 0:
            return ColumnStatistics(0, None, None, exact=True)
        own = self._columns.get(field.id, _UNKNOWN)
        low, high = (own[key] if own["known"] else None for key in ("min", "max"))
        return ColumnStatistics(
            own["nulls"],
            python_value(field.type, low),
            python_value(field.type, high),
            exact=bool(own["exact"] and own["known"]),
        )


_UNKNOWN: Mapping[str, Any] = {
    "nulls": None,
    "min": None,
    "max": None,
    "known": False,
    "exact": False,
}


def _of_file(field: Field, file: DataFile) -> dict[str, Any]:
    whole = file.deletion_vector is None
    if field.id in file.partition:
        value = file.partition[field.id]
        nulls = (file.rows if value is None else 0) if whole else None
        return {"nulls": nulls, "min": value, "max": value, "known": True, "exact": whole}
    if file.stats is None:
        return {**_UNKNOWN}
    low, high = file.stats.minimum.get(field.id), file.stats.maximum.get(field.id)
    nulls = file.stats.nulls.get(field.id)
    empty = nulls is not None and nulls == file.rows
    known = empty or (low is not None and high is not None)
    exact = whole and file.stats.tight and known
    return {
        "nulls": nulls if whole else None,
        "min": low,
        "max": high,
        "known": known,
        "exact": exact,
    }
