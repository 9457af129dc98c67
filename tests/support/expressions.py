"""Random tables and conditions, and a second opinion on what a condition means.

`evaluate` computes a bound expression for a row in plain Python, sharing nothing with the engines.
"""

from __future__ import annotations

import base64
import decimal
import math
import random
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from lakeward.model.expressions.nodes import (
    And,
    Arithmetic,
    Call,
    Case,
    Cast,
    Column,
    Compare,
    Expression,
    In,
    IsNull,
    Like,
    Literal,
    Negate,
    Not,
    Or,
)
from lakeward.model.schema import Schema
from lakeward.model.types import Decimal, Primitive, Type
from lakeward.model.values import to_neutral

ARROW = pa.schema(
    [
        ("i", pa.int64()),
        ("n", pa.int32()),
        ("t", pa.int8()),
        ("f", pa.float64()),
        ("g", pa.float32()),
        ("d", pa.decimal128(10, 2)),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("dt", pa.date32()),
        ("ts", pa.timestamp("us", "UTC")),
        ("tn", pa.timestamp("us")),
        ("tm", pa.timestamp("ms", "UTC")),
        ("x", pa.binary()),
        ("st", pa.struct([("c", pa.int32()), ("s", pa.string())])),
    ]
)
SCHEMA = Schema.from_arrow(ARROW)

Row = dict[str, Any]

_DAY = date(2026, 1, 1)
_MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
_LETTERS = "ab%_\\' é\n"

