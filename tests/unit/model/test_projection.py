"""What conditions imply for derived values: never too much, and enough to be worth it."""

from __future__ import annotations

import base64
import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeward.model.bucket import iceberg_bucket
from lakeward.model.definition import Definition
from lakeward.model.derived import Derived
from lakeward.model.expressions import where
from lakeward.model.expressions.nodes import Column, Compare, Comparison, Expression, Literal
from lakeward.model.expressions.projection import implied, project
from lakeward.model.expressions.prune import Bounds, key_ranges, may_match
from lakeward.model.schema import Schema
from lakeward.model.transform import Rules, Transform
from lakeward.model.types import Field
from lakeward.model.values import Value, order_key, to_neutral
from tests.support.expressions import SCHEMA, Row, Texts, evaluate, rows

TRANSFORMS = ("identity", "year", "month", "day", "hour", "bucket[3]", "truncate[2]")
HIDDEN = -1000


def derivation(
    column: str,
    text: str,
    rules: Rules = Rules.ICEBERG,
    *,
    utc: bool = True,
    schema: Schema = SCHEMA,
) -> tuple[Derived, Field, Field]:
    """How values follow from a column, the column, and a field that stands for the values."""
    source = schema.by_name[column]
    transform = Transform.parse(text, rules)
    transform.check(source.type, column)
    derived = Derived(source.id, transform, f"{column}_x", indexed=True, utc=utc)
    return derived, source, Field(HIDDEN, "x", transform.result(source.type), indexed=True)


def possible() -> list[tuple[str, str, Rules]]:
    found = []
    for field in SCHEMA.fields:
        for text in TRANSFORMS:
            for rules in Rules:
                try:
                    derivation(field.name, text, rules)
                except ValueError:
                    continue
                found.append((field.name, text, rules))
    return found


def may_hold(projection: Expression | None, value: Value) -> bool:
    """Whether the projection lets a file pass whose every row has this value."""
    if projection is None:
        return True
    bounds = Bounds(value, value, 1 if value is None else 0, 1)
    return may_match(projection, {HIDDEN: bounds}.get)


def kept(
    text: str, column: str, transform: str, values: list[Value], **options: Any
) -> list[Value]:
    """Those of some derived values whose files a condition keeps."""
    derived, source, target = derivation(column, transform, **options)
    projection = project(where.parse(text, SCHEMA), derived, source, target)
    return [v for v in values if may_hold(projection, v)]


DAYS = list(range(20452, 20458))  # 2025-12-30 to 2026-01-04


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ts = TIMESTAMP '2026-01-01 12:00:00'", [20454]),
        ("ts < TIMESTAMP '2026-01-01 00:00:00'", [20452, 20453]),
        ("ts <= TIMESTAMP '2026-01-01 00:00:00'", [20452, 20453, 20454]),
        ("ts > TIMESTAMP '2026-01-01 23:59:59.999999'", [20455, 20456, 20457]),
        ("ts >= TIMESTAMP '2026-01-01 23:59:59.999999'", [20454, 20455, 20456, 20457]),
        ("ts BETWEEN DATE '2026-01-01' AND DATE '2026-01-02'", [20454, 20455]),
        ("ts IN ('2026-01-01 05:00:00', '2026-01-03')", [20454, 20456]),
        ("ts = '2026-01-01' OR ts = '2026-01-04'", [20454, 20457]),
        ("ts >= '2026-01-03' AND ts < '2026-01-04' AND n = 1", [20456]),
        ("NOT (ts < '2026-01-03')", [20456, 20457]),
        ("ts >= '2026-01-03' OR n = 1", DAYS),
        ("ts <> '2026-01-03'", DAYS),
        ("tn = '2026-01-03'", DAYS),
        ("ts IS NULL", []),
        ("ts IS NOT NULL", DAYS),
        ("FALSE", []),
    ],
)
def test_days_that_a_condition_reaches(text: str, expected: list[int]) -> None:
    for rules in Rules:
        assert kept(text, "ts", "day", list(DAYS), rules=rules) == expected


