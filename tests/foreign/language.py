"""What conditions mean, in plain Python: an evaluator that shares nothing with the lake's own.

A `Term` is a piece of SQL together with the Python function that computes it for a row. Terms are
built by the functions below, so text and meaning come from one place and no parser is needed.

A row is a dict. Values are None, bool, int, float, Decimal, str and bytes. A date is an int, the
days since 1970; a timestamp is an int, the microseconds since 1970 in UTC: Python's own dates end
at the years 1 and 9999. Kinds of values have the names of the table's types: `int64`, `float`,
`double`, `decimal(10,2)`, `string`, `binary`, `boolean`, `date`, `timestamp`, `timestamp_ntz`.

The rules are those of docs/reading.md: three-valued logic; NaN equals itself and is greater than
every other number; numbers meet exactly, or as doubles when one of them is floating; dates and
timestamps meet as timestamps, in UTC.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any, TypeAlias

Row: TypeAlias = dict[str, Any]

DAY = 86_400_000_000
INTEGERS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
FLOATING = ("float", "double")
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097


class Failure(Exception):
    """The value cannot be computed for a row: an overflow, or a cast that does not fit."""


@dataclass(frozen=True, slots=True)
class Term:
    """SQL and its meaning.

    Attributes:
        sql: The text.
        kind: Of the values.
        of: The value for a row.
    """

    sql: str
    kind: str
    of: Callable[[Row], Any]

    def __str__(self) -> str:
        return self.sql


# Logic


def both(terms: Sequence[Term]) -> Term:
    def of(row: Row) -> bool | None:
        found = [t.of(row) for t in terms]
        return False if False in found else None if None in found else True

    return Term(" AND ".join(f"({t.sql})" for t in terms), "boolean", of)


def either(terms: Sequence[Term]) -> Term:
    def of(row: Row) -> bool | None:
        found = [t.of(row) for t in terms]
        return True if True in found else None if None in found else False

    return Term(" OR ".join(f"({t.sql})" for t in terms), "boolean", of)


def negated(term: Term) -> Term:
    return Term(f"NOT ({term.sql})", "boolean", lambda row: _not(term.of(row)))


def is_truth(term: Term, wanted: bool, *, positive: bool = True) -> Term:
    word = f"IS {'' if positive else 'NOT '}{str(wanted).upper()}"
    return Term(f"({term.sql}) {word}", "boolean", lambda r: (term.of(r) is wanted) is positive)


def is_null(term: Term, *, positive: bool = True) -> Term:
    word = "IS NULL" if positive else "IS NOT NULL"
    return Term(f"{term.sql} {word}", "boolean", lambda row: (term.of(row) is None) is positive)


# Comparisons


def compare(op: str, a: Term, b: Term) -> Term:
    def of(row: Row) -> bool | None:
        x, y = a.of(row), b.of(row)
        if op in _OF_NULLS and None in (x, y):
            return (x is y) is (_OF_NULLS[op] == "=")
        if x is None or y is None:
            return None
        return _holds(_OF_NULLS.get(op, op), order(x, a.kind, y, b.kind))

    return Term(f"{a.sql} {op} {b.sql}", "boolean", of)


def member(a: Term, values: Sequence[Term], *, positive: bool = True) -> Term:
    word = "IN" if positive else "NOT IN"
    same = either([compare("=", a, v) for v in values])
    text = f"{a.sql} {word} ({', '.join(v.sql for v in values)})"
    return Term(text, "boolean", same.of if positive else lambda row: _not(same.of(row)))


def between(a: Term, low: Term, high: Term, *, positive: bool = True) -> Term:
    word = "BETWEEN" if positive else "NOT BETWEEN"
    inside = both([compare(">=", a, low), compare("<=", a, high)])
    text = f"{a.sql} {word} {low.sql} AND {high.sql}"
    return Term(text, "boolean", inside.of if positive else lambda row: _not(inside.of(row)))


def like(a: Term, pattern: str, *, positive: bool = True, any_case: bool = False) -> Term:
    word = ("" if positive else "NOT ") + ("ILIKE" if any_case else "LIKE")
    fits = re.compile(_regex(pattern), re.DOTALL | (re.IGNORECASE if any_case else 0))

    def of(row: Row) -> bool | None:
        text = a.of(row)
        return None if text is None else (fits.fullmatch(text) is not None) is positive

    return Term(f"{a.sql} {word} {quoted(pattern)}", "boolean", of)


def finds(name: str, a: Term, part: str) -> Term:
    """`startswith`, `endswith` or `contains`."""

    def of(row: Row) -> bool | None:
        text = a.of(row)
        if text is None:
            return None
        return bool(part in text if name == "contains" else getattr(text, name)(part))

    return Term(f"{name}({a.sql}, {quoted(part)})", "boolean", of)


def is_nan(a: Term) -> Term:
    def of(row: Row) -> bool:
        value = a.of(row)
        return value is not None and math.isnan(value)

    return Term(f"isnan({a.sql})", "boolean", of)


def order(x: Any, x_kind: str, y: Any, y_kind: str) -> int:
    """-1, 0 or 1: whether a value is less than, equal to or greater than another."""
    x, y = _instant(x, x_kind), _instant(y, y_kind)
    if x_kind in FLOATING or y_kind in FLOATING:
        x, y = float(x), float(y)
        if math.isnan(x) or math.isnan(y):
            return int(math.isnan(x)) - int(math.isnan(y))
    return int(x > y) - int(x < y)


# Values


def column(path: str, kind: str) -> Term:
    """A column, or a member of a struct: `s.c`."""
    names = path.split(".")

    def of(row: Row) -> Any:
        value: Any = row
        for name in names:
            value = None if value is None else value[name]
        return value

    return Term(".".join(f"`{n}`" for n in names), kind, of)


def constant(sql: str, kind: str, value: Any) -> Term:
    """A literal: its text, and the value that it stands for."""
    return Term(sql, kind, lambda _: value)


def calculate(op: str, a: Term, b: Term) -> Term:
    """`+`, `-`, `*` of integers or of doubles, `%` of integers; `/` gives a double."""
    floating = op == "/" or a.kind in FLOATING or b.kind in FLOATING
    kind = "double" if floating else "int64"

    def of(row: Row) -> Any:
        x, y = a.of(row), b.of(row)
        if x is None or y is None or (op in "/%" and y == 0):
            return None
        if floating:
            return _of_doubles(op, float(x), float(y))
        if op == "%":
            # The remainder has the sign of what is divided.
            return abs(x) % abs(y) * (1 if x > 0 else -1)
        return _fitting({"+": x + y, "-": x - y, "*": x * y}[op], "int64")

    return Term(f"{_wrapped(a)} {op} {_wrapped(b)}", kind, of)


def call(name: str, a: Term) -> Term:
    """A function of one argument: of a string, a number, or a date or timestamp."""
    function, kind = _FUNCTIONS[name]

    def of(row: Row) -> Any:
        value = a.of(row)
        if value is None:
            return None
        found = function(_instant(value, a.kind))
        return _fitting(found, kind or a.kind) if (kind or a.kind) in INTEGERS else found

    return Term(f"{name}({a.sql})", kind or a.kind, of)


def coalesce(a: Term, b: Term) -> Term:
    """The first of two values of one kind that is not null."""

    def of(row: Row) -> Any:
        value = a.of(row)
        return b.of(row) if value is None else value

    return Term(f"coalesce({a.sql}, {b.sql})", a.kind, of)


def case(condition: Term, a: Term, b: Term) -> Term:
    """One of two values of one kind."""
    text = f"CASE WHEN {condition.sql} THEN {a.sql} ELSE {b.sql} END"
    return Term(text, a.kind, lambda row: a.of(row) if condition.of(row) is True else b.of(row))


def cast(a: Term, kind: str) -> Term:
    """A value as another kind: between numbers, between dates and timestamps, to a string."""
    return Term(
        f"CAST({a.sql} AS {sql_type(kind)})", kind, lambda row: converted(a.of(row), a.kind, kind)
    )


def converted(value: Any, source: str, target: str) -> Any:
    """What `CAST` makes of a value; a string is a number, as people write it."""
    if value is None:
        return None
    if target in FLOATING:
        return single(float(value)) if target == "float" else float(value)
    if target in INTEGERS:
        if source in FLOATING and not math.isfinite(value):
            raise Failure
        return _fitting(int(value), target)
    if target.startswith("decimal"):
        return _rounded(Decimal(value), target)
    if target == "string":
        return str(value).lower() if source == "boolean" else str(value)
    moment = _instant(value, source)
    return moment // DAY if target == "date" else moment


def single(value: float) -> float:
    """The nearest value that a `float` of 32 bits holds."""
    if not math.isfinite(value):
        return value
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def sql_type(kind: str) -> str:
    """A type as SQL names it."""
    names = {"int8": "TINYINT", "int16": "SMALLINT", "int32": "INT", "int64": "BIGINT"}
    return names.get(kind, kind.upper())


def quoted(text: str) -> str:
    """A string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def digits_of(kind: str) -> tuple[int, int]:
    """Precision and scale of a decimal."""
    precision, scale = kind[len("decimal(") : -1].split(",")
    return int(precision), int(scale)


