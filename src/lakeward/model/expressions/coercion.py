"""Implicit conversions between types.

Two numbers become the smallest type that holds both exactly, or doubles when one is floating; dates
and timestamps become timestamps; nothing else is converted implicitly. A literal takes the type of
the other side. Where that type cannot hold it (`id < 2.5`, `tiny < 1000`), the comparison is
replaced by an equivalent one, so that the column keeps its type and its statistics stay usable.
"""

from __future__ import annotations

import decimal
import math
import struct
from fractions import Fraction
from typing import Final, cast

from lakeward.errors import InvalidExpression
from lakeward.model.expressions import literals
from lakeward.model.expressions.literals import (
    DATE,
    DOUBLE,
    INT64,
    MAX_PRECISION,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
)
from lakeward.model.expressions.nodes import (
    BOOLEAN,
    Arithmetic,
    Case,
    Cast,
    Compare,
    Comparison,
    Expression,
    In,
    IsNull,
    Literal,
    Operator,
    Or,
)
from lakeward.model.types import READ_ONLY, Decimal, Primitive, Type

VOID: Final = Primitive("void")
"""The type of a NULL without a type."""

FLOAT: Final = Primitive("float")
INTEGERS: Final[dict[str, int]] = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
"""Integer types and their sizes in bits."""
_DIGITS: Final = {"int8": 3, "int16": 5, "int32": 10, "int64": 19}
_DAY: Final = 86_400_000_000
_MIRRORED: Final[dict[Comparison, Comparison]] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def compare(op: Comparison, left: Expression, right: Expression) -> Expression:
    """Return the comparison, with both sides converted to one type."""
    if VOID in (left.type, right.type):
        return _compare_null(op, left, right)
    if isinstance(left, Literal) and (not isinstance(right, Literal) or left.type == STRING):
        return compare_literal(_MIRRORED.get(op, op), right, left)
    if isinstance(right, Literal):
        return compare_literal(op, left, right)
    kind = common(left.type, right.type)
    if kind is None or not comparable(kind):
        raise _incomparable(left, right)
    return Compare(op, convert(left, kind), convert(right, kind))


def compare_literal(op: Comparison, left: Expression, right: Literal) -> Expression:
    """Return the comparison with a literal, which is converted to the type of the other side."""
    kind = left.type
    if right.value is None:
        return IsNull(left) if op == "<=>" else Literal(None, BOOLEAN)
    right = _read(right, left)
    if is_floating(kind):
        return _compare_floating(op, left, right)
    if _is_discrete(kind):
        return _compare_discrete(op, left, right)
    if kind != right.type or not comparable(kind):
        raise _incomparable(left, right)
    return Compare(op, left, right)


def member(operand: Expression, values: list[Literal]) -> Expression:
    """Return a test whether the operand equals one of the values, which take its type."""
    if operand.type == VOID:
        return Literal(None, BOOLEAN)
    found: dict[Literal, None] = {}
    unknown = False
    target = operand
    for value in values:
        match compare_literal("=", operand, value):
            case Compare("=", left, Literal() as fitting):
                target = left
                found[fitting] = None
            case Literal():
                unknown = True
    if len({literal.type for literal in found}) > 1:
        target = convert(operand, DOUBLE)
        found = dict.fromkeys(cast(Literal, convert(literal, DOUBLE)) for literal in found)
    inside = one_of(target, tuple(found)) if found else Compare("!=", operand, operand)
    return Or((inside, Literal(None, BOOLEAN))) if unknown else inside


def one_of(operand: Expression, values: tuple[Literal, ...]) -> Expression:
    """Return an IN of values of the operand's type, or an equality if there is one value."""
    return In(operand, values) if len(values) > 1 else Compare("=", operand, values[0])


def calculate(op: Operator, left: Expression, right: Expression) -> Expression:
    """Return the arithmetic expression, with both sides converted to one type."""
    left, right = _typed(left, right)
    if not (is_number(left.type) and is_number(right.type)):
        what = f"{left.type} {op} {right.type} cannot be calculated."
        raise InvalidExpression(what, hint="Both sides must be numbers.")
    if op in "/%":
        right = _divisor(right)
    if op == "%":
        return _remainder(left, right)
    if op == "/" or is_floating(left.type) or is_floating(right.type):
        return Arithmetic(op, convert(left, DOUBLE), convert(right, DOUBLE), DOUBLE)
    if isinstance(left.type, Decimal) or isinstance(right.type, Decimal):
        return _decimal_arithmetic(op, left, right)
    return Arithmetic(op, convert(left, INT64), convert(right, INT64), INT64)


def unify(values: list[Expression]) -> list[Expression]:
    """Return the values, all converted to the smallest type that holds them."""
    kind: Type = VOID
    for value in values:
        if value.type == VOID:
            continue
        found = value.type if kind == VOID else common(kind, value.type)
        if found is None:
            what = f"{kind} and {value.type} cannot stand for each other."
            raise InvalidExpression(what, hint="CAST one of them.")
        kind = found
    return [convert(value, kind) for value in values]


