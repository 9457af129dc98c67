from __future__ import annotations

import decimal
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import datafusion
import deltalake
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lakeward.engines.arrow.expression import to_arrow
from lakeward.errors import InvalidExpression
from lakeward.model.expressions import where
from lakeward.model.expressions.nodes import And, Expression, Or
from lakeward.model.expressions.render import render, to_sql
from lakeward.model.schema import Schema
from tests.support.expressions import (
    DATES,
    NUMBERS,
    SCHEMA,
    STRINGS,
    Row,
    Texts,
    evaluate,
    many_rows,
    tables,
    to_table,
)

NESTED = {
    "not": "NOT ({})",
    "and": "v > 0 AND ({})",
    "or": "({}) OR f = 2",
    "null": "({}) IS NULL",
    "same": "({}) IS NOT DISTINCT FROM (f > 1)",
    "case": "CASE WHEN {} THEN 1 ELSE 2 END = v",
    "sum": "v + (v + CASE WHEN {} THEN 1 ELSE v END) > 3",
    "float": "coalesce(CASE WHEN {} THEN f END, 3.5) > 1",
    "in": "CASE WHEN {} THEN f ELSE 1 END NOT IN (1, 2.5)",
    "abs": "abs(abs(CASE WHEN {} THEN v END)) = 1",
}


def by_arrow(expression: Expression, table: pa.Table) -> list[bool | None]:
    scanner = ds.dataset(table).scanner(columns={"r": to_arrow(expression)})
    return scanner.to_table()["r"].to_pylist()


def by_datafusion(sql: str, table: pa.Table) -> list[bool | None]:
    context = datafusion.SessionContext()
    context.register_record_batches("t", [table.to_batches()])
    result = context.sql(f"SELECT {sql} AS r FROM t").to_arrow_table()
    return result["r"].to_pylist()


def decided_by_datafusion(sql: str) -> bool:
    """Two lists on one column are merged by DataFusion, and a null among the rows is forgotten."""
    return sql.count(" IN (") < 2


@pytest.mark.slow
@settings(deadline=None, max_examples=400)
@given(Texts().conditions(), tables)
def test_arrow_agrees_with_plain_python(text: str, rows: list[Row]) -> None:
    expression = where.parse(text, SCHEMA)
    assert by_arrow(expression, to_table(rows)) == [evaluate(expression, row) for row in rows]


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(Texts(portable=True).conditions(), tables)
def test_arrow_agrees_with_datafusion_on_the_same_text(text: str, rows: list[Row]) -> None:
    assume(decided_by_datafusion(text))
    table = to_table(rows)
    assert by_arrow(where.parse(text, SCHEMA), table) == by_datafusion(text, table)


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(Texts().conditions(), tables)
def test_arrow_agrees_with_datafusion_on_rendered_sql(text: str, rows: list[Row]) -> None:
    expression, table = where.parse(text, SCHEMA), to_table(rows)
    sql = to_sql(expression)
    assume(decided_by_datafusion(sql))
    assert by_arrow(expression, table) == by_datafusion(sql, table)


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(Texts().conditions(), tables)
def test_rendered_text_parses_to_the_same_meaning(text: str, rows: list[Row]) -> None:
    expression, table = where.parse(text, SCHEMA), to_table(rows)
    again = where.parse(render(expression), SCHEMA)
    assert by_arrow(again, table) == by_arrow(expression, table)


@pytest.mark.slow
@settings(deadline=None, max_examples=200)
@given(Texts().conditions(), tables)
def test_filter_keeps_the_rows_that_are_true(text: str, rows: list[Row]) -> None:
    expression, table = where.parse(text, SCHEMA), to_table(rows)
    kept = ds.dataset(table).to_table(filter=to_arrow(expression)).num_rows
    assert kept == sum(evaluate(expression, row) is True for row in rows)


# What random tables would seldom show


@pytest.mark.parametrize("sign", ["=", "<", ">="])
@pytest.mark.parametrize(
    ("calculation", "literals"),
    [
        *((number, ["0", "1", "-2", "2.5", "1e300"]) for number in NUMBERS),
        *((string, ["''", "'a'", "'b'", "'2026-01-01'", "'true'"]) for string in STRINGS),
        *((day, ["DATE '2026-01-01'", "'2025-12-31'"]) for day in DATES),
    ],
)
def test_every_calculation_means_the_same_everywhere(
    calculation: str, literals: list[str], sign: str
) -> None:
    rows = many_rows()
    table = to_table(rows)
    expressions = [where.parse(f"{calculation} {sign} {literal}", SCHEMA) for literal in literals]
    wanted = [[evaluate(expression, row) for row in rows] for expression in expressions]
    assert [by_arrow(expression, table) for expression in expressions] == wanted
    assert [by_datafusion(to_sql(expression), table) for expression in expressions] == wanted
    again = [where.parse(render(expression), SCHEMA) for expression in expressions]
    assert again == expressions


