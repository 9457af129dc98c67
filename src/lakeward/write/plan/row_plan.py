"""What shall become of rows, bound to a table: the clauses of a merge, or of an update.

A plan is data. It names the files that may hold rows to change (`scopes`), and says of any rows of
the table which of them change and how. An update is a merge with nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.engines.arrow.evaluate import computed
from lakeward.engines.arrow.matching import KeyIndex
from lakeward.engines.arrow.picking import picked
from lakeward.engines.arrow.shown import python_rows
from lakeward.engines.arrow.spill import Spill
from lakeward.errors import ConstraintViolation, InvalidExpression, InvalidInput, SchemaMismatch
from lakeward.model import arguments
from lakeward.model.expressions.coercion import comparable
from lakeward.model.expressions.nodes import Column, Compare, Expression, conjuncts
from lakeward.model.expressions.sides import SOURCE, TARGET, Sides, source_name, sources, targets
from lakeward.model.expressions.when import Clause, Clauses, Does, key_names
from lakeward.model.expressions.where import parse, parse_condition, parse_value
from lakeward.model.schema import Schema
from lakeward.write.plan.key_blocks import KeyBlocks
from lakeward.write.plan.merge_source import Source
from lakeward.write.plan.row_scope import all_of, scopes_of


@dataclass(frozen=True, slots=True)
class BoundClause:
    """A clause whose expressions are bound.

    Attributes:
        does: What it does.
        condition: For which rows; None for all.
        values: By column, what is set or inserted; where nothing is set, rows stay as they are.
    """

    does: Does
    condition: Expression | None
    values: Mapping[str, Expression]


@dataclass(frozen=True, slots=True)
class RowPlan:
    """What shall become of the rows of a table.

    Attributes:
        table: Its name, for errors.
        source: The rows to be merged, by names that stand beside the table's columns.
        keys: Of each pair, what the table's side and the data's side of a key are.
        index: The data's keys; None where there is no data, or where it has blocks.
        also: What must hold beside the keys for two rows to be partners.
        matched: For rows of the table with a partner.
        not_matched: For rows of the data without one.
        alone: For rows of the table without one.
        scopes: Conditions that rows satisfy which may be changed, or that may keep a row of the
            data from being inserted; None stands for every row.
        blocks: The data's keys where they are too many for one index; None otherwise.
        spill: Holds the rows, where memory does not.
    """

    table: str
    source: pa.Table
    keys: tuple[tuple[Expression, Expression], ...]
    index: KeyIndex | None
    also: Expression | None
    matched: tuple[BoundClause, ...]
    not_matched: tuple[BoundClause, ...]
    alone: tuple[BoundClause, ...]
    scopes: tuple[Expression | None, ...]
    blocks: KeyBlocks | None = None
    spill: Spill | None = None

    @property
    def has_data(self) -> bool:
        """Whether rows may have partners; those of an update have none."""
        return self.index is not None or self.blocks is not None

    @property
    def needed(self) -> set[str]:
        """The table's columns that tell which rows change."""
        found = [target for target, _ in self.keys]
        found += [c.condition for c in (*self.matched, *self.alone) if c.condition is not None]
        if self.also is not None:
            found.append(self.also)
        return set().union(*map(targets, found))

    @property
    def is_plain_delete(self) -> bool:
        """Whether every row with a partner goes, so that a second one does no harm."""
        return [(c.does, c.condition) for c in self.matched] == [(Does.DELETE, None)]


def update_plan(schema: Schema, table: str, values: object, where: str | None) -> RowPlan:
    """The plan of an update.

    Raises:
        InvalidInput: Nothing is set, or a column that the table does not have.
        InvalidExpression: An expression that does not fit.
    """
    given = arguments.mapping(values, "set")
    if not given:
        what = f"This update of {table} sets nothing."
        raise InvalidInput(what, hint="Give set={column: expression}.", table=table)
    scope = None if where is None else parse(where, schema)
    bound = _values(given, Sides(schema, None), schema, table)
    clause = BoundClause(Does.UPDATE, scope, bound)
    return RowPlan(table, pa.table({}), (), None, None, (), (), (clause,), (scope,))


def merge_plan(
    schema: Schema, table: str, source: Source, on: str | Sequence[str], clauses: Clauses
) -> RowPlan:
    """The plan of a merge.

    Raises:
        InvalidInput: A key that cannot be one, or a column that is not there.
        InvalidExpression: An expression that does not fit.
        SchemaMismatch: A column of the data that the table does not have and no expression uses.
        ConstraintViolation: A key with a missing value, where `on` names columns.
    """
    both = Sides(schema, source.schema)
    named = key_names(on, schema.names)
    if named is None:
        condition = parse_condition(str(on), both.resolve)
        keys, also = _split(condition)
    else:
        _check_key(named, schema, source, table)
        keys = [
            (Column(schema.by_name[n]), both.resolve([SOURCE, n])) for n in dict.fromkeys(named)
        ]
        also = ()
    set_all = [n for n in source.schema.names if n not in source.extra and n not in (named or ())]
    insert_all = [n for n in source.schema.names if n not in source.extra]
    matched = [_bound(c, both, schema, table, set_all) for c in clauses.matched]
    not_matched = [
        _bound(c, Sides(None, source.schema), schema, table, insert_all)
        for c in clauses.not_matched
    ]
    alone = [
        _bound(c, Sides(schema, None), schema, table, ()) for c in clauses.not_matched_by_source
    ]
    _check_used(source, [e for pair in keys for e in pair], also, [*matched, *not_matched], table)
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
    others = [c.condition for c in alone]
    return RowPlan(
        table,
        rows,
        tuple(keys),
        index,
        all_of(also),
        tuple(matched),
        tuple(not_matched),
        tuple(alone),
        scopes_of(keys, found, also, others, listed=index is not None),
        blocks,
        source.spill,
    )


def _check_key(names: Sequence[str], schema: Schema, source: Source, table: str) -> None:
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
    """The pairs of a key, and what else must hold.

    Raises:
        InvalidExpression: There is no pair: every row would have to be compared with every other.
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
        values = _values(clause.values, sides, schema, table)
    return BoundClause(clause.does, condition, values)


def _values(
    given: Mapping[str, str], sides: Sides, schema: Schema, table: str
) -> dict[str, Expression]:
    unknown = next((n for n in given if n not in schema.by_name), None)
    if unknown is not None:
        what = f"There is no column {unknown!r} in table {table}."
        hint = f"It has {', '.join(schema.names)}."
        raise InvalidInput(what, hint=hint, table=table, column=unknown)
    return {n: parse_value(text, sides.resolve, schema.by_name[n]) for n, text in given.items()}


def _check_used(
    source: Source,
    keys: Sequence[Expression],
    also: Sequence[Expression],
    clauses: Sequence[BoundClause],
    table: str,
) -> None:
    read = [*keys, *also]
    for clause in clauses:
        read += [*clause.values.values(), *([] if clause.condition is None else [clause.condition])]
    used: set[str] = set().union(*map(sources, read))
    unused = next((n for n in source.extra if n not in used), None)
    if unused is not None:
        what = f"The data for {table} has a column {unused!r}, which the table does not have."
        hint = f"Leave it out, or use source.{unused} in an expression."
        raise SchemaMismatch(what, hint=hint, table=table, extra=list(source.extra))
