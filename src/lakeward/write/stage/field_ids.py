"""Field ids of files that others wrote, for a format that finds columns by them.

Iceberg takes a column by its id, wherever it stands and whatever its name. So a file for an Iceberg
table has the table's own ids, or none at all; then the table's name mapping tells.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from lakeward.errors import SchemaMismatch
from lakeward.formats.iceberg.names import UNNUMBERED
from lakeward.model.definition import Definition
from lakeward.model.types import Field, ListOf, MapOf, Struct

_ID = b"PARQUET:field_id"


def numbering(
    given: pa.Schema, definition: Definition, table: str, path: str
) -> dict[str, bool] | None:
    """What is noted of a file's field ids: that it has none, or nothing where they are right.

    Args:
        given: The file's columns.
        definition: The table's.
        table: Its name, for errors.
        path: The file, for errors.

    Raises:
        SchemaMismatch: A column has the id of another one, or some have ids and some have none.
    """
    found = [
        known
        for field in definition.schema
        if given.get_field_index(field.name) >= 0
        for known in _ids(given.field(field.name), field, field.name)
    ]
    if all(number is None for _, _, number in found):
        return {UNNUMBERED: True}
    for column, field, number in found:
        if number != field.id:
            has = "no field id" if number is None else f"the field id {number}"
            what = f"Column {column} of file {path!r} has {has}; in {table} it has {field.id}."
            hint = "Readers would take it for another column. Append the rows instead."
            raise SchemaMismatch(what, hint=hint, table=table, column=column, path=path)
    return None


def _ids(given: pa.Field, field: Field, path: str) -> Iterator[tuple[str, Field, int | None]]:
    number = (given.metadata or {}).get(_ID)
    yield path, field, None if number is None else int(number)
    match field.type:
        case Struct(parts):
            for part in parts:
                if given.type.get_field_index(part.name) >= 0:
                    yield from _ids(given.type.field(part.name), part, f"{path}.{part.name}")
        case ListOf(element):
            yield from _ids(given.type.value_field, element, f"{path}.element")
        case MapOf(key, value):
            yield from _ids(given.type.key_field, key, f"{path}.key")
            yield from _ids(given.type.item_field, value, f"{path}.value")
