"""Binds values of parsed SQL: columns, literals, arithmetic, casts, cases and functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakeward.errors import InvalidExpression
from lakeward.model.expressions import coercion, functions, literals, parsed
from lakeward.model.expressions.binder import Binder, Handler, condition
from lakeward.model.expressions.coercion import VOID
from lakeward.model.expressions.nodes import BOOLEAN, Case, Expression, Literal, Negate, Operator

if TYPE_CHECKING:
    from sqlglot import exp

_OPERATORS: Final[dict[str, Operator]] = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "mod": "%",
}
_CALENDAR: Final = {
    "year": "year",
    "month": "month",
    "day": "day",
    "dayofmonth": "day",
    "hour": "hour",
}
_TRIMS: Final = {"": "trim", "both": "trim", "leading": "ltrim", "trailing": "rtrim"}
_FUNCTIONS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "lower": ("lower", ()),
    "upper": ("upper", ()),
    "length": ("length", ()),
    "abs": ("abs", ()),
    "floor": ("floor", ()),
    "ceil": ("ceil", ()),
    "coalesce": ("coalesce", ()),
    "substring": ("substring", ("start", "length")),
    "startswith": ("startswith", ("expression",)),
    "endswith": ("endswith", ("expression",)),
    "contains": ("contains", ("expression",)),
}


def _column(binder: Binder, node: exp.Expr) -> Expression:
    parsed.only(node, "this", "table", "db", "catalog", "expression")
    return binder.names(parsed.names_of(node))


def _literal(_: Binder, node: exp.Expr) -> Expression:
    text = node.name
    return literals.string(text) if node.args["is_string"] else literals.number(text)


def _text(_: Binder, node: exp.Expr) -> Expression:
    return literals.string(node.name)


def _octets(_: Binder, node: exp.Expr) -> Expression:
    parsed.only(node, "this")
    return literals.octets(node.name)


def _boolean(_: Binder, node: exp.Expr) -> Expression:
    return Literal(bool(parsed.part(node, "this")), BOOLEAN)


def _null(_: Binder, __: exp.Expr) -> Expression:
    return Literal(None, VOID)


def _paren(binder: Binder, node: exp.Expr) -> Expression:
    parsed.only(node, "this")
    return binder.part(node)


def _arithmetic(binder: Binder, node: exp.Expr) -> Expression:
    parsed.only(node, "this", "expression", "typed", "safe")
    op = _OPERATORS[node.key]
    return coercion.calculate(op, binder.part(node), binder.part(node, "expression"))


def _negative(binder: Binder, node: exp.Expr) -> Expression:
    parsed.only(node, "this")
    inner = parsed.part(node, "this")
    if inner.key == "literal" and not inner.args["is_string"]:
        return literals.number("-" + inner.name)
    operand = binder.part(node)
    if operand.type == VOID:
        return operand
    if not coercion.is_number(operand.type):
        what = f"A value of type {operand.type} has no negative."
        raise InvalidExpression(what)
    if isinstance(operand, Literal) and operand.value is not None:
        return literals.negative(operand)
    return Negate(operand)


def _cast(binder: Binder, node: exp.Expr) -> Expression:
    parsed.only(node, "this", "to")
    return functions.cast_to(binder.part(node), parsed.type_of(parsed.part(node, "to")))


def _case(binder: Binder, node: exp.Expr) -> Expression:
    parsed.only(node, "this", "ifs", "default")
    subject = binder.part(node) if node.args.get("this") else None
    conditions, values = [], []
    for branch in parsed.part(node, "ifs"):
        found = binder.part(branch)
        conditions.append(
            condition(found) if subject is None else coercion.compare("=", subject, found)
        )
        values.append(binder.part(branch, "true"))
    default = node.args.get("default")
    values.append(binder.bind(default) if default else Literal(None, VOID))
    return _cases(conditions, values)


def _choice(binder: Binder, node: exp.Expr) -> Expression:
    parsed.only(node, "this", "true", "false")
    other = node.args.get("false")
    values = [binder.part(node, "true"), binder.bind(other) if other else Literal(None, VOID)]
    return _cases([condition(binder.part(node))], values)


def _null_if(binder: Binder, node: exp.Expr) -> Expression:
    parsed.only(node, "this", "expression")
    value, other = binder.part(node), binder.part(node, "expression")
    return _cases([coercion.compare("=", value, other)], [Literal(None, VOID), value])


def _function(binder: Binder, node: exp.Expr) -> Expression:
    name, options = _FUNCTIONS[node.key]
    parsed.only(node, "this", "expressions", *options)
    later = [binder.part(node, option) for option in options if node.args.get(option) is not None]
    return functions.call(name, [*binder.parts(node), *later])


def _concat(binder: Binder, node: exp.Expr) -> Expression:
    if node.args.get("coalesce"):
        raise parsed.refusal(node)
    return functions.call("concat", binder.parts(node))


def _pipes(binder: Binder, node: exp.Expr) -> Expression:
    return functions.call("concat", [binder.bind(term) for term in parsed.chain(node)])


def _calendar(binder: Binder, node: exp.Expr) -> Expression:
    parsed.only(node, "this")
    inner = parsed.part(node, "this")
    if inner.key == "tsordstodate":  # what the parser wraps around the argument of YEAR
        parsed.only(inner, "this")
        inner = inner.args["this"]
    return functions.call(_CALENDAR[node.key], [binder.bind(inner)])


def _extract(binder: Binder, node: exp.Expr) -> Expression:
    parsed.only(node, "this", "expression")
    unit = str(node.name).lower()
    if unit not in _CALENDAR:
        raise parsed.refusal(node)
    return functions.call(_CALENDAR[unit], [binder.part(node, "expression")])


def _trim(binder: Binder, node: exp.Expr) -> Expression:
    parsed.only(node, "this", "position")
    position = str(node.args.get("position") or "").lower()
    return functions.call(_TRIMS[position], [binder.part(node)])


HANDLERS: Final[dict[str, Handler]] = {
    "column": _column,
    "dot": _column,
    "literal": _literal,
    "rawstring": _text,
    "hexstring": _octets,
    "boolean": _boolean,
    "null": _null,
    "paren": _paren,
    "neg": _negative,
    "cast": _cast,
    "case": _case,
    "if": _choice,
    "nullif": _null_if,
    "concat": _concat,
    "dpipe": _pipes,
    "extract": _extract,
    "trim": _trim,
    **dict.fromkeys(_OPERATORS, _arithmetic),
    **dict.fromkeys(_CALENDAR, _calendar),
    **dict.fromkeys(_FUNCTIONS, _function),
}


def _cases(conditions: list[Expression], values: list[Expression]) -> Expression:
    *found, default = coercion.unify(values)
    return Case(tuple(zip(conditions, found, strict=True)), default)
