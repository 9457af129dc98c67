"""Binds conditions of parsed SQL: comparisons, IN, LIKE, IS, and logical operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from lakeward.errors import InvalidExpression
from lakeward.model.expressions import coercion, literals, parsed
from lakeward.model.expressions.binder import Binder, Handler, condition
from lakeward.model.expressions.coercion import VOID
from lakeward.model.expressions.literals import STRING
from lakeward.model.expressions.nodes import (
    BOOLEAN,
    And,
    Compare,
    Comparison,
    Expression,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
)
from lakeward.model.types import Type

if TYPE_CHECKING:
    from sqlglot import exp

_COMPARISONS: Final[dict[str, Comparison]] = {
    "eq": "=",
    "neq": "!=",
    "lt": "<",
    "lte": "<=",
    "gt": ">",
    "gte": ">=",
    "nullsafeeq": "<=>",
}


def _logical(binder: Binder, node: exp.Expr) -> Expression:
    terms = [condition(binder.bind(term)) for term in parsed.chain(node)]
    kind = And if node.key == "and" else Or
    # A term may itself have become a chain, as BETWEEN does.
    flat = [part for term in terms for part in (term.terms if type(term) is kind else (term,))]
    if kind is Or:
        flat = _gathered(flat)
    return kind(tuple(flat)) if len(flat) > 1 else flat[0]


def _negation(binder: Binder, node: exp.Expr) -> Expression:
    parsed.only(node, "this")
    return Not(condition(binder.part(node)))


def _comparison(binder: Binder, node: exp.Expr) -> Expression:
    parsed.only(node, "this", "expression")
    op = _COMPARISONS[node.key]
    return coercion.compare(op, binder.part(node), binder.part(node, "expression"))


def _distinct(binder: Binder, node: exp.Expr) -> Expression:
    parsed.only(node, "this", "expression")
    return Not(coercion.compare("<=>", binder.part(node), binder.part(node, "expression")))


def _identity(binder: Binder, node: exp.Expr) -> Expression:
    parsed.only(node, "this", "expression")
    operand, other = binder.part(node), parsed.part(node, "expression")
    match other.key:
        case "null":
            return _is_null(operand)
        case "boolean":
            wanted = Literal(bool(other.args["this"]), BOOLEAN)
            return Compare("<=>", condition(operand), wanted)
        case _:
            what = "IS must be followed by NULL, TRUE or FALSE."
            raise InvalidExpression(what, hint="Use = or <=> to compare values.")


def _member(binder: Binder, node: exp.Expr) -> Expression:
    if node.args.get("query"):
        raise parsed.refusal(parsed.part(node, "query"))
    parsed.only(node, "this", "expressions")
    operand = binder.part(node)
    values = [binder.bind(item) for item in node.args.get("expressions") or ()]
    if not values:
        what = "IN needs at least one value."
        raise InvalidExpression(what)
    if all(isinstance(value, Literal) for value in values):
        return coercion.member(operand, cast(list[Literal], values))
    terms = tuple(coercion.compare("=", operand, value) for value in values)
    return Or(terms) if len(terms) > 1 else terms[0]


def _between(binder: Binder, node: exp.Expr) -> Expression:
    parsed.only(node, "this", "low", "high")
    operand = binder.part(node)
    low = coercion.compare(">=", operand, binder.part(node, "low"))
    high = coercion.compare("<=", operand, binder.part(node, "high"))
    return And((low, high))


def _like(binder: Binder, node: exp.Expr, escape: str = "\\") -> Expression:
    parsed.only(node, "this", "expression", "negate")
    operand, pattern = binder.part(node), binder.part(node, "expression")
    if VOID in (operand.type, pattern.type):
        return Literal(None, BOOLEAN)
    _require(operand, STRING, "LIKE")
    if not isinstance(pattern, Literal) or pattern.type != STRING:
        what = "The pattern of LIKE must be a string."
        raise InvalidExpression(what)
    ignore_case = node.key == "ilike"
    found = _match(operand, str(pattern.value), escape, ignore_case=ignore_case)
    return Not(found) if node.args.get("negate") else found


def _escape(binder: Binder, node: exp.Expr) -> Expression:
    parsed.only(node, "this", "expression")
    inner, mark = parsed.part(node, "this"), parsed.part(node, "expression").name
    if inner.key not in ("like", "ilike"):
        raise parsed.refusal(node)
    if len(mark) != 1:
        what = f"The escape character of LIKE must be one character, not {mark!r}."
        raise InvalidExpression(what)
    return _like(binder, inner, mark)


def _not_a_number(binder: Binder, node: exp.Expr) -> Expression:
    parsed.only(node, "this")
    operand = binder.part(node)
    if not coercion.is_floating(operand.type):
        what = f"A value of type {operand.type} is never NaN."
        raise InvalidExpression(what, hint="Use isnan with a float or double.")
    return coercion.compare_literal("<=>", operand, literals.double("NaN"))


def _named(binder: Binder, node: exp.Expr) -> Expression:
    name = str(node.name).lower()
    if name not in ("isnull", "isnotnull"):
        raise parsed.refusal(node)
    arguments = [binder.bind(item) for item in node.args.get("expressions", ())]
    if len(arguments) != 1:
        what = f"Function {name} takes one argument."
        raise InvalidExpression(what)
    found = _is_null(arguments[0])
    return Not(found) if name == "isnotnull" else found


HANDLERS: Final[dict[str, Handler]] = {
    "and": _logical,
    "or": _logical,
    "not": _negation,
    "nullsafeneq": _distinct,
    "is": _identity,
    "in": _member,
    "between": _between,
    "like": _like,
    "ilike": _like,
    "escape": _escape,
    "isnan": _not_a_number,
    "anonymous": _named,
    **dict.fromkeys(_COMPARISONS, _comparison),
}


def _gathered(terms: list[Expression]) -> list[Expression]:
    """Return the terms of an OR with `x = 1 OR x = 2` as `x IN (1, 2)`, which is much faster."""
    values: dict[Expression, dict[Literal, None]] = {}
    order: list[tuple[Expression, bool]] = []
    for term in terms:
        match term:
            case Compare("=", subject, Literal() as value):
                found: tuple[Literal, ...] = (value,)
            case In(subject, found):
                pass
            case _:
                order.append((term, False))
                continue
        if subject not in values:
            order.append((subject, True))
        values.setdefault(subject, {}).update(dict.fromkeys(found))
    return [
        coercion.one_of(term, tuple(values[term])) if gathered else term for term, gathered in order
    ]


def _is_null(operand: Expression) -> Expression:
    return Literal(True, BOOLEAN) if operand.type == VOID else IsNull(operand)


def _require(operand: Expression, kind: Type, where: str) -> None:
    if operand.type != kind:
        what = f"{where} is for type {kind}, not {operand.type}."
        raise InvalidExpression(what, hint=f"CAST it AS {str(kind).upper()}.")


def _match(operand: Expression, pattern: str, escape: str, *, ignore_case: bool) -> Expression:
    r"""Return LIKE with `\` as escape character, or an equality for a pattern without wildcards."""
    canonical, plain, wild = [], [], ignore_case
    characters = iter(pattern)
    for character in characters:
        quoted = next(characters, "") if character == escape else None
        if quoted is not None and quoted not in ("%", "_", escape):
            what = f"In the pattern {pattern!r}, {escape!r} must be followed by %, _ or itself."
            raise InvalidExpression(what, hint=f"Write {escape * 2!r} for one {escape!r}.")
        found = character if quoted is None else quoted
        wild = wild or (quoted is None and found in "%_")
        special = found == "\\" or (quoted is not None and found in "%_")
        canonical.append("\\" + found if special else found)
        plain.append(found)
    if wild:
        return Like(operand, "".join(canonical), ignore_case)
    return Compare("=", operand, Literal("".join(plain), STRING))
