"""Row plans: which rows of a table change, and how.

A plan is data. Its `scopes` choose the files that may have rows to change; its clauses decide which
rows change and how. DELETE, UPDATE and MERGE are all plans, and `lakeward.write.rows` executes
them.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from lakeward.engines.arrow.keys import KeyIndex, span
from lakeward.engines.arrow.spill import Spill
from lakeward.errors import InvalidExpression, InvalidInput
from lakeward.model import arguments
from lakeward.model.expressions.coercion import one_of
from lakeward.model.expressions.names import SOURCE, Sides, source_name, sources, targets
from lakeward.model.expressions.nodes import (
    And,
    Column,
    Compare,
    Expression,
    Literal,
    Or,
    conjuncts,
)
from lakeward.model.expressions.when import Does
from lakeward.model.expressions.where import parse, parse_value
from lakeward.model.file import DataFile
from lakeward.model.keys import between
from lakeward.model.schema import Schema
from lakeward.model.types import Field
from lakeward.model.values import Value, to_neutral
from lakeward.read.plan import file_always_matches
from lakeward.write.plan.merge_source import KeyBlocks

_LISTED: Final = 1000
"""A scope lists up to this many keys; beyond that it has the smallest and the largest one."""


@dataclass(frozen=True, slots=True)
class BoundClause:
    """A clause whose expressions are bound.

    Attributes:
        does: What the clause does: delete, update or insert.
        condition: The rows that it applies to; None for all.
        values: The values to set or insert, by column; if empty, an update changes nothing.
    """

    does: Does
    condition: Expression | None
    values: Mapping[str, Expression]


@dataclass(frozen=True, slots=True)
class RowPlan:
    """A plan of changes to the rows of a table.

    Attributes:
        table: The table's name, for errors.
        source: The rows to be merged; column names are ones that no column of the table can have.
        keys: For each key, the table's expression and the data's expression.
        index: The index of the data's keys; None without data, or with `blocks`.
        residual: A further condition, beside equal keys, for two rows to match.
        matched: Clauses for rows of the table that match a row of the data.
        not_matched: Clauses for rows of the data that match no row of the table.
        unmatched_target: Clauses for rows of the table that match no row of the data.
        scopes: Conditions; only rows that satisfy one of them may be changed, or prevent the
            insertion of a row of the data. None means every row.
        blocks: The data's keys if they are too many for one index; None otherwise.
        spill: The temporary file of the rows, if they do not fit in memory.
    """

    table: str
    source: pa.Table
    keys: tuple[tuple[Expression, Expression], ...]
    index: KeyIndex | None
    residual: Expression | None
    matched: tuple[BoundClause, ...]
    not_matched: tuple[BoundClause, ...]
    unmatched_target: tuple[BoundClause, ...]
    scopes: tuple[Expression | None, ...]
    blocks: KeyBlocks | None = None
    spill: Spill | None = None

    @property
    def has_data(self) -> bool:
        """Whether it has source rows to match: a merge, or a deletion by keys."""
        return self.index is not None or self.blocks is not None

    @property
    def only_clause(self) -> BoundClause | None:
        """The clause whose condition alone decides which rows change; None otherwise."""
        if self.has_data or len(self.unmatched_target) != 1:
            return None
        return self.unmatched_target[0]

    @property
    def needed(self) -> set[str]:
        """The table's columns that decide which rows change."""
        found = [target for target, _ in self.keys]
        clauses = (*self.matched, *self.unmatched_target)
        found += [c.condition for c in clauses if c.condition is not None]
        if self.residual is not None:
            found.append(self.residual)
        return set().union(*map(targets, found))

    @property
    def is_plain_delete(self) -> bool:
        """Whether every row that matches is deleted; then it may match several source rows."""
        return [(c.does, c.condition) for c in self.matched] == [(Does.DELETE, None)]

    def deletes_all_of(self, file: DataFile) -> bool:
        """Return whether partition values and statistics prove that all of `file` is deleted."""
        clause = self.only_clause
        if clause is None or clause.does is not Does.DELETE:
            return False
        return clause.condition is None or file_always_matches(clause.condition, file)


def delete_plan(table: str, condition: Expression | None) -> RowPlan:
    """Return the plan that deletes the rows for which a condition is true; None for all rows."""
    clause = BoundClause(Does.DELETE, condition, {})
    return _plan_without_data(table, clause)


