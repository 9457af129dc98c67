"""Queries of `lake.sql` on both engines: joins, versions, states of tables, pins and refusals."""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.errors import (
    FileMissing,
    InvalidInput,
    LakewardError,
    MissingExtra,
    TableNotFound,
    UnsupportedFeature,
    VersionNotFound,
)
from lakeward.log import pins
from tests.behaviour.lakes import append, column, delete, ids
from tests.support.inside import context_of
from tests.support.target import LakeTarget

both_engines = pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
DAYS = [date(2026, 1, 1 + n) for n in range(4)]


@both_engines
@pytest.mark.one_pair
@pytest.mark.formats("delta")
@pytest.mark.parametrize(
    ("condition", "params", "wanted"),
    [
        ("Name IN (NULL)", None, []),
        ("id > 1 AND Name IN (NULL, NULL) OR id = 3", None, [3]),
        ("Name NOT IN (NULL) OR id = 3", None, [3]),
        ("NOT Name IN (NULL) OR id = 3", None, [3]),
        ("id IN (:ids) OR id = 3", {"ids": []}, [3]),
        ("id IN (NULL, :ids) OR id IN (:more)", {"ids": [None], "more": [None, 3]}, [3]),
    ],
)
def test_a_list_without_a_value_selects_no_row_of_any_table(
    shared_lake: lw.Lake,
    new_name: Callable[[], str],
    engine: str,
    condition: str,
    params: dict[str, list[int | None]] | None,
    wanted: list[int],
) -> None:
    """DataFusion reads a table with deletion vectors, as one on an object store, as a dataset."""
    name = new_name()
    policy = {"merge_on_read": True, "merge_on_read_fraction": 1.0}
    table = shared_lake.create(name, "id int64, Name string", policy=policy)
    table.append([{"id": n, "Name": "ab"[n % 2]} for n in range(6)])
    table.delete(where="id = 5")

    found = shared_lake.sql(f"SELECT id FROM {name} WHERE {condition}", params, engine=engine)

    assert column(found.to_arrow()) == wanted


_BY_DAY = """
    SELECT d.day, (SELECT max(o.id) FROM sales.orders o WHERE o.day = d.day) AS newest
    FROM gold.daily d
"""


@pytest.mark.timeout(60)
@both_engines
def test_a_correlated_subquery_ends(lake_with_orders: lw.Lake, engine: str) -> None:
    found = lake_with_orders.sql(_BY_DAY, engine=engine).to_arrow().sort_by("day")
    orders = lake_with_orders.table("sales.orders").to_arrow()
    newest = orders.group_by("Day").aggregate([("id", "max")]).sort_by("Day")
    assert found["newest"].to_pylist() == newest["id_max"].to_pylist()


@both_engines
@pytest.mark.parametrize(
    "condition",
    [
        "flag IS NOT DISTINCT FROM TRUE AND id > 2",
        "flag IS DISTINCT FROM TRUE OR id = 1",
        "NOT flag IS DISTINCT FROM TRUE AND id < 3",
        "id > 0 AND Name IS DISTINCT FROM 'a' AND id < 3",
        "(id = 3 OR Name IS NOT DISTINCT FROM lower('A') AND id < 9)",
        "CASE WHEN Name IS DISTINCT FROM 'a' AND id > 2 THEN true ELSE id = 1 END",
        "id IN (NULL, 1, 2)",
        "id IN (NULL, NULL, 1, id - 0) AND Name IN (NULL, 'b')",
        "id IN (:ids)",
        "id NOT IN (NULL, 1)",
    ],
)
def test_conditions_mean_the_same_everywhere(
    shared_lake: lw.Lake, new_name: Callable[[], str], engine: str, condition: str
) -> None:
    for value in (1.0, math.nan):
        name = new_name()
        table = shared_lake.create(name, "id int64, flag boolean, Name string, x double")
        flags, names = [True, False, None], ["a", "b", None]
        rows = [{"id": n + 1, "flag": flags[n], "Name": names[n], "x": value} for n in range(3)]
        table.append(rows)
        params = {"ids": [None, 1, 2]} if ":ids" in condition else None

        found = shared_lake.sql(f"SELECT id FROM {name} WHERE {condition}", params, engine=engine)

        wanted = table.to_arrow(columns=["id"], where=condition, params=params)
        assert sorted(column(found.to_arrow())) == sorted(column(wanted))


