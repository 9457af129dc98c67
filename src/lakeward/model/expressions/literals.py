"""Parses typed literals. Timestamps without an offset are in UTC, others are converted to UTC."""

from __future__ import annotations

import base64
import decimal
import math
import re
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Final

from lakeward.errors import InvalidExpression
from lakeward.model.expressions.nodes import Literal
from lakeward.model.types import Decimal, Primitive
from lakeward.model.values import Value, to_neutral

BINARY: Final = Primitive("binary")
DATE: Final = Primitive("date")
DOUBLE: Final = Primitive("double")
INT64: Final = Primitive("int64")
STRING: Final = Primitive("string")
TIMESTAMP: Final = Primitive("timestamp")
TIMESTAMP_NTZ: Final = Primitive("timestamp_ntz")

MAX_PRECISION: Final = 38
_SHOWN: Final = 60

_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})")
_TIMESTAMP: Final = re.compile(
    _DATE.pattern + r"(?:[T ]([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]{1,9}))?)?"
    r" ?(Z|UTC|[+-][0-9]{1,2}(?::?[0-9]{2})?)?)?"
)
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)
_SPECIAL: Final = {
    "nan": math.nan,
    "inf": math.inf,
    "infinity": math.inf,
    "+inf": math.inf,
    "+infinity": math.inf,
    "-inf": -math.inf,
    "-infinity": -math.inf,
}


def string(text: str) -> Literal:
    """Return a string literal; raise `InvalidExpression` if the text is not valid Unicode."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        what = "A string in the expression is not valid Unicode."
        raise InvalidExpression(what) from error
    return Literal(text, STRING)


def number(text: str) -> Literal:
    """Parse an integer, a decimal, or, if it has an exponent, a double."""
    if not _NUMBER.fullmatch(text):
        what = f"{text[:_SHOWN]!r} is not a number."
        raise InvalidExpression(what)
    if "e" in text.lower():
        return double(text)
    exact = decimal.Decimal(text)
    if "." not in text and -(2**63) <= exact < 2**63:
        return Literal(int(exact), INT64)
    return exact_number(exact)


def exact_number(value: decimal.Decimal) -> Literal:
    """Return the decimal literal of a value, with as few digits as possible."""
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        what = f"{value} is not a number that a decimal can hold."
        raise InvalidExpression(what)
    scale = max(0, -exponent)
    precision = max(len(digits) + max(0, exponent), scale, 1)
    if precision > MAX_PRECISION:
        what = f"The number {str(value)[:_SHOWN]} has more than {MAX_PRECISION} digits."
        raise InvalidExpression(what, hint="Write it with an exponent, as a double.")
    return Literal(f"{value:f}", Decimal(precision, scale))


def double(text: str) -> Literal:
    """Parse a double; accepts `NaN`, `Infinity` and `-Infinity` too."""
    special = _SPECIAL.get(text.strip().lower())
    if special is not None:
        return Literal(special, DOUBLE)
    if not _NUMBER.fullmatch(text.strip()):
        what = f"{text[:_SHOWN]!r} is not a number."
        raise InvalidExpression(what)
    value = float(text)
    if math.isinf(value):
        what = f"The number {text[:_SHOWN]} is too large for a double."
        raise InvalidExpression(what, hint="CAST('Infinity' AS DOUBLE) is larger than all others.")
    return Literal(value, DOUBLE)


def negative(literal: Literal) -> Literal:
    """Return the negated literal of a number."""
    if isinstance(literal.value, float):
        return Literal(-literal.value, literal.type)
    value = number(f"{-decimal.Decimal(str(literal.value)):f}")
    return value if literal.type == INT64 else Literal(str(value.value), literal.type)


def day(text: str) -> Literal:
    """Parse a date such as `2026-01-31`."""
    found = _DATE.fullmatch(text.strip())
    try:
        if found:
            return Literal(to_neutral(DATE, date(*map(int, found.groups()))), DATE)
    except ValueError:
        pass
    what = f"{text[:_SHOWN]!r} is not a date."
    raise InvalidExpression(what, hint="Write it as '2026-01-31'.")


def instant(text: str, *, zoned: bool = True) -> Literal:
    """Parse a timestamp such as `2026-01-31 12:00:00.5+02:00`, or a date at midnight."""
    found = _TIMESTAMP.fullmatch(text.strip())
    try:
        if found:
            return Literal(_microseconds(found), TIMESTAMP if zoned else TIMESTAMP_NTZ)
    except (ValueError, OverflowError):
        pass
    what = f"{text[:_SHOWN]!r} is not a timestamp."
    raise InvalidExpression(what, hint="Write it as '2026-01-31 12:00:00' or with '+02:00'.")


def octets(text: str) -> Literal:
    """Parse bytes written as hexadecimal digits."""
    try:
        raw = bytes.fromhex(text)
    except ValueError as error:
        what = f"X'{text[:_SHOWN]}' is not made of pairs of hexadecimal digits."
        raise InvalidExpression(what) from error
    return Literal(base64.b64encode(raw).decode(), BINARY)


def _microseconds(found: re.Match[str]) -> Value:
    year, month, of_month, hour, minute, second, fraction, zone = found.groups()
    digits = (fraction or "").ljust(6, "0")
    if digits[6:].strip("0"):
        what = f"{found.string!r} is finer than a microsecond."
        raise InvalidExpression(what, hint="Write at most six digits after the seconds.")
    moment = datetime(
        int(year),
        int(month),
        int(of_month),
        int(hour or 0),
        int(minute or 0),
        int(second or 0),
        int(digits[:6]),
        _zone(zone),
    )
    return to_neutral(TIMESTAMP, moment.astimezone(UTC))


def _zone(text: str | None) -> timezone:
    if text is None or text in ("Z", "UTC"):
        return UTC
    sign, digits = text[0], text[1:].replace(":", "")
    hours, minutes = (digits[:-2], digits[-2:]) if len(digits) > 2 else (digits, "0")
    offset = timedelta(hours=int(hours), minutes=int(minutes))
    return timezone(-offset if sign == "-" else offset)
