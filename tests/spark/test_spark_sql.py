"""SQL by plain name in a transaction on Spark, on tables of both formats."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lakeward as lw
from lakeward.errors import Conflict, ConstraintViolation, SchemaMismatch, TableNotFound
from tests.support.iceberg import stranger_table
from tests.support.invariants import check_lake

BOTH = pytest.mark.parametrize("table_format", ["delta", "iceberg"])
ROWS = [{"id": n, "name": f"n{n}", "part": n % 2} for n in range(4)]


@pytest.fixture
def lake(tmp_path: Path) -> Generator[lw.Lake]:
    with lw.open(tmp_path / "lake") as opened:
        yield opened


def make(lake: lw.Lake, name: str, table_format: str, **options: object) -> lw.Table:
    columns = {"id": "int64", "name": "string", "part": "int64"}
    table = lake.create(name, columns, format=table_format, **options)  # type: ignore[arg-type]
    with lake.transaction() as tx:
        tx.append(name, ROWS)
    return table


def names(table: lw.Table) -> dict[int, str]:
    rows = table.to_arrow().to_pylist()
    assert len({r["id"] for r in rows}) == len(rows)
    return {r["id"]: r["name"] for r in rows}


@pytest.mark.always("partition_by0-iceberg", "partition_by1-delta")
@BOTH
@pytest.mark.parametrize("partition_by", [[], ["part"]])
def test_many_statements_end_as_one_commit(
    spark: SparkSession, lake: lw.Lake, table_format: str, partition_by: list[str]
) -> None:
    table = make(lake, "sales.orders", table_format, partition_by=partition_by)

    with lake.transaction(spark=spark) as tx:
        tx.sql("INSERT INTO sales.orders VALUES (10, 'ten', 0), (11, 'eleven', 1)")
        tx.sql("UPDATE sales.orders SET name = upper(name) WHERE id IN (1, 10)")
        tx.sql("DELETE FROM sales.orders WHERE sales.orders.id = 2")
        tx.sql(
            "MERGE INTO sales.orders AS t USING (SELECT 3 AS id, 'three' AS name) AS s"
            " ON t.id = s.id WHEN MATCHED THEN UPDATE SET t.name = s.name"
        )
        seen = {r.id: r.name for r in tx.sql("SELECT * FROM sales.orders o").collect()}
        assert names(table) == {n: f"n{n}" for n in range(4)}

    expected = {0: "n0", 1: "N1", 3: "three", 10: "TEN", 11: "eleven"}
    assert seen == names(table) == expected
    assert table.version == 2
    assert table.history(limit=1)[0].transaction_id == tx.transaction_id


@BOTH
def test_reads_are_pinned_at_the_cut_whatever_others_commit(
    spark: SparkSession, lake: lw.Lake, table_format: str
) -> None:
    make(lake, "first", table_format)
    make(lake, "second", table_format)

    with lake.transaction(spark=spark) as tx:
        assert tx.sql("SELECT count(*) FROM first").first()[0] == 4
        with lake.transaction() as other:
            other.append("first", [{"id": 9, "name": "late", "part": 0}])
            other.append("second", [{"id": 9, "name": "late", "part": 0}])
        counts = tx.sql("SELECT (SELECT count(*) FROM first), (SELECT count(*) FROM second)")
        assert tuple(counts.first()) == (4, 4)
        assert tx.read("second", columns=["id"], where="id > 1").count() == 2

    assert tx.commit().versions == {}


@BOTH
def test_frames_are_appended_overwritten_deleted_and_merged(
    spark: SparkSession, lake: lw.Lake, table_format: str
) -> None:
    table = make(lake, "orders", table_format)

    with lake.transaction(spark=spark) as tx:
        five = spark.createDataFrame([(5, "five", 1)], "id long, name string, part long")
        tx.append("orders", five)
        tx.append("orders", [{"id": 6, "name": "six", "part": 0}])
        tx.append("orders", spark.range(7, 8))
        tx.delete("orders", where="id = 0")
        tx.merge(
            "orders",
            spark.createDataFrame([(5, "V"), (8, "VIII")], "id long, name string"),
            on="id",
        )
        tx.overwrite("orders", [{"id": 1, "name": "one", "part": 1}], where="id = 1")
        tx.merge(
            "orders",
            spark.range(2, 4),
            on=["id"],
            matched={"name": "concat(target.name, '-', source.id)"},
            not_matched=None,
        )

    expected = {1: "one", 2: "n2-2", 3: "n3-3", 5: "V", 6: "six", 7: None, 8: "VIII"}
    assert names(table) == expected
    assert table.version == 2


@BOTH
def test_rows_are_updated_and_merged_by_clauses_as_without_spark(
    spark: SparkSession, lake: lw.Lake, table_format: str
) -> None:
    rows = [
        {"id": 0, "name": "gone", "part": 0},
        {"id": 1, "name": "set", "part": 9},
        {"id": 7, "name": "new", "part": 1},
        {"id": 8, "name": "late", "part": 0},
    ]
    found = {}
    for table, session in (("here", None), ("there", spark)):
        make(lake, table, table_format)
        with lake.transaction(spark=session) as tx:
            updated = tx.update(table, set={"name": "upper(name)"}, where="id = 2")
            merged = tx.merge(
                table,
                rows,
                on="target.id = source.id AND target.id < 8",
                matched=[
                    lw.When("source.name = 'gone'", "delete"),
                    {"name": "concat(source.name, target.name)"},
                ],
                not_matched=lw.When("source.part = 1", "insert"),
                not_matched_by_source=lw.When("target.id = 3", {"part": "target.part + 5"}),
            )
            deleted = tx.delete(table, where="id = 7")
        told = (updated.updated, merged.inserted, merged.updated, merged.deleted, deleted.deleted)
        # Spark tells numbers of Delta tables alone.
        expected = (1, 1, 2, 1, 1) if table_format == "delta" or session is None else (None,) * 5
        assert told == expected
        found[table] = sorted(lake.table(table).to_arrow().to_pylist(), key=lambda r: r["id"])

    assert found["here"] == found["there"]
    assert [r["name"] for r in found["here"]] == ["setn1", "N2", "n3"]


@BOTH
def test_statements_are_awaited_in_an_event_loop(
    spark: SparkSession, lake: lw.Lake, table_format: str
) -> None:
    table = make(lake, "orders", table_format)

    async def main() -> None:
        async with lake.transaction(spark=spark) as tx:
            await tx.sql("DELETE FROM orders WHERE id > 1")
            await tx.append("orders", [{"id": 9, "name": "nine", "part": 0}])
            assert (await tx.read("orders")).count() == len(names(table)) - 1

    asyncio.run(main())
    assert names(table)[9] == "nine"


@BOTH
def test_a_whole_table_is_overwritten(
    spark: SparkSession, lake: lw.Lake, table_format: str
) -> None:
    table = make(lake, "orders", table_format, partition_by=["part"])

    with lake.transaction(spark=spark) as tx:
        tx.overwrite("orders", tx.read("orders").where("id = 3"))

    assert names(table) == {3: "n3"}


@BOTH
def test_rows_that_a_check_refuses_are_counted_and_shown_and_change_nothing(
    spark: SparkSession, lake: lw.Lake, table_format: str
) -> None:
    table = make(lake, "orders", table_format, constraints={"positive": "id >= 0"})
    other = make(lake, "others", table_format)

    tx = lake.transaction(spark=spark)
    tx.sql("INSERT INTO others VALUES (7, 'x', 0)")
    tx.append("orders", spark.range(-3, 3))
    with pytest.raises(ConstraintViolation, match="positive") as caught:
        tx.commit()

    assert caught.value.count == 3
    assert {r["id"] for r in caught.value.sample} == {-3, -2, -1}
    assert table.version == other.version == 1


@pytest.mark.always("True-delta", "False-iceberg")
@BOTH
@pytest.mark.parametrize(("check", "proven"), [("id >= 0", True), ("id + 0 >= 0", False)])
def test_a_check_that_the_statistics_of_new_files_prove_takes_no_job(
    spark: SparkSession, lake: lw.Lake, table_format: str, check: str, proven: bool
) -> None:
    table = make(lake, "orders", table_format, constraints={"positive": check})
    tx = lake.transaction(spark=spark)
    tx.append("orders", spark.range(10, 13))
    group = f"{table_format} {check}"
    spark.sparkContext.setJobGroup(group, "the commit's own jobs")

    tx.commit()

    jobs = spark.sparkContext.statusTracker().getJobIdsForGroup(group)
    assert bool(jobs) is not proven
    assert len(names(table)) == 7
    tx = lake.transaction(spark=spark)
    tx.sql("INSERT INTO orders VALUES (20, 'x', 0), (NULL, 'y', 0)")
    with pytest.raises(ConstraintViolation, match="1 row violates"):
        tx.commit()


@pytest.mark.always("Z'-delta", "b'-iceberg", "')-delta", "10))-iceberg")
@BOTH
@pytest.mark.parametrize(
    ("column", "check", "value"),
    [
        (
            "timestamp",
            "v <= TIMESTAMP '2020-01-01 00:00:00'",
            "TIMESTAMP '2020-01-01 00:00:00.0005Z'",
        ),
        ("string", f"v <= '{'a' * 40}'", f"'{'a' * 40}b'"),
        ("double", "v < 5", "double('NaN')"),
        ("decimal(38, 10)", "v <= 1.0000000000", "CAST(1.0000000001 AS DECIMAL(38, 10))"),
    ],
)
def test_what_statistics_round_away_is_still_refused(
    spark: SparkSession, lake: lw.Lake, table_format: str, column: str, check: str, value: str
) -> None:
    table = lake.create("t", f"v {column}", format=table_format, constraints={"fits": check})
    tx = lake.transaction(spark=spark)
    tx.sql(f"INSERT INTO t VALUES ({value})")

    with pytest.raises(ConstraintViolation, match="1 row violates"):
        tx.commit()

    assert table.version == 0


@BOTH
def test_a_violation_that_is_repaired_before_the_commit_passes(
    spark: SparkSession, lake: lw.Lake, table_format: str
) -> None:
    table = make(lake, "orders", table_format, constraints={"positive": "id >= 0"})

    with lake.transaction(spark=spark) as tx:
        tx.append("orders", spark.range(-3, 6))
        tx.sql("DELETE FROM orders WHERE id < 4")

    assert set(names(table)) == {4, 5}


@BOTH
def test_missing_values_of_required_columns_are_counted_and_shown_and_change_nothing(
    spark: SparkSession, lake: lw.Lake, table_format: str
) -> None:
    columns = "id int64 not null, name string, part string not null"
    table = lake.create("orders", columns, format=table_format, partition_by=["part"])
    other = make(lake, "others", table_format)

    tx = lake.transaction(spark=spark)
    tx.sql("INSERT INTO others VALUES (7, 'x', 0)")
    tx.sql("INSERT INTO orders SELECT if(id > 1, NULL, id), concat('n', id), 'a' FROM range(5)")
    tx.sql("INSERT INTO orders (id, name) VALUES (9, 'n9')")
    with pytest.raises(
        ConstraintViolation, match=r"id of orders .* 3 values are missing"
    ) as caught:
        tx.commit()

    assert (caught.value.constraint, caught.value.column) == ("id is not null", "id")
    assert caught.value.counts == {"id is not null": 3, "part is not null": 1}
    assert {r["name"] for r in caught.value.sample} == {"n2", "n3", "n4"}
    assert (table.version, other.version) == (0, 1)
    with pytest.raises(SchemaMismatch, match="lacks id"):
        lake.transaction(spark=spark).append("orders", [{"name": "x", "part": "a"}])


@BOTH
def test_a_missing_value_that_is_mended_before_the_commit_passes(
    spark: SparkSession, lake: lw.Lake, table_format: str
) -> None:
    table = lake.create("orders", "id int64 not null, name string", format=table_format)

    with lake.transaction(spark=spark) as tx:
        tx.sql("INSERT INTO orders VALUES (NULL, 'one'), (2, 'two')")
        tx.sql("UPDATE orders SET id = 1 WHERE id IS NULL")

    assert names(table) == {1: "one", 2: "two"}
    assert not table.schema.field("id").nullable
    if table_format == "iceberg":
        seen = stranger_table(lake, "orders")
        assert seen.schema().find_field("id").required
        assert sorted(seen.scan().to_arrow()["id"].to_pylist()) == [1, 2]
    with lake.transaction() as again:
        again.append("orders", [{"id": 3, "name": "three"}])
    assert set(names(table)) == {1, 2, 3}
    check_lake(lake, ["orders"])


def test_both_formats_commit_as_one(spark: SparkSession, lake: lw.Lake) -> None:
    orders, gold = make(lake, "sales.orders", "delta"), make(lake, "gold.totals", "iceberg")

    with lake.transaction(spark=spark, message="nightly") as tx:
        tx.sql("UPDATE sales.orders SET name = 'x' WHERE id = 1")
        tx.sql("INSERT INTO gold.totals SELECT 100 + count(*), max(name), 0 FROM sales.orders")

    assert names(gold)[104] == "x"
    newest = [t.history(limit=1)[0] for t in (orders, gold)]
    assert {v.transaction_id for v in newest} == {tx.transaction_id}
    assert len({v.timestamp for v in newest}) == 1
    assert tx.commit().versions == {"sales.orders": 2, "gold.totals": 2}


@BOTH
def test_blind_appends_meet_no_conflict(
    spark: SparkSession, lake: lw.Lake, table_format: str
) -> None:
    table = make(lake, "orders", table_format)

    with lake.transaction(spark=spark) as tx:
        tx.sql("INSERT INTO orders VALUES (10, 'ten', 0)")
        with lake.transaction() as other:
            other.overwrite("orders", [{"id": 1, "name": "one", "part": 1}])

    assert names(table) == {1: "one", 10: "ten"}


@BOTH
def test_two_who_change_the_same_rows_conflict_and_nothing_is_committed(
    spark: SparkSession, lake: lw.Lake, table_format: str
) -> None:
    table, other = make(lake, "orders", table_format), make(lake, "others", table_format)

    tx = lake.transaction(spark=spark)
    tx.sql("INSERT INTO others VALUES (10, 'ten', 0)")
    tx.sql("UPDATE orders SET name = 'mine' WHERE id = 1")
    with lake.transaction() as rival:
        rival.overwrite("orders", [{"id": 1, "name": "theirs", "part": 1}], where="id = 1")
    with pytest.raises(Conflict):
        tx.commit()

    assert names(table)[1] == "theirs"
    assert other.version == 1


def test_a_temporary_view_of_the_session_is_known(spark: SparkSession, lake: lw.Lake) -> None:
    table = make(lake, "orders", "delta")
    spark.range(1, 3).createOrReplaceTempView("wanted")

    with lake.transaction(spark=spark) as tx:
        tx.sql("CREATE TEMPORARY VIEW kept AS SELECT * FROM orders WHERE id > 2")
        tx.sql("MERGE INTO orders o USING wanted w ON o.id = w.id WHEN MATCHED THEN DELETE")
        assert tx.sql("SELECT id FROM kept").first()[0] == 3

    assert set(names(table)) == {0, 3}
    assert not spark.catalog.tableExists("kept")


def test_a_table_that_is_not_there_is_named(spark: SparkSession, lake: lw.Lake) -> None:
    with lake.transaction(spark=spark) as tx:
        for statement in ("SELECT * FROM nothing", "INSERT INTO a.nothing VALUES (1)"):
            with pytest.raises(TableNotFound, match="nothing"):
                tx.sql(statement)


@BOTH
def test_a_table_is_added_to_from_itself_and_views_of_it_follow(
    spark: SparkSession, lake: lw.Lake, table_format: str
) -> None:
    table = make(lake, "orders", table_format)

    with lake.transaction(spark=spark) as tx:
        tx.sql("CREATE TEMPORARY VIEW many AS SELECT * FROM orders")
        tx.sql("INSERT INTO orders VALUES (4, 'n4', 0)")
        assert tx.sql("SELECT count(*) FROM many").first()[0] == 5
        tx.sql("INSERT INTO orders SELECT id + 10, name, part FROM orders")

    assert set(names(table)) == {*range(5), *range(10, 15)}


def test_tables_whose_names_are_one_name_in_spark_are_told_apart(
    spark: SparkSession, lake: lw.Lake
) -> None:
    """Spark ignores case, and takes a table without a namespace for one of `default`."""
    lake.create("both", "w string, id int64")
    pairs = [("Orders", "orders"), ("default.q", "q"), ("Sp.k", "sp.k"), ("a__written.z", "a.z")]
    for pair in pairs:
        for number, name in enumerate(pair):
            lake.create(name, "id int64")
            lake.table(name).append({"id": [number]})

    with lake.transaction(spark=spark) as tx:
        for one, other in pairs:
            union = f"SELECT 'one', id FROM {one} UNION ALL SELECT 'other', id FROM {other}"
            tx.sql(f"INSERT INTO both {union}")
            assert sorted(map(tuple, tx.sql(union).collect())) == [("one", 0), ("other", 1)]
            tx.sql(f"INSERT INTO {one} SELECT id + 10 FROM {other}")
            tx.append(other, [{"id": 20}])
            tx.sql(f"UPDATE {one} SET id = id + 100")
            assert sorted(r.id for r in tx.read(one).collect()) == [100, 111]
        found = tx.sql("SELECT sp.k.id, Sp.k.id FROM Sp.k JOIN sp.k ON Sp.k.id = sp.k.id + 100")
        assert [tuple(r) for r in found.collect()] == []
        found = tx.sql("SELECT sp.k.id, Sp.k.id FROM Sp.k JOIN sp.k ON Sp.k.id = sp.k.id + 99")
        assert [tuple(r) for r in found.collect()] == [(1, 100)]

    for one, other in pairs:
        assert sorted(lake.table(one).to_arrow()["id"].to_pylist()) == [100, 111]
        assert sorted(lake.table(other).to_arrow()["id"].to_pylist()) == [1, 20]
    rows = [tuple(r.values()) for r in lake.table("both").to_arrow().to_pylist()]
    assert sorted(rows) == [("one", 0)] * 4 + [("other", 1)] * 4