@both_engines
@pytest.mark.parametrize(
    ("query", "values"),
    [
        ("SELECT DISTINCT {} FROM {} ORDER BY 1", [False, True]),
        ("SELECT count(DISTINCT {}) FROM {}", [2]),
        ("SELECT id FROM {1} ORDER BY {0}, id", [1, 3, 2]),
        ("SELECT count(*) FROM {1} GROUP BY {0} ORDER BY 1", [1, 2]),
        ("SELECT sum(id) OVER (PARTITION BY {}) FROM {} ORDER BY id", [4, 2, 4]),
    ],
)
def test_conditions_are_read_in_every_part_of_a_query(
    shared_lake: lw.Lake, new_name: Callable[[], str], engine: str, query: str, values: list[Any]
) -> None:
    table = shared_lake.create(new_name(), "id int64, flag boolean")
    table.append([{"id": n, "flag": n != 2} for n in (1, 2, 3)])
    text = query.format("flag IS DISTINCT FROM TRUE AND id > 1", table.name)
    assert shared_lake.sql(text, engine=engine).to_arrow()[0].to_pylist() == values


@both_engines
@pytest.mark.parametrize(
    ("query", "values"),
    [
        ("SELECT Name AS name FROM {0} WHERE Name > 'a' ORDER BY name DESC", ["c", "b"]),
        ("SELECT upper(Name) AS NAME FROM {0} ORDER BY name", ["A", "B", "C"]),
        ("SELECT x.name FROM (SELECT Name AS name FROM {0}) x WHERE x.NAME > 'b'", ["c"]),
        ("WITH w AS (SELECT Name || '!' AS name FROM {0}) SELECT max(name) AS m FROM w", ["c!"]),
        ("SELECT row_number() OVER (ORDER BY NAME) AS name FROM {0} ORDER BY name", [1, 2, 3]),
        (
            "SELECT Name AS name FROM {0} UNION SELECT Name AS name FROM {0} ORDER BY name",
            ["a", "b", "c"],
        ),
        (
            """
            WITH RECURSIVE r AS (
                SELECT "Name" AS name, 1 AS n FROM {0} WHERE id = 1
                UNION ALL SELECT name || 'x', n + 1 FROM r WHERE n < 3
            ) SELECT name FROM r ORDER BY name
            """,
            ["a", "ax", "axx"],
        ),
    ],
)
def test_an_alias_may_differ_from_its_column_in_case_only(
    shared_lake: lw.Lake, new_name: Callable[[], str], engine: str, query: str, values: list[Any]
) -> None:
    table = shared_lake.create(new_name(), "id int64, Name string")
    table.append([{"id": 1, "Name": "a"}, {"id": 2, "Name": "b"}, {"id": 3, "Name": "c"}])
    found = shared_lake.sql(query.format(table.name), engine=engine).to_arrow()
    assert found[0].to_pylist() == values


