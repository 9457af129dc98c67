"""Finds columns by path, and returns schemas with changed fields.

A path is a column's name and the names of its nested parts, separated by dots. The parts of a list
are called `element`, those of a map `key` and `value`. A name with a dot is written in backticks.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lakeward.errors import InvalidInput
from lakeward.model.schema import Schema
from lakeward.model.types import Field, ListOf, MapOf, Struct, Type

_PART: Final = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")


@dataclass(frozen=True, slots=True)
class Place:
    """A field in a schema.

    Attributes:
        field: The field itself.
        parents: The fields that contain it, the outermost first.
        siblings: The fields of the same parent, the field included, in order.
    """

    field: Field
    parents: tuple[Field, ...]
    siblings: tuple[Field, ...]

    @property
    def column(self) -> Field:
        """The top-level column that the field is, or is a part of."""
        return self.parents[0] if self.parents else self.field

    @property
    def is_named(self) -> bool:
        """Whether the field is a column or a member of a struct, not a part of a list or map."""
        return not self.parents or isinstance(self.parents[-1].type, Struct)

    @property
    def path(self) -> str:
        """The path of the field as users write it: `address.street`."""
        return ".".join(f.name for f in (*self.parents, self.field))


def split_path(path: str, schema: Schema) -> list[str]:
    """Return the names of a path; a column whose own name has dots takes precedence."""
    if path in schema.by_name:
        return [path]
    names, position = [], 0
    while position <= len(path):
        found = _PART.match(path, position)
        end = found.end() if found else position
        if found is None or path[end : end + 1] not in ("", "."):
            what = f"{path!r} is not a column's name."
            hint = "Write parts of columns as `address.street`, and other dots in backticks."
            raise InvalidInput(what, hint=hint, column=path)
        names.append(found[1].replace("``", "`") if found[1] else found[2])
        position = end + 1
    return names


def find(schema: Schema, path: str) -> Place:
    """Return the field of a path; raise `InvalidInput` if there is none."""
    return find_names(schema, split_path(path, schema))


def find_names(schema: Schema, names: Sequence[str]) -> Place:
    """Return the field of a path given as names; raise `InvalidInput` if there is none."""
    siblings = schema.fields
    parents: list[Field] = []
    for number, name in enumerate(names):
        found = next((f for f in siblings if f.name == name), None)
        if found is None:
            raise _unknown(name, siblings, parents)
        if number + 1 == len(names):
            return Place(found, tuple(parents), siblings)
        parents.append(found)
        siblings = parts_of(found.type)
    message = "a path has at least one name"
    raise AssertionError(message)


def parts_of(kind: Type) -> tuple[Field, ...]:
    """Return the fields of a nested type; none for other types."""
    match kind:
        case Struct(fields):
            return fields
        case ListOf(element):
            return (element,)
        case MapOf(key, value):
            return (key, value)
        case _:
            return ()


def quoted(name: str) -> str:
    """Return a column's name as a path, in backticks if it needs them."""
    return f"`{name.replace('`', '``')}`" if "." in name or "`" in name else name


def paths_by_id(schema: Schema) -> dict[int, str]:
    """Return the path of every field, nested ones too, by id."""
    found: dict[int, str] = {}

    def note(fields: Sequence[Field], parent: str) -> None:
        for field in fields:
            found[field.id] = parent + quoted(field.name)
            note(parts_of(field.type), f"{found[field.id]}.")

    note(schema.fields, "")
    return found


def with_field(schema: Schema, new: Field) -> Schema:
    """Return the schema with `new` in place of the field that has its id."""
    return Schema(tuple(_replaced(f, new) for f in schema.fields), schema.last_id)


def with_siblings(schema: Schema, parent: Field | None, fields: Sequence[Field]) -> Schema:
    """Return the schema with other members of a struct, or other columns if `parent` is None."""
    if parent is None:
        return Schema(tuple(fields), schema.last_id)
    return with_field(schema, replace(parent, type=Struct(tuple(fields))))


def each_field(schema: Schema, change: Callable[[Field], Field]) -> Schema:
    """Return the schema with every field changed, nested fields before those that contain them."""
    return Schema(tuple(_each(f, change) for f in schema.fields), schema.last_id)


def with_parts(kind: Type, change: Callable[[Field], Field]) -> Type:
    """Return the type with each of its direct fields changed."""
    match kind:
        case Struct(fields):
            return Struct(tuple(change(f) for f in fields))
        case ListOf(element):
            return ListOf(change(element))
        case MapOf(key, value):
            return MapOf(change(key), change(value))
        case _:
            return kind


def _each(field: Field, change: Callable[[Field], Field]) -> Field:
    return change(replace(field, type=with_parts(field.type, lambda f: _each(f, change))))


def _replaced(field: Field, new: Field) -> Field:
    if field.id == new.id:
        return new
    kind = with_parts(field.type, lambda f: _replaced(f, new))
    return field if kind == field.type else replace(field, type=kind)


def _unknown(name: str, siblings: Sequence[Field], parents: Sequence[Field]) -> InvalidInput:
    path = ".".join((*(f.name for f in parents), name))
    if parents and not siblings:
        what = f"Column {parents[-1].name} is of type {parents[-1].type} and has no part {name!r}."
        return InvalidInput(what, column=path)
    where = f"Column {parents[-1].name}" if parents else "The table"
    what = f"{where} has no {'part' if parents else 'column'} {name!r}."
    known = [f.name for f in siblings]
    near = [k for k in known if k.lower() == name.lower()] or difflib.get_close_matches(
        name, known, 1
    )
    hint = f"It has {', '.join(known)}."
    return InvalidInput(
        what, hint=f"Did you mean {near[0]!r}? {hint}" if near else hint, column=path
    )
