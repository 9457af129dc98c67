"""Clauses that the code does not read are refused, also those of a newer parser."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot import exp

from lakeward.errors import UnsupportedFeature
from lakeward.model.clauses import check_clauses


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO a.t (x) SELECT 1 AS x",
        "UPDATE t AS u SET u.x = 1 WHERE x > 1",
        "DELETE FROM t WHERE x > 1",
        (
            "MERGE INTO t USING s ON t.x = s.x WHEN MATCHED AND s.x > 1 THEN UPDATE SET *"
            " WHEN NOT MATCHED THEN INSERT (x) VALUES (s.x) WHEN NOT MATCHED BY SOURCE THEN DELETE"
        ),
        "CREATE TABLE IF NOT EXISTS t (x BIGINT) USING delta",
    ],
)
def test_a_clause_that_nobody_knows_is_refused(text: str) -> None:
    tree = sqlglot.parse_one(text, dialect="databricks")
    check_clauses(tree)
    frame = exp.Table, exp.TableAlias, exp.Schema, exp.Whens, exp.When, exp.Star, exp.Tuple, exp.EQ
    read = [
        tree,
        *(n for n in tree.find_all(*frame) if n.find_ancestor(exp.Query, exp.Where) is None),
    ]
    skipped = [n for n in read if n.arg_key in ("using", "on", "condition", "properties")]
    for node in (n for n in read if n not in skipped):
        node.set("future", exp.Literal.number(1))
        with pytest.raises(UnsupportedFeature, match="FUTURE 1"):
            check_clauses(tree)
        node.set("future", None)
