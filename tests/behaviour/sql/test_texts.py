"""Texts of statements that are valid SQL, and that the parser or an engine reads differently."""

from __future__ import annotations

from typing import Any

import pytest

import lakeward as lw
from lakeward.errors import InvalidInput, UnsupportedFeature

pytestmark = [pytest.mark.formats("delta"), pytest.mark.local]
_VALID: list[tuple[str, Any, list[tuple[Any, ...]]]] = [
    ("SELECT :v AS v, id FROM texts.t WHERE id = 1", {"v": 7}, [(7, 1)]),
    ("SELECT (:v) AS x, id FROM texts.t WHERE id < :m", {"v": "a", "m": 2}, [("a", 1)]),
    ("WITH a AS (SELECT :v AS x) SELECT * FROM a", {"v": 5}, [(5,)]),
    ("SELECT id FROM texts.t ORDER BY id DESC LIMIT :n", {"n": 1}, [(2,)]),
    ("SELECT count(*) FROM texts.t VERSION AS OF :v", {"v": 0}, [(0,)]),
    ("SELECT id FROM texts.t WHERE b = X'00ff'", None, [(1,)]),
    ("SELECT id FROM texts.t WHERE b IN (x'00FF', x'')", None, [(1,), (2,)]),
    ("SELECT id, X'0a' FROM texts.t WHERE id = :v", {"v": 1}, [(1, b"\n")]),
    ("SELECT X'0a', id FROM texts.t WHERE id = ?", [1], [(b"\n", 1)]),
    ("SELECT id FROM texts.t WHERE s = 'X''00'", None, [(1,)]),
    ("SELECT 1 AS a;\n-- done\n", None, [(1,)]),
    ("SELECT 1 AS a; /* done */ ;", None, [(1,)]),
    ("FROM texts.t ORDER BY id", None, [(1, b"\0\xff", "X'00"), (2, b"", "b")]),
    ("FROM texts.t", None, [(1, b"\0\xff", "X'00"), (2, b"", "b")]),
    ("SELECT id FROM (FROM texts.t WHERE id = 1)", None, [(1,)]),
    ("WITH a AS (FROM texts.t), b AS (FROM a) FROM b WHERE id = 1", None, [(1, b"\0\xff", "X'00")]),
    ("SELECT id FROM texts.t WHERE id = 1 UNION ALL FROM (SELECT 3)", None, [(1,), (3,)]),
    ("FROM texts.t SELECT id", None, [(1,), (2,)]),
    ("SELECT extract(year FROM DATE '2026-01-01') FROM texts.t LIMIT 1", None, [(2026,)]),
    ("SELECT trim(both 'x' FROM 'xax') FROM texts.t LIMIT 1", None, [("a",)]),
    ("SELECT DISTINCT id FROM texts.t ORDER BY 1", None, [(1,), (2,)]),
]


@pytest.fixture(scope="module")
def lake(shared_lake: lw.Lake) -> lw.Lake:
    """A lake with a table of two rows."""
    made = shared_lake.create("texts.t", "id int64, b binary, s string")
    made.append([{"id": 1, "b": b"\0\xff", "s": "X'00"}, {"id": 2, "b": b"", "s": "b"}])
    return shared_lake


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
@pytest.mark.parametrize(("text", "params", "wanted"), _VALID)
def test_valid_texts_have_their_rows(
    lake: lw.Lake, engine: str, text: str, params: Any, wanted: list[tuple[Any, ...]]
) -> None:
    rows = lake.sql(text, params, engine=engine).to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == wanted


def test_octets_are_values_of_statements(lake: lw.Lake) -> None:
    with lake.transaction() as tx:
        tx.sql("CREATE TABLE texts.new (id int, b binary)")
        tx.sql("INSERT INTO texts.new VALUES (1, X'00ff'), (:id, X'0a')", {"id": 2})
        tx.sql("UPDATE texts.new SET b = X'0b' WHERE b = X'0a'; -- done")
        tx.sql("INSERT INTO texts.new SELECT 3, :b AS b", {"b": b"c"})
        assert tx.read("texts.new")["b"].to_pylist() == [b"\0\xff", b"\x0b", b"c"]
        tx.rollback()


