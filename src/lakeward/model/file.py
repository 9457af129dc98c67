"""Data files and what is known of their contents."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from lakeward.model.values import Value

LINE_SEPARATOR: Final = "\x1f"
"""Between the values of a file told in a line. Only the path, which is first, can have it."""


class Lines(NamedTuple):
    """Files told in a line each.

    Attributes:
        text: The lines. A path may have a line's end in it, and no other value can.
        files: How many they tell of.
    """

    text: str
    files: int


LIVE: Final = 2**63 - 1
"""The removed-version of a file that nobody has removed: later than every version."""
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
        """Plain JSON values, keyed by field id as text."""
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
        """The statistics that `to_json` spelled."""
        return cls(
            {int(k): v for k, v in source["min"].items()},
            {int(k): v for k, v in source["max"].items()},
            {int(k): v for k, v in source["nulls"].items()},
            tight=not source.get("loose", False),
        )


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of rows.

    Attributes:
        path: Below the table's location with `/` between parts, or absolute for a file outside it.
        size: In bytes.
        rows: Rows in the file, deleted ones too; None where an adopted log does not say.
        modified_ms: When it was written.
        partition: Neutral values by field id.
        stats: Bounds, where known.
        deletion_vector: The format's descriptor of rows deleted in place.
        extra: What the format keeps beside a file and the lake passes on unread.
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
        """Rows without those that are deleted in place; None where the log does not say."""
        if self.deletion_vector is None or self.rows is None:
            return self.rows
        gone = self.deletion_vector.get("cardinality")
        return None if gone is None else self.rows - int(gone)

    @property
    def logged_rows(self) -> int:
        """`live_rows` as far as the log knows: all rows where it does not count the deleted."""
        live = self.live_rows
        return (self.rows or 0) if live is None else live


@dataclass(frozen=True, slots=True)
class LoggedFile:
    """A file as the log holds it: `added` and `ordinal` are its key within the table."""

    file: DataFile
    added: int
    ordinal: int
    removed: int = LIVE

    @property
    def path(self) -> str:
        """Where the file is, below the table's location."""
        return self.file.path

    @property
    def size(self) -> int:
        """In bytes."""
        return self.file.size

    @property
    def rows(self) -> int | None:
        """Rows in the file, where known."""
        return self.file.rows

    @property
    def partition(self) -> Mapping[int, Value]:
        """Partition values by field id."""
        return self.file.partition


def is_full(path: str) -> bool:
    """Whether a path names a place by itself, and is not one below a root."""
    return path.startswith("/") or _SCHEME.match(path) is not None
