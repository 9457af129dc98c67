"""ALTER TABLE and CREATE OR REPLACE TABLE in `tx.sql` without Spark, in the words of Spark."""

from __future__ import annotations

import pytest

import lakeward as lw
from lakeward.errors import UnsupportedFeature
from tests.behaviour.lakes import append, unchanged


def test_tables_are_altered_in_the_words_of_spark(lake: lw.Lake) -> None:
    lake.create("t", "id int64, amount int32, note string, p struct<a: int32>")
    append(lake, "t", [{"id": 1, "amount": 1, "note": "n", "p": {"a": 1}}])
    with lake.transaction() as tx:
        for clause in (
            "ADD COLUMNS (b string COMMENT 'new', c bigint AFTER id)",
            "RENAME COLUMN note TO remark",
            "DROP COLUMN IF EXISTS nosuch",
            "ALTER COLUMN amount TYPE bigint",
            "ALTER COLUMN id SET NOT NULL",
            "ALTER COLUMN remark FIRST",
            "ADD COLUMN p.z string FIRST",
            "ADD CONSTRAINT positive CHECK (amount > 0)",
            "SET TBLPROPERTIES ('owner' = 'me')",
        ):
            tx.sql(f"ALTER TABLE t {clause}")
        tx.sql("COMMENT ON TABLE t IS 'said'")
        tx.sql("INSERT INTO t (id, amount) VALUES (2, 5000000000)")
    table = lake.table("t")
    assert table.schema.names == ["remark", "id", "c", "amount", "p", "b"]
    assert table.definition.comment == "said"
    assert table.properties["owner"] == "me"
    assert table.version == 2
    old, new = sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"])
    empty = {"c": None, "b": None}
    assert old == {"remark": "n", "id": 1, "amount": 1, "p": {"z": None, "a": 1}, **empty}
    assert new == {"remark": None, "id": 2, "amount": 5000000000, "p": None, **empty}


def test_if_exists_looks_at_the_table_after_the_clauses_before(lake: lw.Lake) -> None:
    lake.create("t", "id int64, b string")
    append(lake, "t", [{"id": 1, "b": "x"}])
    with lake.transaction() as tx:
        tx.sql("ALTER TABLE t RENAME COLUMN b TO d, ADD COLUMN IF NOT EXISTS b double")
    assert lake.table("t").to_arrow().to_pylist() == [{"id": 1, "d": "x", "b": None}]


@pytest.mark.formats("delta")
def test_a_table_with_generated_columns_is_not_replaced(lake: lw.Lake) -> None:
    lake.create("t", "n int64, twice int64 generated always as (n * 2)")
    with (
        unchanged(lake),
        pytest.raises(UnsupportedFeature, match="cannot be replaced"),
        lake.transaction() as tx,
    ):
        tx.sql("CREATE OR REPLACE TABLE t (n bigint)")


def test_older_statements_are_not_reported_when_a_column_is_renamed(
    lake: lw.Lake, caplog: pytest.LogCaptureFixture
) -> None:
    lake.create("t", "id int64, b string")
    with lake.transaction() as tx:
        tx.sql("ALTER TABLE t ALTER COLUMN b FIRST")
        tx.sql("INSERT INTO t SELECT 'x', 1")
    with lake.transaction() as tx:
        tx.sql("ALTER TABLE t RENAME COLUMN b TO c")
    assert caplog.messages == []


@pytest.mark.one_pair
@pytest.mark.parametrize(
    ("statement", "instead"),
    [
        ("VACUUM t", "table.vacuum"),
        ("OPTIMIZE t", "table.optimize"),
        ("UNDROP TABLE t", "lake.undrop"),
        ("COMMIT;", "when its block ends"),
        ("ROLLBACK", "tx.rollback"),
        ("USE sales", "full name"),
    ],
)
def test_what_may_not_run_is_refused_with_what_to_do(
    lake: lw.Lake, statement: str, instead: str
) -> None:
    lake.create("t", "id int64")
    with (
        unchanged(lake),
        pytest.raises(UnsupportedFeature) as refused,
        lake.transaction() as tx,
    ):
        tx.sql(statement)
    assert instead in str(refused.value.hint)
