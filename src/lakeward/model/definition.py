"""What a table is, apart from its rows: schema, partitioning, properties, constraints, protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakeward.model.schema import Schema


@dataclass(frozen=True)
class Definition:
    """One version range of a table's definition.

    Attributes:
        schema: The columns.
        partition_by: Field ids of the partition columns, in order.
        properties: What users set.
        constraints: Check expressions by name.
        protocol: What the format demands of readers and writers, in its own spelling.
        created_ms: When the table was made.
        comment: For people.
    """

    schema: Schema
    partition_by: tuple[int, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    constraints: Mapping[str, str] = field(default_factory=dict)
    protocol: Mapping[str, Any] = field(default_factory=dict)
    created_ms: int | None = None
    comment: str | None = None

    @property
    def partition_names(self) -> list[str]:
        """Names of the partition columns, in order."""
        return [self.schema.by_id[i].name for i in self.partition_by]

    def to_json(self) -> dict[str, Any]:
        """The definition as plain JSON values."""
        return {
            "schema": self.schema.to_json(),
            "partition_by": list(self.partition_by),
            "properties": dict(self.properties),
            "constraints": dict(self.constraints),
            "protocol": dict(self.protocol),
            "created_ms": self.created_ms,
            "comment": self.comment,
        }

    @classmethod
    def from_json(cls, source: dict[str, Any]) -> Definition:
        """The definition that `to_json` spelled."""
        return cls(
            schema=Schema.from_json(source["schema"]),
            partition_by=tuple(source["partition_by"]),
            properties=source["properties"],
            constraints=source["constraints"],
            protocol=source["protocol"],
            created_ms=source["created_ms"],
            comment=source["comment"],
        )
