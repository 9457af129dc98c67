"""From parsed SQL to a bound expression: names become fields, every node gets a type.

Only what is listed here is understood; anything else that SQL can say is refused, down to options
of a construct that is otherwise known, so that no part of a text is ever silently dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from lakeward.errors import InvalidExpression
from lakeward.model import coercion, functions, literals
from lakeward.model.coercion import VOID
from lakeward.model.expression import (
    BOOLEAN,
    And,
    Case,
    Column,
    Compare,
    Comparison,
    Expression,
    In,
    IsNull,
    Like,
    Literal,
    Negate,
    Not,
    Operator,
    Or,
    cost,
)
from lakeward.model.literals import STRING
from lakeward.model.resolve import resolve
from lakeward.model.schema import Schema
from lakeward.model.types import Decimal, Primitive, Type

if TYPE_CHECKING:
    from sqlglot import exp

MAX_LEVELS: Final = 20
MAX_DEPTH: Final = 100
MAX_COST: Final = 1_000_000
_SHOWN: Final = 60


Names: TypeAlias = Callable[[list[str]], Column]
"""Which column dotted names lead to."""


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
    _check_depth(tree)
    found = _Binder(names).bind(tree)
    if cost(found) > MAX_COST:
        what = "The expression is too complicated."
        raise InvalidExpression(what, hint="Use IN or split it.")
    return found


def condition(found: Expression) -> Expression:
    """The expression, if it is true or false.

    Raises:
        InvalidExpression: It is a value of another type.
    """
    if found.type == VOID:
        return Literal(None, BOOLEAN)
    if found.type != BOOLEAN:
        what = f"A condition must be true or false, but this is of type {found.type}."
        raise InvalidExpression(what, hint="Compare it with something.")
    return found


class _Binder:
    def __init__(self, names: Names) -> None:
        self._names = names

    def bind(self, node: exp.Expr) -> Expression:
        handler = _HANDLERS.get(node.key)
        if handler is None:
            raise _refusal(node)
        return handler(self, node)

    def part(self, node: exp.Expr, name: str = "this") -> Expression:
        return self.bind(_part(node, name))

    def parts(self, node: exp.Expr) -> list[Expression]:
        """The arguments of a function: what stands in `this`, then the rest."""
        nodes = [_part(node, "this")] if node.args.get("this") is not None else []
        return [self.bind(item) for item in (*nodes, *node.args.get("expressions", ()))]

    def column(self, node: exp.Expr) -> Expression:
        _only(node, "this", "table", "db", "catalog", "expression")
        return self._names(_names(node))

    def literal(self, node: exp.Expr) -> Expression:
        text = node.name
        return literals.string(text) if node.args["is_string"] else literals.number(text)

    def text(self, node: exp.Expr) -> Expression:
        return literals.string(node.name)

    def octets(self, node: exp.Expr) -> Expression:
        _only(node, "this")
        return literals.octets(node.name)

    def boolean(self, node: exp.Expr) -> Expression:
        return Literal(bool(_part(node, "this")), BOOLEAN)

    def null(self, _: exp.Expr) -> Expression:
        return Literal(None, VOID)

    def paren(self, node: exp.Expr) -> Expression:
        _only(node, "this")
        return self.part(node)

    def logical(self, node: exp.Expr) -> Expression:
        terms = [condition(self.bind(term)) for term in _chain(node)]
        kind = And if node.key == "and" else Or
        # A term may itself have become a chain, as BETWEEN does.
        flat = [part for term in terms for part in (term.terms if type(term) is kind else (term,))]
        if kind is Or:
            flat = _gathered(flat)
        return kind(tuple(flat)) if len(flat) > 1 else flat[0]

    def negation(self, node: exp.Expr) -> Expression:
        _only(node, "this")
        return Not(condition(self.part(node)))

    def comparison(self, node: exp.Expr) -> Expression:
        _only(node, "this", "expression")
        op = _COMPARISONS[node.key]
        return coercion.compare(op, self.part(node), self.part(node, "expression"))

    def distinct(self, node: exp.Expr) -> Expression:
        _only(node, "this", "expression")
        return Not(coercion.compare("<=>", self.part(node), self.part(node, "expression")))

    def identity(self, node: exp.Expr) -> Expression:
        _only(node, "this", "expression")
        operand, other = self.part(node), _part(node, "expression")
        match other.key:
            case "null":
                return _is_null(operand)
            case "boolean":
                wanted = Literal(bool(other.args["this"]), BOOLEAN)
                return Compare("<=>", condition(operand), wanted)
            case _:
                what = "IS must be followed by NULL, TRUE or FALSE."
                raise InvalidExpression(what, hint="Use = or <=> to compare values.")

    def member(self, node: exp.Expr) -> Expression:
        if node.args.get("query"):
            raise _refusal(_part(node, "query"))
        _only(node, "this", "expressions")
        operand = self.part(node)
        values = [self.bind(item) for item in node.args.get("expressions") or ()]
        if not values:
            what = "IN needs at least one value."
            raise InvalidExpression(what)
        if all(isinstance(value, Literal) for value in values):
            return coercion.member(operand, cast(list[Literal], values))
        terms = tuple(coercion.compare("=", operand, value) for value in values)
        return Or(terms) if len(terms) > 1 else terms[0]

    def between(self, node: exp.Expr) -> Expression:
        _only(node, "this", "low", "high")
        operand = self.part(node)
        low = coercion.compare(">=", operand, self.part(node, "low"))
        high = coercion.compare("<=", operand, self.part(node, "high"))
        return And((low, high))

    def like(self, node: exp.Expr, escape: str = "\\") -> Expression:
        _only(node, "this", "expression", "negate")
        operand, pattern = self.part(node), self.part(node, "expression")
        if VOID in (operand.type, pattern.type):
            return Literal(None, BOOLEAN)
        _require(operand, STRING, "LIKE")
        if not isinstance(pattern, Literal) or pattern.type != STRING:
            what = "The pattern of LIKE must be a string."
            raise InvalidExpression(what)
        ignore_case = node.key == "ilike"
        found = _like(operand, str(pattern.value), escape, ignore_case=ignore_case)
        return Not(found) if node.args.get("negate") else found

    def escape(self, node: exp.Expr) -> Expression:
        _only(node, "this", "expression")
        inner, mark = _part(node, "this"), _part(node, "expression").name
        if inner.key not in ("like", "ilike"):
            raise _refusal(node)
        if len(mark) != 1:
            what = f"The escape character of LIKE must be one character, not {mark!r}."
            raise InvalidExpression(what)
        return self.like(inner, mark)

    def arithmetic(self, node: exp.Expr) -> Expression:
        _only(node, "this", "expression", "typed", "safe")
        op = _OPERATORS[node.key]
        return coercion.calculate(op, self.part(node), self.part(node, "expression"))

    def negative(self, node: exp.Expr) -> Expression:
        _only(node, "this")
        inner = _part(node, "this")
        if inner.key == "literal" and not inner.args["is_string"]:
            return literals.number("-" + inner.name)
        operand = self.part(node)
        if operand.type == VOID:
            return operand
        if not coercion.is_number(operand.type):
            what = f"A value of type {operand.type} has no negative."
            raise InvalidExpression(what)
        if isinstance(operand, Literal) and operand.value is not None:
            return literals.negative(operand)
        return Negate(operand)

    def cast(self, node: exp.Expr) -> Expression:
        _only(node, "this", "to")
        return functions.cast_to(self.part(node), _type(_part(node, "to")))

    def case(self, node: exp.Expr) -> Expression:
        _only(node, "this", "ifs", "default")
        subject = self.part(node) if node.args.get("this") else None
        conditions, values = [], []
        for branch in _part(node, "ifs"):
            found = self.part(branch)
            conditions.append(
                condition(found) if subject is None else coercion.compare("=", subject, found)
            )
            values.append(self.part(branch, "true"))
        default = node.args.get("default")
        values.append(self.bind(default) if default else Literal(None, VOID))
        return _case(conditions, values)

    def choice(self, node: exp.Expr) -> Expression:
        _only(node, "this", "true", "false")
        other = node.args.get("false")
        values = [self.part(node, "true"), self.bind(other) if other else Literal(None, VOID)]
        return _case([condition(self.part(node))], values)

    def null_if(self, node: exp.Expr) -> Expression:
        _only(node, "this", "expression")
        value, other = self.part(node), self.part(node, "expression")
        return _case([coercion.compare("=", value, other)], [Literal(None, VOID), value])

    def function(self, node: exp.Expr) -> Expression:
        name, options = _FUNCTIONS[node.key]
        _only(node, "this", "expressions", *options)
        later = [self.part(node, option) for option in options if node.args.get(option) is not None]
        return functions.call(name, [*self.parts(node), *later])

    def concat(self, node: exp.Expr) -> Expression:
        if node.args.get("coalesce"):
            raise _refusal(node)
        return functions.call("concat", self.parts(node))

    def pipes(self, node: exp.Expr) -> Expression:
        return functions.call("concat", [self.bind(term) for term in _chain(node)])

    def calendar(self, node: exp.Expr) -> Expression:
        _only(node, "this")
        inner = _part(node, "this")
        if inner.key == "tsordstodate":  # what the parser wraps around the argument of YEAR
            _only(inner, "this")
            inner = inner.args["this"]
        return functions.call(_CALENDAR[node.key], [self.bind(inner)])

    def extract(self, node: exp.Expr) -> Expression:
        _only(node, "this", "expression")
        unit = str(node.name).lower()
        if unit not in _CALENDAR:
            raise _refusal(node)
        return functions.call(_CALENDAR[unit], [self.part(node, "expression")])

    def trim(self, node: exp.Expr) -> Expression:
        _only(node, "this", "position")
        position = str(node.args.get("position") or "").lower()
        return functions.call(_TRIMS[position], [self.part(node)])

    def not_a_number(self, node: exp.Expr) -> Expression:
        _only(node, "this")
        operand = self.part(node)
        if not coercion.is_floating(operand.type):
            what = f"A value of type {operand.type} is never NaN."
            raise InvalidExpression(what, hint="Use isnan with a float or double.")
        return coercion.compare_literal("<=>", operand, literals.double("NaN"))

    def named(self, node: exp.Expr) -> Expression:
        name = str(node.name).lower()
        if name not in ("isnull", "isnotnull"):
            raise _refusal(node)
        arguments = [self.bind(item) for item in node.args.get("expressions", ())]
        if len(arguments) != 1:
            what = f"Function {name} takes one argument."
            raise InvalidExpression(what)
        found = _is_null(arguments[0])
        return Not(found) if name == "isnotnull" else found


_Handler = Callable[[_Binder, "exp.Expr"], Expression]

_COMPARISONS: Final[dict[str, Comparison]] = {
    "eq": "=",
    "neq": "!=",
    "lt": "<",
    "lte": "<=",
    "gt": ">",
    "gte": ">=",
    "nullsafeeq": "<=>",
}
_OPERATORS: Final[dict[str, Operator]] = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "mod": "%",
}
_CHAINS: Final = {
    **dict.fromkeys(("and", "or"), "logic"),
    **dict.fromkeys(("add", "sub"), "sum"),
    **dict.fromkeys(("mul", "div", "mod"), "product"),
    "dpipe": "concat",
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
_HANDLERS: Final[dict[str, _Handler]] = {
    "column": _Binder.column,
    "dot": _Binder.column,
    "literal": _Binder.literal,
    "rawstring": _Binder.text,
    "hexstring": _Binder.octets,
    "boolean": _Binder.boolean,
    "null": _Binder.null,
    "paren": _Binder.paren,
    "and": _Binder.logical,
    "or": _Binder.logical,
    "not": _Binder.negation,
    "nullsafeneq": _Binder.distinct,
    "is": _Binder.identity,
    "in": _Binder.member,
    "between": _Binder.between,
    "like": _Binder.like,
    "ilike": _Binder.like,
    "escape": _Binder.escape,
    "neg": _Binder.negative,
    "cast": _Binder.cast,
    "case": _Binder.case,
    "if": _Binder.choice,
    "nullif": _Binder.null_if,
    "concat": _Binder.concat,
    "dpipe": _Binder.pipes,
    "extract": _Binder.extract,
    "trim": _Binder.trim,
    "isnan": _Binder.not_a_number,
    "anonymous": _Binder.named,
    **dict.fromkeys(_COMPARISONS, _Binder.comparison),
    **dict.fromkeys(_OPERATORS, _Binder.arithmetic),
    **dict.fromkeys(_CALENDAR, _Binder.calendar),
    **dict.fromkeys(_FUNCTIONS, _Binder.function),
}
_TYPES: Final = {
    "BOOLEAN": "boolean",
    "TINYINT": "int8",
    "SMALLINT": "int16",
    "INT": "int32",
    "BIGINT": "int64",
    "FLOAT": "float",
    "DOUBLE": "double",
    "TEXT": "string",
    "VARCHAR": "string",
    "BINARY": "binary",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "TIMESTAMPTZ": "timestamp",
    "TIMESTAMPLTZ": "timestamp",
    "TIMESTAMPNTZ": "timestamp_ntz",
}


def _check_depth(tree: exp.Expr) -> None:
    """Stops what an engine could not follow; a chain of operators is one level, however long."""
    stack = [(tree, 0, 0)]
    while stack:
        node, level, depth = stack.pop()
        if level > MAX_LEVELS or depth > MAX_DEPTH:
            what = f"The expression is nested deeper than {MAX_LEVELS} levels."
            raise InvalidExpression(what, hint="Use IN or split it.")
        chain = _CHAINS.get(node.key)
        for child in node.iter_expressions():
            same = chain == "logic" and child.key == node.key
            if same or child.key == "paren" or (child.key == "if" and node.key == "case"):
                stack.append((child, level, depth))
            elif chain is not None and _CHAINS.get(child.key) == chain and child.arg_key == "this":
                stack.append((child, level, depth + 1))
            else:
                stack.append((child, level + 1, depth + 1))


def _chain(node: exp.Expr) -> list[exp.Expr]:
    """The terms of `a AND b AND c`, which the parser nests to the left, in order."""
    found, stack = [], [node]
    while stack:
        current = stack.pop()
        if current.key == node.key:
            _only(current, "this", "expression", "safe")
            stack += [current.args["expression"], current.args["this"]]
        elif current.key == "paren":
            stack.append(current.args["this"])
        else:
            found.append(current)
    return found


def _gathered(terms: list[Expression]) -> list[Expression]:
    """The alternatives with `x = 1 OR x = 2` as `x IN (1, 2)`, which engines do much faster."""
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


def _part(node: exp.Expr, name: str) -> Any:
    """What the parser put there; it lets some things be left out that are needed."""
    found = node.args.get(name)
    if found is None:
        what = f"Something is missing in {_shown(node)}."
        raise InvalidExpression(what)
    return found


def _only(node: exp.Expr, *known: str) -> None:
    """Refuses a construct that says more than is understood here."""
    for name, value in node.args.items():
        if name not in known and value not in (None, False, []):
            raise _refusal(node)


def _is_null(operand: Expression) -> Expression:
    return Literal(True, BOOLEAN) if operand.type == VOID else IsNull(operand)


def _case(conditions: list[Expression], values: list[Expression]) -> Expression:
    *found, default = coercion.unify(values)
    return Case(tuple(zip(conditions, found, strict=True)), default)


def _require(operand: Expression, kind: Type, where: str) -> None:
    if operand.type != kind:
        what = f"{where} is for type {kind}, not {operand.type}."
        raise InvalidExpression(what, hint=f"CAST it AS {str(kind).upper()}.")


def _like(operand: Expression, pattern: str, escape: str, *, ignore_case: bool) -> Expression:
    r"""The match, with `\` as its escape character; without a wildcard it is an equality."""
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


def _names(node: exp.Expr) -> list[str]:
    """`a.b.c`, however the parser took it apart."""
    if node.key == "dot":
        last = _part(node, "expression")
        if last.key != "identifier":
            raise _refusal(last)
        return [*_names(_part(node, "this")), last.name]
    if node.key == "column":
        parts = [node.args.get(name) for name in ("catalog", "db", "table", "this")]
        if any(part is not None and part.key != "identifier" for part in parts):
            raise _refusal(node)
        return [part.name for part in parts if part is not None]
    if node.key == "identifier":
        return [node.name]
    raise _refusal(node)


def _type(node: exp.Expr) -> Type:
    name = str(getattr(_part(node, "this"), "value", _part(node, "this")))
    parameters = [p.name for p in node.args.get("expressions") or ()]
    if name == "DECIMAL" and all(p.isascii() and p.isdigit() for p in parameters):
        precision, scale = ([int(p[:9]) for p in parameters] + [10, 0][len(parameters) :])[:2]
        if 0 < precision <= literals.MAX_PRECISION and scale <= precision:
            return Decimal(precision, scale)
        what = f"DECIMAL({precision}, {scale}) is not a type."
        raise InvalidExpression(what, hint=f"At most {literals.MAX_PRECISION} digits are possible.")
    if name in _TYPES and not parameters:
        return Primitive(_TYPES[name])
    what = f"A value cannot be cast to {_shown(node)}."
    raise InvalidExpression(what, hint="Cast to a number, a string, a date or a timestamp.")


def _refusal(node: exp.Expr) -> InvalidExpression:
    from sqlglot import exp

    shown = _shown(node)
    hint: str | None = None
    match node:
        case exp.Query() | exp.Exists():
            what, hint = "Subqueries cannot be used here.", "Read the other table first."
        case exp.Window():
            what = "Window functions cannot be used here."
        case exp.AggFunc():
            what = f"The aggregate {shown} cannot be used here."
            hint = "A condition is about one row."
        case exp.Placeholder() | exp.Parameter() | exp.SessionParameter():
            what, hint = "Parameters cannot be used here.", "Write the value itself."
        case exp.Func():
            what = f"{shown} is not available in expressions."
            hint = f"The functions are {', '.join(sorted(functions.NAMES))}."
        case _:
            what = f"{shown} cannot be used in an expression."
    return InvalidExpression(what, hint=hint)


def _shown(node: exp.Expr) -> str:
    from sqlglot import ErrorLevel

    try:
        text = node.sql("databricks", comments=False, unsupported_level=ErrorLevel.IGNORE)
    except Exception:  # noqa: BLE001  a message must not fail for want of a fine example
        text = node.key.upper()
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
