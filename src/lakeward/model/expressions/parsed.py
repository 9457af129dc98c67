"""Access to the tree of the SQL parser, and the errors for refused parts of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lakeward.errors import InvalidExpression
from lakeward.model.expressions import functions, literals
from lakeward.model.types import Decimal, Primitive, Type

if TYPE_CHECKING:
    from sqlglot import exp

MAX_LEVELS: Final = 20
MAX_DEPTH: Final = 100
_SHOWN: Final = 60
_CHAINS: Final = {
    **dict.fromkeys(("and", "or"), "logic"),
    **dict.fromkeys(("add", "sub"), "sum"),
    **dict.fromkeys(("mul", "div", "mod"), "product"),
    "dpipe": "concat",
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


def check_depth(tree: exp.Expr) -> None:
    """Raise `InvalidExpression` for nesting too deep for engines; operator chains are one level."""
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


def part(node: exp.Expr, name: str) -> Any:
    """Return a required part of a node; raise `InvalidExpression` if the parser left it out."""
    found = node.args.get(name)
    if found is None:
        what = f"Something is missing in {_shown(node)}."
        raise InvalidExpression(what)
    return found


def only(node: exp.Expr, *known: str) -> None:
    """Raise `InvalidExpression` if a node has parts other than the known ones."""
    for name, value in node.args.items():
        if name not in known and value not in (None, False, []):
            raise refusal(node)


def chain(node: exp.Expr) -> list[exp.Expr]:
    """Return the terms of `a AND b AND c`, which the parser nests to the left, in order."""
    found, stack = [], [node]
    while stack:
        current = stack.pop()
        if current.key == node.key:
            only(current, "this", "expression", "safe")
            stack += [current.args["expression"], current.args["this"]]
        elif current.key == "paren":
            stack.append(current.args["this"])
        else:
            found.append(current)
    return found


def names_of(node: exp.Expr) -> list[str]:
    """Return the parts of a dotted name such as `a.b.c`."""
    if node.key == "dot":
        last = part(node, "expression")
        if last.key != "identifier":
            raise refusal(last)
        return [*names_of(part(node, "this")), last.name]
    if node.key == "column":
        parts = [node.args.get(name) for name in ("catalog", "db", "table", "this")]
        if any(part is not None and part.key != "identifier" for part in parts):
            raise refusal(node)
        return [part.name for part in parts if part is not None]
    if node.key == "identifier":
        return [node.name]
    raise refusal(node)


def type_of(node: exp.Expr) -> Type:
    """Return the target type of a CAST."""
    name = str(getattr(part(node, "this"), "value", part(node, "this")))
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


def refusal(node: exp.Expr) -> InvalidExpression:
    """Return the error for a construct that is not supported."""
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
    except Exception:  # noqa: BLE001  the message must not fail
        text = node.key.upper()
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
