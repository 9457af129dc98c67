"""Views that stand for tables in a statement go by the names that its columns are asked for by."""

from __future__ import annotations

import pytest

from lakeward.engines.spark.parse_statement import read_statement
from lakeward.write.spark.formats import Relation
from lakeward.write.spark.sources import Sources, alias_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT id FROM s.t", "SELECT id FROM (v0 AS `t`)"),
        ("SELECT s.t.id, t.v FROM s.t", "SELECT `t`.id, t.v FROM (v0 AS `t`)"),
        ("SELECT x.id FROM s.t x", "SELECT x.id FROM v0 x"),
        (
            "SELECT id FROM s.t TABLESAMPLE (1 ROWS)",
            "SELECT id FROM (v0 AS `t`) TABLESAMPLE (1 ROWS)",
        ),
        ("INSERT INTO i TABLE s.t", "INSERT INTO target TABLE v1"),
        (
            "MERGE INTO i USING s.t ON i.id = s.t.id WHEN MATCHED THEN DELETE",
            "MERGE INTO target USING v1 AS `t` ON i.id = `t`.id WHEN MATCHED THEN DELETE",
        ),
        (
            "DELETE FROM s.i WHERE id IN (SELECT 1 FROM s.t WHERE s.t.id = s.i.id)",
            "DELETE FROM target WHERE id IN (SELECT 1 FROM (v1 AS `t`) WHERE `t`.id = space.i.id)",
        ),
        # Two tables of one name.
        (
            "SELECT 1 FROM a.t JOIN b.t ON a.t.id = b.t.id",
            "SELECT 1 FROM (v0 AS `a_t`) JOIN (v1 AS `b_t`) ON `a_t`.id = `b_t`.id",
        ),
    ],
)
def test_a_view_goes_by_the_name_of_the_table_that_it_stands_for(text: str, expected: str) -> None:
    statement = read_statement(text)
    read = {r.start: f"v{n}" for n, r in enumerate(statement.tables) if not r.writes}
    relations = {start: Relation(view, None) for start, view in read.items()}
    aliases = {r.start: alias_of(r, statement) for r in statement.tables if r.start in read}

    found = Sources(statement, relations, aliases).text(Relation("target", "space.i"))

    assert found == expected
