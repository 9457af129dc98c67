"""Which rows a plan may change, as conditions: files are chosen by them, and conflicts found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from lakeward.engines.arrow.keys import span
from lakeward.model.expressions.coercion import one_of
from lakeward.model.expressions.nodes import (
    And,
    Column,
    Compare,
    Expression,
    Literal,
    Or,
    conjuncts,
)
from lakeward.model.expressions.sides import sources
from lakeward.model.keys import between
from lakeward.model.types import Field
from lakeward.model.values import Value, to_neutral

_LISTED: Final = 1000
"""So many keys are looked for one by one; beyond that, between the smallest and the largest."""


def scopes_of(
    keys: Sequence[tuple[Expression, Expression]],
    found: Sequence[pa.ChunkedArray],
    also: Sequence[Expression],
    alone: Sequence[Expression | None],
    *,
    listed: bool = True,
) -> tuple[Expression | None, ...]:
    """Conditions for rows that may have a partner, and for those that may change without one.

    Args:
        keys: Of each pair, the table's side and the data's.
        found: The data's keys, or bounds of them.
        also: What must hold beside the keys.
        alone: For which rows without a partner something is done; None for all.
        listed: Whether `found` has all keys.
    """
    if None in alone:
        return (None,)
    terms = [term for term in also if not sources(term)]
    if len(found[0]):
        for (target, _), values in zip(keys, found, strict=True):
            match target:
                case Column(field, ()):
                    terms += _near(field, values, listed=listed and len(values) <= _LISTED)
    else:
        terms.append(Literal(False, Compare.type))
    conditions = [condition for condition in alone if condition is not None]
    return (all_of(terms), *([] if not conditions else [_any(conditions)]))


def all_of(terms: Sequence[Expression]) -> Expression | None:
    """All of some conditions; None where there are none."""
    if len(terms) > 1:
        return And(tuple(terms))
    return terms[0] if terms else None


def _near(field: Field, values: pa.ChunkedArray, *, listed: bool) -> list[Expression]:
    """What is known of a column's values, if they are among some."""
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
