"""The data of a merge: its columns made to fit the table's before anything is looked at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from lakeward.engines.arrow.conform import conform
from lakeward.engines.arrow.input import tables_of
from lakeward.errors import InvalidInput, SchemaMismatch
from lakeward.model.schema import Schema


@dataclass(frozen=True, slots=True)
class Source:
    """Rows to be merged, all of them in memory.

    Attributes:
        rows: With the types of `schema`.
        schema: Columns that the table has too have its types; others have their own.
        extra: The names of those others.
    """

    rows: pa.Table
    schema: Schema
    extra: tuple[str, ...]


def source_of(data: Any, schema: Schema, table: str) -> Source:
    """The rows that a user gives.

    Raises:
        InvalidInput: Rows cannot be made of it.
        SchemaMismatch: A column does not fit the table's of the same name.
    """
    parts = [*tables_of(data, _expected(data, schema), table)]
    if not parts:
        parts = [schema.arrow.empty_table()]
    try:
        rows = pa.concat_tables(parts)
    except pa.ArrowException as error:
        what = f"The batches of data for {table} have different columns: {error}."
        raise SchemaMismatch(what, hint="Give them one schema.", table=table) from error
    names = rows.column_names
    twice = next((n for n in names if names.count(n) > 1), None)
    if twice is not None:
        what = f"The data for {table} has the column {twice!r} more than once."
        raise SchemaMismatch(what, table=table, columns=[twice])
    extra = tuple(n for n in names if n not in schema.by_name)
    own = Schema.from_arrow(pa.schema([rows.schema.field(n) for n in extra])) if extra else None
    known = [schema.by_name[n] if own is None or n not in extra else own.by_name[n] for n in names]
    # What is required is asked of the rows that are written, not of those that are given.
    fields = tuple(replace(f, nullable=True, default=None) for f in known)
    found = Schema(fields, schema.last_id)
    return Source(conform(rows, found, table), found, extra)


def _expected(data: Any, schema: Schema) -> pa.Schema:
    """What plain values are read as: the table's types, and for other columns what they look like.

    Raises:
        InvalidInput: Such a column has no one type.
    """
    found = list(schema.arrow)
    for name, values in _plain(data):
        if name in schema.by_name or not isinstance(name, str):
            continue
        try:
            found.append(pa.field(name, pa.array(values).type))
        except (pa.ArrowException, TypeError, ValueError) as error:
            what = f"Column {name!r} of the data has values of no one type: {error}."
            raise InvalidInput(what, hint="Give an Arrow table.", column=name) from error
    return pa.schema(found)


def _plain(data: Any) -> Iterator[tuple[Any, Sequence[Any]]]:
    if isinstance(data, Mapping):
        yield from ((name, list(values)) for name, values in data.items())
    elif isinstance(data, list) and data and all(isinstance(row, Mapping) for row in data):
        names = dict.fromkeys(name for row in data for name in row)
        yield from ((name, [row.get(name) for row in data]) for name in names)
