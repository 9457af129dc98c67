"""Derives the changes of a table's schema for data with other columns: `schema_mode` of a write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum

import pyarrow as pa

from lakeward.model.evolution.alterations import (
    AddColumn,
    Alteration,
    ChangeType,
    DropColumn,
    MoveColumn,
    SetNullable,
)
from lakeward.model.evolution.paths import quoted
from lakeward.model.evolution.widening import widens
from lakeward.model.schema import Schema
from lakeward.model.types import (
    Field,
    Ids,
    ListOf,
    MapOf,
    Struct,
    type_from_arrow,
)


class SchemaMode(StrEnum):
    """How a table's schema is changed when data with other columns is written."""

    MERGE = "merge"
    OVERWRITE = "overwrite"


def merging(schema: Schema, given: pa.Schema, *, typed: bool) -> Iterator[Alteration]:
    """Yield the new columns, and with `typed` the wider types, that a table needs for data."""
    yield from _merged(schema.fields, list(given), "", typed=typed)


def replacing(schema: Schema, given: pa.Schema, kept: frozenset[str]) -> Iterator[Alteration]:
    """Yield changes after which a table has the columns of data, in their order.

    A column is unchanged if data has the same type. `kept` are generated columns, which data need
    not have.
    """
    wanted = {f.name: f for f in given}
    stays = {f.name for f in schema.fields if _same(f, wanted.get(f.name))} | kept
    for field in schema.fields:
        if field.name in stays:
            continue
        if not field.nullable:
            yield SetNullable(quoted(field.name), nullable=True)
    new = [f for f in given if f.name not in schema.by_name]
    yield from (AddColumn(quoted(f.name), f.type) for f in new)
    for field in schema.fields:
        if field.name in stays:
            continue
        yield DropColumn(quoted(field.name))
        if field.name in wanted:
            yield AddColumn(quoted(field.name), wanted[field.name].type)
    for before, name in zip([None, *given.names], given.names, strict=False):
        yield MoveColumn(quoted(name), after=before, first=before is None)


def _merged(
    fields: Sequence[Field], given: Sequence[pa.Field], around: str, *, typed: bool
) -> Iterator[Alteration]:
    known = {f.name: f for f in fields}
    for new in given:
        path = f"{around}{quoted(new.name)}"
        field = known.get(new.name)
        if field is None:
            yield AddColumn(path, new.type)
            continue
        match field.type:
            case Struct(parts) if pa.types.is_struct(new.type):
                yield from _merged(parts, list(new.type), f"{path}.", typed=typed)
            case ListOf(element) if hasattr(new.type, "value_field"):
                part = new.type.value_field.with_name("element")
                yield from _merged([element], [part], f"{path}.", typed=typed)
            case MapOf(_, value) if pa.types.is_map(new.type):
                part = new.type.item_field.with_name("value")
                yield from _merged([value], [part], f"{path}.", typed=typed)
            case kind:
                wider = type_from_arrow(new.type, Ids(), where=path)
                if typed and wider != kind and widens(kind, wider):
                    yield ChangeType(path, new.type)


def _same(field: Field, given: pa.Field | None) -> bool:
    if given is None:
        return False
    kind = type_from_arrow(given.type, Ids(), where=field.name)
    return str(kind) == str(field.type)
