"""Conditions on a step's rows that make the run fail, drop rows, or only count them.

A row satisfies a condition if it is true; null is not true. Conditions are parsed here, so that the
engine is given one SQL expression and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import sqlglot
from sqlglot import exp

from lakeward.errors import ExpectationFailed, InvalidExpression

SAMPLE: Final = 5
_DIALECT: Final = "databricks"
_ROWS: Final = "_rows"


@dataclass(frozen=True, slots=True)
class Expectations:
    """The conditions of one step, by name."""

    expect: Mapping[str, str]
    drop: Mapping[str, str]
    warn: Mapping[str, str]

    @classmethod
    def of(
        cls,
        expect: Mapping[str, str],
        drop: Mapping[str, str],
        warn: Mapping[str, str],
        table: str,
    ) -> Expectations:
        """Parse declared conditions; raise `InvalidExpression` if one is not a SQL expression."""
        kinds = [{n: condition(t, n, table) for n, t in k.items()} for k in (expect, drop, warn)]
        return cls(*kinds)


def condition(text: str, name: str, table: str) -> str:
    """Parse a condition and return it as Spark SQL; raise `InvalidExpression` if it is not one."""
    try:
        parsed = sqlglot.parse_one(text, dialect=_DIALECT)
    except sqlglot.errors.SqlglotError as error:
        what = f"{name!r} of the step for {table} is no SQL condition: {text}"
        raise InvalidExpression(what, table=table) from error
    if not isinstance(parsed, exp.Condition | exp.Paren | exp.Predicate):
        what = f"{name!r} of the step for {table} is SQL, but no condition: {text}"
        raise InvalidExpression(what, table=table)
    return parsed.sql(dialect=_DIALECT)


def sift(
    rows: Any, expectations: Expectations, exempt: str = "false"
) -> tuple[Any, dict[str, int]]:
    """Drop rows that fail a condition of `drop`; return the rest, and the number per condition.

    Rows for which `exempt` is true fail no condition.
    """
    if not expectations.drop:
        return rows, {}
    dropped = _counts(rows, expectations.drop, exempt)
    for text in expectations.drop.values():
        rows = rows.filter(_true(text, exempt))
    return rows, {n: dropped[n] for n in expectations.drop}


def check(
    rows: Any, expectations: Expectations, table: str, exempt: str = "false"
) -> tuple[int, dict[str, int]]:
    """Return the number of rows, and by name how many fail each condition of `warn`.

    This computes the frame. Rows for which `exempt` is true fail no condition. Raise
    `ExpectationFailed`, with counts and a sample, if rows fail a condition of `expect`.
    """
    found = _counts(rows, {**expectations.expect, **expectations.warn}, exempt)
    failed = {n: found[n] for n in expectations.expect if found[n]}
    if failed:
        raise _failure(rows.filter(f"NOT ({exempt})"), expectations.expect, failed, table)
    return found[_ROWS], {n: found[n] for n in expectations.warn}


def _counts(rows: Any, conditions: Mapping[str, str], exempt: str) -> dict[str, int]:
    """Return the number of rows, and by condition the number of rows for which it is not true."""
    wanted = [
        f"count_if(NOT {_true(t, exempt)}) AS _{i}" for i, t in enumerate(conditions.values())
    ]
    found = rows.selectExpr(f"count(*) AS {_ROWS}", *wanted).first()
    return {_ROWS: found[_ROWS], **{n: found[f"_{i}"] for i, n in enumerate(conditions)}}


def _true(text: str, exempt: str = "false") -> str:
    return f"(({exempt}) OR coalesce(({text}), false))"


def _failure(
    rows: Any, expect: Mapping[str, str], failed: Mapping[str, int], table: str
) -> ExpectationFailed:
    name = max(failed, key=lambda n: failed[n])
    sample = [
        row.asDict(recursive=True)
        for row in rows.filter(f"NOT {_true(expect[name])}").limit(SAMPLE).collect()
    ]
    count = failed[name]
    others = sorted(set(failed) - {name})
    more = f" Not as expected either: {', '.join(others)}." if others else ""
    are = "1 row is" if count == 1 else f"{count} rows are"
    what = f"{are} not as {name!r} ({expect[name]}) of {table} expects.{more}"
    return ExpectationFailed(
        what,
        hint=f"Nothing was committed. First of them: {sample[0] if sample else None}",
        table=table,
        expectation=name,
        expression=expect[name],
        count=count,
        counts=dict(failed),
        sample=sample,
    )
