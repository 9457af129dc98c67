"""Converts names, literals and rows between SQL statements and operations of a transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lakeward.errors import InvalidInput, SchemaMismatch, UnsupportedFeature
from lakeward.model import parameters
from lakeward.model.definition import Definition
from lakeward.model.generated import generated_ids
from lakeward.model.schema import Schema

if TYPE_CHECKING:
    from sqlglot import exp

DIALECT: Final = "databricks"
"""The SQL dialect of conditions and values for the transaction's own operations."""


def literal(value: Any) -> exp.Expr:
    """Return a value as an SQL literal."""
    import sqlglot

    return sqlglot.parse_one(parameters.spark_literal(value), dialect=DIALECT)


def parts_of(node: exp.Expr) -> tuple[str, ...]:
    """Return the parts of a table's name; raise `InvalidInput` if it is not a name."""
    from sqlglot import exp

    if not isinstance(node, exp.Table):
        what = f"{node.sql()} is not the name of a table."
        raise InvalidInput(what)
    return tuple(str(p.name) for p in node.parts)


def assigned(column: exp.Expr, target: Sequence[str]) -> str:
    """Return the name of a column that a statement assigns.

    Args:
        column: The column, with its qualifier.
        target: The possible qualifiers of the changed table's columns, in lower case.
    """
    from sqlglot import exp

    parts = [p.name for p in column.parts] if isinstance(column, exp.Column) else []
    if not parts or (parts[1:] and ".".join(parts[:-1]).lower() not in target):
        what = f"{column.sql()} is not a column of the changed table."
        hint = "Whole columns are assigned; give a struct a new value as a whole."
        raise UnsupportedFeature(what, hint=hint)
    return str(parts[-1])


def check_assigned(merge: exp.Expr, target: Sequence[str]) -> None:
    """Raise `UnsupportedFeature` if a MERGE assigns anything but columns of its target."""
    from sqlglot import exp

    for when in merge.args["whens"].expressions:
        then = when.args["then"]
        listed = then.this.expressions if isinstance(then.this, exp.Tuple) else ()
        pairs = then.expressions if isinstance(then, exp.Update) else ()
        for column in (*listed, *(e.this for e in pairs if isinstance(e, exp.EQ))):
            assigned(column, target)


def spelled(name: str, schema: Schema) -> str:
    """Return a column's name in the table's spelling, if the table has it; else unchanged."""
    return next((n for n in schema.names if n.lower() == name.lower()), name)


def nullable(schema: pa.Schema) -> pa.Schema:
    """Return a schema without metadata in which all columns are nullable."""
    return pa.schema([pa.field(f.name, f.type) for f in schema])


def inserted_names(definition: Definition, count: int) -> list[str]:
    """Return the columns that rows of `count` values are for, in an INSERT without a column list.

    The values are for all columns, or for all but generated and identity columns.
    """
    schema = definition.schema
    if count == len(schema.names):
        return list(schema.names)
    filled = {*generated_ids(definition), *definition.identity}
    return [f.name for f in schema if f.id not in filled]


def fitted(
    rows: pa.Table, definition: Definition, names: Sequence[str] | None, table: str
) -> pa.Table:
    """Return rows whose values, given by position, are those of the columns `names`.

    None means all columns. A column that is not named becomes null if it is nullable, has no
    default and is not generated; otherwise it is left out, and computed when the rows are written.
    """
    schema = definition.schema
    wanted = list(inserted_names(definition, rows.num_columns) if names is None else names)
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
    computed = generated_ids(definition)
    for field in schema:
        absent = field.name not in columns and field.id not in computed
        if absent and field.nullable and field.default is None:
            columns[field.name] = pa.nulls(rows.num_rows, types[field.name])
    return pa.table(columns)
