"""Statements read before Spark sees them: what they touch, what is replaced, what is refused."""

from __future__ import annotations

import pytest

from lakeward.engines.spark.parse_statement import checked_expression, read_statement
from lakeward.engines.spark.statement import Kind
from lakeward.errors import InvalidInput, UnsupportedFeature
from tests.support.scoped_queries import ScopedQueries


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
        ("WITH t AS (SELECT * FROM t) SELECT * FROM t", Kind.QUERY, {"t"}, set()),
        ("WITH a AS (SELECT 1), b AS (SELECT * FROM A) SELECT * FROM b", Kind.QUERY, set(), set()),
        ("WITH a AS (SELECT * FROM b), b AS (SELECT 1) SELECT * FROM a", Kind.QUERY, {"b"}, set()),
        ("WITH a AS (SELECT 1) SELECT * FROM s.a", Kind.QUERY, {"s.a"}, set()),
        ("(WITH a AS (SELECT 1) SELECT * FROM a) UNION SELECT * FROM a", Kind.QUERY, {"a"}, set()),
        (
            "SELECT (WITH a AS (SELECT 1 AS x) SELECT x FROM a), (SELECT 1 FROM b) FROM c",
            Kind.QUERY,
            {"b", "c"},
            set(),
        ),
        ("SELECT a.x FROM b AS a", Kind.QUERY, {"b"}, set()),
        (
            "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT * FROM r",
            Kind.QUERY,
            set(),
            set(),
        ),
        ("FROM t |> WHERE id > 1 |> SELECT id", Kind.QUERY, {"t"}, set()),
        ("WITH t AS (SELECT * FROM t) INSERT INTO t SELECT * FROM t", Kind.INSERT, {"t"}, {"t"}),
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
        "MERGE INTO X  AS t -- orders\n USING (SELECT 'orders' AS x, Q.id"
        " FROM X) s\n ON t.id=s.id WHEN MATCHED THEN UPDATE SET  *"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT s.t.id, s.t.* FROM s.t", "SELECT <0>.id, <0>.* FROM <0>"),
        ("SELECT s.t.a.b.c, S.T.id FROM s.t", "SELECT <0>.a.b.c, <0>.id FROM <0>"),
        ("SELECT k.s.t.id FROM k.s.t", "SELECT <0>.id FROM <0>"),
        # Without a table s.t, this is field id of column t of s.
        ("SELECT s.t.id FROM u AS s", "SELECT s.t.id FROM <0> AS s"),
        ("SELECT s.t.id FROM s.t AS s", "SELECT s.t.id FROM <0> AS s"),
        (
            "SELECT s.t.id FROM u AS s WHERE EXISTS (SELECT s.t.id FROM s.t)",
            "SELECT s.t.id FROM <0> AS s WHERE EXISTS (SELECT <1>.id FROM <1>)",
        ),
        (
            "SELECT 1 FROM s.t WHERE EXISTS (SELECT 1 FROM u WHERE u.id = s.t.id)",
            "SELECT 1 FROM <0> WHERE EXISTS (SELECT 1 FROM <1> WHERE u.id = <0>.id)",
        ),
        (
            "SELECT s.t.id FROM (s.t JOIN s.u ON s.t.id = s.u.id)",
            "SELECT <0>.id FROM (<0> JOIN <1> ON <0>.id = <1>.id)",
        ),
        (
            "MERGE INTO s.t USING s.u ON s.t.id = s.u.id WHEN MATCHED AND s.u.d THEN DELETE",
            "MERGE INTO <0> USING <1> ON <0>.id = <1>.id WHEN MATCHED AND <1>.d THEN DELETE",
        ),
        ("UPDATE s.t SET a = s.t.b", "UPDATE <0> SET a = <0>.b"),
        ("DELETE FROM s.t WHERE s.t.a = 1", "DELETE FROM <0> WHERE <0>.a = 1"),
    ],
)
def test_a_qualified_name_before_a_column_follows_the_table_that_it_means(
    text: str, expected: str
) -> None:
    statement = read_statement(text)
    places = {ref.start: f"<{n}>" for n, ref in enumerate(statement.tables)}

    found = statement.rewritten(lambda ref: places[ref.start], lambda q: places[q.table])

    assert found == expected


def test_random_statements_name_the_tables_that_no_entry_of_with_hides() -> None:
    for seed in range(300):
        queries = ScopedQueries(seed)
        text = queries.query(depth=4)

        assert sorted(map(str, read_statement(text).tables)) == sorted(queries.tables), text


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
        "WITH a AS (TABLE t) SELECT * FROM a",
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
