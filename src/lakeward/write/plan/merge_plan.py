"""The plan of a merge: its clauses and its condition bound to the table and to the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.engines.arrow.expression import computed
from lakeward.engines.arrow.keys import KeyIndex, picked
from lakeward.engines.arrow.values import python_rows
from lakeward.errors import ConstraintViolation, InvalidExpression, InvalidInput, SchemaMismatch
from lakeward.model.expressions.coercion import comparable
from lakeward.model.expressions.names import SOURCE, TARGET, Sides, source_name, sources, targets
from lakeward.model.expressions.nodes import Column, Compare, Expression, conjuncts
from lakeward.model.expressions.when import Clause, Clauses, Does, key_names
from lakeward.model.expressions.where import parse_condition
from lakeward.model.schema import Schema
from lakeward.write.plan.merge_source import KeyBlocks, MergeData
from lakeward.write.plan.row_plan import BoundClause, RowPlan, all_of, bound_values, scopes_of


def merge_plan(
    schema: Schema, table: str, source: MergeData, on: str | Sequence[str], clauses: Clauses
) -> RowPlan:
    """Bind a merge to a table and to the data; raise an error if these do not fit."""
    both = Sides(schema, source.schema)
    named = key_names(on, schema.names)
    if named is None:
        condition = parse_condition(str(on), both.resolve)
        keys, residual = _split(condition)
    else:
        _check_key(named, schema, source, table)
        keys = [
            (Column(schema.by_name[n]), both.resolve([SOURCE, n])) for n in dict.fromkeys(named)
        ]
        residual = ()
    set_all = [n for n in source.schema.names if n not in source.extra and n not in (named or ())]
    insert_all = [n for n in source.schema.names if n not in source.extra]
    matched = [_bound(c, both, schema, table, set_all) for c in clauses.matched]
    not_matched = [
        _bound(c, Sides(None, source.schema), schema, table, insert_all)
        for c in clauses.not_matched
    ]
    unmatched_target = [
        _bound(c, Sides(schema, None), schema, table, ()) for c in clauses.not_matched_by_source
    ]
    _check_used(
        source, [e for pair in keys for e in pair], residual, [*matched, *not_matched], table
    )
    rows = source.rows.rename_columns([source_name(n) for n in source.rows.column_names])
    what = f"The key of {table}"
    index, blocks = None, None
    if source.block_rows is None:
        wanted = {str(n): key for n, (_, key) in enumerate(keys)}
        found = list(computed(rows, wanted, what).values())
        index = KeyIndex(found)
    else:
        blocks = KeyBlocks(rows, [key for _, key in keys], source.block_rows, what)
        found = blocks.bounds()
    others = [c.condition for c in unmatched_target]
    return RowPlan(
        table,
        rows,
        tuple(keys),
        index,
        all_of(residual),
        tuple(matched),
        tuple(not_matched),
        tuple(unmatched_target),
        scopes_of(keys, found, residual, others, listed=index is not None),
        blocks,
        source.spill,
    )


def _check_key(names: Sequence[str], schema: Schema, source: MergeData, table: str) -> None:
    for known, where in ((schema, f"table {table}"), (source.schema, "the data")):
        missing = next((n for n in names if n not in known.by_name), None)
        if missing is not None:
            what = f"There is no column {missing!r} in {where}."
            hint = f"It has {', '.join(known.names)}."
            raise InvalidInput(what, hint=hint, table=table, column=missing)
    for name in names:
        kind = schema.by_name[name].type
        if not comparable(kind):
            what = f"Column {name} of {table} is {kind}, which cannot be a key."
            raise InvalidInput(what, hint="Use a column of plain values.", column=name)
        count = source.rows[name].null_count
        if count:
            missing = "1 missing value" if count == 1 else f"{count} missing values"
            what = f"Key column {name} of the data for {table} has {missing}."
            hint = "Nothing was changed. Leave such rows out, or give on= as an expression."
            raise ConstraintViolation(
                what,
                hint=hint,
                table=table,
                constraint=f"key {', '.join(names)}",
                column=name,
                count=count,
                sample=_rows_without(source.rows, name),
            )


def _rows_without(rows: pa.Table, name: str) -> list[dict[str, Any]]:
    places = pc.indices_nonzero(pc.is_null(rows[name])).slice(0, 5)
    return python_rows(picked(rows, places.to_numpy().astype(np.int64)))


def _split(
    condition: Expression,
) -> tuple[list[tuple[Expression, Expression]], tuple[Expression, ...]]:
    """Split a condition into pairs of keys (table's side, data's side) and the remaining terms.

    Raises `InvalidExpression` if there is no pair.
    """
    keys: list[tuple[Expression, Expression]] = []
    rest: list[Expression] = []
    for term in conjuncts(condition):
        match term:
            case Compare("=", left, right):
                sides = _sides(left), _sides(right)
            case _:
                rest.append(term)
                continue
        if sides == ({TARGET}, {SOURCE}):
            keys.append((left, right))
        elif sides == ({SOURCE}, {TARGET}):
            keys.append((right, left))
        else:
            rest.append(term)
    if not keys:
        what = (
            "The condition of a merge must say that a column of the table equals one of the data."
        )
        hint = "Such as on='target.id = source.id AND target.day >= source.since'."
        raise InvalidExpression(what, hint=hint)
    return keys, tuple(rest)


def _sides(expression: Expression) -> set[str]:
    found = {TARGET} if targets(expression) else set()
    return found | ({SOURCE} if sources(expression) else set())


def _bound(
    clause: Clause, sides: Sides, schema: Schema, table: str, everything: Sequence[str]
) -> BoundClause:
    condition = None
    if clause.condition is not None:
        condition = parse_condition(clause.condition, sides.resolve)
    if clause.does is Does.DELETE:
        return BoundClause(clause.does, condition, {})
    if clause.values is None:
        values: Mapping[str, Expression] = {n: sides.resolve([SOURCE, n]) for n in everything}
    else:
        values = bound_values(clause.values, sides, schema, table)
    return BoundClause(clause.does, condition, values)


def _check_used(
    source: MergeData,
    keys: Sequence[Expression],
    residual: Sequence[Expression],
    clauses: Sequence[BoundClause],
    table: str,
) -> None:
    read = [*keys, *residual]
    for clause in clauses:
        read += [*clause.values.values(), *([] if clause.condition is None else [clause.condition])]
    used: set[str] = set().union(*map(sources, read))
    unused = next((n for n in source.extra if n not in used), None)
    if unused is not None:
        what = f"The data for {table} has a column {unused!r}, which the table does not have."
        hint = f"Leave it out, or use source.{unused} in an expression."
        raise SchemaMismatch(what, hint=hint, table=table, extra=list(source.extra))