@both_engines
def test_every_nan_is_the_same(
    shared_lake: lw.Lake, new_name: Callable[[], str], engine: str
) -> None:
    """What `inf - inf` makes has a sign bit, and is for DataFusion below all numbers."""
    name, made = new_name(), new_name()
    table = shared_lake.create(name, "id int64, v double, f float")
    (negative,) = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000000))
    values = np.array([1.0, negative, math.nan, 9.0])
    rows = {"id": [1, 2, 3, 4], "v": values, "f": values.astype("float32")}
    table.append(pa.table(rows, table.schema.to_arrow()))

    def found(query: str) -> list[tuple[Any, ...]]:
        rows = shared_lake.sql(query.format(name), engine=engine).to_pylist()
        return [tuple(row.values()) for row in rows]

    for v in ("v", "f"):
        assert found(f"SELECT id FROM {{}} ORDER BY {v} DESC, id") == [(2,), (3,), (4,), (1,)]
        assert found(f"SELECT id FROM {{}} ORDER BY {v}, id LIMIT 2") == [(1,), (4,)]
        assert found(f"SELECT count(DISTINCT {v}) AS n FROM {{}}") == [(3,)]
        assert found(f"SELECT count(*) AS n FROM (SELECT {v} FROM {{}} GROUP BY {v}) g") == [(3,)]
        joined = f"SELECT a.id FROM {{0}} a JOIN {{0}} b ON a.{v} = b.{v} AND b.id = 3 ORDER BY 1"
        assert found(joined) == [(2,), (3,)]
        assert found(f"SELECT id FROM {{}} WHERE id > 9 OR NOT ({v} >= 0)") == []
    with shared_lake.transaction() as tx:
        tx.sql(f"CREATE TABLE {made} AS SELECT max(id) AS id FROM {name} GROUP BY v")
    assert shared_lake.table(made).count() == 3


@both_engines
def test_every_nan_inside_of_columns_is_the_same(
    shared_lake: lw.Lake, new_name: Callable[[], str], engine: str
) -> None:
    (negative,) = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000000))
    kinds = "id int64, s struct<x: double>, l list<float>, m map<string, struct<y: double>>"
    table = shared_lake.create(new_name(), kinds)
    for n, value in enumerate((1.0, negative, math.nan)):
        row = {"id": n, "s": {"x": value}, "l": [value], "m": [("k", {"y": value})]}
        table.append([row, {"id": n + 9, "s": None, "l": None, "m": [("k", None)]}])

    for value in ("t.s['x']", "t.l[1]"):
        found = shared_lake.sql(f"SELECT id FROM {table.name} t WHERE {value} > 2", engine=engine)
        assert column(found.to_arrow()) == [1, 2]
    whole = f"SELECT * FROM {table.name} ORDER BY id"
    wanted = table.to_arrow().sort_by("id").to_pylist()
    assert str(shared_lake.sql(whole, engine=engine).to_pylist()) == str(wanted)


@pytest.mark.timeout(60)
@pytest.mark.one_pair
def test_a_frame_of_datafusion_with_partitions_is_appended(lake_with_orders: lw.Lake) -> None:
    from datafusion import SessionContext

    context = SessionContext()
    context.from_arrow(pa.table({"k": [1, 2], "x": [2, 3]}), name="s")
    frame = context.sql("SELECT p.k, (SELECT max(q.x) FROM s q WHERE q.k = p.k) AS m FROM s p")
    table = lake_with_orders.create("out", "k int64, m int64")
    table.append(frame)
    assert table.to_arrow().sort_by("k").to_pylist() == [{"k": 1, "m": 2}, {"k": 2, "m": 3}]


@pytest.fixture
def lake_with_orders(lake: lw.Lake) -> lw.Lake:
    """Orders in four files, by day, and daily sums in the other format."""
    lake.create("sales.orders", "id int64, Day date, name string, price decimal(9,2)")
    other = "iceberg" if lake.table("sales.orders").format == "delta" else "delta"
    lake.create("gold.daily", "day date, n int64", format=other, partition_by=["day"])
    for n, day in enumerate(DAYS):
        rows = [
            {"id": 10 * n + k, "Day": day, "name": f"n{k}", "price": Decimal(k)} for k in range(5)
        ]
        append(lake, "sales.orders", rows)
        append(lake, "gold.daily", [{"day": day, "n": 5 + n}])
    return lake


