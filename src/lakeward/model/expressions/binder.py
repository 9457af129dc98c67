"""Binds a parsed text: each kind of node has a handler, which binds its children."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from lakeward.errors import InvalidExpression
from lakeward.model.expressions import parsed
from lakeward.model.expressions.coercion import VOID
from lakeward.model.expressions.nodes import BOOLEAN, Column, Expression, Literal

if TYPE_CHECKING:
    from sqlglot import exp

Names: TypeAlias = Callable[[list[str]], Column]
"""Returns the column of a dotted name, which is given as its parts."""

Handler: TypeAlias = "Callable[[Binder, exp.Expr], Expression]"
"""Binds nodes of one kind."""


class Binder:
    """Binds nodes with a handler for each of the parser's keys; refuses nodes without a handler."""

    def __init__(self, names: Names, handlers: Mapping[str, Handler]) -> None:
        self.names = names
        self._handlers = handlers

    def bind(self, node: exp.Expr) -> Expression:
        """Return the bound expression of a node."""
        handler = self._handlers.get(node.key)
        if handler is None:
            raise parsed.refusal(node)
        return handler(self, node)

    def part(self, node: exp.Expr, name: str = "this") -> Expression:
        """Return the bound expression of a required part of a node."""
        return self.bind(parsed.part(node, name))

    def parts(self, node: exp.Expr) -> list[Expression]:
        """Return the bound arguments of a function: `this`, then the rest."""
        nodes = [parsed.part(node, "this")] if node.args.get("this") is not None else []
        return [self.bind(item) for item in (*nodes, *node.args.get("expressions", ()))]


def condition(found: Expression) -> Expression:
    """Return the expression; raise `InvalidExpression` if it is not boolean.

    An untyped NULL becomes a boolean one.
    """
    if found.type == VOID:
        return Literal(None, BOOLEAN)
    if found.type != BOOLEAN:
        what = f"A condition must be true or false, but this is of type {found.type}."
        raise InvalidExpression(what, hint="Compare it with something.")
    return found
