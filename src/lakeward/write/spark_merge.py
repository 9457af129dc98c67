"""A merge by key as one statement of Spark SQL, made of names and of expressions that were read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from lakeward.engines.spark.quoting import identifier
from lakeward.engines.spark.statement import checked_expression
from lakeward.errors import InvalidInput
from lakeward.model.schema import Schema

Action: TypeAlias = str | Mapping[str, str] | None


def merge_sql(
    schema: Schema,
    given: Sequence[str],
    *,
    target: str,
    source: str,
    table: str,
    on: Sequence[str],
    matched: Action,
    not_matched: Action,
    not_matched_by_source: Action,
) -> str:
    """The statement.

    Args:
        schema: The table's.
        given: The columns that the data has.
        target: What the table is called.
        source: What the data is called.
        table: The table's own name, for errors.
        on: The columns that make the key.
        matched: What becomes of rows of both.
        not_matched: What becomes of rows of the data alone.
        not_matched_by_source: What becomes of rows of the table alone.

    Raises:
        InvalidInput: A column that is not there, or an action that there is none of.
    """
    _check_columns(on, schema.names, f"table {table}")
    _check_columns(on, given, "the data")
    if not on:
        what = "A merge needs the columns that make its key."
        raise InvalidInput(what, hint="Give on=.")
    keys = " AND ".join(f"target.{identifier(c)} = source.{identifier(c)}" for c in on)
    clauses = [
        _changing("WHEN MATCHED", matched, "update", schema, given, on, table),
        _inserting(not_matched, schema, given, table),
        _changing(
            "WHEN NOT MATCHED BY SOURCE", not_matched_by_source, "", schema, given, on, table
        ),
    ]
    if not any(clauses):
        what = "This merge changes nothing."
        raise InvalidInput(what, hint="Give matched=, not_matched= or not_matched_by_source=.")
    begun = f"MERGE INTO {target} AS target USING {source} AS source ON {keys}"
    return " ".join([begun, *filter(None, clauses)])


def _changing(
    when: str,
    action: Action,
    all_columns: str,
    schema: Schema,
    given: Sequence[str],
    on: Sequence[str],
    table: str,
) -> str:
    if action is None:
        return ""
    if action == "delete":
        return f"{when} THEN DELETE"
    if isinstance(action, Mapping) and action:
        _check_columns(list(action), schema.names, f"table {table}")
        spelled = {c: checked_expression(text) for c, text in action.items()}
    elif all_columns and action == all_columns:
        spelled = {c: f"source.{identifier(c)}" for c in given if c not in on}
        if not spelled:
            return ""
    else:
        raise _no_action(action)
    pairs = ", ".join(f"target.{identifier(c)} = {text}" for c, text in spelled.items())
    return f"{when} THEN UPDATE SET {pairs}"


def _inserting(action: Action, schema: Schema, given: Sequence[str], table: str) -> str:
    if action is None:
        return ""
    if isinstance(action, Mapping) and action:
        _check_columns(list(action), schema.names, f"table {table}")
        spelled = {c: checked_expression(text) for c, text in action.items()}
    elif action == "insert":
        spelled = {c: f"source.{identifier(c)}" for c in given}
    else:
        raise _no_action(action)
    columns, values = ", ".join(map(identifier, spelled)), ", ".join(spelled.values())
    return f"WHEN NOT MATCHED THEN INSERT ({columns}) VALUES ({values})"


def _check_columns(wanted: Sequence[str], known: Sequence[str], where: str) -> None:
    unknown = [c for c in wanted if c not in known]
    if unknown:
        what = f"There is no column {unknown[0]!r} in {where}."
        raise InvalidInput(what, hint=f"It has {', '.join(known)}.", column=unknown[0])


def _no_action(action: object) -> InvalidInput:
    what = f"{action!r} is nothing that a merge does there."
    hint = "Use 'update', 'insert', 'delete', None, or a mapping of columns to expressions."
    return InvalidInput(what, hint=hint)
