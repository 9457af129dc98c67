"""Column mapping by name: columns that have other names in files than users see.

The schema has both names of each field. Files are scanned by the names in the files; field ids are
the same, so statistics, partition values and derived values need no translation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from lakeward.formats.delta.schema import physical_name
from lakeward.model.definition import Definition, known
from lakeward.model.expressions.nodes import Column, Expression, with_columns
from lakeward.model.schema import Schema
from lakeward.model.types import Field, ListOf, MapOf, Struct, Type

SETTINGS: Final = "delta.columnMapping."
"""How the names of all settings of column mapping begin, of tables and of fields."""
MODE: Final = f"{SETTINGS}mode"


def is_by_id(definition: Definition) -> bool:
    """Whether columns are found in files by ids, which only delta-rs does."""
    return definition.properties.get(MODE) == "id"


def in_files(
    definition: Definition, columns: Sequence[str], where: Expression | None
) -> tuple[Definition, Sequence[str], Expression | None]:
    """Definition, columns and condition with the names in files, if these are mapped by name."""
    if definition.properties.get(MODE) != "name":
        return definition, columns, where
    stored = known(definition, _physical)
    names = [physical_name(definition.schema.by_name[name]) for name in columns]
    if where is not None:
        where = with_columns(where, lambda column: _column(column, stored.schema))
    return stored, names, where


def unmapped(schema: Schema) -> Schema:
    """The schema without the metadata of column mapping."""
    return Schema(tuple(_unmapped(field) for field in schema.fields), schema.last_id)


def _physical(definition: Definition) -> Definition:
    schema = definition.schema
    fields = tuple(_field(field) for field in schema.fields)
    return replace(definition, schema=Schema(fields, schema.last_id))


def _field(field: Field) -> Field:
    return replace(field, name=physical_name(field), type=_type(field.type, _field))


def _unmapped(field: Field) -> Field:
    kept = {k: v for k, v in field.metadata.items() if not k.startswith(SETTINGS)}
    return replace(field, metadata=kept, type=_type(field.type, _unmapped))


def _type(kind: Type, change: Callable[[Field], Field]) -> Type:
    """The type with changed fields."""
    match kind:
        case Struct(fields):
            return Struct(tuple(change(field) for field in fields))
        case ListOf(element):
            return ListOf(change(element))
        case MapOf(key, value):
            return MapOf(change(key), change(value))
        case _:
            return kind


def _column(column: Column, schema: Schema) -> Column:
    path: list[str] = []
    kind = column.field.type
    for name in column.path:
        assert isinstance(kind, Struct)  # noqa: S101  the binder walked the same path
        member = next(f for f in kind.fields if f.name == name)
        path.append(physical_name(member))
        kind = member.type
    return Column(schema.by_id[column.field.id], tuple(path))
