"""The columns, properties and constraints by which two definitions of a table differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from lakeward.model.definition import Definition
from lakeward.model.schema import Schema


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """A column, or a part of one such as `address.street`, that was added, dropped or changed."""

    kind: str
    column: str
    before: str | None
    after: str | None


class PropertyChange(NamedTuple):
    """The old and the new value of a property; None if it was not set."""

    before: str | None
    after: str | None


def schema_changes(before: Schema, after: Schema) -> list[SchemaChange]:
    """Return the changed columns, matched by id: a renamed column is one change."""
    if before == after:
        return []
    from lakeward.model.evolution.paths import paths_by_id

    old, new = before.by_id, after.by_id
    paths_before, paths = paths_by_id(before), paths_by_id(after)
    changes = [
        SchemaChange("dropped", paths_before[i], str(f.type), None)
        for i, f in old.items()
        if i not in new
    ]
    changes += [
        SchemaChange("added", paths[i], None, str(f.type)) for i, f in new.items() if i not in old
    ]
    for field_id in sorted(old.keys() & new.keys()):
        was, now, path = old[field_id], new[field_id], paths[field_id]
        if was.name != now.name:
            changes.append(SchemaChange("renamed", path, paths_before[field_id], path))
        if str(was.type) != str(now.type):
            changes.append(SchemaChange("type", path, str(was.type), str(now.type)))
        if was.nullable != now.nullable:
            words = ("required", "nullable")
            changes.append(
                SchemaChange("nullability", path, words[was.nullable], words[now.nullable])
            )
        if was.comment != now.comment:
            changes.append(SchemaChange("comment", path, was.comment, now.comment))
    return changes


def property_changes(before: Definition, after: Definition) -> dict[str, PropertyChange]:
    """Return the old and the new value of each property or constraint that differs."""
    old, new = _settings(before), _settings(after)
    return {
        k: PropertyChange(old.get(k), new.get(k))
        for k in sorted(old.keys() | new.keys())
        if old.get(k) != new.get(k)
    }


def _settings(definition: Definition) -> dict[str, str]:
    checks = {f"constraint.{k}": v for k, v in definition.constraints.items()}
    partition = {"partition_by": ",".join(definition.partition_names)}
    return {**definition.properties, **checks, **partition}
