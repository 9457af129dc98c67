"""Assigns field ids that stay the same while a table's schema changes.

Delta gives a field an id only where columns are mapped. Without an id, a field counts as the same
if it has the same name and parent, and values of its old type can be read as the new type. An id
that Lakeward wrote into the field's metadata takes precedence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, cast

from lakeward.errors import CorruptTable, UnsupportedFeature
from lakeward.formats.delta.mapping import MAPPED_ID
from lakeward.formats.delta.schema import UnknownType, parse_schema
from lakeward.model.schema import MAX_FIELDS, WIDENED_FROM, Schema
from lakeward.model.types import (
    PRIMITIVES,
    Decimal,
    Field,
    Ids,
    ListOf,
    MapOf,
    Primitive,
    Struct,
    Type,
)

_NEW_IDS: Final = 2**40
"""Greater ids were assigned by the parser, because the schema text has no id for the field."""

_MAX_NESTING: Final = 64
_MAX_PRECISION: Final = 38
_INTEGERS: Final = frozenset({"int8", "int16", "int32", "int64"})
_SAME_KEYS: Final = (
    _INTEGERS,
    frozenset({"float", "double"}),
    frozenset({"timestamp", "timestamp_ms"}),
    frozenset({"timestamp_ntz", "timestamp_ms_ntz"}),
)


def evolved(text: str, previous: Schema | None) -> Schema:
    """Return the schema of a `schemaString`, with field ids of `previous` for unchanged fields.

    Raises `CorruptTable`, `UnsupportedFeature`.
    """
    parsed = _parse(text)
    _check(parsed)
    old = previous or Schema((), 0)
    marks = {f.id for f in parsed.walk() if f.id <= _NEW_IDS}
    assigner = _IdAssigner(Ids(max([old.last_id, *marks])), marks, first=previous is None)
    fields = assigner.fields(parsed.fields, old.fields)
    return Schema(fields, assigner.ids.last)


class _IdAssigner:
    def __init__(self, ids: Ids, marks: set[int], *, first: bool) -> None:
        self.ids = ids
        self._marks = marks
        self._first = first
        self._used: set[int] = set()

    def fields(self, new: Sequence[Field], old: Sequence[Field]) -> tuple[Field, ...]:
        mapped = {f.metadata[MAPPED_ID]: f for f in old if MAPPED_ID in f.metadata}
        named = {f.name: f for f in old}
        return tuple(self.field(f, _before(f, mapped, named)) for f in new)

    def field(self, new: Field, before: Field | None) -> Field:
        same = before is not None and _readable_as(before.type, new.type)
        marked = new.id <= _NEW_IDS and new.id not in self._used
        kept = {} if before is None else before.metadata
        metadata = {k: v for k, v in kept.items() if k == WIDENED_FROM} | new.metadata
        if marked:
            own, indexed = new.id, new.indexed
        elif before is not None and same and before.id not in self._marks | self._used:
            own, indexed = before.id, before.indexed and _same_keys(before.type, new.type)
        else:
            # Files written as dates have no rows in the index under the new id, and no row would
            # mean that every value is missing.
            widened = (
                before is not None and _is(before.type, "date") and _is(new.type, "timestamp_ntz")
            )
            own, indexed = self.ids.next(), new.indexed and not widened
            metadata = new.metadata
            if before is not None and widened:
                metadata = {**metadata, WIDENED_FROM: before.id}
        self._used.add(own)
        kind = self.type(new.type, before.type if before is not None and same else None)
        return replace(new, id=own, indexed=indexed, type=kind, metadata=metadata)

    def type(self, new: Type, old: Type | None) -> Type:
        match new:
            case Struct(fields):
                return Struct(self.fields(fields, old.fields if isinstance(old, Struct) else ()))
            case ListOf(element):
                return ListOf(self.field(element, old.element if isinstance(old, ListOf) else None))
            case MapOf(key, value):
                pair = (old.key, old.value) if isinstance(old, MapOf) else (None, None)
                return MapOf(self.field(key, pair[0]), self.field(value, pair[1]))
            case _:
                return new


def _before(field: Field, mapped: dict[object, Field], named: dict[str, Field]) -> Field | None:
    """Return the old field that `field` continues: by mapped id, else by name unless ids differ."""
    own = field.metadata.get(MAPPED_ID)
    if own is not None and own in mapped:
        return mapped[own]
    found = named.get(field.name)
    if found is None or (own is not None and MAPPED_ID in found.metadata):
        return None
    return found


def _readable_as(old: Type, new: Type) -> bool:
    """Return whether values of the old type can be read as the new one, as the same column."""
    if isinstance(old, Primitive) and isinstance(new, Primitive):
        return _same_keys(old, new) or (old.name in _INTEGERS and new.name == "double")
    if isinstance(new, Decimal):
        return isinstance(old, Decimal) or (isinstance(old, Primitive) and old.name in _INTEGERS)
    return type(old) is type(new)


def _same_keys(old: Type, new: Type) -> bool:
    """Return whether order keys of the two types can be compared."""
    if isinstance(old, Primitive) and isinstance(new, Primitive):
        return old == new or any(old.name in k and new.name in k for k in _SAME_KEYS)
    if isinstance(old, Decimal) and isinstance(new, Decimal):
        return old.scale == new.scale
    return type(old) is type(new)


def _is(kind: Type, name: str) -> bool:
    return isinstance(kind, Primitive) and kind.name == name


def _parse(text: str) -> Schema:
    try:
        return parse_schema(text, last_id=_NEW_IDS)
    except CorruptTable as error:
        found = error.__cause__
        if isinstance(found, UnknownType) and found.kind.startswith(_FOREIGN_TYPES):
            what = f"Column {found.column} has the type {found.kind}, which the lake cannot hold."
            hint = "Drop the column, or leave the table outside."
            raise UnsupportedFeature(what, hint=hint, column=found.column) from error
        raise


_FOREIGN_TYPES: Final = ("char", "geography", "geometry", "interval", "varchar")


def _check(schema: Schema) -> None:
    """Raise `CorruptTable` for schemas too deep or large to walk by recursion."""
    level: list[Field] = list(schema.fields)
    total = depth = 0
    while level:
        depth += 1
        total += len(level)
        if depth > _MAX_NESTING:
            what = f"The table's schema is nested deeper than {_MAX_NESTING} levels."
            raise CorruptTable(what)
        if total > MAX_FIELDS:
            what = f"The table's schema has more than {MAX_FIELDS} fields."
            raise CorruptTable(what)
        level = [child for f in level for child in _checked(f)]
    names = [f.name for f in schema.fields]
    if len(set(names)) < len(names):
        what = "The table's schema has two columns of the same name."
        raise CorruptTable(what)


def _checked(field: Field) -> Sequence[Field]:
    name, nullable = cast("Any", field.name), cast("Any", field.nullable)
    if not isinstance(name, str) or not isinstance(nullable, bool) or field.id < 1:
        what = f"The column {field.name!r} of the table's schema cannot be understood."
        raise CorruptTable(what)
    match field.type:
        case Primitive(name) if name in PRIMITIVES:
            return ()
        case Decimal(precision, scale) if 0 <= scale <= precision <= _MAX_PRECISION:
            return ()
        case Struct(fields):
            return fields
        case ListOf(element):
            return (element,)
        case MapOf(key, value):
            return (key, value)
        case other:
            what = f"The column {field.name!r} has a type that does not exist, {other}."
            raise CorruptTable(what)