@both_engines
def test_tables_of_both_formats_are_joined(lake_with_orders: lw.Lake, engine: str) -> None:
    query = """
        SELECT o.day, count(*) AS orders, max(d.n) AS n, sum(o.Price) AS price
        FROM sales.orders o JOIN gold.daily d ON o.day = d.day
        WHERE o.name <> :without AND d.n > :least GROUP BY o.day ORDER BY o.day
    """
    found = lake_with_orders.sql(query, {"without": "n1", "least": 6}, engine=engine)
    assert [tuple(r.values()) for r in found.to_pylist()] == [
        (DAYS[2], 4, 7, Decimal(9)),
        (DAYS[3], 4, 8, Decimal(9)),
    ]
    assert found.to_pandas().shape == (2, 4)
    assert found.to_polars().shape == (2, 4)
    assert pa.table(found).num_rows == len(found) == 2
    assert "<table>" in found._repr_html_()
    assert found.columns[0] == "Day"


@both_engines
@pytest.mark.parametrize("kind", ["RIGHT", "FULL"])
def test_rows_without_a_match_are_found_by_an_outer_join(
    lake: lw.Lake, kind: str, engine: str
) -> None:
    lake.create("customers", "id int64, m int64").append([{"id": n, "m": n} for n in range(500)])
    orders = [{"id": 1, "m": 10}, {"id": 5000, "m": 20}, {"id": 5001, "m": 30}]
    lake.create("orders", "id int64, m int64").append(orders)
    lake.create("orphans", "id int64")
    query = f"""
        SELECT o.id FROM customers c {kind} JOIN orders o ON c.id = o.id
        WHERE c.id IS NULL AND o.m > 1
    """
    found = lake.sql(query, engine=engine).to_arrow()
    assert column(found) == [5000, 5001]
    with lake.transaction() as tx:
        tx.sql(f"INSERT INTO orphans {query}")
    assert ids(lake, "orphans") == [5000, 5001]


@both_engines
def test_each_table_may_be_read_at_a_version_of_its_own(
    lake_with_orders: lw.Lake, engine: str
) -> None:
    query = """
        SELECT count(*) AS n FROM sales.orders VERSION AS OF 4 a
        JOIN sales.orders VERSION AS OF :old b ON a.id = b.id
    """
    assert lake_with_orders.sql(query, {"old": 2}, engine=engine).to_pylist() == [{"n": 10}]
    moment = lake_with_orders.table("sales.orders").at(version=1).timestamp
    text = "SELECT count(*) AS n FROM sales.orders TIMESTAMP AS OF :at"
    assert lake_with_orders.sql(text, {"at": moment}, engine=engine).to_pylist() == [{"n": 5}]
    with pytest.raises(VersionNotFound):
        lake_with_orders.sql("SELECT * FROM sales.orders VERSION AS OF 99", engine=engine)


@both_engines
@pytest.mark.local
def test_files_that_the_log_rules_out_are_not_read(lake_with_orders: lw.Lake, engine: str) -> None:
    table = lake_with_orders.table("sales.orders")
    kept = {f.path for f in table.files(where="id = 21")}
    assert len(kept) == 1
    for path in Path(table.location).rglob("*.parquet"):
        if path.name not in {Path(k).name for k in kept}:
            path.unlink()
    for where in ("id = 21", "id > 20 AND id < 23 AND name = 'n1'", "(id IN (21) OR id = -5)"):
        text = f"SELECT name FROM sales.orders o WHERE {where}"
        assert lake_with_orders.sql(text, engine=engine).to_pylist() == [{"name": "n1"}]
    inner = "WITH w AS (SELECT id AS i, name FROM sales.orders) SELECT name FROM w WHERE i = ?"
    assert lake_with_orders.sql(inner, [21], engine=engine).to_pylist() == [{"name": "n1"}]
    with pytest.raises(LakewardError):
        lake_with_orders.sql("SELECT * FROM sales.orders", engine=engine).to_arrow()