_days = st.integers(-2, 2).map(lambda n: _DAY + timedelta(days=n))
_micros = st.sampled_from([0, 1, 500, 1000, 1500, 86_400_000_000, -1, -1000, 43_200_000_000])
_moments = _micros.map(lambda n: _MOMENT + timedelta(microseconds=n))
_floats = st.sampled_from([0.0, -0.0, 1.0, 1.5, -2.5, 0.1, math.inf, -math.inf, math.nan, 1e300])
_singles = st.sampled_from([0.0, -0.0, 1.0, 1.5, -2.5, 0.10000000149011612, math.inf, math.nan])
_decimals = st.integers(-300, 300).map(lambda n: decimal.Decimal(n).scaleb(-2))
_strings = st.text(_LETTERS, max_size=4)
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "i": st.integers(-4, 4) | st.sampled_from([2**63 - 1, -(2**63), 2**53 + 1]),
    "n": st.integers(-5, 5),
    "t": st.integers(-3, 3) | st.sampled_from([127, -128]),
    "f": _floats,
    "g": _singles,
    "d": _decimals | st.sampled_from([decimal.Decimal("99999999.99")]),
    "s": _strings,
    "b": st.booleans(),
    "dt": _days,
    "ts": _moments,
    "tn": _moments.map(lambda m: m.replace(tzinfo=None)),
    "tm": _moments.map(lambda m: m.replace(microsecond=m.microsecond // 1000 * 1000)),
    "x": st.binary(max_size=2),
    "st": st.fixed_dictionaries({"c": st.none() | st.integers(-2, 2), "s": st.none() | _strings}),
}
rows: st.SearchStrategy[Row] = st.fixed_dictionaries(
    {name: st.none() | values for name, values in _VALUES.items()}
)
tables: st.SearchStrategy[list[Row]] = st.lists(rows, min_size=1, max_size=8)


def to_table(source: list[Row]) -> pa.Table:
    """The rows in Arrow; members of a missing struct are missing too, as in a file."""
    arrays = []
    for field in ARROW:
        values = [row[field.name] for row in source]
        if field.name == "st":
            members = [pa.array([v and v[m.name] for v in values], m.type) for m in field.type]
            mask = pa.array([v is None for v in values])
            arrays.append(pa.StructArray.from_arrays(members, fields=list(field.type), mask=mask))
        else:
            arrays.append(pa.array(values, field.type))
    return pa.Table.from_arrays(arrays, schema=ARROW)


def quoted(text: str) -> str:
    """A string literal as the expression language has it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def plain_quoted(text: str) -> str:
    """A string literal as standard SQL has it."""
    return "'" + text.replace("'", "''") + "'"


class Texts:
    """Strategies for conditions as people write them.

    Args:
        portable: Only what DataFusion reads and means alike.
    """

    def __init__(self, *, portable: bool = False) -> None:
        self._portable = portable
        self._quote: Callable[[str], str] = plain_quoted if portable else quoted
        letters = _LETTERS.replace("\\", "") if portable else _LETTERS
        self.strings = st.text(letters, max_size=3).map(self._quote)
        self.integers = st.integers(-5, 5).map(str)
        self.exact = st.sampled_from(["1.5", "-2.50", "0.005", "2.0", "1.49", "-0.1"])
        self.wide = st.sampled_from(["127", "128", "-129", "300", "9223372036854775807"])
        self.huge = st.sampled_from(["9223372036854775808", "-9223372036854775809", "1e30"])
        self.dates = _days.map(lambda d: f"DATE '{d}'")
        self.moments = _moments.map(lambda m: f"TIMESTAMP '{m.replace(tzinfo=None)}'")

    def conditions(self) -> st.SearchStrategy[str]:
        """Conditions of all shapes."""
        return st.recursive(self._leaves(), self._joined, max_leaves=6)

    def _joined(self, inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        wrapped = inner.map(lambda text: f"({text})")
        return st.one_of(
            st.lists(wrapped, min_size=2, max_size=3).map(" AND ".join),
            st.lists(wrapped, min_size=2, max_size=3).map(" OR ".join),
            wrapped.map(lambda text: f"NOT {text}"),
            wrapped.map(lambda text: f"{text} IS NULL"),
            st.tuples(wrapped, wrapped).map("{0[0]} IS NOT DISTINCT FROM {0[1]}".format),
        )

    def _leaves(self) -> st.SearchStrategy[str]:
        return st.one_of(
            self._comparisons(),
            self._lists(),
            self._ranges(),
            self._patterns(),
            self._calculations(),
            st.sampled_from([f"{n} IS NULL" for n in ARROW.names] + ["st.c IS NOT NULL"]),
            st.sampled_from(["b", "NOT b", "b IS TRUE", "b IS NOT FALSE", "TRUE", "FALSE"]),
            st.sampled_from(["NULL"] if not self._portable else ["CAST(NULL AS BOOLEAN)"]),
        )

    def _pairs(self) -> st.SearchStrategy[tuple[str, str]]:
        """A column and a literal that can be compared with it."""
        numbers = self.integers | self.exact
        kinds: list[tuple[str, st.SearchStrategy[str]]] = [
            ("i", numbers | self.wide),
            ("n", numbers | self.wide),
            ("d", numbers),
            ("f", numbers),
            ("s", self.strings),
            ("b", st.sampled_from(["TRUE", "FALSE"])),
            ("dt", self.dates),
            ("ts", self.moments),
            ("tn", self.moments),
            ("x", st.sampled_from(["X'61'", "X'00'", "X'ff'"])),
            ("st.c", self.integers),
            ("st.s", self.strings),
        ]
        if not self._portable:
            bare = _days.map(lambda d: f"'{d}'")
            zoned = _moments.map(lambda m: f"'{m.isoformat()}'")
            kinds += [
                ("t", numbers | self.wide | self.huge),
                ("i", self.huge),
                ("d", self.huge | st.just("99999999.995")),
                ("g", numbers | self.huge),
                ("f", self.huge | st.just("CAST('NaN' AS DOUBLE)")),
                ("dt", self.moments | bare),
                ("ts", self.dates | bare | zoned),
                ("tn", self.dates | zoned),
                ("tm", self.moments | self.dates),
                ("S", self.strings),
                ("`n`", st.just("NULL")),
            ]
        return st.one_of([st.tuples(st.just(name), values) for name, values in kinds])

    def _operators(self) -> st.SearchStrategy[str]:
        signs = ["=", "<>", "<", "<=", ">", ">="]
        return st.sampled_from(signs if self._portable else [*signs, "!=", "<=>", "=="])

    def _comparisons(self) -> st.SearchStrategy[str]:
        with_literal = st.tuples(self._pairs(), self._operators())
        couples = [("i", "n"), ("n", "t"), ("s", "st.s"), ("n", "st.c"), ("d", "n"), ("f", "n")]
        if not self._portable:
            couples += [
                ("f", "g"),
                ("f", "f"),
                ("d", "f"),
                ("dt", "ts"),
                ("ts", "tm"),
                ("tn", "dt"),
            ]
        return st.one_of(
            with_literal.map("{0[0][0]} {0[1]} {0[0][1]}".format),
            with_literal.map("{0[0][1]} {0[1]} {0[0][0]}".format),
            st.tuples(st.sampled_from(couples), self._operators()).map(
                "{0[0][0]} {0[1]} {0[0][1]}".format
            ),
        )

    def _lists(self) -> st.SearchStrategy[str]:
        pairs = st.lists(self._pairs(), min_size=1, max_size=12)

        def joined(drawn: tuple[list[tuple[str, str]], bool, bool]) -> str:
            found, negated, missing = drawn
            name = found[0][0]
            values = [v for n, v in found if n == name] + (["NULL"] if missing else [])
            return f"{name} {'NOT ' if negated else ''}IN ({', '.join(values)})"

        return st.tuples(pairs, st.booleans(), st.booleans()).map(joined)

    def _ranges(self) -> st.SearchStrategy[str]:
        def ranged(drawn: tuple[tuple[str, str], tuple[str, str], bool]) -> str:
            (name, low), (other, high), negated = drawn
            high = high if other == name else low
            return f"{name} {'NOT ' if negated else ''}BETWEEN {low} AND {high}"

        return st.tuples(self._pairs(), self._pairs(), st.booleans()).map(ranged)

    def _patterns(self) -> st.SearchStrategy[str]:
        letters = "ab%_ é\n" if self._portable else "ab%_ é\n'"
        patterns = st.text(letters, max_size=4)
        words = st.sampled_from(["LIKE", "NOT LIKE", "ILIKE", "NOT ILIKE"])
        liked = st.tuples(st.sampled_from(["s", "st.s"]), words, patterns.map(self._quote))
        shapes = [liked.map(" ".join)]
        names = ["starts_with", "contains"] if self._portable else ["startswith", "endswith"]
        call = st.tuples(st.sampled_from(names), patterns.map(self._quote))
        shapes.append(call.map("{0[0]}(s, {0[1]})".format))
        if not self._portable:
            escaped = st.lists(st.sampled_from(["a", "%", "_", "!%", "!_", "!!", "\\"]), max_size=4)
            shapes.append(escaped.map(lambda p: f"s LIKE {quoted(''.join(p))} ESCAPE '!'"))
            default = st.lists(st.sampled_from(["a", "%", "_", "\\%", "\\_", "\\\\"]), max_size=4)
            shapes.append(default.map(lambda p: f"s LIKE {quoted(''.join(p))}"))
        return st.one_of(shapes)

    def _calculations(self) -> st.SearchStrategy[str]:
        plain = (NUMBERS, STRINGS, DATES)
        numbers, strings, dates = plain if not self._portable else map(_portable, plain)
        of_numbers = st.tuples(
            st.sampled_from(numbers), self._operators(), self.integers | self.exact
        )
        of_strings = st.tuples(st.sampled_from(strings), self._operators(), self.strings)
        of_dates = st.tuples(st.sampled_from(dates), self._operators(), self.dates)
        return st.one_of([kind.map(" ".join) for kind in (of_numbers, of_strings, of_dates)])


NUMBERS = [
    *("n + 1", "n - t", "n * 2", "-n", "n % 3", "abs(n)", "st.c + n", "coalesce(n, 0)"),
    *("d + 1", "d - n", "d * 1.5", "length(s)", "year(dt)", "month(ts)", "day(dt)"),
    "CASE WHEN b THEN n ELSE 2 END",
    "CASE n WHEN 1 THEN 10 WHEN 2 THEN d END",
    *("n / t", "n % t", "d / n", "f + 1", "f * g", "-f", "hour(ts)", "hour(dt)", "1 / f"),
    *("floor(f)", "ceil(d)", "floor(d)", "CAST(d AS INT)", "CAST(d AS DECIMAL(12,1))"),
    *("nullif(n, 1)", "if(b, n, d)", "CAST(n AS DOUBLE)", "-d", "abs(f)", "n + NULL"),
    *("CAST(t AS DECIMAL(5,1)) + d", "CAST(n AS FLOAT)", "day(tm)", "hour(tn)"),
    *("extract(year FROM dt)", "extract(month FROM ts)"),
]
STRINGS = [
    *("lower(s)", "upper(s)", "trim(s)", "ltrim(s)", "rtrim(s)", "substring(s, 2, 1)"),
    *("substring(s, 2)", "s || 'a'", "coalesce(s, 'b')", "CAST(n AS STRING)"),
    *("concat(s, st.s, 'x')", "CAST(dt AS STRING)", "CAST(b AS STRING)"),
]
DATES = ["CAST(ts AS DATE)", "coalesce(dt, DATE '2026-01-01')", "CAST(tn AS DATE)"]
"""Calculations of each kind over the columns."""


def _portable(calculations: list[str]) -> list[str]:
    """Those that DataFusion reads and means alike."""
    other = ("/", "hour", "year(", "month(", "day(", "if(", "n % t", "concat", "AS INT", "f ", "(f")
    more = ("DECIMAL", "FLOAT", "NULL", "-f", "floor", "ceil")
    found = [c for c in calculations if not any(part in c for part in (*other, *more))]
    return [c.replace("STRING", "VARCHAR") for c in found]


def many_rows() -> list[Row]:
    """Rows, always the same, in which every value that the strategies know meets many others."""
    pick = random.Random(2026)
    days = [_DAY + timedelta(days=n) for n in range(-2, 3)]
    moments = [_MOMENT + timedelta(microseconds=n) for n in (0, 1, 1500, -1, 43_200_000_000)]
    texts = ["", "a", "ab", "b", " a ", "é", "A", "a%", "\\", "_", "\n", "\ta", "'"]
    exact = [decimal.Decimal(n).scaleb(-2) for n in (-205, -201, -150, -5, 0, 5, 100, 150, 295)]
    values: Row = {
        "i": [-(2**63), -1, 0, 1, 2, 2**53 + 1, 2**63 - 1],
        "n": list(range(-5, 6)),
        "t": [-128, -3, -1, 0, 1, 2, 127],
        "f": [0.0, -0.0, 1.0, 1.5, -2.5, 0.1, math.inf, -math.inf, math.nan, 1e300],
        "g": [0.0, -0.0, 1.0, 1.5, -2.5, 0.10000000149011612, math.inf, math.nan],
        "d": [*exact, decimal.Decimal("99999999.99")],
        "s": texts,
        "b": [True, False],
        "dt": days,
        "ts": moments,
        "tn": [m.replace(tzinfo=None) for m in moments],
        "tm": [m.replace(microsecond=m.microsecond // 1000 * 1000) for m in moments],
        "x": [b"", b"a", b"\x00", b"\xff"],
        "st": [{"c": c, "s": t} for c in (None, -1, 0, 1, 2) for t in (None, "a", "%")],
    }
    return [
        {name: pick.choice([None, *kinds, *kinds]) for name, kinds in values.items()}
        for _ in range(150)
    ]


def evaluate(expression: Expression, row: Row) -> Any:
    """The value of the expression for a row; None is SQL's null."""
    return _known(expression.type, _evaluate(expression, row))


def _evaluate(expression: Expression, row: Row) -> Any:
    match expression:
        case Column(field, path):
            value = row[field.name]
            for name in path:
                value = None if value is None else value[name]
            return (
                value
                if value is None
                else _known(expression.type, to_neutral(expression.type, value))
            )
        case Literal(value, kind):
            return value
        case And(terms):
            found = [evaluate(term, row) for term in terms]
            return False if False in found else None if None in found else True
        case Or(terms):
            found = [evaluate(term, row) for term in terms]
            return True if True in found else None if None in found else False
        case Not(operand):
            found = evaluate(operand, row)
            return None if found is None else not found
        case IsNull(operand):
            return evaluate(operand, row) is None
        case Compare(op, left, right):
            return _compare(op, evaluate(left, row), evaluate(right, row))
        case In(operand, values):
            subject = evaluate(operand, row)
            if subject is None:
                return None
            return any(_compare("=", subject, evaluate(value, row)) for value in values)
        case Like(operand, pattern, ignore_case):
            text = evaluate(operand, row)
            flags = re.DOTALL | (re.IGNORECASE if ignore_case else 0)
            return None if text is None else bool(re.fullmatch(_regex(pattern), text, flags))
        case Arithmetic(op, left, right, _):
            return _calculate(op, evaluate(left, row), evaluate(right, row))
        case Negate(operand):
            value = evaluate(operand, row)
            return None if value is None else -value
        case Call(name, arguments, _):
            return _call(name, [(a.type, evaluate(a, row)) for a in arguments])
        case Cast(operand, kind):
            return _cast(evaluate(operand, row), operand.type, kind)
        case Case(branches, default):
            for condition, value in branches:
                if evaluate(condition, row):
                    return evaluate(value, row)
            return evaluate(default, row)


def _known(kind: Type, value: Any) -> Any:
    """A neutral value in a form that Python compares as SQL does."""
    if isinstance(kind, Decimal) and isinstance(value, str):
        return decimal.Decimal(value)
    if kind == Primitive("binary") and isinstance(value, str):
        return base64.b64decode(value)
    return value


def _compare(op: str, a: Any, b: Any) -> bool | None:
    if op == "<=>":
        return a is b if a is None or b is None else _compare("=", a, b)
    if a is None or b is None:
        return None
    if isinstance(a, float):
        a, b = (
            (math.isnan(a), 0.0 if math.isnan(a) else a),
            (
                math.isnan(b),
                0.0 if math.isnan(b) else b,
            ),
        )
    return bool({"=": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[op])


def _regex(pattern: str) -> str:
    out, quoting = [], False
    for character in pattern:
        if quoting or character not in "%_\\":
            out.append(re.escape(character))
            quoting = False
        elif character == "\\":
            quoting = True
        else:
            out.append(".*" if character == "%" else ".")
    return "".join(out)


def _calculate(op: str, a: Any, b: Any) -> Any:
    if a is None or b is None or (op in "/%" and b == 0):
        return None
    with decimal.localcontext(prec=60):
        match op:
            case "+":
                return a + b
            case "-":
                return a - b
            case "*":
                return a * b
            case "/":
                return a / b
            case _:
                return int(math.fmod(a, b))


def _call(name: str, arguments: list[tuple[Type, Any]]) -> Any:
    values = [value for _, value in arguments]
    if name == "coalesce":
        return next((value for value in values if value is not None), None)
    if None in values:
        return None
    kind, first = arguments[0]
    match name:
        case "lower" | "upper":
            return getattr(first, name)()
        case "trim" | "ltrim" | "rtrim":
            return {"trim": first.strip, "ltrim": first.lstrip, "rtrim": first.rstrip}[name](" ")
        case "length":
            return len(first)
        case "substring":
            start, *length = values[1:]
            return first[start - 1 :][: length[0] if length else None]
        case "concat":
            return "".join(values)
        case "abs":
            return abs(first)
        case "floor" | "ceil":
            if isinstance(first, float) and not math.isfinite(first):
                return first
            return type(first)(getattr(math, name)(first))
        case _:
            moment = datetime(1970, 1, 1, tzinfo=UTC) + (
                timedelta(days=first)
                if kind == Primitive("date")
                else timedelta(microseconds=first)
            )
            return getattr(moment, name)


def _cast(value: Any, source: Type, target: Type) -> Any:
    if value is None:
        return None
    if isinstance(target, Decimal):
        step = decimal.Decimal(1).scaleb(-target.scale)
        return decimal.Decimal(value).quantize(step, decimal.ROUND_HALF_UP)
    name = str(target)
    if name == "double":
        return float(value)
    if name == "float":
        return float(pa.scalar(float(value), pa.float32()).as_py())
    if name.startswith("int"):
        return int(value)
    if name == "string":
        if source == Primitive("date"):
            return str(date(1970, 1, 1) + timedelta(days=value))
        return str(value).lower() if isinstance(value, bool) else str(value)
    if source == Primitive("date"):
        return value * 86_400_000_000
    return value // 86_400_000_000 if name == "date" else value
