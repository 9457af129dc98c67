"""A table's schema: fields with ids, and its conversion to and from Arrow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from lakeward.errors import InvalidInput
from lakeward.model import arguments
from lakeward.model.calendar import DAY
from lakeward.model.columns import (
    DEFAULT,
    GENERATED,
    IDENTITY,
    parse_column,
    parse_columns,
    parse_type,
)
from lakeward.model.types import (
    PRIMITIVES,
    READ_ONLY,
    Decimal,
    Field,
    Ids,
    ListOf,
    MapOf,
    Primitive,
    Struct,
    Type,
    arrow_field,
    check_names,
    field_from_arrow,
    field_from_json,
    field_to_json,
)
from lakeward.model.values import Value

WIDENED_FROM: Final = "lakeward.widenedFrom"
"""Metadata of a timestamp column: the id that it had as a date column."""
DEFAULT_AS: Final = "lakeward.defaultText"
"""Metadata of a column of a new table: the SQL literal of its default."""
GENERATED_AS: Final = "lakeward.generated"
"""Metadata of a column of a new table: the expression by which its values are computed."""
IDENTITY_AS: Final = "lakeward.identity"
"""Metadata of a column of a new table: its `Identity` as JSON."""
_PYTHON: Final[dict[type, str]] = {
    bool: "boolean",
    int: "int64",
    float: "double",
    str: "string",
    bytes: "binary",
    date: "date",
    datetime: "timestamp",
}
MAX_FIELDS: Final = 10_000
INDEXED_FIELDS: Final = 32
"""How many leading columns are in the statistics index by default."""


@dataclass(frozen=True)
class Schema:
    """The columns of a table at some version. Two schemas are equal if their fields are."""

    fields: tuple[Field, ...]
    last_id: int

    @classmethod
    def from_arrow(cls, source: pa.Schema, *, indexed: int = INDEXED_FIELDS) -> Schema:
        """Return a new schema with fresh ids; raise an error for what no format can store."""
        ids = Ids()
        fields = [_with_clauses(field_from_arrow(f, ids), f) for f in source]
        return cls(_with_index(_checked(fields), indexed), ids.last)

    @classmethod
    def of(cls, source: Any) -> Schema:
        """Return a schema from Arrow, names and types, text as `id int64, …`, or a `Schema`."""
        if isinstance(source, Schema):
            return source
        if isinstance(source, pa.Schema):
            return cls.from_arrow(source)
        if isinstance(source, str):
            return cls.from_arrow(parse_columns(source))
        if isinstance(source, Mapping):
            return cls.from_arrow(pa.schema([_named_field(n, t) for n, t in source.items()]))
        if hasattr(source, "__arrow_c_schema__"):
            return cls.from_arrow(pa.schema(source))
        if isinstance(source, Iterable) and not isinstance(source, str | bytes):
            return cls.from_arrow(_arrow_schema(source))
        what = f"A schema cannot be made of {type(source).__name__}."
        raise InvalidInput(what, hint="Give a pyarrow.Schema or a mapping of names to types.")

    @property
    def names(self) -> list[str]:
        """Column names in order."""
        return [f.name for f in self.fields]

    @cached_property
    def arrow(self) -> pa.Schema:
        """The Arrow schema that reads return and writes accept."""
        return pa.schema([arrow_field(f) for f in self.fields])

    def to_arrow(self) -> pa.Schema:
        """Return the Arrow schema without Lakeward's metadata."""
        return pa.schema([_plain(f) for f in self.arrow])

    def __arrow_c_schema__(self) -> Any:
        return self.to_arrow().__arrow_c_schema__()

    @cached_property
    def by_name(self) -> dict[str, Field]:
        """Top-level fields by name."""
        return {f.name: f for f in self.fields}

    @cached_property
    def by_id(self) -> dict[int, Field]:
        """All fields, nested ones too, by id."""
        return {f.id: f for f in self.walk()}

    @cached_property
    def indexed(self) -> tuple[Field, ...]:
        """Top-level fields whose bounds are in the statistics index."""
        return tuple(f for f in self.fields if f.indexed)

    @cached_property
    def _widened(self) -> dict[int, int]:
        marked = (f for f in self.fields if WIDENED_FROM in f.metadata)
        return {int(f.metadata[WIDENED_FROM]): f.id for f in marked}

    def current_values(self, values: Mapping[int, Value]) -> Mapping[int, Value]:
        """Return partition values of a file by the ids that the schema uses now.

        A Delta column that was widened from date to timestamp got a new id, and older files have
        their values under the old id: the id is replaced, and the date becomes a timestamp.
        """
        found = self._widened
        if not found or not found.keys() & values.keys():
            return values
        return {
            found.get(i, i): v * DAY if i in found and isinstance(v, int) else v
            for i, v in values.items()
        }

    def field(self, name: str) -> Field:
        """Return the top-level field of this name; raise `KeyError` if there is none."""
        return self.by_name[name]

    def walk(self) -> Iterator[Field]:
        """Yield every field, nested ones too, parents first."""
        stack = list(reversed(self.fields))
        while stack:
            current = stack.pop()
            yield current
            stack.extend(reversed(_children(current.type)))

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Schema):
            return self.fields == other.fields
        if isinstance(other, pa.Schema):
            return bool(self.to_arrow().equals(other))
        return NotImplemented

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(self.fields)

    def __str__(self) -> str:
        return "\n".join(
            f"{f.name}: {f.type}{'' if f.nullable else ' not null'}" for f in self.fields
        )

    def to_json(self) -> dict[str, Any]:
        """Return the schema as JSON values."""
        return {"last_id": self.last_id, "fields": [field_to_json(f) for f in self.fields]}

    @classmethod
    def from_json(cls, source: dict[str, Any]) -> Schema:
        """Return the schema for the values of `to_json`."""
        return cls(tuple(field_from_json(f) for f in source["fields"]), source["last_id"])