@pytest.mark.parametrize(
    ("text", "column", "transform", "values", "expected"),
    [
        ("ts < '2026-01-01'", "ts", "year", [54, 55, 56], [54, 55]),
        ("ts >= '2026-02-01'", "ts", "month", [672, 673, 674], [673, 674]),
        ("ts > '2026-01-01 00:59:59.999999'", "ts", "hour", [490896, 490897], [490897]),
        ("n = 7", "n", "truncate[5]", [0, 5, 10], [5]),
        ("n < 10", "n", "truncate[5]", [0, 5, 10], [0, 5]),
        ("n <= 10", "n", "truncate[5]", [0, 5, 10], [0, 5, 10]),
        ("n > 9", "n", "truncate[5]", [0, 5, 10], [10]),
        ("n IN (1, 12)", "n", "truncate[5]", [0, 5, 10], [0, 10]),
        ("d < 1.50", "d", "truncate[50]", ["1.00", "1.50"], ["1.00"]),
        ("s = 'abc'", "s", "truncate[2]", ["aa", "ab", "ac"], ["ab"]),
        ("s < 'ab'", "s", "truncate[2]", ["aa", "ab", "ac"], ["aa"]),
        ("s < 'abc'", "s", "truncate[2]", ["aa", "ab", "ac"], ["aa", "ab"]),
        ("s > 'abc'", "s", "truncate[2]", ["aa", "ab", "ac"], ["ab", "ac"]),
        ("s LIKE 'abc%'", "s", "truncate[2]", ["aa", "ab", "ac"], ["ab"]),
        ("s LIKE 'a%'", "s", "truncate[2]", ["aa", "ab", "b"], ["aa", "ab"]),
        ("x = X'6162'", "x", "truncate[1]", ["YQ==", "Yg=="], ["YQ=="]),
        ("s = 'iceberg'", "s", "identity", ["iceberg", "delta"], ["iceberg"]),
        ("b", "b", "identity", [True, False], [True]),
        ("n > 3", "n", "identity", [3, 4], [4]),
    ],
)
def test_values_that_a_condition_reaches(
    text: str, column: str, transform: str, values: list[Value], expected: list[Value]
) -> None:
    assert kept(text, column, transform, values) == expected


def test_an_equality_reaches_one_bucket_and_a_list_reaches_few() -> None:
    buckets: list[Value] = list(range(16))
    kind = SCHEMA.by_name["i"].type
    found = [iceberg_bucket(kind, n, 16) or 0 for n in (7, 8, 9)]
    assert kept("i = 7", "i", "bucket[16]", buckets) == [found[0]]
    assert kept("i IN (7, 8, 9)", "i", "bucket[16]", buckets) == sorted(set(found))
    assert kept("i > 7", "i", "bucket[16]", buckets) == buckets
    assert kept("i > 7", "i", "bucket[16]", [None]) == []


def test_missing_values_are_in_the_bucket_of_their_hash_only_with_spark() -> None:
    buckets: list[Value] = [*range(16), None]
    assert kept("i IS NULL", "i", "bucket[16]", buckets) == [None]
    assert kept("i IS NULL", "i", "bucket[16]", buckets, rules=Rules.SPARK) == [42 % 16]


def test_texts_that_only_others_write_are_never_cut_off() -> None:
    """Spark's texts of far years are out of order, and delta-rs writes the pattern itself."""
    strange: list[Value] = ["+10000-01", "-0005-01", "yyyy-MM"]
    months: list[Value] = ["2025-10", "2026-03"]
    for text, expected in (
        ("ts >= '2026-02-15'", ["2026-03"]),
        ("ts < '2026-02-15'", ["2025-10"]),
        ("ts = '2026-03-15'", ["2026-03"]),
        ("ts IN ('2026-03-15', '2026-03-16')", ["2026-03"]),
    ):
        ours = kept(text, "ts", "month", strange + months, rules=Rules.SPARK)
        theirs = kept(text, "ts", "month", strange + months, rules=Rules.SPARK, utc=False)
        assert set(expected) <= set(ours) < set(theirs)
        assert theirs == strange + expected


def test_a_day_of_slack_where_another_zone_may_have_been_used() -> None:
    days: list[Value] = list(DAYS)
    at_noon = "ts = TIMESTAMP '2026-01-01 12:00:00'"
    assert kept(at_noon, "ts", "day", days, rules=Rules.SPARK) == [20454]
    assert kept(at_noon, "ts", "day", days, rules=Rules.SPARK, utc=False) == [20453, 20454, 20455]
    # Without a zone nothing can be mistaken.
    local = "tn = TIMESTAMP_NTZ '2026-01-01 12:00:00'"
    assert kept(local, "tn", "day", days, rules=Rules.SPARK, utc=False) == [20454]


def test_a_field_that_was_given_up_tells_nothing() -> None:
    assert kept("ts = '2026-01-01'", "ts", "void", [None, 1]) == [None, 1]


