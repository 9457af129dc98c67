"""Expectations: limits for measured values of a table's data. They are not enforced.

An expectation is SQL text, a condition that rows should satisfy, or a mapping with `measure` and
the fields that this measure needs, as in policies and their files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import pyarrow as pa

from lakeward.errors import InvalidInput
from lakeward.model import arguments
from lakeward.model.duration import to_milliseconds


class Measure(StrEnum):
    """What is measured; each value is one number."""

    ROWS = "rows"
    """The number of rows."""
    FRESHNESS = "freshness"
    """Seconds since the newest change of data, or since the newest value of a column."""
    NULL_SHARE = "null_share"
    """The share of rows in which a column is null, from 0 to 1."""
    DISTINCT = "distinct"
    """The number of distinct values of a column, without null."""
    RANGE = "range"
    """The number of rows whose value in a column is below `min` or above `max`."""
    DUPLICATES = "duplicates"
    """The number of rows beyond the first with the same values in some columns."""
    DRIFT = "drift"
    """The distance, 0 to 1, of a column's distribution from that of the last measured version."""
    CONDITION = "condition"
    """The number of rows for which a condition is false."""
    SQL = "sql"
    """The number that a query returns."""
    COLUMNS = "columns"
    """The number of given columns, each `name` or `name type`, that the table lacks."""
    CHECK = "check"
    """The number that a Python function returns for the rows; not possible in policies."""


_WITH_COLUMN: Final = (Measure.NULL_SHARE, Measure.DISTINCT, Measure.RANGE, Measure.DRIFT)
_LEAST_BAD: Final = {
    Measure.RANGE: 0.0,
    Measure.DUPLICATES: 0.0,
    Measure.CONDITION: 0.0,
    Measure.DRIFT: 0.2,
    Measure.COLUMNS: 0.0,
    Measure.CHECK: 0.0,
}
"""The largest value with which a measure passes, if the expectation has no `max`."""
_FIELDS: Final = ("measure", "column", "columns", "min", "max", "where", "query", "check")


@dataclass(frozen=True, slots=True)
class Expectation:
    """A measure of a table, and the limits of its value.

    Attributes:
        name: Unique in the table.
        measure: What is measured.
        columns: The columns that are measured.
        text: The condition of `condition`, the query of `sql`.
        least: The minimum of the measured value; for `range`, of the column's values.
        most: The maximum of the measured value; for `range`, of the column's values.
        check: The function of `check`: it gets an Arrow table of the columns.
    """

    name: str
    measure: Measure
    columns: tuple[str, ...] = ()
    text: str | None = None
    least: Any = None
    most: Any = None
    check: Callable[[pa.Table], float] | None = None

    @classmethod
    def of(cls, name: str, value: Any) -> Expectation:
        """Return the expectation for its plain form: SQL text, or a mapping.

        Raises:
            InvalidInput: There is no such measure, or something that it needs is missing.
        """
        if isinstance(value, str):
            return cls(name, Measure.CONDITION, text=arguments.text(value, name))
        body = arguments.mapping(value, f"expectations.{name}")
        unknown = sorted(set(body) - set(_FIELDS))
        if unknown:
            what = f"Expectation {name} has a field {unknown[0]!r}, which there is not."
            raise InvalidInput(what, hint=f"Fields are {', '.join(_FIELDS)}.", parameter=name)
        measure = Measure(arguments.choice(body.get("measure"), Measure, f"{name}.measure"))
        return cls(
            name,
            measure,
            _columns(name, measure, body),
            _text(name, measure, body),
            *_limits(name, measure, body),
            _check(name, measure, body),
        )

    def passes(self, value: float | None) -> bool | None:
        """Return whether a measured value is within the limits; None if there is no value."""
        if value is None:
            return None
        if self.measure is Measure.RANGE:
            return value <= 0
        most = _LEAST_BAD.get(self.measure) if self.most is None else self.most
        return (self.least is None or value >= self.least) and (most is None or value <= most)

    def wanted(self) -> str:
        """Return the expectation in words."""
        if self.measure is Measure.CONDITION:
            return str(self.text)
        about = ", ".join(self.columns)
        named = f"{self.measure} of {about}" if about else str(self.measure)
        most = _LEAST_BAD.get(self.measure) if self.most is None else self.most
        if self.measure is Measure.RANGE:
            most = self.most
        limits = [f"≥ {_short(self.least)}"] if self.least is not None else []
        limits += [f"≤ {_short(most)}"] if most is not None else []
        return f"{named} {' and '.join(limits)}".strip()


def _columns(name: str, measure: Measure, body: Mapping[str, Any]) -> tuple[str, ...]:
    given = body.get("columns", body.get("column", ()))
    found = tuple(arguments.texts([given] if isinstance(given, str) else given, f"{name}.columns"))
    if measure in _WITH_COLUMN and len(found) != 1:
        what = f"Expectation {name} measures the {measure} of one column; it names {len(found)}."
        raise InvalidInput(what, hint='Give it as column = "amount".', parameter=name)
    if measure in (Measure.COLUMNS, Measure.CHECK) and not found:
        what = f"Expectation {name} needs the columns that it is about."
        raise InvalidInput(what, hint='Give them as columns = ["id"].', parameter=name)
    if measure is Measure.DUPLICATES and not found:
        what = f"Expectation {name} needs the columns that are unique together."
        raise InvalidInput(what, hint='Give them as columns = ["id"].', parameter=name)
    return found


def _check(name: str, measure: Measure, body: Mapping[str, Any]) -> Any:
    check = body.get("check")
    if measure is Measure.CHECK and not callable(check):
        what = f"Expectation {name} needs a function as `check`."
        hint = "In a policy or its file, write a condition instead."
        raise InvalidInput(what, hint=hint, parameter=name)
    return check


def _text(name: str, measure: Measure, body: Mapping[str, Any]) -> str | None:
    key = {Measure.CONDITION: "where", Measure.SQL: "query"}.get(measure)
    if key is None:
        return None
    return arguments.text(body.get(key), f"{name}.{key}")


def _limits(name: str, measure: Measure, body: Mapping[str, Any]) -> tuple[Any, Any]:
    least, most = body.get("min"), body.get("max")
    if measure is Measure.FRESHNESS and most is not None:
        return None, to_milliseconds(most, f"{name}.max") / 1000
    if measure is not Measure.RANGE:
        least, most = _number(name, "min", least), _number(name, "max", most)
    needs = measure in (Measure.ROWS, Measure.FRESHNESS, Measure.NULL_SHARE, Measure.DISTINCT)
    if (needs or measure in (Measure.RANGE, Measure.SQL)) and least is None and most is None:
        what = f"Expectation {name} has no limit."
        raise InvalidInput(what, hint="Give min, max or both.", parameter=name)
    return least, most


def _number(name: str, key: str, value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        what = f"`{key}` of expectation {name} must be a number; it is {value!r}."
        raise InvalidInput(what, parameter=name)
    return float(value)


def _short(limit: Any) -> str:
    return f"{limit:.15g}" if isinstance(limit, float) else str(limit)