@pytest.mark.parametrize("name", ["DESCRIBE", "SHOW", "EXPLAIN"])
def test_what_describes_is_referred_to_a_transaction(lake: lw.Lake, name: str) -> None:
    with pytest.raises(UnsupportedFeature, match="it runs only in a transaction") as caught:
        lake.sql(f"{name} texts.t")
    assert "changes nothing" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "params", "said"),
    [
        ("SELECT id FROM texts.t WHERE b = X'0'", None, "not in hexadecimal digits"),
        ("SELECT 1; SELECT 2", None, "Only one statement"),
        (";", None, "There is no statement"),
        (" ", None, "The query is empty"),
        ("SELECT id FROM texts.t WHERE id = :id", {"id": 1, "di": 2}, "text has no :di"),
    ],
)
def test_invalid_texts_are_refused(lake: lw.Lake, text: str, params: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        lake.sql(text, params)


def test_values_without_a_place_are_refused_in_conditions_and_statements(lake: lw.Lake) -> None:
    with pytest.raises(InvalidInput, match="text has no :nme"):
        lake.table("texts.t").to_arrow(where="s = :name", params={"name": "b", "nme": "c"})
    with lake.transaction() as tx:
        with pytest.raises(InvalidInput, match="text has no :nme"):
            tx.sql("DELETE FROM texts.t WHERE s = :name", {"name": "b", "nme": "c"})
        done = tx.sql("DELETE FROM texts.t WHERE s = :a OR id IN (SELECT :b)", {"a": "b", "b": 77})
        assert done.deleted == 1
        tx.rollback()


def test_rows_of_the_engine_become_rows_of_tables(lake: lw.Lake) -> None:
    """DataFusion has unsigned numbers of rows, and times in nanoseconds."""
    with lake.transaction() as tx:
        made = "CREATE TABLE texts.made AS SELECT id, row_number() OVER (ORDER BY id) AS n,"
        tx.sql(f"{made} rank() OVER (ORDER BY id) AS r, now() AS at FROM texts.t")
        tx.sql("INSERT INTO texts.made VALUES (9, 3, 3, now())")
        tx.sql("UPDATE texts.made SET n = n WHERE id IN (SELECT id FROM texts.made)")
        assert tx.read("texts.made")["n"].to_pylist() == [1, 2, 3]
        assert tx.read("texts.made")["at"].null_count == 0
        tx.rollback()


def test_numbers_of_a_merge_are_decimals_where_the_column_is(lake: lw.Lake) -> None:
    with lake.transaction() as tx:
        tx.sql("CREATE TABLE texts.prices (id bigint, price decimal(10,2))")
        for number in ("749106.57", "-9.05"):
            tx.sql(
                f"MERGE INTO texts.prices t USING (SELECT 1 AS id, {number} AS price) s"
                " ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            )
            assert str(tx.read("texts.prices")["price"][0]) == number
        tx.rollback()


def test_errors_of_the_engine_have_their_cause(lake: lw.Lake) -> None:
    with pytest.raises(InvalidInput, match=r"cannot plan|could not run") as caught:
        lake.sql("SELECT id FROM texts.t WHERE TIMESTAMP '0001-01-01' < now()").to_arrow()
    assert "Optimizer rule" not in str(caught.value)
    assert "0001-01-01" in str(caught.value) or "range" in str(caught.value)


def test_frames_need_different_names(lake: lw.Lake) -> None:
    result = lake.sql("SELECT a.id, b.id FROM texts.t a JOIN texts.t b ON a.id = b.id")
    assert result.to_arrow().column_names == ["id", "id"]
    for frame in (result.to_pandas, result.to_polars):
        with pytest.raises(InvalidInput, match="several columns 'id'"):
            frame()
