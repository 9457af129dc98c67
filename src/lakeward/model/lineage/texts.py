"""Renders operations of a transaction as SQL statements, which lineage parses; none is executed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from lakeward.model.expressions.when import Clause, Clauses, Does, key_names
from lakeward.model.lineage.origin import ROWS
from lakeward.model.quoting import identifier

DIALECT: Final = "databricks"
"""The dialect of the expressions in operations of a transaction."""


def update_text(table: str, values: Mapping[str, str], where: str | None) -> str:
    """Return the UPDATE statement of an update of columns by expressions."""
    written = ", ".join(f"{identifier(column)} = {value}" for column, value in values.items())
    condition = f" WHERE {where}" if where else ""
    return f"UPDATE {_name(table)} SET {written}{condition}"  # noqa: S608  is only parsed


def delete_text(table: str, where: str) -> str:
    """Return the DELETE statement of a deletion by a condition."""
    return f"DELETE FROM {_name(table)} WHERE {where}"  # noqa: S608  is only parsed


def insert_text(table: str) -> str:
    """Return the INSERT statement that adds the rows of an origin, by column names."""
    return f"INSERT INTO {_name(table)} BY NAME SELECT * FROM {identifier(ROWS)}"  # noqa: S608  is only parsed


def merge_text(
    table: str,
    columns: Sequence[str],
    given: Sequence[str] | None,
    on: str | Sequence[str],
    clauses: Clauses,
) -> str:
    """Return the MERGE statement that merges the rows of an origin.

    Args:
        table: The table.
        columns: The columns of the table.
        given: The columns of the rows; None if they are not known yet.
        on: The key columns, or a condition.
        clauses: The clauses of the merge.
    """
    keys = key_names(on, columns)
    pairs = [f"target.{identifier(c)} = source.{identifier(c)}" for c in keys or ()]
    condition = str(on) if keys is None else " AND ".join(pairs)
    rest = None if given is None else [c for c in given if c not in (keys or ())] or given
    written = [_clause("WHEN MATCHED", c, rest) for c in clauses.matched]
    written += [_clause("WHEN NOT MATCHED", c, given) for c in clauses.not_matched]
    by_source = clauses.not_matched_by_source
    written += [_clause("WHEN NOT MATCHED BY SOURCE", c, ()) for c in by_source]
    begun = f"MERGE INTO {_name(table)} AS target USING {identifier(ROWS)} AS source"
    return f"{begun} ON {condition} {' '.join(written)}"


def _clause(when: str, clause: Clause, every: Sequence[str] | None) -> str:
    condition = "" if clause.condition is None else f" AND {clause.condition}"
    if clause.does is Does.DELETE:
        return f"{when}{condition} THEN DELETE"
    values = clause.values
    if values is None and every is None:
        return (
            f"{when}{condition} THEN {'UPDATE SET' if clause.does is Does.UPDATE else 'INSERT'} *"
        )
    if values is None:
        values = {column: f"source.{identifier(column)}" for column in every or ()}
    if clause.does is Does.UPDATE:
        pairs = ", ".join(f"{identifier(c)} = {text}" for c, text in values.items())
        return f"{when}{condition} THEN UPDATE SET {pairs}"
    columns = ", ".join(map(identifier, values))
    given = ", ".join(values.values())
    return f"{when}{condition} THEN INSERT ({columns}) VALUES ({given})"  # noqa: S608  is only parsed


def _name(table: str) -> str:
    return identifier(*table.split("."))