def civil(moment: int) -> tuple[int, int, int]:
    """Year, month and day of an instant, of any year: the calendar repeats after 400 years."""
    days = moment // DAY
    cycles = -(days // _CYCLE_DAYS) + 4
    found = date.fromordinal(days + cycles * _CYCLE_DAYS + date(1970, 1, 1).toordinal())
    return found.year - cycles * _CYCLE_YEARS, found.month, found.day


_OF_NULLS = {"<=>": "=", "IS NOT DISTINCT FROM": "=", "IS DISTINCT FROM": "<>"}
_FUNCTIONS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "lower": (str.lower, "string"),
    "upper": (str.upper, "string"),
    "trim": (lambda text: text.strip(" "), "string"),
    "length": (len, "int64"),
    "abs": (abs, ""),
    "year": (lambda moment: civil(moment)[0], "int64"),
    "month": (lambda moment: civil(moment)[1], "int64"),
    "day": (lambda moment: civil(moment)[2], "int64"),
    "hour": (lambda moment: moment % DAY // (DAY // 24), "int64"),
}
"""Functions and the kinds of their results; those of `abs` are as its argument."""


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


def _holds(op: str, found: int) -> bool:
    return {
        "=": found == 0,
        "==": found == 0,
        "<>": found != 0,
        "!=": found != 0,
        "<": found < 0,
        "<=": found <= 0,
        ">": found > 0,
        ">=": found >= 0,
    }[op]


def _instant(value: Any, kind: str) -> Any:
    return value * DAY if kind == "date" else value


def _regex(pattern: str) -> str:
    out, escaped = [], False
    for character in pattern:
        if escaped or character not in "%_\\":
            out.append(re.escape(character))
            escaped = False
        elif character == "\\":
            escaped = True
        else:
            out.append(".*" if character == "%" else ".")
    return "".join(out)


def _of_doubles(op: str, x: float, y: float) -> float:
    try:
        return {"+": x + y, "-": x - y, "*": x * y}[op] if op != "/" else x / y
    except OverflowError:
        return math.copysign(math.inf, x) * math.copysign(1, y)


def _fitting(value: int, kind: str) -> int:
    if not -(2 ** (INTEGERS[kind] - 1)) <= value < 2 ** (INTEGERS[kind] - 1):
        raise Failure
    return value


def _rounded(value: Decimal, kind: str) -> Decimal:
    precision, scale = digits_of(kind)
    with localcontext(prec=80):
        found = value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
        if abs(found) >= Decimal(10) ** (precision - scale):
            raise Failure
        return found


def _wrapped(term: Term) -> str:
    return f"({term.sql})" if " " in term.sql or term.sql.startswith("-") else term.sql