def kept(text: str, values: list[Any], kind: pa.DataType) -> list[Any]:
    schema = Schema.from_arrow(pa.schema([("v", kind)]))
    table = pa.table({"v": pa.array(values, kind)})
    expression = where.parse(text, schema)
    return ds.dataset(table).to_table(filter=to_arrow(expression))["v"].to_pylist()


def test_nan_equals_itself_and_is_greater_than_all() -> None:
    values = [math.nan, 1.0, math.inf, None]
    assert len(kept("v > 1e300", values, pa.float64())) == 2
    assert len(kept("v >= CAST('NaN' AS DOUBLE)", values, pa.float64())) == 1
    assert len(kept("v = v", values, pa.float64())) == 3
    assert len(kept("v IN (1, CAST('NaN' AS DOUBLE))", values, pa.float64())) == 2
    assert len(kept("isnan(v)", values, pa.float64())) == 1
    assert len(kept("NOT isnan(v)", values, pa.float64())) == 3
    assert len(kept("NOT v <= 1", values, pa.float32())) == 2


@pytest.mark.parametrize("text", ["v > 10", "NOT v <= 10", "isnan(v)", "v NOT IN (1, 2)"])
def test_nan_is_found_in_files_whose_statistics_leave_it_out(text: str, tmp_path: Path) -> None:
    table = pa.table({"v": pa.array([1.0, 2.0, math.nan])})
    expression = where.parse(text, Schema.from_arrow(table.schema))
    pq.write_table(table, tmp_path / "a.parquet")
    found = ds.dataset(tmp_path / "a.parquet").to_table(filter=to_arrow(expression))
    assert found.num_rows == 1

    deltalake.write_deltalake(tmp_path / "t", table)
    delta = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(tmp_path / "t"))
    found = pa.table(delta.execute(f"SELECT * FROM t WHERE {to_sql(expression)}"))
    assert found.num_rows == 1


def test_zero_has_no_sign() -> None:
    for text in ("v = 0", "v IN (0, 5)", "v >= 0", "v <= -0.0", "v = -0.0"):
        assert len(kept(text, [0.0, -0.0], pa.float64())) == 2, text
    assert kept("v < 0", [0.0, -0.0], pa.float64()) == []


def test_wide_integers_are_compared_exactly() -> None:
    big = 2**53
    assert kept(f"v = {big + 1}.0", [big, big + 1, big + 2], pa.int64()) == [big + 1]
    assert kept(f"v > {big}.5", [big, big + 1], pa.int64()) == [big + 1]
    assert kept("v < 9223372036854775808", [2**63 - 1, None], pa.int64()) == [2**63 - 1]


def test_a_float_is_not_equal_to_a_double_that_it_cannot_hold() -> None:
    assert kept("v = 0.1", [0.1], pa.float32()) == []
    assert kept("v > 0.1", [0.1], pa.float32()) != []
    assert kept("v = CAST(0.1 AS FLOAT)", [0.1], pa.float32()) != []


def test_remainder_takes_the_sign_of_the_dividend() -> None:
    assert kept("v % 3 = -1", [-7, 7, -1, 2], pa.int32()) == [-7, -1]
    assert kept("v % -3 = 1", [-7, 7, 1], pa.int32()) == [7, 1]
    least = -(2**63)
    assert kept("v % -1 = 0", [least, 5], pa.int64()) == [least, 5]
    assert kept("v % (v - v - 1) = 0", [5, None, -7], pa.int64()) == [5, -7]


def test_division_is_of_doubles_and_by_zero_is_null() -> None:
    assert kept("v / 2 = 1.5", [3, 2], pa.int32()) == [3]
    assert kept("1 / v IS NULL", [0, 2, None], pa.int32()) == [0, None]
    assert kept("5 % v IS NULL", [0, 2], pa.int32()) == [0]
    assert kept("1 / v IS NULL", [0.0, -0.0, 2.0], pa.float64()) == [0.0, 0.0]


def test_case_goes_on_where_a_condition_is_unknown() -> None:
    text = "CASE WHEN v = 1 THEN 'a' WHEN v IS NULL THEN 'b' END = 'b'"
    assert kept(text, [1, 2, None], pa.int32()) == [None]
    assert kept("if(v > 1, 1, 2) = 2", [1, 2, None], pa.int32()) == [1, None]
    assert kept("CASE v WHEN 1 THEN TRUE ELSE FALSE END", [1, 2, None], pa.int32()) == [1]
    assert kept("CASE WHEN v = 1 THEN 5 END IS NULL", [1, 2, None], pa.int32()) == [2, None]
    assert kept("nullif(v, 1) IS NULL", [1, 2, None], pa.int32()) == [1, None]
    assert kept("coalesce(v, 7) = 7", [1, None], pa.int32()) == [None]


