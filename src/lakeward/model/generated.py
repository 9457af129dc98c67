"""Columns that are computed from others by an expression that Lakeward can evaluate.

Partition transforms are not among them: they are `Derived`, and reads skip files by them.
"""

from __future__ import annotations

from functools import partial

from lakeward.errors import InvalidExpression
from lakeward.model.definition import Definition, known
from lakeward.model.expressions.names import resolve
from lakeward.model.expressions.nodes import Expression
from lakeward.model.schema import Schema
from lakeward.model.types import Field


def generated_ids(definition: Definition) -> frozenset[int]:
    """Return the ids of all generated columns, `Derived` ones included; data may lack them."""
    return known(definition, _ids)


def expressions(definition: Definition) -> dict[int, Expression]:
    """Return the expression of each column in `Definition.computed`, by column id."""
    return known(definition, _expressions)


def expression_of(text: str, field: Field, schema: Schema) -> Expression:
    """Parse a column's expression; raise `InvalidExpression` if Lakeward cannot evaluate it.

    The expression must not refer to the column itself.
    """
    # Few tables have such columns, and parsing an expression loads the parser.
    from lakeward.model.expressions.where import parse_value

    others = Schema(tuple(f for f in schema.fields if f.id != field.id), schema.last_id)
    return parse_value(text, partial(resolve, schema=others), field)


def is_computable(text: str, field: Field, schema: Schema) -> bool:
    """Return whether Lakeward can evaluate the expression of a column."""
    try:
        expression_of(text, field, schema)
    except InvalidExpression:
        return False
    return True


def _ids(definition: Definition) -> frozenset[int]:
    return frozenset((*(i for i in definition.derived if i > 0), *definition.computed))


def _expressions(definition: Definition) -> dict[int, Expression]:
    schema = definition.schema
    return {i: expression_of(t, schema.by_id[i], schema) for i, t in definition.computed.items()}
