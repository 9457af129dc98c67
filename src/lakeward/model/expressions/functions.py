"""Functions that expressions may call, casts, and the conversion of values to a column's type.

The result of every function depends on its arguments alone and is the same in every engine. A
column accepts values that its type holds without loss, and integers and decimals of wider types,
which are checked when they are computed. Everything else needs an explicit CAST.
"""

from __future__ import annotations

from typing import Final, cast

from lakeward.errors import InvalidExpression
from lakeward.model.expressions import coercion, literals
from lakeward.model.expressions.coercion import (
    FLOAT,
    INTEGERS,
    VOID,
    is_floating,
    is_integer,
    is_number,
    is_temporal,
)
from lakeward.model.expressions.literals import DATE, DOUBLE, INT64, STRING
from lakeward.model.expressions.nodes import BOOLEAN, Call, Cast, Expression, Like, Literal
from lakeward.model.types import Decimal, Field, Type
from lakeward.model.values import single

NAMES: Final = frozenset(
    {
        *("lower", "upper", "trim", "ltrim", "rtrim", "length", "substring", "concat"),
        *("startswith", "endswith", "contains"),
        *("abs", "floor", "ceil"),
        *("coalesce", "isnull", "isnotnull", "nullif", "isnan", "if"),
        *("year", "month", "day", "hour", "extract"),
    }
)
_OF_STRING: Final[dict[str, Type]] = {
    "lower": STRING,
    "upper": STRING,
    "trim": STRING,
    "ltrim": STRING,
    "rtrim": STRING,
    "length": INT64,
}
_PATTERNS: Final = {"startswith": "{}%", "endswith": "%{}", "contains": "%{}%"}
_EXACT: Final[dict[Type, int]] = {FLOAT: 16, DOUBLE: 32}
"""The bits of the widest integers that a floating type holds exactly."""


def call(name: str, arguments: list[Expression]) -> Expression:
    """Return the call of a function; raise `InvalidExpression` if its arguments do not fit."""
    if name == "coalesce":
        return _coalesce(arguments)
    if any(argument.type == VOID for argument in arguments):
        return Literal(None, VOID)
    if name in _OF_STRING:
        _expect(name, arguments, STRING)
        return Call(name, tuple(arguments), _OF_STRING[name])
    if name in _PATTERNS:
        return _matching(name, arguments)
    if name == "concat":
        return _concat(arguments)
    if name == "substring":
        return _substring(arguments)
    if name in ("abs", "floor", "ceil"):
        return _of_number(name, arguments)
    return _of_time(name, arguments)


def cast_to(value: Expression, kind: Type) -> Expression:
    """Return the value cast to another type; a literal is converted at once."""
    if value.type == kind:
        return value
    if value.type == VOID:
        return Literal(None, kind)
    if isinstance(value, Literal) and value.type == STRING:
        return _read(str(value.value), kind)
    if not _castable(value.type, kind):
        what = f"A value of type {value.type} cannot be cast to {kind}."
        raise InvalidExpression(what)
    exact = coercion.fit(value, kind) if isinstance(value, Literal) else None
    return exact or Cast(value, kind)


def assign(value: Expression, field: Field) -> Expression:
    """Return the value converted to a column's type; raise `InvalidExpression` if it may not be."""
    kind = field.type
    if value.type == kind:
        return value
    if value.type == VOID:
        return Literal(None, kind)
    found = _literal(value, kind) if isinstance(value, Literal) else _converted(value, kind)
    if found is None:
        shown = f" {value.value!r}" if isinstance(value, Literal) else ""
        what = f"Column {field.name} is {kind}, and the value{shown} is {value.type}."
        hint = f"CAST it AS {_spelled(kind)}."
        raise InvalidExpression(what, hint=hint, column=field.name)
    return found


def _coalesce(arguments: list[Expression]) -> Expression:
    values = [a for a in coercion.unify(arguments) if not _missing(a)]
    if not values:
        return Literal(None, VOID)
    return values[0] if len(values) == 1 else Call("coalesce", tuple(values), values[0].type)


def _missing(value: Expression) -> bool:
    return isinstance(value, Literal) and value.value is None


def _concat(arguments: list[Expression]) -> Expression:
    _expect("concat", arguments, *[STRING] * max(1, len(arguments)))
    if all(isinstance(argument, Literal) for argument in arguments):
        return Literal("".join(str(cast(Literal, a).value) for a in arguments), STRING)
    return Call("concat", tuple(arguments), STRING)


def _matching(name: str, arguments: list[Expression]) -> Expression:
    _expect(name, arguments, STRING, STRING)
    subject, part = arguments
    if not isinstance(part, Literal):
        what = f"The second argument of {name} must be a string, not a column."
        raise InvalidExpression(what)
    quoted = "".join("\\" + c if c in "%_\\" else c for c in str(part.value))
    return Like(subject, _PATTERNS[name].format(quoted))


