"""`tx.sql` without Spark: queries over what the transaction sees, and changes of both formats."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.errors import (
    AlreadyExists,
    Conflict,
    ConstraintViolation,
    InvalidInput,
    NotFound,
    PolicyViolation,
    SchemaMismatch,
    TableNotFound,
    UnsupportedFeature,
    VersionNotFound,
)
from tests.behaviour.lakes import append

MERGED = "MERGE INTO prices t USING prices s ON t.id = s.id"


@pytest.fixture
def shop(lake: lw.Lake) -> lw.Lake:
    """Items in one format and prices in the other."""
    made = lake.create("shop.items", "id int64 not null, Name string, n int64")
    other = "iceberg" if made.format == "delta" else "delta"
    lake.create("prices", "id int64, price decimal(9,2)", format=other)
    append(lake, "shop.items", [{"id": n, "Name": f"n{n}", "n": n} for n in range(4)])
    append(lake, "prices", [{"id": n, "price": Decimal(n)} for n in (2, 3, 9)])
    return lake


def _items(lake: lw.Lake) -> list[tuple[Any, ...]]:
    rows = lake.table("shop.items").to_arrow().to_pylist()
    return sorted(tuple(r.values()) for r in rows)


def test_older_versions_are_read_beside_what_the_transaction_sees(shop: lw.Lake) -> None:
    shop.tag("four")
    items = shop.table("shop.items")
    moment = items.history()[0].timestamp.isoformat()
    items.delete(where="id < 3")
    items.alter().rename_column("n", "m").commit()
    with shop.transaction() as tx:
        tx.sql("INSERT INTO shop.items VALUES (10, 'new', 1)")
        for place in ("VERSION AS OF 1", "VERSION AS OF 'four'", f"TIMESTAMP AS OF '{moment}'"):
            text = (
                f"SELECT old.id, old.n FROM shop.items {place} AS old LEFT JOIN shop.items AS now"
            )
            gone = tx.sql(f"{text} ON old.id = now.id WHERE now.id IS NULL ORDER BY old.id")
            assert gone.to_pylist() == [{"id": n, "n": n} for n in range(3)], place
        tx.sql("INSERT INTO shop.items SELECT * FROM shop.items VERSION AS OF 1 WHERE id = 0")
    assert _items(shop) == [(0, "n0", 0), (3, "n3", 3), (10, "new", 1)]


def test_rows_are_inserted_updated_and_deleted(shop: lw.Lake) -> None:
    with shop.transaction() as tx:
        done = tx.sql("INSERT INTO shop.items VALUES (10, 'it''s', 1), (11, NULL, -5)")
        assert done.inserted == 2
        tx.sql("INSERT INTO shop.items (name, id) SELECT 'p', id FROM prices WHERE id > ?", [3])
        seen = tx.sql("SELECT count(*) AS c, min(n) AS m FROM shop.items WHERE id >= 9")
        assert seen.to_pylist() == [{"c": 3, "m": -5}]
        done = tx.sql(
            "UPDATE shop.items i SET n = coalesce(i.n, 0) + :by, name = :name WHERE id IN (9, 11)",
            {"by": 100, "name": "x' OR '1'='1\\"},
        )
        assert done.updated == 2
        assert tx.sql("DELETE FROM shop.items WHERE id < 2").deleted == 2
        assert len(tx.sql("SELECT * FROM shop.items")) == 5
        assert shop.table("shop.items").count() == 4, "nobody else sees it"
    name = "x' OR '1'='1\\"
    assert _items(shop) == [
        (2, "n2", 2),
        (3, "n3", 3),
        (9, name, 100),
        (10, "it's", 1),
        (11, name, 95),
    ]


def test_inserts_compute_generated_columns_with_and_without_a_column_list(
    lake: lw.Lake, table_format: str
) -> None:
    lake.create("e", "id int64, at timestamp, n int64", partition_by=["day(at)"])
    day = "TIMESTAMP '2024-05-0"
    source = f"(SELECT 5 AS id, {day}5 10:00:00' AS at)"
    with lake.transaction() as tx:
        tx.sql(f"INSERT INTO e (at, id) VALUES ({day}1 10:00:00', 1)")
        tx.sql(f"INSERT INTO e VALUES (2, {day}2 10:00:00', 7)")
        tx.sql(f"INSERT INTO e SELECT 3, {day}3 10:00:00', 8")
        tx.sql(f"INSERT INTO e BY NAME SELECT {day}4 10:00:00' AS at, 4 AS id")
        tx.sql(
            f"MERGE INTO e USING {source} AS s ON e.id = s.id"
            " WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.at, 9)"
        )
        with pytest.raises(SchemaMismatch, match="takes 3 values") as caught:
            tx.sql("INSERT INTO e VALUES (6)")
        assert "for id, at, n." in str(caught.value)
    rows = lake.table("e").to_arrow().sort_by("id").to_pylist()
    assert [(r["id"], r["at"].day, r["n"]) for r in rows] == [
        (1, 1, None),
        (2, 2, 7),
        (3, 3, 8),
        (4, 4, None),
        (5, 5, 9),
    ]
    assert len({tuple(f.partition.values()) for f in lake.table("e").files()}) == 5
    if table_format == "delta":
        assert [r["at_day"].day for r in rows] == [1, 2, 3, 4, 5]


@pytest.mark.formats("delta")
def test_inserts_may_give_generated_columns_and_leave_out_identities(lake: lw.Lake) -> None:
    columns = "key int64 generated always as identity, n int64, twice int64 generated always as"
    lake.create("t", f"{columns} (n * 2)")
    lake.create("u", "n int64, twice int64 generated always as (n * 2)")
    with lake.transaction() as tx:
        tx.sql("INSERT INTO t VALUES (5), (6)")
        tx.sql("INSERT INTO u VALUES (1, 2)")
    with pytest.raises(ConstraintViolation, match="generated as"), lake.transaction() as tx:
        tx.sql("INSERT INTO u VALUES (1, 3)")
    assert lake.table("u").to_arrow().to_pylist() == [{"n": 1, "twice": 2}]
    with lake.transaction() as tx:
        tx.sql("INSERT OVERWRITE u VALUES (4)")
    rows = lake.table("t").to_arrow().sort_by("n").to_pylist()
    assert rows == [{"key": 1, "n": 5, "twice": 10}, {"key": 2, "n": 6, "twice": 12}]
    assert lake.table("u").to_arrow().to_pylist() == [{"n": 4, "twice": 8}]


def test_decimals_of_all_digits_arrive_as_they_are(lake: lw.Lake) -> None:
    lake.create("t", "id int64, m decimal(38,10)")
    long = Decimal("1234567890123456789012345678.0123456789")
    values = {"m": long}
    with lake.transaction() as tx:
        tx.sql("INSERT INTO t VALUES (1, :m), (2, 123456789012345678.91), (3, -(0.1))", values)
        tx.sql("INSERT INTO t SELECT 4, 2.5 UNION ALL SELECT 5, m FROM t WHERE m = :m", values)
        tx.sql("INSERT INTO t BY NAME SELECT 1234567890123456789012345678 AS m, 6 AS id")
        tx.sql(
            "MERGE INTO t USING (SELECT 7 AS id, :m AS m) s ON t.id = s.id "
            "WHEN NOT MATCHED THEN INSERT *",
            values,
        )
        tx.sql("DELETE FROM t WHERE id = 5 AND m IN (SELECT m FROM t WHERE m = :m)", values)

    rows = sorted(tuple(r.values()) for r in lake.table("t").to_arrow().to_pylist())
    assert rows == [
        (1, long),
        (2, Decimal("123456789012345678.91")),
        (3, Decimal("-0.1")),
        (4, Decimal("2.5")),
        (6, Decimal("1234567890123456789012345678")),
        (7, long),
    ]


@pytest.mark.parametrize(
    "rows",
    [
        "SELECT * FROM (VALUES (1, 12345678901234567890.25), (2, NULL)) AS v(a, b) WHERE a = 1",
        "SELECT * FROM (SELECT 1 AS a, 12345678901234567890.25 AS b) AS v",
        "SELECT * FROM (SELECT * FROM (VALUES (1, 12345678901234567890.25)) AS v) AS w",
    ],
)
def test_decimals_of_inner_rows_have_all_digits(shop: lw.Lake, rows: str) -> None:
    table = shop.create("t", "id int64, m decimal(38,10)")
    with shop.transaction() as tx:
        tx.sql(f"INSERT INTO t {rows}")
    found = table.to_arrow().to_pylist()
    assert found == [{"id": 1, "m": Decimal("12345678901234567890.25")}]


@pytest.mark.parametrize("number", ["1.005", "9" * 37 + ".5"])
def test_decimals_that_do_not_fit_are_refused(shop: lw.Lake, number: str) -> None:
    with (
        pytest.raises((SchemaMismatch, InvalidInput), match=f"{number}.*does not fit"),
        shop.transaction() as tx,
    ):
        tx.sql(f"INSERT INTO prices VALUES (1, {number})")
    assert shop.table("prices").version == 1


def test_bytes_and_old_times_are_values_of_every_statement(lake: lw.Lake) -> None:
    lake.create("t", "id int64, b binary, at timestamp")
    values = {"b": b"\x00'\xff", "at": datetime(1600, 1, 1, tzinfo=UTC)}
    b, at = {"b": values["b"]}, {"at": values["at"]}
    with lake.transaction() as tx:
        tx.sql("INSERT INTO t VALUES (1, :b, :at), (2, NULL, NULL)", values)
        tx.sql(
            "MERGE INTO t USING (SELECT 3 AS id, :b AS b, :at AS at) s ON t.id = s.id "
            "WHEN NOT MATCHED THEN INSERT *",
            values,
        )
        tx.sql("UPDATE t SET id = id + 10 WHERE b IN (SELECT b FROM t WHERE b = :b)", b)
        tx.sql("DELETE FROM t WHERE id IN (SELECT id FROM t WHERE at = :at) AND id < 12", at)
        tx.sql("CREATE TABLE copy AS SELECT id, :b AS b FROM t WHERE at = :at", values)

    assert sorted(r["id"] for r in lake.table("t").to_arrow().to_pylist()) == [2, 13]
    assert lake.table("copy").to_arrow().to_pylist() == [{"id": 13, "b": values["b"]}]


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO prices (id, price, ID) VALUES (1, 2, 3)",
        "INSERT INTO prices BY NAME SELECT 1 AS id, 2 AS price, 3 AS id",
        "UPDATE prices SET id = 1, ID = 2",
        f"{MERGED} WHEN MATCHED THEN UPDATE SET price = 1, price = 2",
        f"{MERGED} WHEN NOT MATCHED THEN INSERT (id, id) VALUES (1, 2)",
    ],
)
def test_two_values_for_a_column_are_refused(shop: lw.Lake, text: str) -> None:
    with pytest.raises(InvalidInput, match=r"two values|unique"), shop.transaction() as tx:
        tx.sql(text)
    assert shop.table("prices").version == 1


def test_the_values_of_a_subquery_do_not_count_as_text_of_the_statement(shop: lw.Lake) -> None:
    texts = pa.array([f"{n:0100d}" for n in range(1_100)])
    shop.create("wide", {"text": "string"})
    with shop.transaction() as tx:
        tx.append("wide", pa.table({"text": texts}))
        assert tx.sql("DELETE FROM wide WHERE text IN (SELECT text FROM wide)").deleted == 1_100
    written = "DELETE FROM wide WHERE text IN (SELECT text FROM wide WHERE text = '{}')"
    with pytest.raises(InvalidInput, match="at most 100000"), shop.transaction() as tx:
        tx.sql(written.format("x" * 100_000))


@pytest.mark.one_pair
@pytest.mark.timeout(60)  # The time for each value grew with their number, to minutes in all.
def test_lists_of_parameters_may_be_long(shop: lw.Lake) -> None:
    many = list(range(2, 14_000))
    with shop.transaction() as tx:
        text = "UPDATE shop.items SET n = :n WHERE id NOT IN (:many) AND n IN (id, :n, :last)"
        assert tx.sql(text, {"many": many, "n": 7, "last": 10}).updated == 2
        assert tx.sql("DELETE FROM shop.items WHERE n = :n AND id = 1", {"n": 7}).deleted == 1
        assert tx.sql("DELETE FROM shop.items WHERE id IN (:many)", {"many": many}).deleted == 2


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE tagged SET tags = (SELECT tags FROM tagged WHERE id = 1)",
        "UPDATE tagged SET at = (SELECT at FROM tagged WHERE id = 1)",
        "DELETE FROM tagged WHERE tags IN (SELECT tags FROM tagged)",
    ],
)
def test_subqueries_with_nested_values_are_refused(shop: lw.Lake, statement: str) -> None:
    table = shop.create("tagged", "id int64, tags list<int64>, at struct<x: int64>")
    table.append([{"id": 1, "tags": [], "at": None}, {"id": 2, "tags": [7], "at": {"x": 1}}])
    with pytest.raises(UnsupportedFeature, match="type"), shop.transaction() as tx:
        tx.sql(statement)
    with shop.transaction() as tx:
        tx.sql("DELETE FROM tagged WHERE id = 1 AND EXISTS (SELECT tags FROM tagged)")
    assert table.to_arrow().to_pylist() == [{"id": 2, "tags": [7], "at": {"x": 1}}]


def test_subqueries_look_at_other_tables_of_the_transaction(shop: lw.Lake) -> None:
    with shop.transaction() as tx:
        tx.sql("DELETE FROM prices WHERE id = 3")
        tx.sql("DELETE FROM shop.items WHERE id IN (SELECT id FROM prices)")
        tx.sql("UPDATE shop.items SET n = (SELECT CAST(max(price) AS BIGINT) FROM prices)")
        none = tx.sql("DELETE FROM shop.items WHERE EXISTS (SELECT 1 FROM prices WHERE id = 3)")
        assert none.deleted == 0
    assert _items(shop) == [(n, f"n{n}", 9) for n in (0, 1, 3)]


def test_tables_are_merged(shop: lw.Lake) -> None:
    with shop.transaction() as tx:
        done = tx.sql(
            """
            MERGE INTO shop.items AS t USING (SELECT id, price, 'new' AS tag FROM prices) AS s
            ON t.id = s.id
            WHEN MATCHED AND s.price > :most THEN DELETE
            WHEN MATCHED THEN UPDATE SET n = t.n * 10 + CAST(s.price AS BIGINT)
            WHEN NOT MATCHED THEN INSERT (id, name, n) VALUES (s.id, s.tag, 0)
            WHEN NOT MATCHED BY SOURCE AND t.id = 0 THEN DELETE
            """,
            {"most": 2},
        )
        assert (done.inserted, done.updated, done.deleted) == (1, 1, 2)
    assert _items(shop) == [(1, "n1", 1), (2, "n2", 22), (9, "new", 0)]


def test_tables_are_made_altered_and_dropped(shop: lw.Lake, table_format: str) -> None:
    with shop.transaction() as tx:
        tx.sql(f"CREATE TABLE new.one (id bigint not null, v string) USING {table_format}")
        tx.sql("INSERT INTO new.one VALUES (1, 'a')")
        tx.sql("ALTER TABLE new.one ADD COLUMN w int")
        tx.sql(f"CREATE TABLE new.two USING {table_format} AS SELECT id, Name AS v FROM shop.items")
        assert "one" in str(tx.sql("SHOW TABLES").to_pylist())
        spaces = tx.sql("SHOW NAMESPACES").to_pylist()
        assert [r["namespace"] for r in spaces] == ["default", "new", "shop"]
        assert tx.sql("SHOW SCHEMAS LIKE 'n*'").to_pylist() == [{"namespace": "new"}]
        described = tx.sql("DESCRIBE TABLE new.one").to_pylist()
        assert [r["col_name"] for r in described][:3] == ["id", "v", "w"]
        tx.sql("DROP TABLE prices")
        tx.sql("DROP TABLE IF EXISTS prices")
        with pytest.raises(AlreadyExists):
            tx.sql("CREATE TABLE shop.items (id bigint)")
        tx.sql("CREATE TABLE IF NOT EXISTS shop.items (id bigint)")
        tx.sql("TRUNCATE TABLE shop.items")
    assert [t.name for t in shop.tables()] == ["new.one", "new.two", "shop.items"]
    assert shop.table("new.one").to_arrow().to_pylist() == [{"id": 1, "v": "a", "w": None}]
    assert shop.table("new.two").count() == 4
    assert _items(shop) == []


@pytest.mark.parametrize(
    "name", ["history", "detail", "schema", "query", "extended", "table", "history.orders"]
)
def test_a_table_with_the_name_of_a_keyword_is_described(lake: lw.Lake, name: str) -> None:
    lake.create(name, "id bigint")
    with lake.transaction() as tx:
        for text in (f"DESCRIBE {name}", f"DESC {name};", f"DESCRIBE TABLE EXTENDED {name}"):
            assert tx.sql(text).to_pylist()[0]["col_name"] == "id", text
        with pytest.raises(UnsupportedFeature, match="one version"):
            tx.sql(f"DESCRIBE HISTORY {name}")


def test_a_table_is_replaced_and_keeps_its_older_versions(shop: lw.Lake) -> None:
    table = shop.table("shop.items")
    table.alter().add_constraint("positive", "n >= 0").commit()
    before = table.version

    with shop.transaction() as tx:
        tx.sql(
            "CREATE OR REPLACE TABLE shop.items COMMENT 'sums' AS"
            " SELECT i.id, -n AS m, price FROM shop.items i JOIN prices p ON p.id = i.id"
        )
        tx.sql("INSERT INTO shop.items VALUES (7, 7, NULL)")

    assert table.version == before + 1
    assert _items(shop) == [(2, -2, Decimal(2)), (3, -3, Decimal(3)), (7, 7, None)]
    assert (table.definition.comment, dict(table.definition.constraints)) == ("sums", {})
    assert table.at(version=before).to_arrow().column_names == ["id", "Name", "n"]
    assert table.at(version=before).to_arrow().num_rows == 4
    with shop.transaction() as tx:
        tx.sql(
            "CREATE OR REPLACE TABLE shop.items"
            " (m bigint NOT NULL COMMENT 'whole', price decimal(9,2) DEFAULT 5)"
        )
        tx.append("shop.items", {"m": [1]})
    assert _items(shop) == [(1, Decimal(5))]
    (m, price) = table.definition.schema
    assert (m.nullable, m.comment, price.nullable) == (False, "whole", True)


def test_a_replacement_that_is_refused_changes_nothing(shop: lw.Lake) -> None:
    shop.set_policy("shop.*", {"allowed_evolutions": ["add_column"]})
    try:
        with pytest.raises(PolicyViolation), shop.transaction() as tx:
            tx.sql("CREATE OR REPLACE TABLE shop.items (id bigint)")
    finally:
        shop.set_policy("shop.*", None)
    with shop.transaction() as tx:
        tx.sql("CREATE TABLE made (a bigint)")
        tx.sql("CREATE OR REPLACE TABLE made (b bigint)")
        tx.sql("INSERT INTO made VALUES (7)")
        for refused in ("(c bigint) PARTITIONED BY (missing)", "AS SELECT 1 AS c, 2 AS c"):
            with pytest.raises(InvalidInput):
                tx.sql(f"CREATE OR REPLACE TABLE made {refused}")
            assert tx.sql("SELECT * FROM made").to_pylist() == [{"b": 7}]
        other = "iceberg" if shop.table("prices").format == "delta" else "delta"
        with pytest.raises(UnsupportedFeature, match="keeps"):
            tx.sql(f"CREATE OR REPLACE TABLE prices (b bigint) USING {other}")
    assert len(_items(shop)) == 4
    assert shop.table("made").to_arrow().to_pylist() == [{"b": 7}]
    assert shop.table("prices").version == 1


def test_a_merge_takes_columns_in_any_case(shop: lw.Lake) -> None:
    with shop.transaction() as tx:
        done = tx.sql(
            "MERGE INTO shop.items t USING (SELECT 3 AS ID, 'c' AS NAME, 30 AS N UNION ALL"
            " SELECT 7, 'new', 70) s ON t.id = s.id"
            " WHEN MATCHED AND t.name <> s.name THEN UPDATE SET *"
            " WHEN NOT MATCHED THEN INSERT *"
        )

    assert (done.inserted, done.updated) == (1, 1)
    assert _items(shop)[3:] == [(3, "c", 30), (7, "new", 70)]


def test_a_merge_with_schema_evolution_adds_the_columns_that_it_takes(shop: lw.Lake) -> None:
    with shop.transaction() as tx:
        tx.sql(
            "MERGE WITH SCHEMA EVOLUTION INTO shop.items t"
            " USING (SELECT 3 AS id, 'x' AS note, 1 AS unused) s ON t.id = s.id"
            " WHEN MATCHED THEN UPDATE SET note = s.note"
        )
        tx.sql(
            "MERGE WITH SCHEMA EVOLUTION INTO shop.items t"
            " USING (SELECT id, price FROM prices WHERE id > 2) s ON t.id = s.id"
            " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
    assert shop.table("shop.items").schema.names == ["id", "Name", "n", "note", "price"]
    assert _items(shop)[3:] == [
        (3, "n3", 3, "x", Decimal(3)),
        (9, None, None, None, Decimal(9)),
    ]
    assert shop.table("shop.items").version == 2


@pytest.mark.before_the_store
def test_a_query_is_explained(shop: lw.Lake) -> None:
    with shop.transaction() as tx:
        plans = tx.sql("EXPLAIN SELECT count(*) FROM shop.items WHERE id > 1").to_pylist()
    assert [p["plan_type"] for p in plans] == ["logical_plan", "physical_plan"]
    assert shop.table("shop.items").version == 1


@pytest.mark.before_the_store
def test_mistakes_and_what_only_spark_can_are_told(shop: lw.Lake) -> None:
    for text, kind, said in (
        ("INSERT INTO shop.items VALUES (1)", SchemaMismatch, "takes 3 values"),
        ("INSERT INTO shop.items (id, nope) VALUES (1, 2)", InvalidInput, "no column 'nope'"),
        ("INSERT INTO nope VALUES (1)", TableNotFound, "nope"),
        ("UPDATE shop.items SET nope = 1", InvalidInput, "nope"),
        ("DELETE FROM shop.items WHERE nope = 1", InvalidInput, "nope"),
        ("DELETE FROM shop.items USING prices", UnsupportedFeature, "MERGE"),
        (
            "DELETE FROM shop.items i WHERE EXISTS (SELECT 1 FROM prices p WHERE p.id = i.id)",
            UnsupportedFeature,
            "MERGE",
        ),
        ("SELECT * FROM shop.items VERSION AS OF 99", VersionNotFound, "no version 99"),
        ("SELECT * FROM shop.items VERSION AS OF 'never'", NotFound, "no tag 'never'"),
        ("OPTIMIZE shop.items", UnsupportedFeature, "table.optimize"),
        ("COPY shop.items TO 'x'", UnsupportedFeature, "Spark"),
        ("RESTORE TABLE shop.items TO VERSION AS OF 0", UnsupportedFeature, "restore"),
        ("EXPLAIN DELETE FROM shop.items", UnsupportedFeature, "query"),
        ("SET a = b", UnsupportedFeature, "spark=spark"),
        ("SELECT 1; SELECT 2", InvalidInput, "Only one"),
        ("DELETE FROM shop.items WHERE id = :x", InvalidInput, "no value for :x"),
    ):
        tx = shop.transaction()
        with pytest.raises(kind, match=said):
            tx.sql(text)
        tx.rollback()
    with shop.transaction() as tx, pytest.raises(InvalidInput, match="braces"):
        tx.sql("SELECT {x}", x=1)
    assert len(_items(shop)) == 4


_MERGE = "MERGE INTO prices t USING (SELECT 2 AS id, 5 AS price) s ON t.id = s.id WHEN"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("DELETE FROM prices LIMIT 1", "DELETE with LIMIT 1"),
        ("DELETE FROM prices RETURNING *", "RETURNING"),
        ("DELETE FROM prices VERSION AS OF 0", "VERSION AS OF 0"),
        ("DELETE FROM prices TABLESAMPLE (10 PERCENT)", "TABLESAMPLE"),
        ("DELETE FROM prices AS p(a, b) WHERE id = 2", "COLUMNS a, b"),
        ("WITH s AS (SELECT 2 AS id) DELETE FROM prices", "WITH"),
        ("UPDATE prices SET price = 0 ORDER BY id LIMIT 1", "ORDER BY id"),
        ("UPDATE prices SET price = 0 WHERE id > 0 LIMIT 1", "UPDATE with LIMIT 1"),
        ("UPDATE prices SET price = 0 FROM shop.items", "FROM"),
        ("UPDATE prices SET price = 0 RETURNING *", "RETURNING"),
        ("UPDATE prices JOIN shop.items i ON i.id = 1 SET price = 0", "JOIN"),
        ("UPDATE prices SET other.price = 0", "other.price"),
        ("UPDATE prices p SET prices.price = 0", "prices.price"),
        ("INSERT OR REPLACE INTO prices VALUES (2, 1)", "OR REPLACE"),
        ("INSERT OR IGNORE INTO prices VALUES (2, 1)", "OR IGNORE"),
        ("INSERT INTO prices VALUES (2, 1) ON CONFLICT DO NOTHING", "ON CONFLICT"),
        ("INSERT INTO prices VALUES (2, 1) RETURNING id", "RETURNING"),
        ("INSERT INTO prices REPLACE WHERE id = 2 SELECT 2, 1", "WHERE"),
        ("WITH a AS (SELECT 1) INSERT INTO prices WITH b AS (SELECT 2, 3) SELECT * FROM b", "WITH"),
        (f"{_MERGE} MATCHED THEN UPDATE SET * EXCEPT (price)", "EXCEPT"),
        (f"{_MERGE} MATCHED THEN UPDATE SET price = 0 WHERE t.id > 9", "WHERE"),
        (f"{_MERGE} MATCHED THEN UPDATE SET s.price = 0", "s.price"),
        (f"{_MERGE} NOT MATCHED THEN INSERT (id, s.price) VALUES (1, 2)", "s.price"),
        (f"{_MERGE} NOT MATCHED THEN INSERT (id) VALUES (1) WHERE s.id > 9", "WHERE"),
        (f"{_MERGE} MATCHED THEN DELETE RETURNING *", "RETURNING"),
        (f"{_MERGE} NOT MATCHED THEN INSERT DEFAULT VALUES", "INSERT"),
        ("CREATE TABLE made (a INT) AS SELECT 1 AS b", "CREATE TABLE made"),
        ("CREATE TABLE made CLONE prices", "CREATE TABLE made"),
    ],
)
@pytest.mark.before_the_store
def test_clauses_that_are_not_carried_out_are_refused(shop: lw.Lake, text: str, said: str) -> None:
    before = shop.table("prices").to_arrow()
    with shop.transaction() as tx:
        with pytest.raises(UnsupportedFeature) as caught:
            tx.sql(text)
        tx.sql("DELETE FROM prices WHERE id < 0")
    assert said in str(caught.value)
    assert shop.table("prices").to_arrow() == before
    assert len(shop.tables()) == 2


@pytest.mark.before_the_store
def test_fields_of_a_struct_are_not_taken_for_columns(lake: lw.Lake) -> None:
    lake.create("t", "s struct<x: int64>, x int64")
    append(lake, "t", [{"s": {"x": 1}, "x": 1}])
    with lake.transaction() as tx:
        with pytest.raises(UnsupportedFeature, match="not a column"):
            tx.sql("UPDATE t SET s.x = 2")
        tx.sql("UPDATE t SET t.x = 3")
    assert lake.table("t").to_arrow().to_pylist() == [{"s": {"x": 1}, "x": 3}]


def test_a_query_makes_a_serializable_transaction_depend_on_what_it_read(shop: lw.Lake) -> None:
    tx = shop.transaction(isolation="serializable")
    tx.sql("SELECT sum(n) FROM shop.items WHERE id < 5")
    tx.sql("INSERT INTO prices VALUES (77, 1)")
    append(shop, "shop.items", [{"id": 4, "Name": "n", "n": 1}])
    with pytest.raises(Conflict):
        tx.commit()
