"""Converts rows to Spark DataFrames, and merges and updates to statements of Spark SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakeward.engines.arrow.conform import conform
from lakeward.engines.arrow.input import tables_of
from lakeward.engines.spark.completing import check_members, completed
from lakeward.engines.spark.parse_statement import checked_expression
from lakeward.engines.spark.types import cut_types, foreign_types
from lakeward.errors import InvalidInput, SchemaMismatch
from lakeward.model import arguments
from lakeward.model.definition import Definition
from lakeward.model.expressions.nodes import Expression
from lakeward.model.expressions.render import render
from lakeward.model.expressions.when import Clause, Clauses, Does, key_names
from lakeward.model.generated import generated_ids
from lakeward.model.quoting import identifier
from lakeward.model.schema import Schema

if TYPE_CHECKING:
    from lakeward.engines.spark.workspace import DataFrame, SparkSession


def frame_of(
    session: SparkSession, data: Any, definition: Definition, table: str, *, is_source: bool = False
) -> DataFrame:
    """Return rows as a DataFrame; raise `SchemaMismatch` if its columns do not fit the table.

    Values of a source (`is_source`) are not written as they are, but by expressions: only the names
    of its columns are checked.
    """
    if hasattr(data, "_jdf"):
        frame: DataFrame = data
        _check_names(frame.columns, definition, table)
        _check_types(frame, table)
        if not is_source:
            check_members(frame, definition.schema, table)
            _check_cut(frame, definition.schema, table)
        return completed(frame, definition.schema)
    given = [
        _fitting(rows, definition, table)
        for rows in tables_of(data, definition.schema.to_arrow(), table)
    ]
    frame = session.createDataFrame(pa.concat_tables(given) if given else pa.table({}))
    _check_names(frame.columns, definition, table)
    return frame


def _fitting(rows: pa.Table, definition: Definition, table: str) -> pa.Table:
    """Return rows with the types of the table's columns; Spark checks required columns later."""
    _check_names(rows.column_names, definition, table)
    known = definition.schema
    fields = tuple(
        replace(known.by_name[n], nullable=True, default=None) for n in rows.column_names
    )
    found = conform(rows, Schema(fields, known.last_id), table)
    return found.replace_schema_metadata(None)


def _check_types(frame: DataFrame, table: str) -> None:
    for column, kind, instead in foreign_types(frame.schema):
        what = f"Column {column} of the data for {table} is {kind}, which the table cannot keep."
        raise SchemaMismatch(what, hint=instead, table=table, columns=[column])


def _check_cut(frame: DataFrame, schema: Schema, table: str) -> None:
    for column, kind, kept in cut_types(frame.schema, schema):
        what = f"Column {column} of {table} is {kept}, and the data has {kind}."
        hint = "Values would lose a part: cast or round the column first."
        raise SchemaMismatch(what, hint=hint, table=table, columns=[column])


def _check_names(given: Sequence[str], definition: Definition, table: str) -> None:
    schema = definition.schema
    extra = [name for name in given if name not in schema.by_name]
    if extra:
        what = f"The data for {table} has {', '.join(extra)}, which the table does not have."
        hint = f"The table's columns are {', '.join(schema.names)}."
        raise SchemaMismatch(what, hint=hint, table=table, columns=extra)
    twice = sorted({name for name in given if given.count(name) > 1})
    if twice:
        what = f"The data for {table} has the column {twice[0]!r} more than once."
        raise SchemaMismatch(what, table=table, columns=twice)
    lacking = [
        f.name
        for f in schema
        if f.name not in given
        and not f.nullable
        and f.default is None
        and f.id not in generated_ids(definition)
        and f.id not in definition.identity
    ]
    if lacking:
        what = f"The data for {table} lacks {', '.join(lacking)}."
        raise SchemaMismatch(what, table=table, columns=lacking)


def merge_sql(
    schema: Schema,
    given: Sequence[str],
    *,
    target: str,
    source: str,
    table: str,
    on: str | Sequence[str],
    clauses: Clauses,
) -> str:
    """Return the SQL statement of a merge."""
    keys = key_names(on, schema.names)
    if keys is None:
        condition, keys = checked_expression(str(on)), []
    else:
        _check_columns(keys, schema.names, f"table {table}")
        _check_columns(keys, given, "the data")
        pairs = [f"target.{identifier(c)} = source.{identifier(c)}" for c in keys]
        condition = " AND ".join(pairs)
    rest = [c for c in given if c not in keys]
    written = [
        *(_clause_sql("WHEN MATCHED", c, schema, table, rest or given) for c in clauses.matched),
        *(_clause_sql("WHEN NOT MATCHED", c, schema, table, given) for c in clauses.not_matched),
        *(
            _clause_sql("WHEN NOT MATCHED BY SOURCE", c, schema, table, ())
            for c in clauses.not_matched_by_source
        ),
    ]
    begun = f"MERGE INTO {target} AS target USING {source} AS source ON {condition}"
    return " ".join([begun, *written])


def update_sql(
    schema: Schema, values: Mapping[str, str], *, target: str, table: str, where: Expression | None
) -> str:
    """Return the SQL statement of an update."""
    given = arguments.mapping(values, "set")
    if not given:
        what = f"This update of {table} sets nothing."
        raise InvalidInput(what, hint="Give set={column: expression}.", table=table)
    _check_columns(list(given), schema.names, f"table {table}")
    pairs = ", ".join(f"{identifier(c)} = {checked_expression(t)}" for c, t in given.items())
    condition = "" if where is None else f" WHERE {render(where)}"
    return f"UPDATE {target} SET {pairs}{condition}"


def _clause_sql(
    when: str, clause: Clause, schema: Schema, table: str, everything: Sequence[str]
) -> str:
    condition = ""
    if clause.condition is not None:
        condition = f" AND {checked_expression(clause.condition)}"
    if clause.does is Does.DELETE:
        return f"{when}{condition} THEN DELETE"
    if clause.values is None:
        values = {c: f"source.{identifier(c)}" for c in everything}
    else:
        _check_columns(list(clause.values), schema.names, f"table {table}")
        values = {c: checked_expression(text) for c, text in clause.values.items()}
    if clause.does is Does.UPDATE:
        pairs = ", ".join(f"target.{identifier(c)} = {text}" for c, text in values.items())
        return f"{when}{condition} THEN UPDATE SET {pairs}"
    columns = ", ".join(map(identifier, values))
    return f"{when}{condition} THEN INSERT ({columns}) VALUES ({', '.join(values.values())})"


def _check_columns(wanted: Sequence[str], known: Sequence[str], where: str) -> None:
    unknown = [c for c in wanted if c not in known]
    if unknown:
        what = f"There is no column {unknown[0]!r} in {where}."
        raise InvalidInput(what, hint=f"It has {', '.join(known)}.", column=unknown[0])
