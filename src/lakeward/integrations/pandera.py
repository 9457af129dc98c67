"""Converts schemas of Pandera to expectations.

`expectations_of(schema)` returns expectations by name: for `t.quality(expectations=…)`, and with
`plain=True` for policies. Checks that SQL can express become conditions; to count their violations,
Lakeward reads only new files, or only the log's statistics. Every other check is run by Pandera
over its columns.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa

from lakeward.errors import InvalidInput
from lakeward.model.quoting import identifier, literal

_TYPES: Final = {
    "int8": "int8",
    "int16": "int16",
    "int32": "int32",
    "int64": "int64",
    "float32": "float",
    "float64": "double",
    "bool": "boolean",
    "boolean": "boolean",
    "str": "string",
    "string": "string",
    "object": "string",
    "date": "date",
    "datetime64": "timestamp",
    "datetime": "timestamp",
    "timestamp": "timestamp",
    "decimal": "decimal",
}
"""Prefixes of Lakeward's types, by prefixes of Pandera's types; the longest match is used."""
_COMPARED: Final = {
    "equal_to": ("=", "value"),
    "not_equal_to": ("<>", "value"),
    "greater_than": (">", "min_value"),
    "greater_than_or_equal_to": (">=", "min_value"),
    "less_than": ("<", "max_value"),
    "less_than_or_equal_to": ("<=", "max_value"),
}


def expectations_of(schema: Any, *, plain: bool = False) -> dict[str, Any]:
    """Return expectations for a schema or model of Pandera, by names made of columns and checks.

    Args:
        schema: A `DataFrameSchema`, for pandas or Polars, or a `DataFrameModel`.
        plain: Leave out checks that only Pandera can run, because a policy stores plain values.

    Raises:
        InvalidInput: `schema` is not a schema of Pandera with columns.
    """
    found: Any = schema
    if isinstance(schema, type) and hasattr(schema, "to_schema"):
        found = schema.to_schema()
    columns: Mapping[str, Any] = getattr(found, "columns", {})
    if not columns or not hasattr(found, "checks"):
        what = f"{type(schema).__name__} is no schema of Pandera with columns."
        raise InvalidInput(what, hint="Give a DataFrameSchema, or a DataFrameModel.")
    made = _Made(plain=plain)
    made.put("columns", _columns(columns))
    is_polars = "polars" in type(found).__module__
    for name, column in columns.items():
        _put_column(made, str(name), column, is_polars=is_polars)
    unique = getattr(found, "unique", None)
    if unique:
        made.put("unique together", {"measure": "duplicates", "columns": list(unique)})
    for number, check in enumerate(found.checks or (), 1):
        own = str(check.name or f"check {number}")
        made.run(own, list(map(str, columns)), _counted(check, None, is_polars=is_polars))
    return made.found


class _Made:
    """Collects expectations under unique names."""

    def __init__(self, *, plain: bool) -> None:
        self.found: dict[str, Any] = {}
        self._plain = plain

    def put(self, name: str, value: Any) -> None:
        """Add an expectation; append a number to its name if the name is in use."""
        number, own = 1, name
        while own in self.found:
            number += 1
            own = f"{name} {number}"
        self.found[own] = value

    def run(self, name: str, columns: list[str], check: Callable[[pa.Table], float]) -> None:
        """Add a check that Pandera runs, unless only plain values are allowed."""
        if not self._plain:
            self.put(name, {"measure": "check", "columns": columns, "check": check})


def _columns(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the expectation that the required columns exist, with their types."""
    wanted = [
        f"{name} {_type(column)}".rstrip()
        for name, column in columns.items()
        if getattr(column, "required", True)
    ]
    return {"measure": "columns", "columns": wanted or [f"{next(iter(columns))}"]}


def _type(column: Any) -> str:
    """Return the prefix of a column's type; empty if it is unknown or Pandera converts values."""
    if getattr(column, "coerce", False) or column.dtype is None:
        return ""
    text = str(column.dtype).lower()
    known = sorted(_TYPES, key=len, reverse=True)
    return next((_TYPES[name] for name in known if text.startswith(name)), "")


def _put_column(made: _Made, name: str, column: Any, *, is_polars: bool) -> None:
    if not column.nullable:
        made.put(f"{name} not null", {"measure": "null_share", "column": name, "max": 0})
    if getattr(column, "unique", False):
        made.put(f"{name} unique", {"measure": "duplicates", "columns": [name]})
    for number, check in enumerate(column.checks or (), 1):
        own = f"{name} {check.name or f'check {number}'}"
        condition = _condition(name, check)
        if condition is not None:
            made.put(own, condition)
        else:
            made.run(own, [name], _counted(check, name, is_polars=is_polars))


def _condition(name: str, check: Any) -> str | None:
    """Return a check as a condition in SQL; None if only Pandera can run it."""
    column, given = identifier(name), getattr(check, "statistics", None) or {}
    if not check.ignore_na:
        return None
    try:
        match check.name:
            case "in_range":
                low = ">=" if given["include_min"] else ">"
                high = "<=" if given["include_max"] else "<"
                least, most = _value(given["min_value"]), _value(given["max_value"])
                return f"{column} {low} {least} AND {column} {high} {most}"
            case "isin":
                values = ", ".join(_value(v) for v in given["allowed_values"])
                return f"{column} IN ({values})" if values else None
            case "notin":
                values = ", ".join(_value(v) for v in given["forbidden_values"])
                return f"{column} NOT IN ({values})" if values else None
            case "str_length":
                return _length(column, given)
            case kind if kind in _COMPARED:
                sign, key = _COMPARED[kind]
                return f"{column} {sign} {_value(given[key])}"
            case _:
                return None
    except (KeyError, TypeError):
        # Another version of Pandera, or a value that SQL has no literal for.
        return None


def _length(column: str, given: Mapping[str, Any]) -> str | None:
    exact = given.get("exact_value")
    if exact is not None:
        return f"length({column}) = {int(exact)}"
    terms = [
        f"length({column}) {sign} {int(given[key])}"
        for key, sign in (("min_value", ">="), ("max_value", "<="))
        if given.get(key) is not None
    ]
    return " AND ".join(terms) or None


def _value(value: Any) -> str:
    """Return a value as a SQL literal; raise `TypeError` if it has none."""
    if isinstance(value, str):
        return literal(value)
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float) and value == value and abs(value) != float("inf"):
        return f"{value!r}D"
    raise TypeError


def _counted(check: Any, column: str | None, *, is_polars: bool) -> Callable[[pa.Table], float]:
    """Return a function that counts the rows, or the values of a column, that fail a check."""

    def count(rows: pa.Table) -> float:
        if not is_polars:
            frame = _pandas(rows)
            return _failures(check(frame if column is None else frame[column]))
        import polars as pl

        frame = pl.LazyFrame(rows)
        return _failures(check(frame) if column is None else check(frame, column))

    return count


def _failures(result: Any) -> float:
    """Return the number of failed cases in a result of Pandera."""
    passed = result.check_passed
    if hasattr(passed, "collect"):
        passed = passed.collect().item()
    if bool(passed):
        return 0.0
    cases = result.failure_cases
    if hasattr(cases, "collect"):
        cases = cases.collect()
    return float(max(1, 0 if cases is None or isinstance(cases, bool) else len(cases)))


def _pandas(rows: pa.Table) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return rows.to_pandas()
