"""Plans for rows: which rows of a table change, and how.

A plan is data. Its `scopes` choose the files that may hold rows to change; its clauses say of any
rows of the table which of them change and how. DELETE, UPDATE and MERGE are all plans, and
`lakeward.write.rows` carries them out.
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
"""Up to so many keys a scope lists each; beyond that it has the smallest and the largest."""


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
        source: The rows to be merged, by names that no column of the table can have.
        keys: Of each pair, the table's side and the data's side of a key.
        index: The data's keys; None where there is no data, or where it has blocks.
        residual: What must hold beside the keys for two rows to be partners.
        matched: Clauses for rows of the table with a partner.
        not_matched: Clauses for rows of the data without one.
        unmatched_target: Clauses for rows of the table without one.
        scopes: Conditions that rows satisfy which may be changed, or that may keep a row of the
            data from being inserted; None stands for every row.
        blocks: The data's keys where they are too many for one index; None otherwise.
        spill: Holds the rows, where memory does not.
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
        """The clause whose condition alone decides which rows change; None if there is more."""
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
        """Whether it deletes every row that matches a source row; then several may match."""
        return [(c.does, c.condition) for c in self.matched] == [(Does.DELETE, None)]

    def deletes_all_of(self, file: DataFile) -> bool:
        """Whether partition values and statistics prove that every row of a file goes."""
        clause = self.only_clause
        if clause is None or clause.does is not Does.DELETE:
            return False
        return clause.condition is None or file_always_matches(clause.condition, file)


def delete_plan(table: str, condition: Expression | None) -> RowPlan:
    """The plan that deletes the rows for which a condition is true; None stands for all rows."""
    clause = BoundClause(Does.DELETE, condition, {})
    return _plan_without_data(table, clause)


def delete_keys_plan(schema: Schema, table: str, keys: pa.Table) -> RowPlan:
    """The plan that deletes the rows that have one of some keys.

    The columns of `keys` make the key; each key is there once, without missing values.
    """
    both = Sides(schema, schema)
    names = keys.column_names
    pairs = tuple((Column(schema.by_name[n]), both.resolve([SOURCE, n])) for n in names)
    rows = keys.rename_columns([source_name(n) for n in names])
    clause = BoundClause(Does.DELETE, None, {})
    # Bounds: to compare every row that is read with a list costs more than the index does.
    scopes = scopes_of(pairs, keys.columns, (), (), listed=False)
    return RowPlan(table, rows, pairs, KeyIndex(keys.columns), None, (clause,), (), (), scopes)


def update_plan(schema: Schema, table: str, values: object, where: str | None) -> RowPlan:
    """The plan of an update; columns and expressions that do not fit the table are refused."""
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
    """Expressions by column, parsed and given the types of the columns."""
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
    """Conditions for rows that may have a partner, and for those that may change without one.

    `found` has all keys of the data, or only their bounds unless `listed`. `unmatched_target` has
    the conditions of clauses for rows without a partner; None stands for all of them.
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
    """The conjunction of some conditions; None where there are none."""
    if len(terms) > 1:
        return And(tuple(terms))
    return terms[0] if terms else None


def _near(field: Field, values: pa.ChunkedArray, *, listed: bool) -> list[Expression]:
    """Conditions that hold for a column whose value is one of some values."""
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
        # Arrow holds moments that Python's calendar does not reach.
        return []
    term = between({field: bounds})
    return [] if term is None else list(conjuncts(term))


def _any(terms: Sequence[Expression]) -> Expression:
    return Or(tuple(terms)) if len(terms) > 1 else terms[0]


def _plan_without_data(table: str, clause: BoundClause) -> RowPlan:
    return RowPlan(table, pa.table({}), (), None, None, (), (), (clause,), (clause.condition,))