def _substring(arguments: list[Expression]) -> Expression:
    _expect("substring", arguments[:1], STRING)
    numbers = arguments[1:]
    fit = 1 <= len(numbers) <= 2 and all(
        isinstance(n, Literal) and n.type == INT64 and n.value is not None for n in numbers
    )
    start, *length = [int(cast(int, n.value)) for n in numbers if isinstance(n, Literal)] or [0]
    if not fit or start < 1 or any(n < 0 for n in length):
        what = "substring takes a string, a position from 1 on and a length, both as numbers."
        raise InvalidExpression(what)
    return Call("substring", tuple(arguments), STRING)


def _of_number(name: str, arguments: list[Expression]) -> Expression:
    if len(arguments) != 1 or not is_number(arguments[0].type):
        what = f"Function {name} takes one number."
        raise InvalidExpression(what)
    (value,) = arguments
    if is_floating(value.type):
        value = coercion.convert(value, DOUBLE)
    elif isinstance(value.type, Decimal) and name != "abs":
        # Rounding up may take one more digit.
        digits = min(value.type.precision + 1, literals.MAX_PRECISION)
        return Call(name, (value,), Decimal(digits, value.type.scale))
    elif name != "abs":
        return value
    return Call(name, (value,), value.type)


def _of_time(name: str, arguments: list[Expression]) -> Expression:
    if len(arguments) == 1 and isinstance(arguments[0], Literal) and arguments[0].type == STRING:
        arguments = [literals.instant(str(arguments[0].value))]
    if len(arguments) != 1 or not is_temporal(arguments[0].type):
        what = f"Function {name} takes one date or timestamp."
        raise InvalidExpression(what)
    (value,) = arguments
    if name == "hour":
        value = coercion.convert(value, literals.TIMESTAMP)
    return Call(name, (value,), INT64)


def _expect(name: str, arguments: list[Expression], *kinds: Type) -> None:
    if tuple(a.type for a in arguments) != kinds:
        wanted, given = ", ".join(map(str, kinds)), ", ".join(str(a.type) for a in arguments)
        what = f"Function {name} takes ({wanted}), not ({given})."
        raise InvalidExpression(what, hint="CAST what does not fit.")


def _read(text: str, kind: Type) -> Literal:
    if kind == DATE:
        return literals.day(text)
    if is_temporal(kind):
        return literals.instant(text, zoned=not str(kind).endswith("ntz"))
    if is_floating(kind):
        value = literals.double(text).value
        return Literal(single(value) if kind == FLOAT and isinstance(value, float) else value, kind)
    if kind == BOOLEAN and text.strip().lower() in ("true", "false"):
        return Literal(text.strip().lower() == "true", BOOLEAN)
    if isinstance(kind, Decimal) or is_integer(kind):
        return _read_exact(text, kind)
    what = f"{text!r} cannot be cast to {kind}."
    raise InvalidExpression(what)


def _read_exact(text: str, kind: Type) -> Literal:
    found = coercion.fit(literals.number(text.strip()), kind)
    if found is not None:
        return found
    what = f"{text!r} does not fit into {kind}."
    raise InvalidExpression(what)


def _castable(source: Type, target: Type) -> bool:
    if is_number(source):
        return is_number(target) or (target == STRING and not is_floating(source))
    if source == STRING:
        return is_number(target) or is_temporal(target) or target == BOOLEAN
    if is_temporal(source):
        return is_temporal(target) or (source == DATE and target == STRING)
    return source == BOOLEAN and target == STRING


def _literal(value: Literal, kind: Type) -> Expression | None:
    if value.type == STRING:
        return cast_to(value, kind) if is_temporal(kind) else None
    return coercion.fit(value, kind)


def _converted(value: Expression, kind: Type) -> Expression | None:
    source = value.type
    if is_integer(source):
        if is_integer(kind):
            return Cast(value, kind)
        if isinstance(kind, Decimal):
            return Cast(coercion.convert(value, coercion.as_decimal(source)), kind)
        return Cast(value, kind) if INTEGERS[str(source)] <= _EXACT.get(kind, 0) else None
    if isinstance(source, Decimal) and isinstance(kind, Decimal):
        return Cast(value, kind) if source.scale <= kind.scale else None
    if source == FLOAT and kind == DOUBLE:
        return Cast(value, kind)
    return Cast(value, kind) if _same_moments(source, kind) else None


def _same_moments(source: Type, kind: Type) -> bool:
    """Whether both are timestamps with, or both without, a zone; the engine checks precision."""
    names = str(source), str(kind)
    zoned = {name.endswith("ntz") for name in names}
    return all(name.startswith("timestamp") for name in names) and len(zoned) == 1


def _spelled(kind: Type) -> str:
    return {"int8": "TINYINT", "int16": "SMALLINT", "int32": "INT", "int64": "BIGINT"}.get(
        str(kind), str(kind).upper()
    )