def indexable(kind: Type) -> bool:
    """Whether values of this type have order-preserving keys for the statistics index."""
    if isinstance(kind, Primitive):
        return kind.name != "binary" and kind.name not in READ_ONLY
    return isinstance(kind, Decimal)


def _with_index(fields: list[Field], limit: int) -> tuple[Field, ...]:
    return tuple(
        replace(f, indexed=indexable(f.type) and position < limit)
        for position, f in enumerate(fields)
    )


def _with_clauses(field: Field, source: pa.Field) -> Field:
    """Return a field with metadata for its default, its generation expression, its identity."""
    given = source.metadata or {}
    kept = {GENERATED_AS: GENERATED, DEFAULT_AS: DEFAULT, IDENTITY_AS: IDENTITY}
    found = {note: given[key].decode() for note, key in kept.items() if key in given}
    return replace(field, metadata=found) if found else field


def _checked(fields: list[Field]) -> list[Field]:
    if not fields:
        what = "A table needs at least one column."
        raise InvalidInput(what)
    check_names(fields)
    for f in fields:
        if any(c in f.name for c in "\x00\n\r\t"):
            what = f"Column {f.name!r} has a control character in its name."
            raise InvalidInput(what, hint="Rename it.", column=f.name)
    total = sum(1 for _ in Schema(tuple(fields), 0).walk())
    if total > MAX_FIELDS:
        what = f"The schema has {total} fields; at most {MAX_FIELDS} are allowed."
        raise InvalidInput(what)
    return fields


def _children(kind: Type) -> list[Field]:
    match kind:
        case Struct(fields):
            return list(fields)
        case ListOf(element):
            return [element]
        case MapOf(key, value):
            return [key, value]
        case _:
            return []


def _plain(source: pa.Field) -> pa.Field:
    metadata = source.metadata or {}
    comment = metadata.get(b"comment")
    kept = {b"comment": comment} if comment else None
    return pa.field(source.name, _plain_type(source.type), source.nullable, kept)


def _plain_type(source: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(source):
        return pa.struct([_plain(f) for f in source])
    if pa.types.is_list(source):
        return pa.list_(_plain(source.value_field))
    if pa.types.is_map(source):
        return pa.map_(_plain(source.key_field), _plain(source.item_field))
    return source


def _named_field(name: Any, kind: Any) -> pa.Field:
    if not isinstance(name, str):
        what = f"A column name must be a string, not {type(name).__name__}."
        raise InvalidInput(what)
    arguments.optional_text(name, "schema")
    if isinstance(kind, str) and _alias(kind) is None:
        return parse_column(name, kind)
    return pa.field(name, named_type(kind))


def named_type(kind: Any) -> pa.DataType:
    """Return the Arrow type for an Arrow type, a Python type, or text such as `decimal(10,2)`."""
    if isinstance(kind, pa.DataType):
        return kind
    if isinstance(kind, str):
        return _alias(kind) or parse_type(kind)
    if isinstance(kind, type) and kind in _PYTHON:
        return PRIMITIVES[_PYTHON[kind]]
    shown = f"The Python type {kind.__name__}" if isinstance(kind, type) else repr(kind)
    what = f"{shown} is not a column type."
    raise InvalidInput(what, hint=f"Use one of {', '.join(PRIMITIVES)}.")


def _alias(kind: str) -> pa.DataType | None:
    if not kind.isascii() or "(" in kind or "<" in kind:
        return None
    try:
        return PRIMITIVES.get(kind) or pa.type_for_alias(kind)
    except ValueError:
        return None


def _arrow_schema(source: Iterable[Any]) -> pa.Schema:
    try:
        return pa.schema(list(source))
    except (TypeError, ValueError, pa.ArrowException) as error:
        what = "The columns are given without types."
        hint = "Write them as text, `id int64, name string`, or give a pyarrow.Schema."
        raise InvalidInput(what, hint=hint) from error