def test_functions_of_strings() -> None:
    values = ["  ab\t", "Été", "", None]
    text = pa.string()
    assert kept("length(v) = 5", values, text) == values[:1]
    assert kept("char_length(v) = 3", values, text) == values[1:2]
    assert kept("trim(v) = 'ab\t'", values, text) == values[:1]
    assert kept("ltrim(v) = 'ab\t'", values, text) == values[:1]
    assert kept("rtrim(v) = '  ab\t'", values, text) == values[:1]
    assert kept("lower(v) = 'été'", values, text) == values[1:2]
    assert kept("upper(v) = 'ÉTÉ'", values, text) == values[1:2]
    assert kept("substring(v, 2, 1) = 't'", values, text) == values[1:2]
    assert kept("substring(v, 2) = 'té'", values, text) == values[1:2]
    assert kept("substring(v, 3, 2) = 'ab'", values, text) == values[:1]
    assert kept("substring(v, 9, 2) = ''", values, text) == values[:3]
    assert kept("concat(v, 'x', v) = 'x'", values, text) == values[2:3]
    assert kept("v || NULL IS NULL", values, text) == values


def test_parts_of_moments_are_utc() -> None:
    moments = [datetime(2025, 12, 31, 23, 30, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC), None]
    for kind in (pa.timestamp("us", "UTC"), pa.timestamp("ms", "UTC")):
        assert kept("year(v) = 2025", moments, kind) == moments[:1]
        assert kept("month(v) = 12 AND day(v) = 31", moments, kind) == moments[:1]
        assert kept("hour(v) = 23", moments, kind) == moments[:1]
        assert kept("extract(DAY FROM v) = 1", moments, kind) == moments[1:2]
        text = "v >= '2026-01-01T01:00:00+01:00'"
        assert kept(text, moments, kind) == moments[1:2]


def test_arithmetic_of_small_integers_is_wide() -> None:
    assert kept("v + v = 254", [127], pa.int8()) == [127]
    assert kept("v * v * v = 2048383", [127], pa.int8()) == [127]


@pytest.mark.parametrize("text", ["v + 1 > 0", "v * 2 > 0", "-(v - v - v) > 0", "abs(v) > 0"])
def test_integer_overflow_is_an_error(text: str) -> None:
    value = 2**63 - 1 if "abs" not in text else -(2**63)
    if text.startswith("-("):
        value = -(2**63)
    with pytest.raises(pa.ArrowInvalid, match="overflow"):
        kept(text, [value], pa.int64())


def test_casts() -> None:
    assert kept("CAST(v AS INT) = 2", [2.9, 1.0], pa.float64()) == [2.9]
    assert kept("CAST(v AS INT) = -2", [-2.9], pa.float64()) == [-2.9]
    assert kept("CAST(v AS INT) = 5", ["5", "6", None], pa.string()) == ["5"]
    assert kept("CAST(v AS DOUBLE) = 0.5", ["0.5"], pa.string()) == ["0.5"]
    assert kept("CAST(v AS DATE) = '2026-01-01'", ["2026-01-01"], pa.string()) != []
    assert kept("CAST(v AS BOOLEAN)", ["true", "false"], pa.string()) == ["true"]
    assert kept("CAST(v AS DECIMAL(4, 1)) = 0.3", [0.25, 0.35], pa.float64()) == [0.25]
    moments = [datetime(2026, 1, 1, 23, 59, tzinfo=UTC)]
    assert kept("CAST(v AS DATE) = '2026-01-01'", moments, pa.timestamp("us", "UTC")) == moments
    for kind, most in ((pa.int64(), 2**63 - 1), (pa.int32(), 2**31 - 1), (pa.int8(), 127)):
        assert kept("CAST(v AS DECIMAL(12, 2)) > 1.5", [1, 2], kind) == [2]
        assert kept("CAST(v AS DECIMAL(38, 18)) > 1", [1, most], kind) == [most]
    texts = ["2026-01-31", "2026-01-31 12:00:00", "2026-01-31T12:00:00+02:00", "2026-02-01T00:00Z"]
    for text, utc in zip(texts, ("00:00", "12:00", "10:00", None), strict=True):
        moment = f"2026-01-31 {utc}:00" if utc else "2026-02-01 00:00:00"
        assert kept(f"CAST(v AS TIMESTAMP) = TIMESTAMP '{moment}'", texts, pa.string()) == [text]
    assert kept("date(v) = '2026-01-01'", moments, pa.timestamp("ms", "UTC")) == moments
    with pytest.raises(pa.ArrowInvalid):
        kept("CAST(v AS INT) = 5", ["five"], pa.string())
    with pytest.raises(pa.ArrowInvalid):
        kept("CAST(v AS TINYINT) = 5", [300], pa.int32())


