"""Finds the changes between two definitions of a table, made by any engine, and their names.

The names are those of `alter`'s methods, which policies use to allow changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lakeward.model.constraints import declared
from lakeward.model.definition import Definition
from lakeward.model.evolution.alterations import (
    AddColumn,
    AddConstraint,
    AddPartitionField,
    AddRule,
    Alteration,
    ChangeType,
    DropColumn,
    DropConstraint,
    DropPartitionField,
    EnableFeature,
    MoveColumn,
    RenameColumn,
    SetComment,
    SetDefault,
    SetNullable,
    SetProperty,
    UnsetProperty,
)
from lakeward.model.evolution.paths import parts_of
from lakeward.model.types import Decimal, Field, Primitive

_NAMES = {
    AddColumn: "add_column",
    AddConstraint: "add_constraint",
    AddPartitionField: "add_partition_field",
    AddRule: "add_constraint",
    ChangeType: "change_type",
    DropColumn: "drop_column",
    DropConstraint: "drop_constraint",
    DropPartitionField: "drop_partition_field",
    EnableFeature: "enable",
    MoveColumn: "move_column",
    RenameColumn: "rename_column",
    SetComment: "set_comment",
    SetDefault: "set_default",
    SetProperty: "set_property",
    UnsetProperty: "set_property",
}


@dataclass(frozen=True, slots=True)
class Evolution:
    """One change of a definition: its name in policies, and a description."""

    name: str
    what: str


def name_of(asked: Alteration) -> str:
    """Return the name that policies use for an alteration."""
    if isinstance(asked, SetNullable):
        return "set_nullable" if asked.nullable else "set_not_null"
    return _NAMES[type(asked)]


def evolutions(old: Definition, new: Definition) -> Iterator[Evolution]:
    """Yield the changes of columns, constraints and partitioning between two definitions."""
    yield from _fields(old.schema.fields, new.schema.fields, "")
    if old.comment != new.comment:
        yield Evolution("set_comment", "comment on table")
    before, after = (declared(replace(one, rules=())) for one in (old, new))
    for name in after:
        if before.get(name) != after[name]:
            yield Evolution("add_constraint", f"add constraint {name}")
    for name in before:
        if name not in after:
            yield Evolution("drop_constraint", f"drop constraint {name}")
    terms = (old.partitioning, new.partitioning)
    for term in terms[1]:
        if term not in terms[0]:
            yield Evolution("add_partition_field", f"add partition field {term}")
    if len(new.partition_by) < len(old.partition_by):
        yield Evolution("drop_partition_field", f"partition by {', '.join(terms[1]) or 'nothing'}")


def _fields(old: Sequence[Field], new: Sequence[Field], around: str) -> Iterator[Evolution]:
    before = {f.id: f for f in old}
    after = {f.id: f for f in new}
    for field in old:
        if field.id not in after:
            yield Evolution("drop_column", f"drop column {around}{field.name}")
    for field in new:
        known = before.get(field.id)
        path = f"{around}{field.name}"
        if known is None:
            yield Evolution("add_column", f"add column {path}")
        else:
            yield from _field(known, field, around, path)
    if [i for i in before if i in after] != [i for i in after if i in before]:
        yield Evolution("move_column", f"move columns of {around.rstrip('.') or 'the table'}")


def _field(old: Field, new: Field, around: str, path: str) -> Iterator[Evolution]:
    if old.name != new.name:
        yield Evolution("rename_column", f"rename column {around}{old.name} to {new.name}")
    if old.nullable != new.nullable:
        name = "set_nullable" if new.nullable else "set_not_null"
        yield Evolution(name, f"alter column {path} {'drop' if new.nullable else 'set'} not null")
    if old.default != new.default:
        yield Evolution("set_default", f"alter column {path} default")
    if old.comment != new.comment:
        yield Evolution("set_comment", f"alter column {path} comment")
    if isinstance(new.type, Primitive | Decimal) or type(old.type) is not type(new.type):
        if old.type != new.type:
            yield Evolution("change_type", f"alter column {path} type {new.type}")
    else:
        yield from _fields(parts_of(old.type), parts_of(new.type), f"{path}.")
