"""Partition values that are derived from a column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lakeward.model.transform import Rules, Transform


@dataclass(frozen=True, slots=True)
class Derived:
    """How the values under one id follow from a column.

    The id, which a definition keeps beside it, tells the two kinds apart. A positive one is a
    column of the schema, as Delta has it, whose values anybody can read. A negative one is hidden:
    no column, the negated id of an Iceberg partition field.

    Attributes:
        source: The id of the column.
        transform: From its values to these.
        name: What the values are called, in directories and in the format's own metadata.
        indexed: Whether every file of the table has a row for the id in the statistics index; for
            hidden values alone, as columns say it of themselves.
        utc: Whether all values were surely found in UTC. Where others wrote, they may have looked
            at the moments in any zone.
    """

    source: int
    transform: Transform
    name: str
    indexed: bool = False
    utc: bool = True

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; what is usual is left out."""
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
        """What `to_json` spelled of the values under an id."""
        rules = Rules.ICEBERG if own_id < 0 else Rules.SPARK
        return cls(
            source=source["source"],
            transform=Transform.parse(source["transform"], rules),
            name=source["name"],
            indexed=source.get("indexed", False),
            utc=source.get("utc", True),
        )
