"""Tables altered in transactions on Spark: later statements see it, and one commit takes it all."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakeward as lw
from lakeward.errors import (
    ConstraintViolation,
    InvalidInput,
    SchemaMismatch,
    TableNotFound,
    TransactionClosed,
    UnsupportedFeature,
)
from lakeward.lake.table import Table
from lakeward.read.snapshot import TableSnapshot

FORMATS = ("delta", "iceberg")
COLUMNS = "id int64 not null, amount int32, note string, place struct<city: string, zip: int32>"


def _lake(where: Path, kind: str, **options: Any) -> lw.Lake:
    lake = lw.open(where / "lake")
    lake.create("s.t", COLUMNS, format=kind, **options)
    with lake.transaction() as tx:
        tx.append("s.t", [_row(1, 10, "a"), _row(2, 20, "b")])
    return lake


def _row(number: int, amount: int, note: str) -> dict[str, Any]:
    return {"id": number, "amount": amount, "note": note, "place": {"city": "x", "zip": number}}


def _rows(table: Table | TableSnapshot) -> list[dict[str, Any]]:
    return sorted(table.to_arrow().to_pylist(), key=lambda r: r["id"])


@pytest.mark.parametrize("kind", FORMATS)
def test_statements_before_and_after_an_alteration_are_one_commit(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    with _lake(tmp_path, kind) as lake:
        lake.create("other", "n int64", format="iceberg" if kind == "delta" else "delta")
        with lake.transaction(spark=spark) as tx:
            tx.sql("INSERT INTO s.t VALUES (3, 30, 'c', named_struct('city', 'y', 'zip', 3))")
            tx.sql("UPDATE s.t SET note = 'changed' WHERE id = 1")
            alter = tx.alter("s.t").rename_column("note", "remark").drop_column("place.zip")
            alter.add_column("extra", "string", after="id").change_type("amount", "int64")
            tx.sql("INSERT INTO s.t VALUES (4, 'e', 5000000000, 'd', named_struct('city', 'z'))")
            tx.sql("UPDATE s.t SET extra = 'two' WHERE remark = 'b'")
            tx.sql("DELETE FROM s.t WHERE id = 3")
            seen = tx.sql("SELECT * FROM s.t ORDER BY id").collect()
            tx.sql("INSERT INTO other SELECT amount FROM s.t")
            assert tx.read("s.t").columns == ["id", "extra", "amount", "remark", "place"]
        table = lake.table("s.t")
        assert _rows(table) == [
            _new(1, None, 10, "changed", "x"),
            _new(2, "two", 20, "b", "x"),
            _new(4, "e", 5000000000, "d", "z"),
        ]
        assert [r.asDict(recursive=True) for r in seen] == _rows(table)
        assert sorted(lake.table("other").to_arrow()["n"].to_pylist()) == [10, 20, 5000000000]
        assert table.version == 2
        assert _rows(table.at(version=1)) == [_row(1, 10, "a"), _row(2, 20, "b")]


def _new(number: int, extra: str | None, amount: int, remark: str, city: str) -> dict[str, Any]:
    place = {"city": city}
    return {"id": number, "extra": extra, "amount": amount, "remark": remark, "place": place}


_STATEMENTS = (
    "ALTER TABLE s.t ADD COLUMNS (b string COMMENT 'new', c decimal(10,2) AFTER id)",
    "ALTER TABLE s.t RENAME COLUMN note TO remark",
    "ALTER TABLE s.t DROP COLUMN IF EXISTS nosuch",
    "ALTER TABLE s.t ALTER COLUMN amount TYPE bigint",
    "ALTER TABLE s.t ADD COLUMN place.street string FIRST",
    "ALTER TABLE s.t RENAME COLUMN place.zip TO code",
    "ALTER TABLE s.t ALTER COLUMN id DROP NOT NULL",
    "ALTER TABLE s.t ALTER COLUMN amount SET NOT NULL",
    "ALTER TABLE s.t ALTER COLUMN remark COMMENT 'said'",
    "ALTER TABLE s.t ALTER COLUMN remark FIRST",
    "ALTER TABLE s.t ADD CONSTRAINT positive CHECK (amount > 0)",
    "COMMENT ON TABLE s.t IS 'of all kinds'",
)


@pytest.mark.parametrize("kind", FORMATS)
def test_alter_table_in_sparks_words(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    with _lake(tmp_path, kind) as lake:
        with lake.transaction(spark=spark) as tx:
            for text in _STATEMENTS:
                tx.sql(text)
            tx.sql("UPDATE s.t SET b = remark, c = 1.5, place.street = 'high' WHERE place.code = 1")
            described = tx.sql("DESCRIBE s.t").collect()
            assert [r.col_name for r in described] == _NAMES
            assert tx.sql("SHOW COLUMNS IN s.t").count() == len(_NAMES)
        table = lake.table("s.t")
        assert table.schema.names == _NAMES
        first, second = _rows(table)
        assert first == {
            "remark": "a",
            "id": 1,
            "c": Decimal("1.50"),
            "amount": 10,
            "b": "a",
            "place": {"street": "high", "city": "x", "code": 1},
        }
        assert (second["b"], second["place"]["street"]) == (None, None)
        for bad, error in (
            ("INSERT INTO s.t (id, amount) VALUES (9, -1)", "positive"),
            ("INSERT INTO s.t (id) VALUES (9)", "amount"),
        ):
            with (
                pytest.raises(ConstraintViolation, match=error),
                lake.transaction(spark=spark) as tx,
            ):
                tx.sql(bad)
        assert table.version == 2
        told = table.history(limit=1)[0]
        assert "rename column note to remark" in str(told.parameters)
        with lake.transaction(spark=spark) as tx:
            tx.sql("ALTER TABLE s.t RENAME COLUMN b TO d, ADD COLUMN IF NOT EXISTS b double")
        assert table.schema.names == [*_NAMES[:-1], "d", "b"]
        assert str(table.schema.by_name["b"].type) == "double"
        assert [r["d"] for r in _rows(table)] == ["a", None]


_NAMES = ["remark", "id", "c", "amount", "place", "b"]


@pytest.mark.parametrize("kind", FORMATS)
def test_what_is_refused_changes_nothing_and_the_transaction_goes_on(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    with _lake(tmp_path, kind, constraints={"small": "coalesce(amount, 0) < 100"}) as lake:
        before = lake.table("s.t").schema
        with lake.transaction(spark=spark) as tx:
            tx.sql("INSERT INTO s.t (id, note) VALUES (3, NULL)")
            for text, said in _REFUSED.items():
                with pytest.raises((InvalidInput, ConstraintViolation), match=said):
                    tx.sql(text)
            with pytest.raises(TableNotFound):
                tx.sql("ALTER TABLE s.nosuch ADD COLUMN b string")
            tx.sql("INSERT INTO s.t (id) VALUES (4)")
        table = lake.table("s.t")
        assert table.schema == before
        assert [r["id"] for r in _rows(table)] == [1, 2, 3, 4]
        assert table.history(limit=1)[0].operation == "WRITE"


_REFUSED = {
    "ALTER TABLE s.t DROP COLUMN id": "required",
    "ALTER TABLE s.t DROP COLUMN amount": "small",
    "ALTER TABLE s.t RENAME COLUMN note TO ID": "ID",
    "ALTER TABLE s.t ADD COLUMN Note string": "ote",
    "ALTER TABLE s.t ALTER COLUMN id TYPE int": "id",
    "ALTER TABLE s.t ADD COLUMN b string NOT NULL": "required",
    "ALTER TABLE s.t ADD COLUMNS (b string, note string)": "note",
    "ALTER TABLE s.t ALTER COLUMN note SET NOT NULL": "note",
    "ALTER TABLE s.t ADD CONSTRAINT big CHECK (id > 1)": "big",
    "ALTER TABLE s.t ADD CONSTRAINT odd CHECK (nosuch > 1)": "nosuch",
    "ALTER TABLE s.t SET TBLPROPERTIES ('delta.nosuch' = 'x', 'lakeward.nosuch' = 'x')": "nosuch",
    "ALTER TABLE s.t RENAME TO s.u": "name",
    "ALTER TABLE s.t CLUSTER BY (id)": "ZORDER",
    "ALTER TABLE s.t WRITE ORDERED BY id": "sort",
    "ALTER VIEW v AS SELECT 1": "tables",
    "DROP VIEW v": "tables",
    "DROP TABLE s.t PURGE": "PURGE",
    "SET TIME ZONE 'UTC'": "UTC",
}


def test_partition_fields_of_iceberg(spark: SparkSession, tmp_path: Path) -> None:
    with lw.open(tmp_path / "lake") as lake:
        lake.create("t", "id int64, at timestamp, p string", format="iceberg", partition_by=["p"])
        at = "TIMESTAMP '2026-01-01 10:00:00' + make_dt_interval(CAST(id AS INT))"
        rows = f"SELECT id, {at}, 'a' FROM range"
        with lake.transaction(spark=spark) as tx:
            tx.sql(f"INSERT INTO t {rows}(0, 2)")
        with lake.transaction(spark=spark) as tx:
            tx.sql("ALTER TABLE t ADD PARTITION FIELD days(at)")
            tx.sql("ALTER TABLE t REPLACE PARTITION FIELD p WITH bucket(4, id)")
            tx.sql(f"INSERT INTO t {rows}(2, 6)")
            with pytest.raises(UnsupportedFeature, match="before in this transaction"):
                tx.sql("ALTER TABLE t DROP PARTITION FIELD days(at)")
            tx.sql("DELETE FROM t WHERE id = 1")
        table = lake.table("t")
        assert sorted(table.to_arrow()["id"].to_pylist()) == [0, 2, 3, 4, 5]
        assert len(table.files()) > 3
        assert len(table.files(where="at >= TIMESTAMP '2026-01-05 00:00:00'")) < len(table.files())
        assert table.to_arrow(where="id = 4").num_rows == 1


@pytest.mark.parametrize("kind", FORMATS)
def test_drop_happens_with_the_commit(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    with _lake(tmp_path, kind) as lake:
        lake.create("other", "n int64", format="iceberg" if kind == "delta" else "delta")
        tx = lake.transaction(spark=spark)
        tx.sql("INSERT INTO s.t (id) VALUES (3)")
        tx.sql("DROP TABLE s.t")
        assert tx.sql("SHOW TABLES").collect()[0].tableName == "other"
        with pytest.raises(TableNotFound):
            tx.sql("SELECT * FROM s.t")
        tx.sql("DROP TABLE IF EXISTS s.t")
        assert lake.table("s.t").count() == 2
        tx.rollback()
        assert lake.table("s.t").count() == 2
        with lake.transaction(spark=spark) as tx:
            tx.sql("UPDATE s.t SET note = 'gone'")
            tx.sql("INSERT INTO other SELECT id FROM s.t")
            tx.sql("DROP TABLE s.t")
            tx.sql(f"CREATE TABLE s.t (a INT) USING {kind}")
            tx.sql("INSERT INTO s.t VALUES (7)")
            assert [r.a for r in tx.sql("SELECT * FROM s.t").collect()] == [7]
        assert lake.table("s.t").to_arrow().to_pylist() == [{"a": 7}]
        assert lake.table("other").count() == 2
        with lake.transaction(spark=spark) as tx:
            tx.sql("DROP TABLE s.t")
            tx.sql("TRUNCATE TABLE other")
            tx.sql(f"CREATE TABLE s.t (a INT) USING {kind}")
            tx.sql("INSERT INTO s.t VALUES (1)")
            tx.sql("DROP TABLE s.t")
            tx.sql(f"CREATE TABLE made (b INT) USING {kind}")
            tx.sql("DROP TABLE made")
            tx.sql(f"CREATE TABLE made (c INT) USING {kind}")
            tx.sql("INSERT INTO made VALUES (2)")
            tx.sql("ALTER TABLE made RENAME COLUMN c TO d")
        assert [t.name for t in lake.tables()] == ["made", "other"]
        assert lake.table("made").to_arrow().to_pylist() == [{"d": 2}]
        assert lake.table("other").count() == 0


@pytest.mark.parametrize("kind", FORMATS)
def test_what_a_transaction_tells_of_tables(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    with _lake(tmp_path, kind, comment="said") as lake:
        tx = lake.transaction(spark=spark)
        tx.alter("s.t").set_property("lakeward.retry.attempts", "3")
        assert [tuple(r) for r in tx.sql("SHOW TABLES IN s LIKE 't*'").collect()] == [
            ("s", "t", False)
        ]
        found = {r.key: r.value for r in tx.sql("SHOW TBLPROPERTIES s.t").collect()}
        assert found["lakeward.retry.attempts"] == "3"
        text = tx.sql("SHOW CREATE TABLE s.t").collect()[0].createtab_stmt
        assert text.startswith("CREATE TABLE s.t (\n  id BIGINT NOT NULL,\n  amount INT")
        told = {r.col_name: r.data_type for r in tx.sql("DESCRIBE TABLE EXTENDED s.t").collect()}
        assert told["place"] == "struct<city: string, zip: int>"
        assert told["Location"] == lake.table("s.t").location
        assert tx.sql("DESC s.t amount").collect()[1].info_value == "int"
        assert "txn" not in str(told)
        plan = tx.sql("EXPLAIN SELECT * FROM s.t WHERE id = 1").collect()[0].plan
        assert "Physical Plan" in plan
        assert "Physical Plan" in tx.sql("EXPLAIN DELETE FROM s.t WHERE id = 1").collect()[0][0]
        tx.sql("SET spark.sql.shuffle.partitions = 3")
        assert tx.spark.conf.get("spark.sql.shuffle.partitions") == "3"
        tx.sql("RESET spark.sql.shuffle.partitions")
        assert spark.conf.get("spark.sql.shuffle.partitions") != "3"
        tx.commit()
        assert lake.table("s.t").count() == 2
        assert lake.table("s.t").history(limit=1)[0].operation == "ALTER TABLE"


@pytest.mark.parametrize("kind", FORMATS)
def test_data_with_other_columns(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    with _lake(tmp_path, kind) as lake:
        rows = spark.sql(
            "SELECT 3L AS id, 2147483648L AS amount, 'c' AS note, true AS paid,"
            " named_struct('city', 'y', 'street', 'low') AS place"
        )
        with pytest.raises(SchemaMismatch, match="paid"), lake.transaction(spark=spark) as tx:
            tx.append("s.t", rows)
        with lake.transaction(spark=spark) as tx:
            tx.append("s.t", rows, schema_mode="merge")
            tx.sql(
                "MERGE WITH SCHEMA EVOLUTION INTO s.t AS t USING"
                " (SELECT 1L AS id, 'new' AS tag, 'said' AS note UNION ALL SELECT 4L, 't', 'n') c"
                " ON t.id = c.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            )
            tx.sql(
                "MERGE WITH SCHEMA EVOLUTION INTO s.t USING"
                " (SELECT 2L AS k, 1 AS more, 2 AS less) c"
                " ON t.id = c.k WHEN MATCHED THEN UPDATE SET more = c.more"
            )
            tx.append("s.t", [{"id": 5, "late": 1.5}], schema_mode="merge")
        table = lake.table("s.t")
        assert table.schema.names == [*_FIRST, "paid", "tag", "more", "late"]
        found = {r["id"]: r for r in _rows(table)}
        assert (found[1]["tag"], found[1]["note"], found[1]["amount"]) == ("new", "said", 10)
        assert found[2]["more"] == 1
        assert found[3]["amount"] == 2147483648
        assert found[3]["place"] == {"city": "y", "zip": None, "street": "low"}
        assert (found[4]["tag"], found[4]["amount"], found[5]["late"]) == ("t", None, 1.5)
        assert table.version == 2
        with lake.transaction(spark=spark) as tx:
            kept = tx.read("s.t", columns=["id"], where="id > 3")
            rows = kept.selectExpr("id", "cast(id AS string) AS s")
            tx.overwrite("s.t", rows, schema_mode="overwrite")
        assert table.schema.names == ["id", "s"]
        assert _rows(table) == [{"id": 4, "s": "4"}, {"id": 5, "s": "5"}]
        assert _rows(table.at(version=1)) == [_row(1, 10, "a"), _row(2, 20, "b")]


_FIRST = ["id", "amount", "note", "place"]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_statement_sees_the_one_alteration_before_it(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    with lw.open(tmp_path / "lake") as lake:
        table = lake.create("t", "a string, b string", format=kind)
        with lake.transaction() as tx:
            tx.append("t", [{"a": "a", "b": "b"}])

        with lake.transaction(spark=spark) as tx:
            tx.sql("ALTER TABLE t ALTER COLUMN b FIRST")
            tx.sql("INSERT INTO t VALUES ('b', 'a')")
        assert table.to_arrow().to_pylist() == [{"b": "b", "a": "a"}] * 2
        with lake.transaction(spark=spark) as tx:
            tx.sql("ALTER TABLE t ADD COLUMN c int")
            tx.sql("INSERT INTO t VALUES ('b', 'a', 1)")
        assert sorted(map(str, table.to_arrow()["c"].to_pylist())) == ["1", "None", "None"]


@pytest.mark.parametrize("kind", FORMATS)
def test_a_merge_that_spark_refuses_leaves_no_new_columns(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    merge = (
        "MERGE WITH SCHEMA EVOLUTION INTO s.t t USING (SELECT 1L AS id{}) s ON t.id = s.id"
        " WHEN MATCHED AND s.nosuch > 1 THEN UPDATE SET *"
    )
    with _lake(tmp_path, kind) as lake:
        before = lake.table("s.t").schema
        tx = lake.transaction(spark=spark)
        tx.sql("UPDATE s.t SET note = 'c' WHERE id = 1")
        with pytest.raises(Exception, match="nosuch"):
            tx.sql(merge.format(", 'x' AS extra"))
        # The table was altered before Spark looked at the statement.
        with pytest.raises(TransactionClosed):
            tx.commit()
        assert lake.table("s.t").schema == before
        with lake.transaction(spark=spark) as tx:
            with pytest.raises(Exception, match="nosuch"):
                tx.sql(merge.format(""))
            tx.sql("UPDATE s.t SET note = 'd' WHERE id = 1")
        assert lake.table("s.t").schema == before
        assert [r["note"] for r in _rows(lake.table("s.t"))] == ["d", "b"]
