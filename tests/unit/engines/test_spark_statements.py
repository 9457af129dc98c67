"""Statements read before Spark sees them: what they touch, what is replaced, what is refused."""

from __future__ import annotations

import pytest

from lakeward.engines.spark.statement import Kind, checked_expression, read_statement
from lakeward.errors import InvalidInput, UnsupportedFeature


@pytest.mark.parametrize(
    ("text", "kind", "reads", "writes"),
    [
        ("SELECT a FROM s.t o JOIN c ON o.id = c.id", Kind.QUERY, {"s.t", "c"}, set()),
        ("WITH x AS (SELECT * FROM t) SELECT * FROM x", Kind.QUERY, {"t"}, set()),
        ("SELECT * FROM range(5)", Kind.QUERY, set(), set()),
        ("SELECT * FROM t; -- all", Kind.QUERY, {"t"}, set()),
        ("SELECT /*+ BROADCAST(c) */ * FROM t", Kind.QUERY, {"t"}, set()),
        ("INSERT INTO t SELECT * FROM s", Kind.INSERT, {"s"}, {"t"}),
        ("INSERT INTO t (a, b) VALUES (1, 2)", Kind.INSERT, set(), {"t"}),
        ("INSERT INTO t BY NAME SELECT 1 AS a", Kind.INSERT, set(), {"t"}),
        ("INSERT INTO t TABLE s", Kind.INSERT, {"s"}, {"t"}),
        ("WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x", Kind.INSERT, set(), {"t"}),
        ("INSERT INTO t SELECT * FROM t", Kind.INSERT, {"t"}, {"t"}),
        ("INSERT OVERWRITE s.t SELECT 1", Kind.OVERWRITE, {"s.t"}, {"s.t"}),
        ("INSERT INTO t REPLACE WHERE a = 1 SELECT 1", Kind.OVERWRITE, {"t"}, {"t"}),
        ("UPDATE t SET a = 1", Kind.UPDATE, {"t"}, {"t"}),
        ("DELETE FROM t WHERE a IN (SELECT a FROM s)", Kind.DELETE, {"t", "s"}, {"t"}),
        (
            "MERGE INTO t USING (SELECT * FROM u) s ON t.a = s.a WHEN MATCHED THEN UPDATE SET *",
            Kind.MERGE,
            {"t", "u"},
            {"t"},
        ),
        ("OPTIMIZE s.t WHERE d = 1 ZORDER BY (a, b)", Kind.OPTIMIZE, {"s.t"}, {"s.t"}),
        ("optimize `s`.`t`;", Kind.OPTIMIZE, {"s.t"}, {"s.t"}),
    ],
)
def test_what_a_statement_reads_and_writes(
    text: str, kind: Kind, reads: set[str], writes: set[str]
) -> None:
    found = read_statement(text)

    assert found.kind is kind
    assert {str(t) for t in found.tables if t.reads} == reads
    assert {str(t) for t in found.tables if t.writes} == writes


@pytest.mark.parametrize(
    ("text", "where", "columns"),
    [
        ("OPTIMIZE t", None, ()),
        ("OPTIMIZE t WHERE d = 'zorder by x'", "d = 'zorder by x'", ()),
        ("optimize t zorder by a", None, ("a",)),
        (
            "OPTIMIZE t WHERE d > 1 AND e < 2\n ZORDER BY (a, `b c`);",
            "d > 1 AND e < 2",
            ("a", "b c"),
        ),
        ("OPTIMIZE t ZORDER BY (a . b, c)", None, ("a.b", "c")),
    ],
)
def test_what_an_optimize_asks_for(text: str, where: str | None, columns: tuple[str, ...]) -> None:
    found = read_statement(text)

    assert (found.where, found.zorder) == (where, columns)


def test_only_names_of_tables_are_replaced_and_the_rest_is_kept_as_it_is() -> None:
    text = (
        "MERGE INTO `sales`.orders  AS t -- orders\n USING (SELECT 'orders' AS x, sales.orders.id"
        " FROM sales.orders) s\n ON t.id=s.id WHEN MATCHED THEN UPDATE SET  *"
    )

    found = read_statement(text).rewritten(lambda _: "X", lambda _: "Q")

    assert found == (
        "MERGE INTO X  AS t -- orders\n USING (SELECT 'orders' AS x, Q.orders.id"
        " FROM X) s\n ON t.id=s.id WHEN MATCHED THEN UPDATE SET  *"
    )


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE t ADD COLUMN x INT",
        "ALTER TABLE t SET LOCATION '/x'",
        "ANALYZE TABLE t COMPUTE STATISTICS",
        "CACHE TABLE t",
        "CALL lakeward.system.rollback_to_snapshot('t', 1)",
        "CONVERT TO DELTA parquet.`/x`",
        "COPY INTO t FROM '/x' FILEFORMAT = PARQUET",
        "CREATE EXTERNAL TABLE t (id INT)",
        "CREATE OR REPLACE TABLE t (id INT)",
        "CREATE OR REPLACE TABLE t AS SELECT 1",
        "CREATE TABLE t (id INT) CLUSTER BY (id)",
        "CREATE TABLE t (id INT) USING delta LOCATION '/x'",
        "CREATE TABLE t (id INT) USING delta OPTIONS (path '/x')",
        "CREATE TABLE t LIKE s",
        "CREATE TABLE t LOCATION '/x' AS SELECT 1",
        "CREATE TABLE t SHALLOW CLONE s",
        "CREATE TEMP VIEW v USING parquet OPTIONS (path '/x')",
        "CREATE VIEW v AS SELECT 1",
        "DROP TABLE t",
        "EXPLAIN SELECT 1",
        "FROM t INSERT INTO a SELECT * INSERT INTO b SELECT *",
        "INSERT OVERWRITE DIRECTORY '/x' USING parquet SELECT 1",
        "INSERT OVERWRITE LOCAL DIRECTORY '/x' SELECT 1",
        "LOAD DATA INPATH 'x' INTO TABLE t",
        "REFRESH TABLE t",
        "REORG TABLE t APPLY (PURGE)",
        "REPLACE TABLE t AS SELECT 1",
        "RESTORE TABLE t TO VERSION AS OF 1",
        "SELECT * FROM IDENTIFIER('t')",
        "SELECT * FROM table_changes('t', 1)",
        "SET spark.sql.ansi.enabled=false",
        "SHOW TABLES",
        "TRUNCATE TABLE t",
        "USE sales",
        "VACUUM t",
    ],
)
def test_what_could_leave_the_transaction_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(UnsupportedFeature, match="may not run in a transaction") as caught:
        read_statement(text)

    assert caught.value.hint
    assert caught.value.statement == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "nonsense is not sql (",
        "SELECT 1; SELECT 2",
        "OPTIMIZE t ZORDER BY (a + 1)",
        "OPTIMIZE t ZORDER BY ()",
        "OPTIMIZE t WHERE a = 'open",
        None,
        7,
    ],
)
def test_what_cannot_be_understood_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        read_statement(text)


@pytest.mark.parametrize("text", ["1, 2", "1; DROP TABLE t", "(SELECT 1)", "*", "", "a FROM t"])
def test_an_expression_is_one_value_and_nothing_more(text: str) -> None:
    with pytest.raises(InvalidInput):
        checked_expression(text)


def test_an_expression_of_both_sides_is_kept() -> None:
    assert checked_expression("target.n + source.n") == "(target.n + source.n)"
