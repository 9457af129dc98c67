"""Texts of statements that are stored for lineage: no values in them, and the same lineage."""

from __future__ import annotations

import pytest

from lakeward.model.lineage.literals import without_literals
from lakeward.model.lineage.statement import statement_lineage

TABLES = {"s": ("a", "b", "c"), "t": ("a", "b")}


@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        ("spark", 'INSERT INTO t SELECT a, b FROM s WHERE c = "secret"'),
        ("spark", "INSERT INTO t SELECT a, r'secret' FROM s"),
        ("spark", "INSERT INTO t SELECT a + 4711L, b FROM s"),
        ("spark", "INSERT INTO t SELECT a, 'it''secret' 'x' FROM s"),
        ("duckdb", "INSERT INTO t SELECT a, e'secret' FROM s"),
        ("duckdb", "INSERT INTO t SELECT a, $$secret$$ FROM s"),
        ("duckdb", "INSERT INTO t SELECT a, $x$secret$x$ FROM s"),
        ("duckdb", "INSERT INTO t SELECT a + INTERVAL 'secret' DAY, b FROM s"),
        ("duckdb", "INSERT INTO t SELECT a + INTERVAL '4711 days', b FROM s"),
        ("duckdb", "INSERT INTO t /* secret */ SELECT a, b FROM s -- secret"),
        ("duckdb", "INSERT INTO t SELECT a, 'secret' FROM s WHERE b IN (4711, 1.4711e3)"),
        ("duckdb", "INSERT INTO t VALUES (4711, 'secret')"),
        ("duckdb", "INSERT INTO t SELECT a, b FROM s ORDER BY coalesce(c, 4711) LIMIT 4711"),
        ("duckdb", "INSERT INTO t SELECT a, sum(b) FROM s GROUP BY 1 HAVING sum(b) > 4711"),
        ("duckdb", "INSERT INTO t SELECT a, b::decimal(9, 2) FROM s WHERE c LIKE 'secret%'"),
    ],
)
def test_no_value_is_left_and_the_lineage_is_the_same(dialect: str, text: str) -> None:
    kept = without_literals(text, dialect)
    assert "secret" not in kept
    assert "4711" not in kept
    found = statement_lineage(kept, dialect, TABLES)
    assert found is not None
    assert found.columns is not None
    assert found == statement_lineage(text, dialect, TABLES)


def test_positions_of_columns_are_kept() -> None:
    text = "SELECT a, sum(b), 7 FROM s GROUP BY 1, (SELECT 8), f(c, 9) ORDER BY 2, 3 LIMIT 5"
    expected = "SELECT a, sum(b), 0 FROM s GROUP BY 1, (SELECT 0), f(c, 0) ORDER BY 2, 3 LIMIT 0"
    assert without_literals(text, "duckdb") == expected


def test_a_text_that_cannot_be_read_is_not_kept() -> None:
    assert without_literals("SELECT 'secret", "duckdb") == ""
