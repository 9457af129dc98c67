"""Partition values that are derived from a column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lakeward.model.transform import Rules, Transform


@dataclass(frozen=True, slots=True)
class Derived:
    """How partition values under one id are computed from a column.

    A positive id is a generated column of the schema. A negative id is a hidden partition value:
    the negated id of an Iceberg partition field.
    """

    source: int
    """The id of the column from which the values are computed."""
    transform: Transform
    name: str
    """The name of the values, in directories and in the format's metadata."""
    indexed: bool = False
    """Whether every file has a row in the statistics index for the value; only if hidden."""
    utc: bool = True
    """Whether all values were computed in UTC; other engines may have used another time zone."""

    def to_json(self) -> dict[str, Any]:
        """Return the record as JSON values, without defaults."""
        out: dict[str, Any] = {
            "source": self.source,
            "transform": str(self.transform),
            "name": self.name,
        }
        if self.indexed:
            out["indexed"] = True
        if not self.utc:
            out["utc"] = False
        return out

    @classmethod
    def from_json(cls, own_id: int, source: dict[str, Any]) -> Derived:
        """Return the record for the values of `to_json`."""
        rules = Rules.ICEBERG if own_id < 0 else Rules.SPARK
        return cls(
            source=source["source"],
            transform=Transform.parse(source["transform"], rules),
            name=source["name"],
            indexed=source.get("indexed", False),
            utc=source.get("utc", True),
        )
