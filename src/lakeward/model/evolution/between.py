"""Derives the alterations that lead from one definition to another, as made by another engine.

Fields are compared by id. The order of columns is ignored, because files do not depend on it, and
so are changes of defaults, comments and partitioning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count

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
from lakeward.model.evolution.paths import parts_of, quoted
from lakeward.model.expressions.nodes import Literal
from lakeward.model.expressions.render import render
from lakeward.model.types import Decimal, Field, Primitive, Struct, arrow_type


def changes_between(
    before: Definition, after: Definition, is_kept: Callable[[str], bool]
) -> list[Alteration]:
    """Return the alterations, in an order in which they can be applied.

    `is_kept` returns whether the format itself sets a property; such properties are ignored.
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
            yield DropColumn(_path(around, field.name))
    both = [(known[field.id], field) for field in new if field.id in known]
    for before, after in both:
        yield from _field(before, after, around)
    yield from _renamed(both, around)
    for field in new:
        if field.id not in known:
            kind, path = arrow_type(field.type), _path(around, field.name)
            yield AddColumn(path, kind, _default(field), field.nullable, field.comment)


def _field(before: Field, after: Field, around: str) -> Iterator[Alteration]:
    """Yield the changes of a field and of its parts, all but that of its own name."""
    path = _path(around, before.name)
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


def _renamed(both: Sequence[tuple[Field, Field]], around: str) -> Iterator[Alteration]:
    """Yield renames of siblings; one that gets another's name has a free name in between."""
    taken = {field.name.lower() for pair in both for field in pair}
    last: list[Alteration] = []
    for before, after in both:
        if before.name == after.name:
            continue
        others = (f.name.lower() for f, _ in both if f is not before)
        if after.name.lower() in others:
            free = next(n for i in count() if (n := f"{before.name}_{i}").lower() not in taken)
            taken.add(free.lower())
            yield RenameColumn(_path(around, before.name), free)
            last.append(RenameColumn(_path(around, free), after.name))
        else:
            last.append(RenameColumn(_path(around, before.name), after.name))
    yield from last


def _default(field: Field) -> str | None:
    """Return the default of a field as SQL."""
    has_one = field.default is not None and isinstance(field.type, Primitive | Decimal)
    return render(Literal(field.default, field.type)) if has_one else None


def _path(around: str, name: str) -> str:
    return around + quoted(name)