@both_engines
@pytest.mark.local
def test_the_first_rows_by_a_column_are_looked_for_in_few_files(
    lake_with_orders: lw.Lake, engine: str
) -> None:
    table = lake_with_orders.table("sales.orders")
    newest = {Path(f.path).name for f in table.files(where="id >= 30")}
    for path in Path(table.location).rglob("*.parquet"):
        if path.name not in newest:
            path.unlink()
    text = "SELECT id FROM sales.orders ORDER BY id DESC LIMIT 3"
    assert lake_with_orders.sql(text, engine=engine).to_arrow()["id"].to_pylist() == [34, 33, 32]


_STATES: dict[str, Callable[[lw.Transaction, str], Any]] = {
    "plain": lambda tx, t: None,
    "deleted in place": lambda tx, t: tx.delete(t, where="id = 2"),
    "renamed": lambda tx, t: tx.alter(t).rename_column("v", "w").rename_column("w", "v"),
    "added and dropped": lambda tx, t: tx.alter(t).add_column("x", "int64").drop_column("s"),
    "swapped": lambda tx, t: (
        tx.alter(t).rename_column("v", "old").rename_column("s", "v").rename_column("old", "s")
    ),
}


@pytest.mark.parametrize("state", _STATES)
@pytest.mark.parametrize("partitioned", [False, True])
def test_every_state_of_a_table_is_read_right(
    shared_lake: lw.Lake, name: str, table_format: str, state: str, partitioned: bool
) -> None:
    lake = shared_lake
    properties = {"delta.columnMapping.mode": "name"} if table_format == "delta" else {}
    lake.create(
        name,
        "id int64, v string, s string, p string",
        partition_by=["p"] if partitioned else [],
        policy={"merge_on_read": True} if table_format == "delta" else {},
        properties=properties if state != "plain" else {},
    )
    values = enumerate(("a", "b/ =", None))
    append(lake, name, [{"id": n, "v": f"v{n}", "s": f"s{n}", "p": p} for n, p in values])
    with lake.transaction() as tx:
        _STATES[state](tx, name)
    if state != "plain":
        columns = lake.table(name).schema.names
        append(lake, name, [{"id": 9, **{n: "z" for n in columns if n in ("v", "s", "p")}}])
    table = lake.table(name)
    expected = sorted(map(repr, table.to_arrow().to_pylist()))
    for engine in ("datafusion", "duckdb"):
        found = lake.sql(f"SELECT * FROM {name}", engine=engine).to_pylist()
        assert sorted(map(repr, found)) == expected
        for where in ("v = 'v1'", "p IS NULL", "p = 'b/ ='", "id > 1"):
            text = f"SELECT id FROM {name} WHERE {where} ORDER BY id"
            wanted = sorted(table.to_arrow(where=where)["id"].to_pylist())
            assert lake.sql(text, engine=engine).to_arrow()["id"].to_pylist() == wanted, where


@both_engines
def test_missing_numbers_are_above_all_others(lake: lw.Lake, engine: str) -> None:
    lake.create("t", "id int64, v double")
    append(lake, "t", [{"id": n, "v": v} for n, v in enumerate((math.nan, 1.0, None, -1.0))])
    for where, wanted in (("v > 5", [0]), ("NOT v > 5", [1, 3]), ("v <> 1", [0, 3])):
        text = f"SELECT id FROM t WHERE {where} ORDER BY id"
        assert lake.sql(text, engine=engine).to_arrow()["id"].to_pylist() == wanted, where
    assert math.isnan(lake.sql("SELECT max(v) AS m FROM t", engine=engine).to_pylist()[0]["m"])


@both_engines
def test_rows_that_an_outer_join_makes_up_are_kept(lake_with_orders: lw.Lake, engine: str) -> None:
    query = """
        SELECT d.day FROM gold.daily d LEFT JOIN sales.orders o ON o.day = d.day AND o.id < 10
        WHERE o.id IS NULL ORDER BY 1
    """
    found = lake_with_orders.sql(query, engine=engine).to_arrow()
    assert found.columns[0].to_pylist() == DAYS[1:]


