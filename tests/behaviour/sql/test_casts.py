"""A cast that is compared is compared by its result, whatever it cuts off."""

from __future__ import annotations

import operator
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

import pytest

import lakeward as lw

pytestmark = [pytest.mark.formats("delta"), pytest.mark.local]

_WHOLE: Final = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_DECIMALS: Final = ("DECIMAL(8,2)", "DECIMAL(8,1)", "DECIMAL(5,0)", "DECIMAL(30,10)")
_NUMBERS: Final = (*_WHOLE, *_DECIMALS, "FLOAT", "DOUBLE", "VARCHAR")
_TIMES: Final = ("DATE", "TIMESTAMP", "TIMESTAMPTZ", "VARCHAR")
_COLUMNS: Final[dict[str, tuple[str, list[Any], tuple[str, ...]]]] = {
    "i8": ("int8", [3, 4, -3], _NUMBERS),
    "i16": ("int16", [3, 4, -3], _NUMBERS),
    "i32": ("int32", [3, 4, -3], _NUMBERS),
    "i64": ("int64", [3, 4, -3], _NUMBERS),
    "f": ("float", [3.0, 3.5, -3.25], _NUMBERS),
    "d": ("double", [3.0, 3.55, -3.5], _NUMBERS),
    "n1": ("decimal(8,1)", [Decimal("3.0"), Decimal("3.6"), Decimal("-3.5")], _NUMBERS),
    "n2": ("decimal(8,2)", [Decimal("3.00"), Decimal("3.55"), Decimal("-3.54")], _NUMBERS),
    "n10": ("decimal(30,10)", [Decimal(3), Decimal("3.5500000001"), Decimal("-3.5")], _NUMBERS),
    "s": ("string", ["3", "03", "-3"], _NUMBERS),
    "b": ("boolean", [True, False, True], ("INT", "VARCHAR")),
    "day": ("date", [date(2025, 1, 1), date(1969, 12, 31), date(2025, 1, 2)], _TIMES),
    **{
        name: (kind, [at, at.replace(microsecond=0), at.replace(hour=0, microsecond=0)], _TIMES)
        for name, kind, at in (
            ("tz", "timestamp", datetime(2025, 1, 1, 5, 0, 0, 123456, tzinfo=UTC)),
            ("tn", "timestamp_ntz", datetime(2025, 1, 1, 5, 0, 0, 123456)),  # noqa: DTZ001
        )
    },
}
_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "{x} = {c}": operator.eq,
    "{x} <> {c}": operator.ne,
    "{x} < {c}": operator.lt,
    "{x} <= {c}": operator.le,
    "{x} > {c}": operator.gt,
    "{x} >= {c}": operator.ge,
    "{c} < {x}": operator.gt,
    "{x} BETWEEN {c} AND {c}": operator.eq,
    "{x} NOT BETWEEN {c} AND {c}": operator.ne,
    "{x} IN ({c}, {c})": operator.eq,
    "{x} NOT IN ({c})": operator.ne,
    "{x} IS DISTINCT FROM {c}": operator.ne,
    "{x} IS NOT DISTINCT FROM {c}": operator.eq,
    "CASE WHEN {x} = {c} THEN true ELSE false END": operator.eq,
    "CASE {x} WHEN {c} THEN true ELSE false END": operator.eq,
}
_CASTS: Final = ("CAST({x} AS {t})", "TRY_CAST({x} AS {t})", "{x}::{t}")
_PAIRS: Final = [(name, to) for name, (_, _, targets) in _COLUMNS.items() for to in targets]


@pytest.fixture(scope="module")
def lake(shared_lake: lw.Lake) -> lw.Lake:
    """A lake with a table that has a column of each type."""
    schema = ", ".join(f"{name} {kind}" for name, (kind, _, _) in _COLUMNS.items())
    made = shared_lake.create("casts.t", f"id int64, {schema}")
    rows = [{n: v[k] for n, (_, v, _) in _COLUMNS.items()} for k in range(3)]
    made.append([{"id": k, **row} for k, row in enumerate(rows)])
    return shared_lake


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
@pytest.mark.parametrize(("column", "target"), _PAIRS)
def test_a_cast_is_compared_by_its_result(
    lake: lw.Lake, column: str, target: str, engine: str
) -> None:
    text = f"SELECT id, CAST({column} AS {target}) AS c FROM casts.t ORDER BY id"
    cast = lake.sql(text, engine=engine).to_arrow()["c"].to_pylist()
    for number, constant in enumerate(cast[::2]):
        form = _CASTS[number % len(_CASTS)].format(x=column, t=target)
        asked = ", ".join(
            f"{spelled.format(x=form, c=':c')} AS r{n}" for n, spelled in enumerate(_OPERATORS)
        )
        params = {"c": constant}
        found = lake.sql(f"SELECT {asked} FROM casts.t ORDER BY id", params, engine=engine)
        for row, value in zip(found.to_pylist(), cast, strict=True):
            wanted = [compare(value, constant) for compare in _OPERATORS.values()]
            assert dict(zip(_OPERATORS, row.values(), strict=True)) == dict(
                zip(_OPERATORS, wanted, strict=True)
            ), (form, constant, value)
        # DataFusion passes the condition down to the cast.
        query = f"SELECT id FROM (SELECT id, {form} AS v FROM casts.t) WHERE v = :c ORDER BY id"
        ids = [row["id"] for row in lake.sql(query, params, engine=engine).to_pylist()]
        assert ids == [k for k, value in enumerate(cast) if value == constant], form


