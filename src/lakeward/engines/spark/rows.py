"""Counts and samples of rows that Spark computes, so that the driver gets no more than these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def violations(rows: DataFrame, checks: Mapping[str, str]) -> dict[str, int]:
    """How many rows violate each check, of those that any row violates.

    A row violates a check unless the expression is true for it: unknown is not true.
    """
    from pyspark.sql import functions as fn

    names = list(checks)
    counts = [fn.expr(f"count_if({_violates(checks[name])})") for name in names]
    found = rows.agg(*counts).collect()[0]
    return {name: int(found[n]) for n, name in enumerate(names) if found[n]}


def sample(rows: DataFrame, check: str, count: int) -> list[dict[str, Any]]:
    """Some rows that violate a check."""
    return [row.asDict(recursive=True) for row in rows.where(_violates(check)).take(count)]


def _violates(check: str) -> str:
    return f"NOT coalesce(({check}), false)"