def common(left: Type, right: Type) -> Type | None:
    """Return the smallest type that holds values of both types; None if there is none."""
    if left == right:
        return left
    if is_number(left) and is_number(right):
        if is_floating(left) or is_floating(right):
            return DOUBLE
        if isinstance(left, Decimal) or isinstance(right, Decimal):
            return _common_decimal(as_decimal(left), as_decimal(right))
        return max(left, right, key=lambda kind: INTEGERS[str(kind)])
    if is_temporal(left) and is_temporal(right):
        zoned = not all(kind == DATE or str(kind).endswith("ntz") for kind in (left, right))
        return TIMESTAMP if zoned else TIMESTAMP_NTZ
    return None


def convert(value: Expression, kind: Type) -> Expression:
    """Return the value in a type that holds it exactly; a literal is converted at once."""
    if value.type == kind:
        return value
    fitting = fit(value, kind) if isinstance(value, Literal) else None
    return fitting or Cast(value, kind)


def fit(literal: Literal, kind: Type) -> Literal | None:
    """Return the literal as a literal of this type; None if the type cannot hold it exactly."""
    if literal.value is None or literal.type == kind:
        return Literal(literal.value, kind)
    if is_floating(kind) and is_number(literal.type):
        value = float(literal.value)
        return Literal(value, kind) if kind == DOUBLE or _fits_float(value) else None
    units = _units(literal, kind) if _is_discrete(kind) else None
    if not isinstance(units, Fraction) or units.denominator != 1:
        return None
    low, high = _limits(kind)
    return _from_units(int(units), kind) if low <= units <= high else None


def is_number(kind: Type) -> bool:
    """Whether values of the type can be used in arithmetic."""
    return isinstance(kind, Decimal) or is_floating(kind) or is_integer(kind)


def is_integer(kind: Type) -> bool:
    """Whether the type is an integer of any size."""
    return isinstance(kind, Primitive) and kind.name in INTEGERS


def is_floating(kind: Type) -> bool:
    """Whether the type is float or double."""
    return kind in (FLOAT, DOUBLE)


def is_temporal(kind: Type) -> bool:
    """Whether the type is a date or a timestamp."""
    return isinstance(kind, Primitive) and kind.name.startswith(("date", "timestamp"))


def comparable(kind: Type) -> bool:
    """Whether values of the type have an order: all but structs, lists and maps."""
    return isinstance(kind, Primitive | Decimal)


def as_decimal(kind: Type) -> Decimal:
    """Return the decimal type that holds every value of an integer or decimal type."""
    return kind if isinstance(kind, Decimal) else Decimal(_DIGITS[str(kind)], 0)


def _compare_null(op: Comparison, left: Expression, right: Expression) -> Expression:
    if op != "<=>":
        return Literal(None, BOOLEAN)
    known = right if left.type == VOID else left
    return Literal(True, BOOLEAN) if known.type == VOID else IsNull(known)


def _read(literal: Literal, other: Expression) -> Literal:
    """Return a string that is compared with a date or timestamp as a literal of that type."""
    if literal.type != STRING or not is_temporal(other.type):
        return literal
    text = str(literal.value)
    return literals.day(text) if other.type == DATE else literals.instant(text)


def _compare_floating(op: Comparison, left: Expression, right: Literal) -> Expression:
    if not is_number(right.type):
        raise _incomparable(left, right)
    assert right.value is not None  # noqa: S101  the caller has dealt with null
    value = float(right.value)
    if left.type == FLOAT and not _fits_float(value):
        left = convert(left, DOUBLE)
    return Compare(op, left, Literal(value, left.type))


def _fits_float(value: float) -> bool:
    if not math.isfinite(value):
        return True
    try:
        return bool(struct.unpack("f", struct.pack("f", value))[0] == value)
    except OverflowError:
        return False


def _is_discrete(kind: Type) -> bool:
    return isinstance(kind, Decimal) or is_integer(kind) or is_temporal(kind)


def _compare_discrete(op: Comparison, left: Expression, right: Literal) -> Expression:
    kind = left.type
    units = _units(right, kind)
    if units is None:
        raise _incomparable(left, right)
    if isinstance(units, float):
        return _against_limit(op, left, above=units > 0 or math.isnan(units))
    low, high = _limits(kind)
    if units > high or units < low:
        return _against_limit(op, left, above=units > high)
    exact = fit(right, kind)
    if exact is not None:
        return Compare(op, left, exact)
    match op:
        case "<" | "<=":
            return Compare("<=", left, _from_units(math.floor(units), kind))
        case ">" | ">=" if kind == DATE:
            # The day above may be the one after 9999, which no literal can name.
            return Compare(">", left, _from_units(math.floor(units), kind))
        case ">" | ">=":
            return Compare(">=", left, _from_units(math.ceil(units), kind))
        case _:
            return _never(op, left)


