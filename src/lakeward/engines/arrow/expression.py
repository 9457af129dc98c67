"""Translates bound expressions to expressions of Arrow.

The result follows SQL's three-valued logic exactly, so it can be used as the filter of a scan and
to find the rows that violate a constraint. What cannot be computed (an integer overflow, a cast
that does not fit) raises `pyarrow.ArrowInvalid` when the expression is evaluated.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any, Final, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import acero

from lakeward.engines.arrow.decimals import to_floating
from lakeward.errors import InvalidExpression
from lakeward.model.expressions.nodes import (
    And,
    Arithmetic,
    Call,
    Case,
    Cast,
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
    Or,
)
from lakeward.model.types import Decimal, Primitive, Type, arrow_type
from lakeward.model.values import from_neutral

Arrow: TypeAlias = Any
"""A `pyarrow.compute.Expression`; the library has no type annotations."""


def to_arrow(expression: Expression) -> Arrow:
    """Return the expression as a `pyarrow.compute.Expression` over columns of the bound names."""
    match expression:
        case Column(field, path):
            return pc.field(field.name, *path)
        case Literal(value, kind):
            return pc.scalar(pa.scalar(from_neutral(kind, value), arrow_type(kind)))
        case Compare(op, left, right):
            return _compare(op, left, right)
        case And(terms):
            return _balanced(pc.and_kleene, [to_arrow(term) for term in terms])
        case Or(terms):
            return _balanced(pc.or_kleene, [to_arrow(term) for term in terms])
        case Not(operand):
            return pc.invert(to_arrow(operand))
        case IsNull(operand):
            return pc.is_null(to_arrow(operand))
        case In(operand, values):
            return _member(operand, values)
        case Like(operand, pattern, ignore_case):
            return _like(to_arrow(operand), pattern, ignore_case=ignore_case)
        case Arithmetic(op, left, right, _):
            return _ARITHMETIC[op](to_arrow(left), to_arrow(right))
        case Negate(operand):
            return pc.negate_checked(to_arrow(operand))
        case Call():
            return _call(expression)
        case Cast(operand, kind):
            return _cast(to_arrow(operand), operand.type, kind)
        case Case(branches, default):
            return reduce(_otherwise, reversed(branches), to_arrow(default))


def _compare(op: Comparison, left: Expression, right: Expression) -> Arrow:
    a, b = to_arrow(left), to_arrow(right)
    if op == "<=>":
        return _same(left, right)
    if left.type not in _FLOATING:
        return _COMPARE[op](a, b)
    if isinstance(right, Literal) and not _is_nan(right):
        # IEEE finds NaN greater than nothing, SQL greater than everything. It is named even where
        # both agree: statistics of Parquet leave NaN out, and a scan believes them.
        if op in (">", ">=", "!="):
            return pc.or_kleene(_COMPARE[op](a, b), pc.is_nan(a))
        return pc.and_kleene(_COMPARE[op](a, b), pc.invert(pc.is_nan(a)))
    equal = pc.or_kleene(pc.equal(a, b), pc.and_kleene(pc.is_nan(a), pc.is_nan(b)))
    match op:
        case "=":
            return equal
        case "!=":
            return pc.invert(equal)
        case "<":
            return _less(a, b)
        case ">":
            return _less(b, a)
        case "<=":
            return pc.invert(_less(b, a))
        case _:
            return pc.invert(_less(a, b))


def _less(a: Arrow, b: Arrow) -> Arrow:
    return pc.or_kleene(pc.less(a, b), pc.and_kleene(pc.invert(pc.is_nan(a)), pc.is_nan(b)))


def _same(left: Expression, right: Expression) -> Arrow:
    equal = pc.coalesce(_compare("=", left, right), pc.scalar(False))
    if isinstance(right, Literal):
        return equal
    missing = pc.and_kleene(pc.is_null(to_arrow(left)), pc.is_null(to_arrow(right)))
    return pc.or_kleene(equal, missing)


def _is_nan(literal: Literal) -> bool:
    return isinstance(literal.value, float) and math.isnan(literal.value)


def _member(operand: Expression, values: tuple[Literal, ...]) -> Arrow:
    kind, subject = arrow_type(operand.type), to_arrow(operand)
    if operand.type in _FLOATING:
        if len(values) <= _FEW:  # by which a scan skips row groups
            return _balanced(pc.or_kleene, [_compare("=", operand, value) for value in values])
        if any(map(_is_nan, values)):
            numbers = tuple(value for value in values if not _is_nan(value))
            return pc.or_kleene(_member(operand, numbers), pc.is_nan(subject))
        # Hashing tells 0.0 from -0.0, which are equal; the sum of -0.0 and 0.0 is 0.0.
        subject = pc.add(subject, pc.scalar(pa.scalar(0.0, kind)))
        values = tuple(Literal(cast(float, v.value) + 0.0, v.type) for v in values)
    found = pa.array([from_neutral(operand.type, value.value) for value in values], kind)
    return pc.if_else(pc.is_valid(subject), subject.isin(found), pa.scalar(None, pa.bool_()))


def _like(text: Arrow, pattern: str, *, ignore_case: bool) -> Arrow:
    if "\\" not in pattern:
        return pc.match_like(text, pattern, ignore_case=ignore_case)
    # Arrow takes two backslashes at the edge of a pattern for two characters.
    parts, quoted = [], False
    for character in pattern:
        if character == "\\" and not quoted:
            quoted = True
            continue
        wild = None if quoted else _WILD.get(character)
        parts.append(re.escape(character) if wild is None else wild)
        quoted = False
    whole = rf"\A(?s:{''.join(parts)})\z"
    return pc.match_substring_regex(text, whole, ignore_case=ignore_case)


def _divide(a: Arrow, b: Arrow) -> Arrow:
    return pc.divide(a, _not_zero(b, pa.float64()))


def _remainder(a: Arrow, b: Arrow) -> Arrow:
    divisor = _not_zero(b, pa.int64())
    # By 1 the remainder is the same, and the least integer can be divided.
    negative = pc.equal(divisor, pc.scalar(pa.scalar(-1, pa.int64())))
    divisor = pc.if_else(negative, pc.scalar(pa.scalar(1, pa.int64())), divisor)
    whole = pc.divide_checked(a, divisor)
    return pc.subtract_checked(a, pc.multiply_checked(whole, divisor))


def _not_zero(value: Arrow, kind: pa.DataType) -> Arrow:
    zero = pc.equal(value, pc.scalar(pa.scalar(0, kind)))
    return pc.if_else(zero, pc.scalar(pa.scalar(None, kind)), value)


def _otherwise(rest: Arrow, branch: tuple[Expression, Expression]) -> Arrow:
    condition, value = branch
    holds = pc.coalesce(to_arrow(condition), pc.scalar(False))
    return pc.if_else(holds, to_arrow(value), rest)


def _call(call: Call) -> Arrow:
    subject, *rest = call.arguments
    if isinstance(call.type, Decimal) and call.name in ("floor", "ceil"):
        return _SIMPLE[call.name](to_arrow(subject).cast(arrow_type(call.type)))
    if call.name in _SIMPLE:
        return _SIMPLE[call.name](*map(to_arrow, call.arguments))
    if call.name == "concat":
        return pc.binary_join_element_wise(*map(to_arrow, call.arguments), pc.scalar(""))
    start, *length = [cast(int, place.value) for place in rest if isinstance(place, Literal)]
    stop = start - 1 + length[0] if length else None
    return pc.utf8_slice_codeunits(to_arrow(subject), start - 1, stop)


def _cast(value: Arrow, source: Type, target: Type) -> Arrow:
    kind = arrow_type(target)
    if source in _FLOATING and isinstance(target, Primitive) and target.name in _INTEGERS:
        return pc.trunc(value).cast(kind)
    if isinstance(source, Decimal) and isinstance(target, Primitive) and target.name in _INTEGERS:
        return pc.trunc(value).cast(kind)
    if isinstance(target, Decimal) and isinstance(source, Decimal):
        return _rescaled(value, source, target)
    if isinstance(target, Decimal) and isinstance(source, Primitive) and source.name in _INTEGERS:
        # Arrow wants room for all values of the integer's type.
        wide = min(_DIGITS[source.name] + target.scale, 38)
        return value.cast(pa.decimal128(wide, target.scale)).cast(kind)
    if target in _FLOATING and isinstance(source, Primitive) and source.name in _INTEGERS:
        # Wide integers lose digits. Of a bare cast Arrow converts the bounds of row groups, too,
        # and fails where they do not fit exactly; of a sum it does not.
        return pc.add(value.cast(kind, safe=False), pc.scalar(pa.scalar(0.0, kind)))
    if isinstance(source, Decimal) and target in _FLOATING:
        return to_floating(value, arrow_type(source), kind)
    if isinstance(target, Decimal) and source in _FLOATING:
        return pc.round(value, target.scale, round_mode="half_towards_infinity").cast(kind)
    if source == Primitive("string") and target == Primitive("timestamp"):
        return _with_zone(value).cast(kind)
    # Instants lose their time as dates, and doubles digits as floats: as SQL has it.
    return value.cast(kind, safe=target not in (*_FLOATING, Primitive("date")))


def _with_zone(text: Arrow) -> Arrow:
    """Return times with an offset, as Arrow requires; those without one are in UTC."""
    is_day = pc.match_substring_regex(text, r"^\d{4}-\d\d-\d\d$")
    has_zone = pc.match_substring_regex(text, r"[T ].*(Z|[+-]\d\d(:?\d\d)?)$")
    of_day = pc.binary_join_element_wise(text, pa.scalar("00:00:00Z"), pa.scalar("T"))
    in_utc = pc.binary_join_element_wise(text, pa.scalar("Z"), pa.scalar(""))
    return pc.if_else(is_day, of_day, pc.if_else(has_zone, text, in_utc))


def _rescaled(value: Arrow, source: Decimal, target: Decimal) -> Arrow:
    if target.scale < source.scale:
        # Rounding up may take one more digit.
        room = pa.decimal128(min(source.precision + 1, 38), source.scale)
        mode = "half_towards_infinity"
        value = pc.round(value.cast(room), target.scale, round_mode=mode)
    return value.cast(arrow_type(target))


def _balanced(join: Callable[[Arrow, Arrow], Arrow], terms: list[Arrow]) -> Arrow:
    """Return the terms joined in pairs, because a chain of thousands would exhaust the stack.

    Of calls of one function Arrow makes a chain again, however they are nested. So it is kept from
    seeing that the terms of a part are joined by the same function as the parts.
    """
    while len(terms) > _CHAIN:
        parts = [terms[at : at + _CHAIN] for at in range(0, len(terms), _CHAIN)]
        terms = [pc.invert(pc.invert(_balanced(join, part))) for part in parts]
    while len(terms) > 1:
        pairs = [join(a, b) for a, b in zip(terms[::2], terms[1::2], strict=False)]
        terms = pairs + terms[len(pairs) * 2 :]
    return terms[0]


_FEW: Final = 16
"""So many floats are compared one by one."""
_CHAIN: Final = 500
_WILD: Final = {"%": ".*", "_": "."}
_FLOATING: Final = (Primitive("float"), Primitive("double"))
_INTEGERS: Final = ("int8", "int16", "int32", "int64")
_DIGITS: Final = {"int8": 3, "int16": 5, "int32": 10, "int64": 19}
_COMPARE: Final[dict[str, Callable[[Arrow, Arrow], Arrow]]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_ARITHMETIC: Final[dict[str, Callable[[Arrow, Arrow], Arrow]]] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
    "/": _divide,
    "%": _remainder,
}
_SIMPLE: Final[dict[str, Callable[..., Arrow]]] = {
    "lower": pc.utf8_lower,
    "upper": pc.utf8_upper,
    "trim": lambda value: pc.utf8_trim(value, " "),
    "ltrim": lambda value: pc.utf8_ltrim(value, " "),
    "rtrim": lambda value: pc.utf8_rtrim(value, " "),
    "length": lambda value: pc.utf8_length(value).cast(pa.int64()),
    "abs": pc.abs_checked,
    "floor": pc.floor,
    "ceil": pc.ceil,
    "coalesce": pc.coalesce,
    "year": pc.year,
    "month": pc.month,
    "day": pc.day,
    "hour": pc.hour,
}


Mask: TypeAlias = npt.NDArray[np.bool_]


def holds(rows: pa.Table, condition: Expression | None, what: str) -> Mask:
    """Return for each row whether a condition is true; True for all rows without a condition."""
    if condition is None:
        return np.ones(rows.num_rows, dtype=bool)
    (found,) = _project(rows, [pc.coalesce(to_arrow(condition), pc.scalar(False))], what)
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=bool)


def computed(
    rows: pa.Table, expressions: Mapping[str, Expression], what: str
) -> dict[str, pa.ChunkedArray]:
    """Return the values of each expression for all rows.

    Raises `InvalidExpression` if an expression cannot be computed for a row.
    """
    found = _project(rows, [to_arrow(e) for e in expressions.values()], what)
    kinds = [arrow_type(e.type) for e in expressions.values()]
    columns = [c if c.type.equals(k) else c.cast(k) for c, k in zip(found, kinds, strict=True)]
    return dict(zip(expressions, columns, strict=True))


def _project(rows: pa.Table, expressions: list[Any], what: str) -> list[pa.ChunkedArray]:
    if not rows.num_columns:
        # Arrow takes the number of rows from columns; an expression may read none.
        rows = pa.table({"row": pa.nulls(rows.num_rows)})
    names = [str(n) for n in range(len(expressions))]
    plan = acero.Declaration.from_sequence(
        [
            acero.Declaration("table_source", acero.TableSourceNodeOptions(rows)),
            acero.Declaration("project", acero.ProjectNodeOptions(expressions, names)),
        ]
    )
    try:
        # Several threads would not keep the order of the rows.
        return list(plan.to_table(use_threads=False).columns)
    except pa.ArrowInvalid as error:
        text = f"{what} cannot be computed for a row: {error}."
        raise InvalidExpression(text, hint="Nothing was committed.") from error