@pytest.mark.before_the_store
@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO t VALUES (1)",
        "DELETE FROM t",
        "UPDATE t SET id = 1",
        "MERGE INTO t USING t s ON t.id = s.id WHEN MATCHED THEN DELETE",
        "DROP TABLE t",
        "CREATE TABLE x AS SELECT 1",
        "ALTER TABLE t ADD COLUMN x INT",
        "TRUNCATE TABLE t",
        "COPY (SELECT 1) TO 'x.csv'",
        "WITH d AS (DELETE FROM t RETURNING *) SELECT * FROM d",
        "SELECT 1 INTO x",
        "SET x = 1",
    ],
)
def test_what_would_change_something_is_refused(lake: lw.Lake, text: str) -> None:
    lake.create("t", "id int64")
    for engine in ("datafusion", "duckdb"):
        with pytest.raises(UnsupportedFeature, match="transaction"):
            lake.sql(text, engine=engine)
    assert lake.table("t").version == 0


@pytest.mark.before_the_store
def test_mistakes_are_told_before_anything_is_read(lake: lw.Lake) -> None:
    lake.create("sales.orders", "id int64")
    for text, kind, said in (
        ("", InvalidInput, "query is empty"),
        ("SELECT 1; SELECT 2", InvalidInput, "Only one statement"),
        ("SELECT 'x", InvalidInput, "not valid SQL"),
        ("SELECT nope FROM sales.orders", InvalidInput, "nope"),
        ("FROM table_changes('sales.orders', 0)", UnsupportedFeature, r"on Spark.*\.changes\("),
        ("SELECT * FROM sales.order", TableNotFound, "Did you mean sales.orders"),
        ("SELECT * FROM a.b.c", TableNotFound, "namespace.name"),
        ("SELECT * FROM sales.orders WHERE id = :x", InvalidInput, "no value for :x"),
        ("SELECT * FROM sales.orders VERSION AS OF 1.5", InvalidInput, "not a version"),
        ("SELECT * FROM sales.orders VERSION AS OF 'release'", InvalidInput, "release|tag|Tag"),
    ):
        with pytest.raises(LakewardError, match=said) as caught:
            lake.sql(text)
        assert isinstance(caught.value, kind) or "tag" in said
    with pytest.raises(InvalidInput, match="no engine"):
        lake.sql("SELECT 1", engine="oracle")
    with pytest.raises(InvalidInput, match="places for 1"):
        lake.sql("SELECT ?", [1, 2])


@pytest.mark.before_the_store
@pytest.mark.parametrize(("engine", "said"), [("datafusion", "lakeward"), ("duckdb", "duckdb")])
def test_a_missing_engine_is_named(
    lake: lw.Lake, monkeypatch: pytest.MonkeyPatch, engine: str, said: str
) -> None:
    monkeypatch.setitem(sys.modules, engine, None)
    with pytest.raises(MissingExtra, match=f"pip install '?{said}"):
        lake.sql("SELECT 1", engine=engine)


def test_versions_are_held_until_the_rows_are_read(lake_with_orders: lw.Lake) -> None:
    lake, context = lake_with_orders, context_of(lake_with_orders)
    own = lake.table("sales.orders").at().log_head.table_id

    def held() -> int | None:
        with context.database.read() as session:
            return pins.oldest(session, own, context.database.clock_ms(session))

    result = lake.sql("SELECT id FROM sales.orders VERSION AS OF 2 WHERE id = 1")
    assert held() == 2
    delete(lake, "sales.orders", "id = 1")
    assert result.to_arrow().num_rows == 1
    assert held() is None
    with lake.sql("SELECT * FROM sales.orders"):
        assert held() == 5
    assert held() is None
    with lake.duckdb() as connection:
        assert held() == 5
        append(lake, "sales.orders", [{"id": 77, "Day": DAYS[0], "name": "x", "price": None}])
        found = connection.execute("SELECT count(*) FROM sales.orders").fetchall()
        assert found == [(19,)]
        joined = "SELECT count(*) FROM sales.orders o JOIN gold.daily d ON d.day = o.day"
        assert connection.sql(joined).fetchall() == [(19,)]
    assert held() is None


