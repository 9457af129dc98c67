"""Partition transforms: from a column's value to the partition value of its row.

There are two sets of rules. Iceberg's hidden partition fields are numbers counted from 1970, and
Iceberg's own hash. Delta partitions by generated columns, whose values are those of Spark's
expressions: calendar years, texts such as `2026-01`, and Spark's hash. Both preserve the order of
values where `is_ordered` is true.

Values are in the neutral form of `lakeward.model.values`. Timestamps with a zone are converted to
UTC, those without one are used as they are.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, cast

from lakeward.errors import InvalidInput
from lakeward.model.bucket import iceberg_bucket, scaled, spark_bucket, unscaled
from lakeward.model.calendar import (
    DAY,
    EPOCH_YEAR,
    FIRST_DAY,
    HOUR,
    LAST_DAY,
    civil,
    day_text,
    moment_text,
    year_month,
)
from lakeward.model.types import Decimal, Primitive, Type
from lakeward.model.values import Value, from_neutral

MAX_WIDTH: Final = 2**31 - 1
SUFFIXES: Final = {
    "identity": "",
    "year": "_year",
    "month": "_month",
    "day": "_day",
    "hour": "_hour",
    "bucket": "_bucket",
    "truncate": "_trunc",
    "void": "_null",
}
"""The suffix of a partition value's name, as Iceberg's writers choose it."""

TIMES: Final = frozenset({"year", "month", "day", "hour"})
WIDTHS: Final = frozenset({"bucket", "truncate"})
INT32: Final = Primitive("int32")
DATE: Final = Primitive("date")
STRING: Final = Primitive("string")

_PLURALS: Final = {f"{name}s": name for name in TIMES}
_CALL: Final = re.compile(r"\s*(\w+)\s*\((.*)\)\s*", re.DOTALL)
_WIDTH_FIRST: Final = re.compile(r"\s*([0-9]{1,10})\s*,(.*)", re.DOTALL)
_ICEBERG: Final = re.compile(r"(\w+)(?:\[([0-9]{1,10})\])?")
_INTEGERS: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


class Rules(Enum):
    """The rules that a transform follows."""

    ICEBERG = "iceberg"
    SPARK = "spark"


@dataclass(frozen=True, slots=True)
class Transform:
    """A function from the values of a column to partition values.

    `void` is an Iceberg partition field that was dropped. The width is the number of buckets; for
    `truncate`, numbers are truncated to its multiples and texts to so many characters.
    """

    name: str
    width: int | None = None
    rules: Rules = Rules.ICEBERG

    def __str__(self) -> str:
        return self.name if self.width is None else f"{self.name}[{self.width}]"

    @classmethod
    def parse(cls, text: str, rules: Rules = Rules.ICEBERG) -> Transform:
        """Parse the `str` of a transform, which is also its text in Iceberg's metadata."""
        found = _ICEBERG.fullmatch(text)
        name = found[1] if found else ""
        width = int(found[2]) if found and found[2] else None
        if name not in SUFFIXES or (width is not None) != (name in WIDTHS) or width == 0:
            what = f"{text!r} is not a partition transform."
            raise InvalidInput(what, transform=text)
        return cls(name, width, rules)

    def of(self, column: str) -> str:
        """Return the transform of a column as users write it: `bucket(16, id)`."""
        if self.name == "identity":
            return column
        width = "" if self.width is None else f"{self.width}, "
        return f"{self.name}({width}{column})"

    @property
    def is_ordered(self) -> bool:
        """Whether `a <= b` implies that the value of `a` is not above the value of `b`."""
        return self.name not in ("bucket", "void")

    def check(self, source: Type, column: str) -> None:
        """Raise `InvalidInput` if the transform is not defined for a column's type."""
        if self._takes(source):
            return
        if self.name == "identity":
            what = f"Column {column} of type {source} cannot partition a table."
        else:
            what = f"{self.of(column)} cannot partition a table: column {column} is {source}."
        raise InvalidInput(what, hint=_HINTS.get(self.name), column=column, transform=str(self))

    def result(self, source: Type) -> Type:
        """Return the type of the partition values, for a column's type that `check` accepts."""
        if self.name == "day":
            return DATE
        if self.name in ("month", "hour") and self.rules is Rules.SPARK:
            return STRING
        return INT32 if self.name in TIMES or self.name == "bucket" else source

    def apply(self, source: Type, value: Value) -> Value:
        """Return the partition value of a column's neutral value.

        Raises a `ValueError` if there is none: the truncated value is out of the type's range, or a
        year in a text has more than four digits.
        """
        if self.name == "bucket":
            bucket = iceberg_bucket if self.rules is Rules.ICEBERG else spark_bucket
            return bucket(source, value, self._width)
        if value is None or self.name == "void":
            return None
        if self.name == "truncate":
            return _truncated(source, value, self._width)
        return value if self.name == "identity" else self._time(source, int(value))

    def text(self, result: Type, value: Value) -> str:
        """Return a partition value as people read it, which is also its text in directory names.

        Args:
            result: The type of the partition values, which the method `result` returns.
            value: The partition value; not null.
        """
        if self.rules is Rules.ICEBERG and self.name in TIMES and value is not None:
            return _period(self.name, int(value))
        return value_text(result, value)

    @property
    def _width(self) -> int:
        assert self.width is not None  # noqa: S101  whoever made it saw to that
        return self.width

    def _takes(self, source: Type) -> bool:
        name = source.name if isinstance(source, Primitive) else ""
        exact = isinstance(source, Decimal) or name in _INTEGERS
        if self.name in TIMES:
            return name.startswith("timestamp") or (name == "date" and self.name != "hour")
        if self.name == "truncate":
            return exact or name == "string" or (name == "binary" and self.rules is Rules.ICEBERG)
        fitting = exact or name in ("string", "date") or name.startswith("timestamp")
        return fitting or name == ("binary" if self.name == "bucket" else "boolean")

    def _time(self, source: Type, value: int) -> Value:
        days = value if source == DATE else value // DAY
        hours = 24 * value if source == DATE else value // HOUR
        if self.name == "day":
            return days
        if self.rules is Rules.ICEBERG:
            year, month = year_month(days)
            years = year - EPOCH_YEAR
            return {"year": years, "month": years * 12 + month - 1, "hour": hours}[self.name]
        if self.name == "year":
            return year_month(days)[0]
        if not FIRST_DAY <= days <= LAST_DAY:
            message = "a year that has not four digits"
            raise ValueError(message)
        return _day_text(days)[:7] if self.name == "month" else _hour_text(hours)


