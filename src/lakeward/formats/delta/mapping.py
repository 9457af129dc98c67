"""Column mapping: columns whose names in files differ from those that users see.

The schema has both names of each field, and its id in files. Files are written and scanned by the
names in files; the lake's own field ids do not change, so statistics, partition values and derived
values need no translation. In the mode `id` files identify columns by ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from lakeward.errors import CorruptTable
from lakeward.formats.delta.schema import physical_name
from lakeward.model.definition import Definition, known
from lakeward.model.evolution.paths import with_parts
from lakeward.model.expressions.nodes import Column, Expression, with_columns
from lakeward.model.row_ids import HIDDEN
from lakeward.model.schema import Schema
from lakeward.model.types import FILE_ID, Field, ListOf, MapOf, Struct, Type

SETTINGS: Final = "delta.columnMapping."
"""The prefix of all settings of column mapping, in table properties and field metadata."""
MODE: Final = f"{SETTINGS}mode"
MAPPED_ID: Final = f"{SETTINGS}id"
MODES: Final = ("none", "name", "id")


def is_by_id(definition: Definition) -> bool:
    """Return whether files identify columns by ids."""
    return definition.properties.get(MODE) == "id"


def physical(definition: Definition) -> Definition:
    """Return the definition with the names and ids that columns have in files, if mapped."""
    mode = definition.properties.get(MODE, "none")
    return definition if mode == "none" else known(definition, _physical)


def in_files(
    definition: Definition, columns: Sequence[str], where: Expression | None
) -> tuple[Definition, Sequence[str], Expression | None]:
    """Return the arguments with columns renamed to their names in files."""
    stored = physical(definition)
    if stored is definition:
        return definition, columns, where
    names = [physical_name(definition.schema.by_name[name]) for name in columns]
    if where is not None:
        where = with_columns(where, lambda column: _column(column, stored.schema))
    return stored, names, where


def unmapped(schema: Schema) -> Schema:
    """Return the schema without the metadata of column mapping."""
    return Schema(tuple(_unmapped(field) for field in schema.fields), schema.last_id)


def _physical(definition: Definition) -> Definition:
    schema = definition.schema
    fields = tuple(_field(field) for field in schema.fields)
    if is_by_id(definition):
        _check_ids(fields)
    return replace(definition, schema=Schema(fields, schema.last_id))


def _field(field: Field) -> Field:
    number = field.metadata.get(MAPPED_ID)
    # Elements, keys and values have no id in files: Delta maps named fields alone.
    own = {**field.metadata, FILE_ID: None if number is None else int(number)}
    kind = with_parts(field.type, _field)
    return replace(field, name=physical_name(field), type=kind, metadata=own)


def _check_ids(fields: tuple[Field, ...]) -> None:
    """Raise `CorruptTable` if a named field has no id in files.

    The hidden columns of row ids have none there: the schema does not list them, and they are found
    by their names, as Spark does.
    """
    for field in fields:
        if field.metadata[FILE_ID] is None and field.id not in HIDDEN:
            what = f"Columns are mapped by ids, and the column {field.name!r} has none."
            raise CorruptTable(what, hint="The table's schema is damaged.", column=field.name)
        _check_ids(_named(field.type))


def _named(kind: Type) -> tuple[Field, ...]:
    """Return the outermost named fields of a type, looking into lists and maps."""
    match kind:
        case Struct(fields):
            return fields
        case ListOf(element):
            return _named(element.type)
        case MapOf(key, value):
            return (*_named(key.type), *_named(value.type))
        case _:
            return ()


def _unmapped(field: Field) -> Field:
    kept = {k: v for k, v in field.metadata.items() if not k.startswith(SETTINGS)}
    return replace(field, metadata=kept, type=with_parts(field.type, _unmapped))


def _column(column: Column, schema: Schema) -> Column:
    path: list[str] = []
    kind = column.field.type
    for name in column.path:
        assert isinstance(kind, Struct)  # noqa: S101  the binder walked the same path
        member = next(f for f in kind.fields if f.name == name)
        path.append(physical_name(member))
        kind = member.type
    return Column(schema.by_id[column.field.id], tuple(path))