def test_tables_whose_names_are_joined_alike_are_different_views(lake: lw.Lake) -> None:
    names = ["sales.eu_orders", "sales_eu.orders", "sales_eu_orders"]
    for n, name in enumerate(names):
        table = lake.create(name, "id int64, price double")
        table.append([{"id": n, "price": math.nan}])  # read through a dataset, because of the NaN
    with lake.duckdb() as connection:
        found = [connection.sql(f"SELECT id FROM {name}").fetchall() for name in names]
    assert found == [[(0,)], [(1,)], [(2,)]]


@both_engines
@pytest.mark.local
def test_all_versions_of_a_table_in_a_query_are_held(lake_target: LakeTarget, engine: str) -> None:
    with lake_target.open() as lake, lake_target.open() as other:
        lake.create("t", "id int64").append([{"id": 1}])
        lake.create("u", "id int64").append([{"id": 9}])
        for n in (2, 3, 4):
            lake.table("t").overwrite([{"id": n}])
        result = lake.sql(
            """SELECT id FROM t VERSION AS OF 2 UNION ALL SELECT id FROM t VERSION AS OF 1
            UNION ALL SELECT id FROM u UNION ALL SELECT id FROM t""",
            engine=engine,
        )
        other.table("t").overwrite([{"id": 5}])
        other.vacuum(retention=0, force=True)
        assert column(result.to_arrow()) == [1, 2, 4, 9]
        other.vacuum(retention=0, force=True)
        with pytest.raises(VersionNotFound):
            lake.sql("SELECT id FROM t VERSION AS OF 2", engine=engine)


@both_engines
@pytest.mark.local
@pytest.mark.parametrize("files", [1, 2])
def test_a_file_that_is_deleted_before_the_rows_are_read_is_missed(
    lake: lw.Lake, engine: str, files: int
) -> None:
    table = lake.create("t", "id int64")
    for n in range(files):
        table.append([{"id": n}])
    result = lake.sql("SELECT id FROM t", engine=engine)
    next(p for p in Path(lake.table("t").location).rglob("*.parquet")).unlink()
    with pytest.raises(FileMissing if engine == "datafusion" else LakewardError):
        result.to_arrow()


@both_engines
@pytest.mark.local
def test_a_reader_that_holds_no_versions_misses_what_vacuum_deleted(
    lake_target: LakeTarget, engine: str
) -> None:
    with lake_target.open() as lake:
        lake.create("t", "id int64").append([{"id": 1}])
        lake.table("t").append([{"id": 2}])
        with lake_target.open(read_only=True) as reader:
            result = reader.sql("SELECT id FROM t", engine=engine)
            lake.table("t").overwrite([{"id": 3}])
            lake.vacuum(retention=0, force=True)
            with pytest.raises(LakewardError):
                result.to_arrow()


@both_engines
def test_rows_come_as_a_stream_that_outlives_its_result(
    lake_with_orders: lw.Lake, engine: str
) -> None:
    reader = lake_with_orders.sql("SELECT id FROM sales.orders", engine=engine).to_reader()
    assert sum(batch.num_rows for batch in reader) == 20


@both_engines
def test_moments_compare_in_utc(lake: lw.Lake, engine: str) -> None:
    lake.create("t", "id int64, ts timestamp")
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    append(lake, "t", [{"id": 1, "ts": noon}])
    for value in (noon, noon.replace(tzinfo=None), date(2026, 1, 1)):
        found = lake.sql("SELECT id FROM t WHERE ts >= :v", {"v": value}, engine=engine)
        assert len(found) == 1
    text = "SELECT id FROM t WHERE ts = '2026-01-01 12:00:00'"
    assert len(lake.sql(text, engine=engine)) == 1