@dataclass(frozen=True, slots=True)
class Term:
    """One part of `partition_by` as a user wrote it.

    Attributes:
        name: The name of the transform; `identity` for a plain column.
        width: The width, if the transform has one.
        column: The column to which the transform is applied.
    """

    name: str
    width: int | None
    column: str


def parse_term(text: str) -> Term:
    """Parse a transform of a column, such as `day(ts)` or `bucket(16, id)`, or a column's name."""
    found = _CALL.fullmatch(text)
    if found is None:
        return Term("identity", None, text)
    name = found[1].lower()
    name = _PLURALS.get(name, name)
    if name not in _HINTS:
        what = f"{found[1]!r} in {text!r} is not a partition transform."
        hint = f"Transforms are {', '.join(_HINTS)}."
        raise InvalidInput(what, hint=hint, transform=found[1])
    width, column = None, found[2]
    if name in WIDTHS:
        parts = _WIDTH_FIRST.fullmatch(column)
        width, column = (int(parts[1]), parts[2]) if parts else (0, column)
        if not 0 < width <= MAX_WIDTH:
            what = f"{text!r} does not say how wide: {name} takes a whole number and a column."
            raise InvalidInput(what, hint=f"Write {name}(16, column).", transform=name)
    column = column.strip()
    if len(column) > 1 and column[0] == column[-1] == "`":
        column = column[1:-1].replace("``", "`")
    return Term(name, width, column)


def python_value(kind: Type, value: Value) -> Any:
    """Return a neutral value as a Python value; as text if it is beyond Python's dates."""
    try:
        return from_neutral(kind, value)
    except OverflowError:
        return value_text(kind, value)


def value_text(kind: Type, value: Value) -> str:
    """Return a neutral value as people read it, which is also its text in directory names."""
    if isinstance(kind, Decimal):
        return str(value)
    try:
        return str(from_neutral(kind, value))
    except OverflowError:  # a year that Python has not
        units = cast(int, value)
        return day_text(units) if kind == Primitive("date") else moment_text(units)


_HINTS: Final = {
    "identity": "Use a column of exact values.",
    "year": "Use a date or a timestamp.",
    "month": "Use a date or a timestamp.",
    "day": "Use a date or a timestamp.",
    "hour": "Use a timestamp.",
    "bucket": "Use a whole number, decimal, string, binary, date or timestamp.",
    "truncate": "Use a whole number, a decimal or a string.",
}


def _day_text(days: int) -> str:
    year, month, day = civil(days)
    return f"{year:04d}-{month:02d}-{day:02d}"


def _hour_text(hours: int) -> str:
    return f"{_day_text(hours // 24)}-{hours % 24:02d}"


def _period(name: str, value: int) -> str:
    match name:
        case "year":
            return f"{value + EPOCH_YEAR:04d}"
        case "month":
            return f"{value // 12 + EPOCH_YEAR:04d}-{value % 12 + 1:02d}"
        case "day":
            return _day_text(value)
        case _:
            return _hour_text(value)


def _truncated(source: Type, value: Value, width: int) -> Value:
    if source == STRING:
        return str(value)[:width]
    if isinstance(source, Decimal):
        units = unscaled(source, value)
        found = units - units % width
        if abs(found) >= 10**source.precision:
            message = f"{value} has no multiple of {width} below it in {source}"
            raise ValueError(message)
        return scaled(source, found)
    name = source.name if isinstance(source, Primitive) else ""
    if name == "binary":
        return base64.b64encode(base64.b64decode(str(value))[:width]).decode()
    number = int(str(value))
    found = number - number % width
    if found < -(1 << (_INTEGERS[name] - 1)):
        message = f"{value} has no multiple of {width} below it in {source}"
        raise ValueError(message)
    return found
