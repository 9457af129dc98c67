"""UPDATE and DELETE with subqueries change the rows that SQL says, missing values and all.

Delta refuses them itself, so they run as a MERGE there. What is expected is evaluated in plain
Python, in logic of three values.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import lakeward as lw
from lakeward.errors import UnsupportedFeature

BOTH = pytest.mark.parametrize("table_format", ["delta", "iceberg"])
Row = dict[str, Any]
COLUMNS = {"id": "int64", "v": "string", "x": "float64", "n": "int64"}
ROWS: list[Row] = [
    {"id": 1, "v": "a", "x": 0.0, "n": 0},
    {"id": 1, "v": "a", "x": 0.0, "n": 0},
    {"id": 1, "v": "a", "x": -0.0, "n": 0},
    {"id": 2, "v": "b", "x": float("nan"), "n": 0},
    {"id": 3, "v": None, "x": None, "n": 0},
    {"id": None, "v": "d", "x": 1.5, "n": 0},
    {"id": None, "v": None, "x": None, "n": None},
]
SETS: dict[str, list[int | None]] = {
    "empty": [],
    "twice": [1, 1, 2, 9],
    "missing": [1, None],
}


def is_in(value: Any, among: list[Any]) -> bool | None:
    """IN, in logic of three values."""
    if not among:
        return False
    if value is None:
        return None
    return True if value in among else None if None in among else False


def negated(value: bool | None) -> bool | None:
    return None if value is None else not value


def both(one: bool | None, other: bool | None) -> bool | None:
    if one is False or other is False:
        return False
    return None if one is None or other is None else True


def either(one: bool | None, other: bool | None) -> bool | None:
    return negated(both(negated(one), negated(other)))


Verdict = Callable[[Row, list[Any]], bool | None]
CONDITIONS: dict[str, Verdict] = {
    "id IN (SELECT k FROM {s})": lambda r, s: is_in(r["id"], s),
    "id NOT IN (SELECT k FROM {s})": lambda r, s: negated(is_in(r["id"], s)),
    "o.id IN (SELECT k FROM {s}) AND o.v = 'a'": lambda r, s: both(
        is_in(r["id"], s), None if r["v"] is None else r["v"] == "a"
    ),
    "NOT (id IN (SELECT k FROM {s})) OR v IS NULL": lambda r, s: either(
        negated(is_in(r["id"], s)), r["v"] is None
    ),
    "EXISTS (SELECT 1 FROM {s} WHERE k = o.id)": lambda r, s: r["id"] is not None and r["id"] in s,
    "NOT EXISTS (SELECT 1 FROM {s} WHERE k = o.id)": lambda r, s: (
        r["id"] is None or r["id"] not in s
    ),
    "id = (SELECT max(k) FROM {s})": lambda r, s: (
        is_in(r["id"], [max(k for k in s if k is not None)]) if any(s) else None
    ),
}


def spelled(rows: list[Row]) -> list[str]:
    """Rows in an order, texts so that NaN equals itself and minus zero is not zero."""
    return sorted(str(sorted(r.items())) for r in rows)


@pytest.fixture
def lake(tmp_path: Path) -> Generator[lw.Lake]:
    with lw.open(tmp_path / "lake") as opened:
        yield opened


def fill(lake: lw.Lake, name: str, table_format: str = "delta", **options: Any) -> lw.Table:
    table = lake.create(name, COLUMNS, format=table_format, **options)
    with lake.transaction() as tx:
        tx.append(name, ROWS)
    return table


def views(spark: SparkSession) -> None:
    for name, keys in SETS.items():
        spark.createDataFrame([(k,) for k in keys], "k long").createOrReplaceTempView(name)


ALWAYS = {"DELETE": (0, 1, 3, 5, 6), "UPDATE": (1,)}
"""Conditions that the short form of the tests has."""
CASES = [
    pytest.param(condition, does, marks=[] if number in ALWAYS[does] else pytest.mark.full)
    for number, condition in enumerate(CONDITIONS)
    for does in ("DELETE", "UPDATE")
]


@pytest.mark.parametrize(("condition", "does"), CASES)
@pytest.mark.always("[id NOT IN (SELECT k FROM {s})-DELETE", "max(k)")
def test_rows_are_changed_as_a_plain_evaluation_says(
    spark: SparkSession, lake: lw.Lake, condition: str, does: str
) -> None:
    views(spark)
    verdict = CONDITIONS[condition]
    # The rows once for each set, all in one statement.
    table = lake.create("t", {**COLUMNS, "g": "string"})
    rows = [{**r, "g": name} for name in SETS for r in ROWS]
    with lake.transaction() as tx:
        tx.append("t", rows)
    where = " OR ".join(f"(g = '{name}' AND ({condition.format(s=name)}))" for name in SETS)
    statement = {
        "DELETE": f"DELETE FROM t AS o WHERE {where};",
        "UPDATE": f"UPDATE t AS o SET o.n = n + 1, v = upper(v) WHERE {where} -- all of them",
    }[does]
    with lake.transaction(spark=spark) as tx:
        answer = tx.sql(statement)
        assert answer.columns == ["num_affected_rows"]
        counted = answer.first()[0]
    met = [verdict(r, SETS[r["g"]]) is True for r in rows]
    expected = [r for r, is_met in zip(rows, met, strict=True) if not is_met]
    if does == "UPDATE":
        expected += [updated(r) for r, is_met in zip(rows, met, strict=True) if is_met]
    assert spelled(table.to_arrow().to_pylist()) == spelled(expected)
    assert counted == sum(met)


def updated(row: Row) -> Row:
    n, v = row["n"], row["v"]
    return {**row, "n": None if n is None else n + 1, "v": None if v is None else v.upper()}


@BOTH
def test_subqueries_over_tables_of_the_lake_work_in_both_formats(
    spark: SparkSession, lake: lw.Lake, table_format: str
) -> None:
    table = fill(lake, "sales.orders", table_format)
    other = fill(lake, "other", "iceberg" if table_format == "delta" else "delta")
    with lake.transaction(spark=spark) as tx:
        tx.sql("INSERT INTO other VALUES (2, 'new', 0, 5)")
        tx.sql(
            "UPDATE sales.orders SET sales.orders.v = (SELECT max(v) FROM other WHERE"
            " other.id = sales.orders.id), n = :n WHERE sales.orders.id IN"
            " (SELECT id FROM other WHERE n = :m)",
            args={"n": 7, "m": 5},
        )
        tx.sql(
            "DELETE FROM sales.orders WHERE id NOT IN (SELECT id FROM sales.orders WHERE id = 2)"
        )
    found = {(r["id"], r["v"], r["n"]) for r in table.to_arrow().to_pylist()}
    assert found == {(2, "new", 7), (None, "d", 0), (None, None, None)}
    assert other.to_arrow().num_rows == len(ROWS) + 1


def test_minus_zero_is_told_from_zero_and_generated_columns_follow(
    spark: SparkSession, lake: lw.Lake
) -> None:
    table = fill(lake, "t", partition_by=["truncate(10, id)"])
    with lake.transaction(spark=spark) as tx:
        tx.sql("DELETE FROM t WHERE CAST(x AS STRING) IN (SELECT concat('-0', '.0'))")
        tx.sql("UPDATE t SET id = (SELECT 25) WHERE EXISTS (SELECT 1) AND v = 'b'")
    rows = table.to_arrow().to_pylist()
    assert [str(r["x"]) for r in rows if r["id"] == 1] == ["0.0", "0.0"]
    assert [r["id_trunc"] for r in rows if r["id"] == 25] == [20]


def test_what_cannot_be_rewritten_is_refused_and_a_typo_changes_nothing(
    spark: SparkSession, lake: lw.Lake
) -> None:
    maps = pa.schema([("id", pa.int64()), ("tags", pa.map_(pa.string(), pa.int64()))])
    lake.create("m", maps)
    fill(lake, "t")
    with lake.transaction(spark=spark) as tx:
        with pytest.raises(UnsupportedFeature, match="tags, a map"):
            tx.sql("DELETE FROM m WHERE id IN (SELECT id FROM t)")
        with pytest.raises(AnalysisException):
            tx.sql("DELETE FROM t WHERE id IN (SELECT nope FROM t)")
        tx.sql("DELETE FROM t WHERE id IN (SELECT id FROM t)")
    assert {r["id"] for r in lake.table("t").to_arrow().to_pylist()} == {None}
