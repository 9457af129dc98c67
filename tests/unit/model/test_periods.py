"""Dates and years of moments as ranges: the same truth, in a form that can be pruned by."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeward.model.definition import Definition
from lakeward.model.derived import Derived
from lakeward.model.expressions import where
from lakeward.model.expressions.projection import by_ranges, implied
from lakeward.model.expressions.prune import Bounds, key_ranges, may_match
from lakeward.model.transform import Transform
from tests.support.expressions import SCHEMA, Row, Texts, evaluate, rows

DAY = 86_400_000_000
NEW_YEAR = 20454 * DAY


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CAST(ts AS DATE) = '2026-01-01'", (NEW_YEAR, NEW_YEAR + DAY - 1)),
        ("CAST(tn AS DATE) < '2026-01-01'", (None, NEW_YEAR - 1)),
        ("CAST(ts AS DATE) <= '2026-01-01'", (None, NEW_YEAR + DAY - 1)),
        ("CAST(ts AS DATE) > '2026-01-01'", (NEW_YEAR + DAY, None)),
        ("NOT CAST(ts AS DATE) < '2026-01-01'", (NEW_YEAR, None)),
        ("CAST(ts AS DATE) IN ('2026-01-01', '2026-01-02')", (NEW_YEAR, NEW_YEAR + 2 * DAY - 1)),
        ("year(ts) = 2026", (NEW_YEAR, NEW_YEAR + 365 * DAY - 1)),
        ("year(dt) >= 2026", (20454, None)),
    ],
)
def test_the_index_is_asked_for_the_range(
    text: str, expected: tuple[int | None, int | None]
) -> None:
    ranges = key_ranges(by_ranges(where.parse(text, SCHEMA)))
    assert list(ranges.values()) == [expected]


def test_derived_values_are_pruned_by_them() -> None:
    source = SCHEMA.by_name["ts"]
    derived = {-1000: Derived(source.id, Transform("day"), "ts_day")}
    definition = Definition(SCHEMA, (-1000,), derived=derived)
    condition = implied(where.parse("CAST(ts AS DATE) = '2026-01-02'", SCHEMA), definition)
    kept = [
        day
        for day in range(20453, 20457)
        if may_match(condition, {-1000: Bounds(day, day, 0, 1)}.get)
    ]
    assert kept == [20455]


def test_what_is_no_date_or_year_stays_as_it_is() -> None:
    for text in ("n = 1", "month(ts) = 1", "CAST(ts AS DATE) = dt", "NOT b OR n IN (1, 2)"):
        expression = where.parse(text, SCHEMA)
        assert by_ranges(expression) is expression


_DATES = st.sampled_from(["CAST(ts AS DATE)", "CAST(tn AS DATE)", "CAST(tm AS DATE)"])
_DAYS = st.integers(28, 31).map(lambda n: f"DATE '2025-12-{n}'") | st.integers(1, 3).map(
    lambda n: f"DATE '2026-01-0{n}'"
)
_YEARS = st.sampled_from(["year(ts)", "year(tn)", "year(dt)"])
_SIGNS = st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"])
_LEAVES = (
    st.tuples(_DATES, _SIGNS, _DAYS).map(" ".join)
    | st.tuples(_YEARS, _SIGNS, st.sampled_from(["2025", "2026", "0", "12345"])).map(" ".join)
    | st.tuples(_DATES, _DAYS, _DAYS).map("{0[0]} IN ({0[1]}, {0[2]})".format)
)
_CONDITIONS = st.recursive(
    _LEAVES | Texts().conditions(),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("({0[0]}) AND ({0[1]})".format),
        st.tuples(inner, inner).map("({0[0]}) OR ({0[1]})".format),
        inner.map("NOT ({})".format),
    ),
    max_leaves=4,
)


@settings(max_examples=300, deadline=None)
@given(_CONDITIONS, rows)
def test_both_forms_are_true_and_unknown_for_the_same_rows(text: str, row: Row) -> None:
    expression = where.parse(text, SCHEMA)
    assert evaluate(by_ranges(expression), row) == evaluate(expression, row)
