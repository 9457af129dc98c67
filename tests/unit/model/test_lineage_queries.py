"""What columns of a query or statement depend on, for shapes where it is easily missed."""

from __future__ import annotations

import pytest

from lakeward.model.lineage.statement import statement_lineage

TABLES = {"s": ("k", "a", "b", "c"), "u": ("k", "x", "y"), "t": ("k", "a", "b")}


def found(text: str) -> dict[str, set[str]]:
    """All named columns that each column of the target depends on."""
    answer = statement_lineage(text, "duckdb", TABLES)
    assert answer is not None
    assert answer.columns is not None, text
    return {
        name: {".".join(ref) for ref in depends.every if ref[1]}
        for name, depends in answer.columns.items()
    }


def inserted(query: str) -> dict[str, set[str]]:
    return found(f"INSERT INTO t (a, b) {query}")


def test_conditions_of_earlier_clauses_of_a_merge_decide_about_later_ones() -> None:
    own = found(
        "MERGE INTO t USING s ON t.k = s.k WHEN MATCHED AND s.c > 1 THEN UPDATE SET a = s.a "
        "WHEN MATCHED THEN UPDATE SET b = s.b"
    )
    assert own == {"a": {"t.k", "s.k", "s.c", "s.a"}, "b": {"t.k", "s.k", "s.c", "s.b"}}


def test_clauses_of_a_merge_for_other_rows_decide_nothing() -> None:
    own = found(
        "MERGE INTO t USING s ON t.k = s.k WHEN NOT MATCHED AND s.c > 1 THEN INSERT (k) "
        "VALUES (s.k) WHEN MATCHED THEN UPDATE SET b = s.b WHEN NOT MATCHED BY SOURCE AND t.a > 2 "
        "THEN UPDATE SET a = 0"
    )
    assert own["b"] >= {"s.b", "s.c"}
    own = found(
        "MERGE INTO t USING s ON t.k = s.k WHEN MATCHED AND s.c > 1 THEN UPDATE SET a = s.a "
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET b = 0"
    )
    assert own["b"] == {"t.k", "s.k"}


@pytest.mark.parametrize("how", ["SEMI", "ANTI"])
@pytest.mark.parametrize("joined", ["(SELECT k FROM u WHERE y > 1)", "v"])
def test_the_right_side_of_a_semi_join_decides_about_rows(how: str, joined: str) -> None:
    query = f"SELECT a, b FROM s {how} JOIN {joined} w ON w.k = s.k"
    with_v = "WITH v AS (SELECT k FROM u WHERE y > 1) " if joined == "v" else ""
    assert inserted(with_v + query)["a"] == {"s.a", "s.k", "u.k", "u.y"}


def test_group_by_all_groups_by_all_columns_that_are_no_aggregates() -> None:
    assert inserted("SELECT a, sum(b) FROM s GROUP BY ALL") == {
        "k": {"s.a"},
        "a": {"s.a"},
        "b": {"s.a", "s.b"},
    }


@pytest.mark.parametrize(
    "query",
    [
        "SELECT DISTINCT ON (k) k, a FROM s ORDER BY k, c",
        "SELECT k, a FROM (SELECT * FROM s ORDER BY c) LIMIT 3",
        "WITH o AS (SELECT * FROM s ORDER BY c) SELECT k, a FROM (SELECT * FROM o) OFFSET 3",
        "(SELECT k, a FROM s ORDER BY c) UNION ALL (SELECT x, y FROM u) LIMIT 3",
    ],
)
def test_an_order_decides_where_only_some_rows_are_taken(query: str) -> None:
    assert "s.c" in inserted(query)["a"]


def test_an_order_decides_nothing_where_all_rows_are_taken() -> None:
    assert inserted("SELECT k, a FROM (SELECT * FROM s ORDER BY c)")["a"] == {"s.k"}


def test_a_union_by_name_pairs_columns_by_their_names() -> None:
    query = "SELECT k AS a, c AS b FROM s UNION ALL BY NAME SELECT y AS b, x AS a FROM u"
    own = inserted(query)
    assert (own["a"], own["b"]) == ({"s.k", "u.x"}, {"s.c", "u.y"})
    own = inserted("SELECT k AS a FROM s UNION ALL BY NAME SELECT y AS b, x AS a FROM u")
    assert (own["a"], own["b"]) == ({"s.k", "u.x"}, {"u.y"})
