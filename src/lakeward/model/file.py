"""Data files with their statistics."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from lakeward.model.values import Value

LINE_SEPARATOR: Final = "\x1f"
"""Separates the values of a file's line; only the path, the first value, can contain it."""


class Lines(NamedTuple):
    """The text lines of some files, and how many files; only a path can contain a line break."""

    text: str
    files: int


LIVE: Final = 2**63 - 1
"""The removed version of a live file: later than every version."""
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


@dataclass(frozen=True, slots=True)
class FileStats:
    """Bounds and null counts by field id; bounds are outer bounds, so pruning by them is safe.

    A field without a minimum has no known lower bound, and one without a maximum no known upper
    one, unless all its values are null. NaN is above every number, so a float field with a maximum
    has no NaN.
    """

    minimum: Mapping[int, Value] = field(default_factory=dict)
    maximum: Mapping[int, Value] = field(default_factory=dict)
    nulls: Mapping[int, int] = field(default_factory=dict)
    tight: bool = True

    def to_json(self) -> dict[str, Any]:
        """Return the statistics as JSON values, by field id."""
        out: dict[str, Any] = {
            "min": {str(k): v for k, v in self.minimum.items()},
            "max": {str(k): v for k, v in self.maximum.items()},
            "nulls": {str(k): v for k, v in self.nulls.items()},
        }
        if not self.tight:
            out["loose"] = True
        return out

    @classmethod
    def from_json(cls, source: dict[str, Any]) -> FileStats:
        """Return the statistics for the values of `to_json`."""
        return cls(
            {int(k): v for k, v in source["min"].items()},
            {int(k): v for k, v in source["max"].items()},
            {int(k): v for k, v in source["nulls"].items()},
            tight=not source.get("loose", False),
        )


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of rows.

    The path is below the table's location, or absolute. `rows` counts deleted rows, too, and is
    None if an adopted log has no count. Partition values are neutral, by field id. The deletion
    vector and `extra` are specific to the format, and stored unchanged.
    """

    path: str
    size: int
    rows: int | None
    modified_ms: int
    partition: Mapping[int, Value] = field(default_factory=dict)
    stats: FileStats | None = None
    deletion_vector: Mapping[str, Any] | None = None
    extra: Mapping[str, Any] | None = None

    @property
    def live_rows(self) -> int | None:
        """Rows without those of the deletion vector; None if the log has no count."""
        deleted = deleted_rows(self.deletion_vector)
        return None if deleted is None or self.rows is None else self.rows - deleted

    @property
    def logged_rows(self) -> int:
        """The number of live rows if known, otherwise of all rows; 0 if neither is known."""
        live = self.rows if self.deletion_vector is None else self.live_rows
        return (self.rows or 0) if live is None else live


@dataclass(frozen=True, slots=True)
class LoggedFile:
    """A file in the log: `added` and `ordinal` are its key within the table."""

    file: DataFile
    added: int
    ordinal: int
    removed: int = LIVE

    @property
    def path(self) -> str:
        """The path below the table's location."""
        return self.file.path

    @property
    def size(self) -> int:
        """The size in bytes."""
        return self.file.size

    @property
    def rows(self) -> int | None:
        """The number of rows in the file, deleted ones included; None if unknown."""
        return self.file.rows

    @property
    def partition(self) -> Mapping[int, Value]:
        """Partition values by field id."""
        return self.file.partition


def deleted_rows(vector: Mapping[str, Any] | None) -> int | None:
    """Return the number of rows that a deletion vector deletes; None if it has no count."""
    found = 0 if vector is None else vector.get("cardinality")
    return None if found is None else int(found)


def is_full(path: str) -> bool:
    """Whether a path is absolute or a URI, and not relative to a root."""
    return path.startswith("/") or _SCHEME.match(path) is not None