def test_rounding_up_may_take_one_more_digit() -> None:
    nines = [decimal.Decimal("99.99")]
    assert kept("ceil(v) = 100", nines, pa.decimal128(4, 2)) == nines
    assert kept("CAST(v AS DECIMAL(5, 1)) = 100", nines, pa.decimal128(4, 2)) == nines


def test_members_of_missing_structs_are_missing() -> None:
    kind = pa.struct([("a", pa.struct([("b", pa.int32())]))])
    values = [{"a": {"b": 1}}, {"a": {"b": None}}, {"a": None}, None]
    assert kept("v.a.b IS NULL", values, kind) == values[1:]
    assert kept("v.a.b = 1", values, kind) == values[:1]
    assert kept("v IS NULL", values, kind) == [None]


def test_names_are_taken_as_they_are() -> None:
    names = ["a.b", "a b", 'a"b', "a`b", "select", "a'b", "[0]", ".x", "*"]
    table = pa.table({name: [1, 2] for name in names})
    schema = Schema.from_arrow(table.schema)
    for name in names:
        expression = where.parse("`" + name.replace("`", "``") + "` = 2", schema)
        assert by_arrow(expression, table) == [False, True], name
        assert by_datafusion(to_sql(expression), table) == [False, True], name


@pytest.mark.slow
def test_long_chains_do_not_exhaust_the_engines() -> None:
    table = pa.table({"v": [1, 2, 9000]})
    schema = Schema.from_arrow(table.schema)
    for word in (" AND ", " OR "):
        expression = where.parse(word.join(f"v <> {n}" for n in range(5000)), schema)
        assert max(len(run.split(word)) for run in to_sql(expression).split(")")) < 50
        expected = [word == " OR "] * 2 + [True]
        assert by_arrow(expression, table) == expected
        assert by_datafusion(to_sql(expression), table) == expected


@pytest.mark.slow
@pytest.mark.parametrize("word", [And, Or])
def test_arrow_filters_by_many_terms(word: type[And | Or]) -> None:
    """Arrow makes a chain of them again, and its recursion ended the process."""
    table = pa.table({"v": [1, None, 2], "f": [0.5, 1.5, math.nan]})
    terms = [where.parse(f"v <> {n}", Schema.from_arrow(table.schema)) for n in range(2, 15_000)]
    found = ds.dataset(table).to_table(filter=to_arrow(word(tuple(terms))))
    assert found["v"].to_pylist() == ([1] if word is And else [1, 2])


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
@pytest.mark.parametrize("others", [3, 100])
def test_a_list_of_floats_has_the_same_meaning_whatever_its_length(
    others: int, kind: pa.DataType
) -> None:
    values = [0.0, -0.0, math.nan, -math.nan, math.inf, 1.5, 2.5, None]
    listed = ", ".join(f"{n + 10}.5" for n in range(others))
    nan = "CAST('NaN' AS DOUBLE)"
    assert kept(f"v IN (0, 1.5, {listed})", values, kind) == [0.0, -0.0, 1.5]
    assert len(kept(f"v IN ({listed}, {nan})", values, kind)) == 2
    assert len(kept(f"v NOT IN (0, {listed})", values, kind)) == 5
    assert kept(f"v NOT IN (0, {listed}, {nan})", values, kind) == [math.inf, 1.5, 2.5]
    assert kept(f"v NOT IN (0, {listed}, NULL)", values, kind) == []
    assert kept(f"v IN (-0.0, {listed}, NULL)", values, kind) == [0.0, -0.0]


@pytest.mark.slow
@settings(deadline=None, max_examples=100)
@given(st.lists(st.sampled_from(sorted(NESTED)), min_size=10, max_size=20))
def test_whatever_parses_is_not_too_deep_for_the_engines(shapes: list[str]) -> None:
    text = "v = 1"
    for shape in shapes:
        text = NESTED[shape].format(text)
    table = pa.table({"v": [1, 2], "f": [1.0, 2.0]})
    try:
        expression = where.parse(text, Schema.from_arrow(table.schema))
    except InvalidExpression:
        return
    assert by_arrow(expression, table) == by_datafusion(to_sql(expression), table)


def test_a_row_group_that_cannot_match_is_not_read(tmp_path: Path) -> None:
    table = pa.table({"v": list(range(100)), "f": [float(n) for n in range(100)]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=10)
    (fragment,) = ds.dataset(tmp_path / "a.parquet").get_fragments()
    for text in ("v = 5", "v IN (3, 5)", "v < 10 AND f < 50", "NOT v >= 10", "f <= 5", "v <=> 5"):
        expression = where.parse(text, Schema.from_arrow(table.schema))
        assert fragment.subset(to_arrow(expression)).num_row_groups == 1, text
