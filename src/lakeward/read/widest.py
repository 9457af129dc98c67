"""The widest types that the columns of a version had in a range of versions.

A restore may bring back a narrower type. Rows of the versions with the wider type have values that
the narrow type cannot hold, so rows of several versions are shown in the widest types.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from lakeward.errors import UnsupportedFeature
from lakeward.log import definitions
from lakeward.model.definition import Definition
from lakeward.model.evolution.widening import widens
from lakeward.model.schema import Schema
from lakeward.model.types import Field, ListOf, MapOf, Struct, Type
from lakeward.read.snapshot import TableSnapshot


def in_widest_types(shown: TableSnapshot, first: int, last: int | None = None) -> TableSnapshot:
    """Return the snapshot with the widest type of each column from version `first` - 1 to `last`.

    The snapshot's own version is the last one if `last` is None. Raise `UnsupportedFeature` if no
    type of the range holds all values of a column.
    """
    end = shown.version if last is None else last
    with shown.context.database.read() as session:
        found = definitions.between(session, shown.log_head.table_id, max(first - 1, 0), end + 1)
    schema = shown.schema
    # From the newest: an error then names the latest version at which to split the range.
    for _, until, definition in reversed(found):
        schema = _widest(shown, schema, definition, until)
    if schema is shown.schema:
        return shown
    return replace(shown, definition=replace(shown.definition, schema=schema))


def in_widest_type_of(shown: TableSnapshot, other: TableSnapshot) -> TableSnapshot:
    """Return a snapshot in which each column has the wider type of the two snapshots."""
    schema = _widest(shown, shown.schema, other.definition, None)
    if schema is shown.schema:
        return shown
    return replace(shown, definition=replace(shown.definition, schema=schema))


def _widest(shown: TableSnapshot, schema: Schema, past: Definition, until: int | None) -> Schema:
    """Return a schema with the wider type of each field, of its own and of a past definition."""
    known = past.schema
    if known == schema:
        return schema

    def wider(field: Field) -> Field:
        match field.type:
            case Struct(members):
                return _with(field, Struct(tuple(map(wider, members))))
            case ListOf(element):
                return _with(field, ListOf(wider(element)))
            case MapOf(key, value):
                return _with(field, MapOf(wider(key), wider(value)))
            case kind:
                had = known.by_id.get(field.id)
                if had is None or widens(had.type, kind):
                    return field
                if widens(kind, had.type):
                    return _with(field, had.type)
                raise _no_common_type(shown, field, had.type, until)

    fields = tuple(map(wider, schema.fields))
    return schema if _same(fields, schema.fields) else replace(schema, fields=fields)


def _with(field: Field, kind: Type) -> Field:
    return field if kind == field.type else replace(field, type=kind)


def _same(some: Iterable[Field], others: Iterable[Field]) -> bool:
    return all(one is other for one, other in zip(some, others, strict=True))


def _no_common_type(
    shown: TableSnapshot, field: Field, had: Type, until: int | None
) -> UnsupportedFeature:
    what = (
        f"Column {field.name!r} of {shown.name} is {field.type} and was {had} earlier:"
        " no type of the versions holds the values of all."
    )
    hint = None
    if until is not None:
        hint = f"Read the changes with until={until} first, and then with since={until + 1}."
    return UnsupportedFeature(what, hint=hint, table=shown.name, column=field.name)