_TEXTS: Final = {
    "SELECT id FROM casts.t WHERE arrow_cast(n2, 'Int32') = 3": [0, 1],
    "SELECT id FROM casts.t WHERE arrow_try_cast(n2, 'Int32') = 3": [0, 1],
    "SELECT id FROM casts.t WHERE (n2 + 0)::INT = 3": [0, 1],
    "SELECT id FROM casts.t WHERE abs(n2)::INT::BIGINT = 3": [0, 1, 2],
    "SELECT id FROM casts.t t WHERE t.n2::DECIMAL(8,1)::INT = 3": [0, 1],
    'SELECT id FROM casts.t WHERE "n2"::INT = 3': [0, 1],
    "SELECT id FROM casts.t WHERE CASE WHEN id < 2 THEN n2 END::INT = 3": [0, 1],
    "SELECT id FROM (SELECT id, max(n2) OVER (PARTITION BY id)::INT AS v FROM casts.t)"
    " WHERE v = 3": [0, 1],
    "WITH w(a, b) AS (SELECT id, CAST(n2 AS INT) FROM casts.t) SELECT a FROM w WHERE b = 3": [0, 1],
    "SELECT a.id FROM casts.t a JOIN casts.t b ON CAST(a.n2 AS INT) = 3 AND b.id = a.id": [0, 1],
    "SELECT min(id) FROM casts.t GROUP BY CAST(n2 AS INT) HAVING CAST(n2 AS INT) = 3": [0],
    "SELECT count(*) FILTER (WHERE CAST(n2 AS INT) = 3) FROM casts.t": [2],
    "SELECT id FROM casts.t WHERE TRY_CAST(n10 * 1000 AS TINYINT) <> 5": [],
}


@pytest.mark.parametrize("query", _TEXTS)
def test_casts_are_found_in_all_forms_and_places(lake: lw.Lake, query: str) -> None:
    rows = lake.sql(f"{query} ORDER BY 1").to_arrow()
    assert rows.column(0).to_pylist() == _TEXTS[query]
    with lake.transaction() as tx:
        assert tx.sql(f"{query} ORDER BY 1").to_arrow().column(0).to_pylist() == _TEXTS[query]
        made = tx.sql(f"CREATE TABLE casts.made AS SELECT * FROM ({query}) AS q(k)")
        assert made.inserted == len(_TEXTS[query])
        tx.rollback()


@pytest.mark.parametrize(
    ("items", "names"),
    [
        ("CAST(n2 AS INT), id", ["t.n2", "id"]),
        ("id, t.n2::INT", ["id", "t.n2"]),
        ("CAST(n2 AS INT) AS x, CAST(i8 AS INT) y", ["x", "y"]),
        ("sum(CAST(n2 AS INT))", ["sum(t.n2)"]),
        ("CAST(n2 + 1 AS INT), CAST('3' AS INT)", ["t.n2 + Int64(1)", 'Utf8("3")']),
    ],
)
def test_columns_of_casts_keep_their_names(lake: lw.Lake, items: str, names: list[str]) -> None:
    query = f"SELECT {items} FROM casts.t t"
    assert lake.sql(query).columns == names


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
def test_a_decimal_is_compared_with_a_double_as_a_double(
    lake: lw.Lake, name: str, engine: str
) -> None:
    """DataFusion made a decimal of the double, with other digits: 749106.569999999959040."""
    numbers = [Decimal(text) for text in ("749106.57", "3.55", "0.07", "1234567.89")]
    table = lake.create(name, "id int64, f double, n decimal(12,2)")
    table.append([{"id": k, "f": float(n), "n": n} for k, n in enumerate(numbers)])
    other = f"{name} b ON b.n"
    for text, wanted in {
        "t WHERE f = n": [0, 1, 2, 3],
        "t WHERE t.n=T.f AND (n >= f)": [0, 1, 2, 3],
        "t WHERE f <> n OR n < f OR f > n": [],
        "t WHERE (f IS DISTINCT FROM n)": [],
        "t WHERE n IS NOT DISTINCT FROM f AND id > 0": [1, 2, 3],
        "t WHERE CASE WHEN F = N THEN true END": [0, 1, 2, 3],
        f"t JOIN {other} = t.f": [0, 1, 2, 3],
        "t WHERE f = :v": [0],
        "t WHERE :v = t.f": [0],
        "t WHERE f >= :v AND id >= 0": [0, 3],
        "t WHERE f BETWEEN n AND n": [0, 1, 2, 3],
        "t WHERE n NOT IN (f, f) OR n IN (f)": [0, 1, 2, 3],
        "t WHERE n = 749106.57": [0],
        't WHERE "n" = 749106.57 OR t."f" < "n"': [0],
        "t WHERE 749106.57 <= n": [0, 3],
        "t WHERE n IN (749106.57, .07, 3.551) AND id > -1.5": [0, 2],
        "t WHERE n BETWEEN 749106.57 AND 1234567.89 OR n < -749106.57": [0, 3],
        "t WHERE NOT n BETWEEN -5.5 AND 749106.57": [3],
        "t WHERE f = 749106.57 OR f IN (0.07)": [0, 2],
        "t WHERE n = :f": [0],
    }.items():
        known: dict[str, Any] = {"v": numbers[0], "f": float(numbers[0])}
        params = {key: value for key, value in known.items() if f":{key}" in text}
        query = f"SELECT t.id FROM {name} {text} ORDER BY 1"
        found = lake.sql(query, params, engine=engine).to_arrow()
        assert found.column(0).to_pylist() == wanted, text
