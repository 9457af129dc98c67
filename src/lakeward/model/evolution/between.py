"""Derives the alterations that lead from one definition to another, as made by another engine.

Fields are compared by id. The order of columns is ignored: files do not depend on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from lakeward.model.definition import Definition
from lakeward.model.evolution.alterations import (
    AddColumn,
    AddConstraint,
    Alteration,
    ChangeType,
    DropColumn,
    DropConstraint,
    RenameColumn,
    SetNullable,
    SetProperty,
    UnsetProperty,
)
from lakeward.model.evolution.paths import parts_of
from lakeward.model.types import Field, Struct, arrow_type


def changes_between(
    before: Definition, after: Definition, is_kept: Callable[[str], bool]
) -> list[Alteration]:
    """Return the alterations, in an order in which they can be applied.

    `is_kept` says whether the format sets a property itself.
    """
    out: list[Alteration] = [
        DropConstraint(name) for name in before.constraints if name not in after.constraints
    ]
    out += _fields(before.schema.fields, after.schema.fields, "")
    for key, value in after.properties.items():
        if before.properties.get(key) != value and not is_kept(key):
            out.append(SetProperty(key, value))
    out += [
        UnsetProperty(key)
        for key in before.properties
        if key not in after.properties and not is_kept(key)
    ]
    for name, text in after.constraints.items():
        if before.constraints.get(name) != text:
            if name in before.constraints:
                out.append(DropConstraint(name))
            out.append(AddConstraint(name, text))
    return out


def _fields(old: Sequence[Field], new: Sequence[Field], around: str) -> Iterator[Alteration]:
    known, kept = {f.id: f for f in old}, {f.id for f in new}
    for field in old:
        if field.id not in kept:
            yield DropColumn(_path(around, field))
    for field in new:
        before = known.get(field.id)
        if before is not None:
            yield from _field(before, field, around)
    for field in new:
        if field.id not in known:
            kind = arrow_type(field.type)
            default, comment = field.default, field.comment
            yield AddColumn(_path(around, field), kind, default, field.nullable, comment)


def _field(before: Field, after: Field, around: str) -> Iterator[Alteration]:
    path = _path(around, before)
    inside = parts_of(before.type)
    if inside and type(before.type) is type(after.type):
        if isinstance(before.type, Struct):
            yield from _fields(inside, parts_of(after.type), f"{path}.")
        else:
            for one, other in zip(inside, parts_of(after.type), strict=True):
                yield from _field(one, other, f"{path}.")
    elif str(before.type) != str(after.type):
        yield ChangeType(path, arrow_type(after.type))
    if before.nullable != after.nullable:
        yield SetNullable(path, nullable=after.nullable)
    if before.name != after.name:
        yield RenameColumn(path, after.name)


def _path(around: str, field: Field) -> str:
    name = field.name
    quoted = f"`{name.replace('`', '``')}`"
    return around + (quoted if "." in name or "`" in name else name)