def test_the_index_is_asked_for_the_derived_values() -> None:
    source = Schema.from_arrow(pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us"))]))
    derived = {
        -1000: Derived(1, Transform("bucket", 16), "id_bucket", indexed=True),
        -1001: Derived(2, Transform("day"), "ts_day", indexed=True),
        -1002: Derived(2, Transform("year"), "ts_year"),
    }
    definition = Definition(source, (-1000, -1001, -1002), derived=derived)
    condition = where.parse("id = 34 AND ts >= '2026-01-02'", source)
    ranges = key_ranges(implied(condition, definition))
    bucket = order_key(definition.field(-1000).type, 2017239379 % 16)
    assert ranges[-1000] == (bucket, bucket)
    assert ranges[-1001] == (20455, None)
    assert -1002 not in ranges
    assert ranges[1] == (34, 34)


def test_without_derived_values_a_condition_stays_as_it_is() -> None:
    condition = where.parse("n = 1", SCHEMA)
    assert implied(condition, Definition(SCHEMA)) is condition


_EDGES = [
    micros + step
    for micros in (0, 3_600_000_000, 86_400_000_000, 1_767_225_600_000_000, 1_769_904_000_000_000)
    for step in (-2000, -1000, -2, -1, 0, 1, 2, 1000)
]
"""Around hours, days, months and years."""
_NEIGHBOURS: dict[str, list[Value]] = {
    **{name: list(range(-7, 8)) for name in ("i", "n", "t")},
    "d": [f"{n / 100:.2f}" for n in (*range(-6, 7), -151, -150, -149, 149, 150)],
    "s": ["", *("".join(t) for n in (1, 2, 3) for t in itertools.product("ab", repeat=n))],
    "x": [base64.b64encode(bytes(t)).decode() for t in itertools.product((0, 97), repeat=2)],
    "b": [False, True],
    "dt": [-1, 0, 1, 20453, 20454, 20455, 20484, 20485],
    **{name: list(_EDGES) for name in ("ts", "tn")},
    "tm": [n for n in _EDGES if n % 1000 == 0],
}


@pytest.mark.parametrize("column", _NEIGHBOURS)
def test_no_neighbour_of_a_bound_is_lost_or_kept_in_vain(column: str) -> None:
    """Each value against each as a bound: found where it matches, and some file is left out."""
    kind = SCHEMA.by_name[column].type
    values = _NEIGHBOURS[column]
    signs: tuple[Comparison, ...] = ("=", "<", "<=", ">", ">=", "!=")
    for transform, rules in [(t, r) for c, t, r in possible() if c == column]:
        derived, source, target = derivation(column, transform, rules)
        filed = {v: derived.transform.apply(kind, v) for v in values}
        pruned = 0
        for sign, bound in itertools.product(signs, values):
            condition = Compare(sign, Column(source), Literal(bound, kind))
            projection = project(condition, derived, source, target)
            for value in values:
                known = Bounds(value, value, 0, 1)
                matches = may_match(condition, {source.id: known}.get)
                found = may_hold(projection, filed[value])
                assert found or not matches, (transform, rules, sign, bound, value)
                pruned += not found
        assert pruned, (transform, rules)


@settings(max_examples=150, deadline=None)
@given(Texts().conditions(), rows, st.data())
def test_a_projection_never_loses_a_row(text: str, row: Row, data: st.DataObject) -> None:
    column, transform, rules = data.draw(st.sampled_from(possible()))
    expression = where.parse(text, SCHEMA)
    derived, source, target = derivation(column, transform, rules)
    value = derived.transform.apply(source.type, _value(source, row[column]))
    found = may_hold(project(expression, derived, source, target), value)
    assert found or evaluate(expression, row) is not True, (column, transform, rules, row[column])


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(["year", "month", "day", "hour"]),
    st.sampled_from(["<", "<=", ">", ">=", "=", "IN"]),
    st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29)),  # noqa: DTZ001
    st.timedeltas(timedelta(hours=-50), timedelta(hours=50)),
    st.timedeltas(timedelta(hours=-18), timedelta(hours=18)),
)
def test_values_found_in_any_zone_are_never_lost(
    transform: str, op: str, moment: datetime, away: timedelta, offset: timedelta
) -> None:
    row = {"ts": moment.replace(tzinfo=UTC)}
    try:
        other = moment + away
    except OverflowError:
        return
    literal = f"TIMESTAMP '{other}'"
    text = f"ts IN ({literal}, '2026-01-01')" if op == "IN" else f"ts {op} {literal}"
    expression = where.parse(text, SCHEMA)
    derived, source, target = derivation("ts", transform, Rules.SPARK, utc=False)
    value = derived.transform.apply(source.type, to_neutral(source.type, moment + offset))
    found = may_hold(project(expression, derived, source, target), value)
    assert found or evaluate(expression, row) is not True


def _value(source: Field, value: Any) -> Value:
    return to_neutral(source.type, value)
