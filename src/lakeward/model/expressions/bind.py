"""From parsed SQL to a bound expression: names become fields, every node gets a type.

Only what has a handler is understood; anything else that SQL can say is refused, down to options of
a construct that is otherwise known, so that no part of a text is ever silently dropped.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from lakeward.errors import InvalidExpression
from lakeward.model.expressions import bind_conditions, bind_values, parsed
from lakeward.model.expressions.binder import Binder, Names, condition
from lakeward.model.expressions.nodes import Expression, cost
from lakeward.model.expressions.resolve import resolve
from lakeward.model.schema import Schema

if TYPE_CHECKING:
    from sqlglot import exp

MAX_COST: Final = 1_000_000
_HANDLERS: Final = {**bind_values.HANDLERS, **bind_conditions.HANDLERS}


def bind(tree: exp.Expr, schema: Schema) -> Expression:
    """The boolean expression that a parsed condition means for this schema.

    Raises:
        InvalidExpression: It uses what is not there or not allowed, or is not boolean.
    """
    return condition(bind_value(tree, partial(resolve, schema=schema)))


def bind_value(tree: exp.Expr, names: Names) -> Expression:
    """The expression of any type that a parsed text means.

    Raises:
        InvalidExpression: It uses what is not there or not allowed.
    """
    parsed.check_depth(tree)
    found = Binder(names, _HANDLERS).bind(tree)
    if cost(found) > MAX_COST:
        what = "The expression is too complicated."
        raise InvalidExpression(what, hint="Use IN or split it.")
    return found