def _units(literal: Literal, kind: Type) -> Fraction | float | None:
    """Return the literal in the smallest units of the type; None if they cannot be compared."""
    value = literal.value
    if is_temporal(kind):
        if not is_temporal(literal.type):
            return None
        micros = cast(int, value) * (_DAY if literal.type == DATE else 1)
        return Fraction(micros, _step(kind))
    if not is_number(literal.type):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return value
    scale = kind.scale if isinstance(kind, Decimal) else 0
    return Fraction(str(value)) * Fraction(10**scale)


def _from_units(units: int, kind: Type) -> Literal:
    if isinstance(kind, Decimal):
        sign, digits = ("-" if units < 0 else ""), str(abs(units)).rjust(kind.scale + 1, "0")
        whole = digits[: len(digits) - kind.scale]
        return Literal(sign + whole + ("." + digits[len(whole) :] if kind.scale else ""), kind)
    return Literal(units * _step(kind) if kind != DATE else units, kind)


def _step(kind: Type) -> int:
    """Return how many microseconds the smallest unit of a type has."""
    name = str(kind)
    if name == "date":
        return _DAY
    return 1000 if name.startswith("timestamp_ms") else 1


def _limits(kind: Type) -> tuple[int, int]:
    if isinstance(kind, Decimal):
        return 1 - 10**kind.precision, 10**kind.precision - 1
    bits = INTEGERS.get(str(kind), 64)
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def _against_limit(op: Comparison, left: Expression, *, above: bool) -> Expression:
    """Return the comparison with a value above, or below, all values of the type."""
    holds = op == "!=" or (op in ("<", "<=") if above else op in (">", ">="))
    return Compare("=", left, left) if holds else _never(op, left)


def _never(op: Comparison, left: Expression) -> Expression:
    """Return the comparison with a value that the type does not have: false, or null for null."""
    match op:
        case "!=":
            return Compare("=", left, left)
        case "<=>":
            return Literal(False, BOOLEAN)
        case _:
            return Compare("!=", left, left)


def _common_decimal(left: Decimal, right: Decimal) -> Decimal | None:
    scale = max(left.scale, right.scale)
    precision = scale + max(left.precision - left.scale, right.precision - right.scale)
    return Decimal(precision, scale) if precision <= MAX_PRECISION else None


def _typed(left: Expression, right: Expression) -> tuple[Expression, Expression]:
    kinds = {left.type, right.type} - {VOID}
    kind = kinds.pop() if kinds else INT64
    return (
        convert(left, kind) if left.type == VOID else left,
        convert(right, kind) if right.type == VOID else right,
    )


def _divisor(value: Expression) -> Expression:
    """Return the divisor; `nullif(x, 0)` becomes `x`, because a division by zero gives null."""
    match value:
        case Case(((Compare("=", subject, Literal(zero, _)), Literal(None, _)),), default):
            return default if subject == default and zero in (0, "0") else value
        case _:
            return value


def _remainder(left: Expression, right: Expression) -> Expression:
    if not (is_integer(left.type) and is_integer(right.type)):
        what = f"{left.type} % {right.type} cannot be calculated: % is for integers."
        raise InvalidExpression(what, hint="CAST both sides AS BIGINT.")
    return Arithmetic("%", convert(left, INT64), convert(right, INT64), INT64)


def _decimal_arithmetic(op: Operator, left: Expression, right: Expression) -> Expression:
    a, b = _as_exact(left), _as_exact(right)
    first, second = cast(Decimal, a.type), cast(Decimal, b.type)
    if op == "*":
        kind = Decimal(first.precision + second.precision + 1, first.scale + second.scale)
    else:
        scale = max(first.scale, second.scale)
        whole = max(first.precision - first.scale, second.precision - second.scale)
        kind = Decimal(whole + scale + 1, scale)
    if kind.precision > MAX_PRECISION:
        what = f"{left.type} {op} {right.type} may have more than {MAX_PRECISION} digits."
        raise InvalidExpression(what, hint="CAST one side AS DOUBLE or to a smaller DECIMAL.")
    return Arithmetic(op, a, b, kind)


def _as_exact(value: Expression) -> Expression:
    if isinstance(value, Literal) and is_integer(value.type) and value.value is not None:
        return literals.exact_number(decimal.Decimal(int(value.value)))
    return convert(value, as_decimal(value.type))


def _incomparable(left: Expression, right: Expression) -> InvalidExpression:
    what = f"{left.type} cannot be compared with {right.type}."
    hint = "CAST one side to the type of the other."
    if isinstance(right, Literal) and right.type == STRING and is_number(left.type):
        hint = "Write the number without quotes, or CAST one side."
    elif isinstance(right, Literal) and left.type == STRING:
        hint = "Put the value in quotes, or CAST one side."
    elif not (comparable(left.type) and comparable(right.type)):
        hint = "Compare a member of it instead."
    elif any(isinstance(t, Primitive) and t.name in READ_ONLY for t in (left.type, right.type)):
        hint = "Columns of this type are only shown, and tested by IS NULL."
    elif left.type == literals.BINARY:
        hint = "Write bytes as X'0aff'."
    return InvalidExpression(what, hint=hint)