def delete_keys_plan(schema: Schema, table: str, keys: pa.Table) -> RowPlan:
    """Return the plan that deletes the rows whose key is in `keys`.

    The columns of `keys` are those of the key; `keys` has no duplicates and no missing values.
    """
    both = Sides(schema, schema)
    names = keys.column_names
    pairs = tuple((Column(schema.by_name[n]), both.resolve([SOURCE, n])) for n in names)
    rows = keys.rename_columns([source_name(n) for n in names])
    clause = BoundClause(Does.DELETE, None, {})
    # Only bounds: comparing every row with a list costs more than using the index.
    scopes = scopes_of(pairs, keys.columns, (), (), listed=False)
    return RowPlan(table, rows, pairs, KeyIndex(keys.columns), None, (clause,), (), (), scopes)


def update_plan(schema: Schema, table: str, values: object, where: str | None) -> RowPlan:
    """Return the plan of an update; raise an error if columns or expressions do not fit."""
    given = arguments.mapping(values, "set")
    if not given:
        what = f"This update of {table} sets nothing."
        raise InvalidInput(what, hint="Give set={column: expression}.", table=table)
    condition = None if where is None else parse(where, schema)
    bound = bound_values(given, Sides(schema, None), schema, table)
    return _plan_without_data(table, BoundClause(Does.UPDATE, condition, bound))


def bound_values(
    given: Mapping[str, str], sides: Sides, schema: Schema, table: str
) -> dict[str, Expression]:
    """Return parsed expressions by column, with the types of the columns."""
    unknown = next((n for n in given if n not in schema.by_name), None)
    if unknown is not None:
        what = f"There is no column {unknown!r} in table {table}."
        near = difflib.get_close_matches(unknown, schema.names, 1)
        hint = f"It has {', '.join(schema.names)}."
        hint = f"Did you mean {near[0]!r}? {hint}" if near else hint
        raise InvalidInput(what, hint=hint, table=table, column=unknown)
    return {n: _bound_value(text, sides, schema.by_name[n]) for n, text in given.items()}


def _bound_value(text: str, sides: Sides, field: Field) -> Expression:
    try:
        return parse_value(text, sides.resolve, field)
    except InvalidExpression as error:
        ambiguous = "is in the table and in the data" in error.what
        if str(field.type) != "string" or text.startswith("'") or ambiguous:
            raise
        quoted = "'" + text.replace("'", "''") + "'"
        what = f"Column {field.name} cannot be set to {text}: {error.what}"
        hint = f'Text needs quotes of its own, inside those of Python: "{quoted}".'
        raise InvalidExpression(what, hint=hint, **error.facts) from error


def scopes_of(
    keys: Sequence[tuple[Expression, Expression]],
    found: Sequence[pa.ChunkedArray],
    residual: Sequence[Expression],
    unmatched_target: Sequence[Expression | None],
    *,
    listed: bool = True,
) -> tuple[Expression | None, ...]:
    """Return conditions for rows that may match the data, and for those that change unmatched.

    `found` has all keys of the data, or only their bounds unless `listed`. `unmatched_target` has
    the conditions of clauses for rows that match nothing; None means all of them.
    """
    if None in unmatched_target:
        return (None,)
    terms = [term for term in residual if not sources(term)]
    if len(found[0]):
        for (target, _), values in zip(keys, found, strict=True):
            match target:
                case Column(field, ()):
                    terms += _near(field, values, listed=listed and len(values) <= _LISTED)
    else:
        terms.append(Literal(False, Compare.type))
    conditions = [condition for condition in unmatched_target if condition is not None]
    return (all_of(terms), *([] if not conditions else [_any(conditions)]))


def all_of(terms: Sequence[Expression]) -> Expression | None:
    """Return the conjunction of conditions; None if there are none."""
    if len(terms) > 1:
        return And(tuple(terms))
    return terms[0] if terms else None


def _near(field: Field, values: pa.ChunkedArray, *, listed: bool) -> list[Expression]:
    """Return conditions that a column satisfies if its value is one of `values`."""
    if pa.types.is_floating(values.type):
        return []
    each = values.unique().drop_null() if listed else None
    try:
        if each is not None and len(each):
            known = [Literal(to_neutral(field.type, v), field.type) for v in each.to_pylist()]
            return [one_of(Column(field), tuple(known))]
        bounds: tuple[Value, Value] | None = None
        low, high = span(pa.table({"key": values}))["key"]
        if low is not None:
            bounds = to_neutral(field.type, low), to_neutral(field.type, high)
    except (OverflowError, ValueError):
        # Arrow has times that are beyond Python's calendar.
        return []
    term = between({field: bounds})
    return [] if term is None else list(conjuncts(term))


def _any(terms: Sequence[Expression]) -> Expression:
    return Or(tuple(terms)) if len(terms) > 1 else terms[0]


def _plan_without_data(table: str, clause: BoundClause) -> RowPlan:
    return RowPlan(table, pa.table({}), (), None, None, (), (), (clause,), (clause.condition,))
