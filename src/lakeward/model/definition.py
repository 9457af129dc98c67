"""A table's definition: schema, partitioning, properties, constraints and protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from lakeward.model.derived import Derived
from lakeward.model.identity import Identity
from lakeward.model.policy.rules import Rule
from lakeward.model.schema import Schema
from lakeward.model.types import Field

T = TypeVar("T")


@dataclass(frozen=True)
class Definition:
    """The definition of a table in a range of versions.

    Attributes:
        schema: The columns.
        partition_by: Ids of the partition values, in order: of columns, or of `derived`.
        properties: The table properties that users set.
        constraints: Check expressions by name.
        protocol: What the format demands of readers and writers, by the format's own names.
        created_ms: When the table was created.
        comment: A description for users.
        derived: By id, values computed from one column: generated columns (positive ids) and hidden
            partition values (negative ids, no columns).
        whole_files: Whether data files also contain the partition columns.
        computed: By column id, the expressions of generated columns that are not in `derived`.
        identity: By column id, the start and step of identity columns.
        rules: The policies of patterns that matched the table when it was loaded. They are not part
            of the recorded definition.
    """

    schema: Schema
    partition_by: tuple[int, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    constraints: Mapping[str, str] = field(default_factory=dict)
    protocol: Mapping[str, Any] = field(default_factory=dict)
    created_ms: int | None = None
    comment: str | None = None
    derived: Mapping[int, Derived] = field(default_factory=dict)
    whole_files: bool = False
    computed: Mapping[int, str] = field(default_factory=dict)
    identity: Mapping[int, Identity] = field(default_factory=dict)
    rules: tuple[Rule, ...] = field(default=(), compare=False, repr=False)
    _known: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def partition_names(self) -> list[str]:
        """Names of the partition values, in order."""
        return [f.name for f in self.partition_fields]

    @property
    def partitioning(self) -> list[str]:
        """The partitioning as users write it, in order: `day(ts)`, `region`."""
        return [self.term(i) for i in self.partition_by]

    @cached_property
    def partition_columns(self) -> frozenset[int]:
        """The ids of columns of which each partition, and so each file, has one value."""
        hidden = (self.derived[i] for i in self.partition_by if i < 0)
        same = (d.source for d in hidden if d.transform.name == "identity")
        return frozenset(i for i in self.partition_by if i > 0) | frozenset(same)

    @cached_property
    def partition_fields(self) -> tuple[Field, ...]:
        """The fields of the partition values, in order."""
        return tuple(self.field(i) for i in self.partition_by)

    @cached_property
    def indexed(self) -> tuple[Field, ...]:
        """The fields in the statistics index: columns, and hidden partition values."""
        hidden = (self.field(i) for i in self.derived if i < 0)
        return (*self.schema.indexed, *(f for f in hidden if f.indexed))

    def field(self, own_id: int) -> Field:
        """Return the column of an id, or a new field for a hidden partition value."""
        if own_id > 0:
            return self.schema.by_id[own_id]
        found = self.derived[own_id]
        source = self.schema.by_id[found.source]
        kind = found.transform.result(source.type)
        return Field(own_id, found.name, kind, indexed=found.indexed)

    def term(self, own_id: int) -> str:
        """Return a partition value as users write it: `day(ts)`, `region`."""
        found = self.derived.get(own_id)
        if found is None:
            return self.schema.by_id[own_id].name
        return found.transform.of(self.schema.by_id[found.source].name)

    def to_json(self) -> dict[str, Any]:
        """Return the definition as JSON values."""
        out = {
            "schema": self.schema.to_json(),
            "partition_by": list(self.partition_by),
            "properties": dict(self.properties),
            "constraints": dict(self.constraints),
            "protocol": dict(self.protocol),
            "created_ms": self.created_ms,
            "comment": self.comment,
            **({"whole_files": True} if self.whole_files else {}),
        }
        if self.derived:
            out["derived"] = {str(i): d.to_json() for i, d in self.derived.items()}
        if self.computed:
            out["computed"] = {str(i): text for i, text in self.computed.items()}
        if self.identity:
            out["identity"] = {str(i): one.to_json() for i, one in self.identity.items()}
        return out

    @classmethod
    def from_json(cls, source: dict[str, Any]) -> Definition:
        """Return the definition for the values of `to_json`."""
        return cls(
            schema=Schema.from_json(source["schema"]),
            partition_by=tuple(source["partition_by"]),
            properties=source["properties"],
            constraints=source["constraints"],
            protocol=source["protocol"],
            created_ms=source["created_ms"],
            comment=source["comment"],
            derived={
                int(i): Derived.from_json(int(i), d) for i, d in source.get("derived", {}).items()
            },
            whole_files=source.get("whole_files", False),
            computed={int(i): text for i, text in source.get("computed", {}).items()},
            identity={int(i): Identity.from_json(x) for i, x in source.get("identity", {}).items()},
        )


def known(definition: Definition, find: Callable[..., T], *key: Any) -> T:
    """Return `find(definition, *key)`, computed once for each definition."""
    try:
        found: T = definition._known[find, key]
    except KeyError:
        found = definition._known[find, key] = find(definition, *key)
    return found
