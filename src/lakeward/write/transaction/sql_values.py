"""Names, literals and rows between SQL statements and the operations of a transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lakeward.errors import InvalidInput, SchemaMismatch
from lakeward.model import parameters
from lakeward.model.schema import Schema

if TYPE_CHECKING:
    from sqlglot import exp

DIALECT: Final = "databricks"
"""How conditions and values are written for the transaction's own operations."""


def literal(value: Any) -> exp.Expr:
    """Return a value as a literal."""
    import sqlglot

    return sqlglot.parse_one(parameters.spark_literal(value), dialect=DIALECT)


def parts_of(node: exp.Expr) -> tuple[str, ...]:
    """Return the parts of a table's name. Raises `InvalidInput`."""
    from sqlglot import exp

    if not isinstance(node, exp.Table):
        what = f"{node.sql()} is not the name of a table."
        raise InvalidInput(what)
    return tuple(str(p.name) for p in node.parts)


def spelled(name: str, schema: Schema) -> str:
    """Return a column's name as the table spells it, if the table has it."""
    return next((n for n in schema.names if n.lower() == name.lower()), name)


def nullable(schema: pa.Schema) -> pa.Schema:
    """Return a schema whose columns may be null, without metadata."""
    return pa.schema([pa.field(f.name, f.type) for f in schema])


def fitted(rows: pa.Table, schema: Schema, names: Sequence[str] | None, table: str) -> pa.Table:
    """Map rows by position to columns of a table; columns that are not named are left out."""
    wanted = list(schema.names if names is None else names)
    if rows.num_columns != len(wanted):
        what = f"{table} takes {len(wanted)} values a row here, and {rows.num_columns} are given."
        hint = f"They are for {', '.join(wanted)}."
        raise SchemaMismatch(what, hint=hint, table=table)
    spelled = {n.lower(): n for n in schema.names}
    unknown = [n for n in wanted if n.lower() not in spelled]
    if unknown:
        what = f"Table {table} has no column {unknown[0]!r}."
        raise InvalidInput(what, hint=f"It has {', '.join(schema.names)}.", table=table)
    types = {f.name: f.type for f in schema.to_arrow()}
    columns = {}
    for name, column in zip(wanted, rows.columns, strict=True):
        own = spelled[name.lower()]
        try:
            columns[own] = column if column.type.equals(types[own]) else column.cast(types[own])
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            columns[own] = column  # an error is raised when it is written
    for field in schema:
        if field.name not in columns and field.nullable and field.default is None:
            columns[field.name] = pa.nulls(rows.num_rows, types[field.name])
    return pa.table(columns)
