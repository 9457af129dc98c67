"""A merge, and an update, as one statement of Spark SQL: names, and expressions that were read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakeward.engines.spark.statement import checked_expression
from lakeward.errors import InvalidInput
from lakeward.model import arguments
from lakeward.model.expressions.nodes import Expression
from lakeward.model.expressions.render import render
from lakeward.model.expressions.when import Clause, Clauses, Does, key_names
from lakeward.model.quoting import identifier
from lakeward.model.schema import Schema


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
    """The statement of a merge."""
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
    """The statement of an update."""
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
