"""Lineage: what is recorded with commits, what is found from it, and what is said to be unknown."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

import lakeward as lw
from lakeward.cli.main import app
from lakeward.errors import InvalidInput, NotFound
from lakeward.log import lineage
from lakeward.log.statement import Statement
from lakeward.model.file import LIVE
from lakeward.model.lineage.graph import Lineage
from lakeward.stream.lines import JsonFiles
from tests.support.inside import context_of

DAILY = """INSERT INTO gold.daily SELECT c.name, sum(o.amount) FROM raw.orders o
    JOIN raw.cust c ON c.id = o.cust WHERE c.region = 'north-secret' GROUP BY c.name"""


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[lw.Lake]:
    with lw.open(tmp_path / "lake") as lake:
        lake.create("raw.orders", {"id": "int64", "cust": "int64", "amount": "double"})
        lake.create(
            "raw.cust", {"id": "int64", "name": "string", "region": "string"}, format="iceberg"
        )
        lake.create("gold.daily", {"name": "string", "revenue": "double"})
        (tmp_path / "orders.csv").write_text("id,cust,amount\n1,1,2.5\n")
        lake.table("raw.orders").append(str(tmp_path / "orders.csv"))
        lake.table("raw.cust").append([{"id": 1, "name": "ann", "region": "north-secret"}])
        with lake.transaction() as tx:
            tx.sql(DAILY)
        yield lake


def said(found: Lineage) -> set[tuple[str, str, str]]:
    """The edges as texts: source, kind, target."""
    edges = found.columns if found.root and found.root.column else found.edges
    return {(Path(str(e.source)).name, e.kind.value, str(e.target)) for e in edges}


def test_tables_and_files_upstream_and_what_is_unknown(opened: lw.Lake) -> None:
    assert said(opened.table("gold.daily").lineage()) == {
        ("raw.orders", "value", "gold.daily"),
        ("raw.cust", "value", "gold.daily"),
        ("orders.csv", "file", "raw.orders"),
        ("unknown", "unknown", "raw.cust"),
    }


def test_columns_upstream_end_where_nothing_is_known(opened: lw.Lake) -> None:
    found = said(opened.table("gold.daily").lineage(column="revenue"))
    assert {e for e in found if e[2] == "gold.daily.revenue"} == {
        ("raw.orders.amount", "value", "gold.daily.revenue"),
        ("raw.orders.cust", "rows", "gold.daily.revenue"),
        ("raw.cust.id", "rows", "gold.daily.revenue"),
        ("raw.cust.name", "rows", "gold.daily.revenue"),
        ("raw.cust.region", "rows", "gold.daily.revenue"),
    }
    assert ("orders.csv", "file", "raw.orders.amount") in found
    assert ("unknown", "unknown", "raw.cust.id") in found


def test_what_decides_about_rows_is_found_over_several_tables(opened: lw.Lake) -> None:
    with opened.transaction() as tx:
        tx.sql("CREATE TABLE a AS SELECT id FROM raw.orders WHERE amount > 0")
        tx.sql("CREATE TABLE b AS SELECT id FROM a")
        tx.sql("CREATE TABLE c AS SELECT id FROM b")
        tx.sql("CREATE TABLE n AS SELECT count(*) AS n FROM c")
    upstream = said(opened.table("n").lineage(column="n"))
    assert ("c", "rows", "n.n") in upstream
    assert ("raw.orders.amount", "rows", "a") in upstream
    below = opened.table("raw.orders").lineage(direction="downstream", column="amount")
    assert ("c", "rows", "n.n") in said(below)
    # The rows of a table are no source of a column beside a column of that table.
    assert ("raw.orders", "rows", "a.id") not in said(opened.table("a").lineage(column="id"))
    assert {str(e.source) for e in opened.table("a").lineage().columns} == {
        "raw.orders.id",
        "raw.orders.amount",
    }
    affected = {str(a) for a in opened.table("raw.orders").affected("amount")}
    assert "n.n" in affected


def test_a_tree_shows_what_is_below_a_node_once(opened: lw.Lake) -> None:
    before = "gold.daily"
    with opened.transaction() as tx:
        for n in range(12):
            tx.sql(f"CREATE TABLE n{n} AS SELECT revenue FROM {before} WHERE revenue > 0")
            before = f"n{n}"
    lines = list(opened.table("n11").lineage(column="revenue").tree())
    assert len(lines) < 60
    assert lines[1:3] == ["├─ n10.revenue [rows]", "│  ├─ n9.revenue [rows]"]
    assert lines[-1] == "└─ n10.revenue [value] (see above)"


def test_clones_keep_their_lineage_when_tables_and_columns_are_renamed(opened: lw.Lake) -> None:
    copy = opened.clone("gold.daily", "copy")
    opened.rename("gold.daily", "gold.weekly")
    copy.alter().rename_column("revenue", "income").commit()
    opened.table("gold.weekly").alter().rename_column("revenue", "sales").commit()
    found = said(opened.table("copy").lineage(column="income"))
    assert ("gold.weekly.sales", "clone", "copy.income") in found
    assert ("raw.orders.amount", "value", "gold.weekly.sales") in found
    assert ("gold.weekly", "clone", "copy") in said(opened.table("copy").lineage())


def test_a_dropped_table_is_followed_and_not_taken_for_a_new_one(opened: lw.Lake) -> None:
    opened.create("other", {"id": "int64"})
    with opened.transaction() as tx:
        tx.sql("CREATE TABLE tmp AS SELECT id FROM raw.orders")
    with opened.transaction() as tx:
        tx.sql("CREATE TABLE last AS SELECT id FROM tmp")
    opened.drop("tmp")
    with opened.transaction() as tx:
        tx.sql("CREATE TABLE tmp AS SELECT id FROM other")
    tables = {(s, t) for s, _, t in said(opened.table("last").lineage())}
    assert {s for s, _ in tables} == {"tmp (dropped)", "raw.orders", "orders.csv"}
    columns = said(opened.table("last").lineage(column="id"))
    assert ("tmp (dropped).id", "value", "last.id") in columns
    assert ("raw.orders.id", "value", "tmp (dropped).id") in columns
    assert "last.id" not in {str(a) for a in opened.table("other").affected("id")}
    assert "last.id" in {str(a) for a in opened.table("raw.orders").affected("id")}
    opened.drop("tmp")
    with opened.transaction() as tx:
        tx.sql("CREATE TABLE final AS SELECT id FROM last")
    assert "other" not in {s for s, _, _ in said(opened.table("final").lineage())}


def test_downstream_and_depth(opened: lw.Lake) -> None:
    with opened.transaction() as tx:
        tx.sql("CREATE TABLE gold.top AS SELECT name FROM gold.daily WHERE revenue > 1")
    orders = opened.table("raw.orders")
    assert said(orders.lineage(direction="downstream")) == {
        ("raw.orders", "value", "gold.daily"),
        ("gold.daily", "value", "gold.top"),
    }
    assert said(orders.lineage(direction="downstream", depth=1)) == {
        ("raw.orders", "value", "gold.daily")
    }
    assert said(orders.lineage(direction="downstream", column="amount")) == {
        ("raw.orders.amount", "value", "gold.daily.revenue"),
        ("gold.daily.revenue", "rows", "gold.top.name"),
    }
    assert said(orders.lineage(direction="downstream", column="id")) == set()


def test_renamed_columns_and_tables_keep_their_lineage(opened: lw.Lake) -> None:
    with opened.transaction() as tx:
        tx.alter("raw.orders").rename_column("amount", "value")
    found = said(opened.table("gold.daily").lineage(column="revenue", depth=1))
    assert ("raw.orders.value", "value", "gold.daily.revenue") in found


def test_a_renamed_table_keeps_the_files_and_sources_that_were_recorded_by_name(
    opened: lw.Lake,
) -> None:
    with opened.transaction() as tx:
        tx.append("raw.cust", [{"id": 2, "name": "bob", "region": "south"}])
        tx.sources("raw.cust", files=["people.bin"])
    with opened.transaction() as tx:
        tx.sql("CREATE TABLE silver.cust AS SELECT id, name FROM raw.cust")
        tx.sql("INSERT INTO gold.daily SELECT name, 0.0 FROM silver.cust")
    opened.table("raw.orders").append([{"id": 2, "cust": 1, "amount": 1.0}])
    names = {"raw.orders": "raw.sales", "raw.cust": "raw.people", "silver.cust": "silver.people"}
    tables = [*names, "gold.daily"]

    def shown(table: str) -> set[tuple[str, str, str]]:
        found = opened.table(table)
        return said(found.lineage()) | said(found.lineage(column=found.schema.names[0]))

    before = {
        names.get(table, table): {
            (_renamed(source, names), kind, _renamed(target, names))
            for source, kind, target in shown(table)
        }
        for table in tables
    }
    assert ("orders.csv", "file", "raw.sales") in before["raw.sales"]
    for old, new in names.items():
        opened.rename(old, new)
    assert {table: shown(table) for table in before} == before


def _renamed(node: str, names: dict[str, str]) -> str:
    """A table or column as it is shown after its table was renamed."""
    for old, new in names.items():
        if node == old or node.startswith(f"{old}."):
            return new + node.removeprefix(old)
    return node


def test_alterations_add_no_unknown_source(opened: lw.Lake) -> None:
    opened.create("gold.copy", {"name": "string", "revenue": "double"}, format="iceberg")
    with opened.transaction() as tx:
        tx.append("gold.copy", opened.table("gold.daily"))
    for name in ("gold.daily", "gold.copy"):
        table = opened.table(name)
        before = said(table.lineage(depth=1))
        with opened.transaction() as tx:
            tx.alter(name).rename_column("revenue", "money").add_column("more", "int64")
        with opened.transaction() as tx:
            tx.alter(name).add_constraint("named", "name <> ''")
            tx.delete(name, where="money < 0")
        assert said(table.lineage(depth=1)) == before
        assert ("unknown", "unknown", f"{name}.money") not in said(
            table.lineage(column="money", depth=1)
        )
        with opened.transaction() as tx:
            tx.alter(name).add_column("late", "int64")
            tx.append(name, [{"name": "x", "money": 1.0}])
        assert said(table.lineage(depth=1)) == {*before, ("unknown", "unknown", name)}


def test_a_version_shows_what_was_known_then(opened: lw.Lake) -> None:
    daily = opened.table("gold.daily")
    with opened.transaction() as tx:
        tx.append("gold.daily", [{"name": "x", "revenue": 1.0}])
    assert ("unknown", "unknown", "gold.daily") in said(daily.lineage())
    assert ("unknown", "unknown", "gold.daily") not in said(daily.lineage(version=1))
    assert said(daily.lineage(version=0)) == set()


def test_merge_update_and_delete_in_sql(opened: lw.Lake) -> None:
    with opened.transaction() as tx:
        tx.sql(
            "MERGE INTO gold.daily USING raw.cust s ON gold.daily.name = s.name"
            " WHEN MATCHED THEN UPDATE SET revenue = CAST(s.id AS DOUBLE)"
        )
    found = said(opened.table("gold.daily").lineage(column="revenue", depth=1))
    assert ("raw.cust.id", "value", "gold.daily.revenue") in found
    assert ("gold.daily.name", "condition", "gold.daily.revenue") in found


def test_updates_and_deletes_of_operations_are_known_by_columns(opened: lw.Lake) -> None:
    with opened.transaction() as tx:
        tx.update("raw.orders", set={"amount": "CAST(cust AS DOUBLE)"}, where="id > 1")
    with opened.transaction() as tx:
        tx.delete("raw.cust", where="region = 'hidden-text'")
    with opened.transaction() as tx:
        tx.sql("UPDATE raw.orders SET cust = 4711 WHERE id IN (SELECT id FROM raw.cust)")
    orders = said(opened.table("raw.orders").lineage(column="amount", depth=1))
    assert {("raw.orders.cust", "value"), ("raw.orders.id", "condition")} <= {e[:2] for e in orders}
    deleted = said(opened.table("raw.cust").lineage(column="name", depth=1))
    assert ("raw.cust.region", "rows", "raw.cust.name") in deleted
    with context_of(opened).database.read() as session:
        flows = [f for c in lineage.commits(session, None, LIVE) for f in c.flows]
    assert sum("UPDATE" in f.get("text", "") for f in flows) == 2


def test_a_merge_that_deletes_and_a_count_of_rows_are_followed(opened: lw.Lake) -> None:
    opened.create("gold.number", {"n": "int64"})
    with opened.transaction() as tx:
        tx.sql(
            "MERGE INTO gold.daily USING raw.cust s ON gold.daily.name = s.name"
            " WHEN MATCHED AND s.region = 'x' THEN DELETE"
        )
    with opened.transaction() as tx:
        tx.sql("INSERT INTO gold.number SELECT count(*) FROM gold.daily")
    found = said(opened.table("gold.number").lineage(column="n"))
    assert ("gold.daily", "rows", "gold.number.n") in found
    assert ("raw.cust.region", "rows", "gold.daily") in found
    assert ("raw.orders.amount", "value", "gold.daily") not in found
    below = said(opened.table("raw.cust").lineage(direction="downstream", column="region"))
    assert ("gold.daily", "rows", "gold.number.n") in below


def test_clones_restores_reads_and_declared_sources(opened: lw.Lake) -> None:
    opened.clone("gold.daily", "gold.copy")
    assert ("gold.daily", "clone", "gold.copy") in said(opened.table("gold.copy").lineage())
    column = opened.table("gold.copy").lineage(column="revenue")
    assert ("gold.daily.revenue", "clone", "gold.copy.revenue") in said(column)
    opened.create("t", {"id": "int64"})
    with opened.transaction() as tx:
        rows = tx.read("raw.orders", columns=["id"])
        tx.append("t", rows)
    assert ("raw.orders", "read", "t") in said(opened.table("t").lineage())
    opened.create("u", {"id": "int64"})
    with opened.transaction() as tx:
        tx.append("u", [{"id": 1}])
        tx.sources("u", tables=["raw.cust"], files=["kafka://topic"])
    found = said(opened.table("u").lineage(depth=1))
    assert found == {("raw.cust", "declared", "u"), ("topic", "declared", "u")}
    opened.table("t").restore(version=0)
    assert ("t", "restore", "t") in said(opened.table("t").lineage())


def test_what_is_recorded_holds_no_texts_of_statements(opened: lw.Lake) -> None:
    with context_of(opened).database.read() as session:
        flows = [f for c in lineage.commits(session, None, LIVE) for f in c.flows]
    assert any("gold.daily" in f.get("text", "") for f in flows)
    assert "north-secret" not in json.dumps(flows)


def test_credentials_in_addresses_of_sources_are_not_recorded(opened: lw.Lake) -> None:
    signed = "https://store.example/c/scores.csv?sv=1&sig=geheim"
    with opened.transaction() as tx:
        tx.append("gold.daily", [{"name": "x", "revenue": 1.0}])
        tx.sources("gold.daily", files=["kafka://user:geheim@broker/t", signed, "s3://b/x?.csv"])
    found = {e.source.name for e in opened.table("gold.daily").lineage(depth=1).edges}
    assert {
        "kafka://broker/t",
        "https://store.example/c/scores.csv",
        "s3://b/x?.csv",
    } <= found
    text = "SELECT body FROM lakeward_lineage"
    with context_of(opened).database.read() as session:
        assert not any("geheim" in str(row) for row in session.rows(Statement(text)))
    assert str(opened.lineage(file=signed).root) == "https://store.example/c/scores.csv"


def test_a_commit_from_memory_records_nothing(opened: lw.Lake) -> None:
    done = opened.table("raw.cust").append([{"id": 2, "name": "b", "region": "c"}])
    with context_of(opened).database.read() as session:
        own = [
            c
            for c in lineage.commits(session, None, LIVE)
            if c.info.transaction_id == done.transaction_id
        ]
    assert [len(c.flows) for c in own] == [0]


def test_the_whole_lake_as_tree_mermaid_and_page(opened: lw.Lake) -> None:
    found = opened.lineage()
    assert "gold.daily" in list(found.tree())
    assert "-->|value|" in found.to_mermaid()
    assert "-.->|unknown|" in found.to_mermaid()
    assert "<td>raw.orders</td><td>gold.daily</td><td>value</td>" in found.to_html()


def test_the_command_shows_a_column(
    opened: lw.Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*words: str) -> str:
        with pytest.raises(SystemExit) as ended:
            app(["--lake", str(tmp_path / "lake"), *words])
        assert ended.value.code in (0, None)
        return capsys.readouterr().out

    assert opened.read_only is False
    text = run("lineage", "gold.daily", "--column", "revenue")
    assert "raw.orders.amount [value]" in text
    answer = json.loads(run("--json", "lineage", "gold.daily"))
    assert {e["kind"] for e in answer["edges"]} == {"value", "file", "unknown"}
    assert run("lineage", "gold.daily", "--mermaid").startswith("flowchart LR")
    run("lineage", "--html", str(tmp_path / "page.html"))
    assert "<table>" in (tmp_path / "page.html").read_text()


def test_files_lead_to_the_tables_that_their_rows_are_in(
    opened: lw.Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = {("orders.csv", "file", "raw.orders"), ("raw.orders", "value", "gold.daily")}
    assert said(opened.lineage(file="orders.csv")) == expected
    assert said(opened.lineage(file=str(tmp_path / "orders.csv"))) == expected
    with pytest.raises(SystemExit):
        app(["--lake", str(tmp_path / "lake"), "lineage", "--file", "orders.csv"])
    assert "raw.orders [file]" in capsys.readouterr().out
    with pytest.raises(NotFound, match="No commit"):
        opened.lineage(file="rders.csv")
    with pytest.raises(InvalidInput, match="of a transaction and of a file"):
        opened.lineage(file="orders.csv", transaction="x")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "orders.csv").write_text("id,cust,amount\n2,1,2.5\n")
    opened.table("raw.orders").append(str(tmp_path / "more" / "orders.csv"))
    with pytest.raises(InvalidInput, match="Several files"):
        opened.lineage(file="orders.csv")


def test_what_makes_no_sense_is_refused(opened: lw.Lake) -> None:
    with pytest.raises(InvalidInput, match="no column 'nonsense'"):
        opened.table("gold.daily").lineage(column="nonsense")
    with pytest.raises(InvalidInput, match="no direction"):
        opened.table("gold.daily").lineage(direction="sideways")


def test_rows_that_come_and_go_in_one_transaction_pass_their_sources_on(opened: lw.Lake) -> None:
    opened.create("mid", {"id": "int64"})
    opened.create("out", {"n": "int64"})
    with opened.transaction() as tx:
        tx.sql("INSERT INTO mid SELECT id FROM raw.orders WHERE cust > 0")
        tx.sql("INSERT INTO out SELECT count(*) FROM mid")
        tx.sql("DELETE FROM mid WHERE id > 0")
    found = said(opened.table("out").lineage(column="n"))
    assert {("mid", "rows", "out.n"), ("raw.orders.cust", "rows", "mid")} <= found


def test_tables_that_one_transaction_makes_and_reads_are_followed(opened: lw.Lake) -> None:
    with opened.transaction() as tx:
        tx.sql("CREATE TABLE mid AS SELECT id, amount FROM raw.orders WHERE cust > 0")
        tx.sql("CREATE TABLE top AS SELECT max(amount) AS most FROM mid")
    found = said(opened.table("top").lineage(column="most"))
    assert ("raw.orders.amount", "value", "mid.amount") in found
    assert ("raw.orders.cust", "rows", "mid.amount") in found
    (edge,) = opened.table("top").lineage(depth=1).edges
    assert (edge.source.name, edge.source_version) == ("mid", 0)


def test_tables_and_queries_as_data_are_known_by_columns(opened: lw.Lake) -> None:
    copied = opened.create("copied", {"id": "int64", "amount": "double"})
    copied.append(opened.sql("SELECT id, amount * 2 AS amount FROM raw.orders WHERE cust = 1"))
    assert said(copied.lineage(column="amount", depth=1)) == {
        ("raw.orders.amount", "value", "copied.amount"),
        ("raw.orders.cust", "rows", "copied.amount"),
    }
    again = opened.create("again", {"id": "int64", "amount": "double"})
    again.append(copied.at(version=1))
    with opened.transaction() as tx:
        tx.merge("again", opened.table("copied"), on="id")
        tx.append("copied", tx.sql("SELECT id, 1.5 AS amount FROM raw.cust"))
    assert said(again.lineage(column="amount", depth=1)) == {
        ("copied.amount", "value", "again.amount"),
        ("copied.id", "condition", "again.amount"),
        ("again.id", "condition", "again.amount"),
        ("again.id", "rows", "again.amount"),
        ("copied.id", "rows", "again.amount"),
    }
    found = said(copied.lineage(column="id", depth=1))
    assert ("raw.cust.id", "value", "copied.id") in found
    with opened.transaction() as tx:
        rows = opened.sql("SELECT id, amount FROM raw.orders WHERE 'hidden-text' <> 'x'")
        tx.merge("again", rows, on="id", not_matched=None)
    found = said(again.lineage(column="amount", depth=1))
    assert ("raw.orders.amount", "value", "again.amount") in found
    assert ("raw.orders.id", "condition", "again.amount") in found
    with context_of(opened).database.read() as session:
        flows = [f for c in lineage.commits(session, None, LIVE) for f in c.flows]
    assert "hidden-text" not in json.dumps(flows)


def test_what_is_affected_by_a_column_is_listed_and_alter_warns(
    opened: lw.Lake, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened.transaction() as tx:
        tx.sql("CREATE TABLE gold.top AS SELECT name FROM gold.daily WHERE revenue > 1")
        tx.update("raw.orders", set={"cust": "id"})
    found = opened.table("raw.orders").affected("amount")
    assert [(str(a), a.kinds, a.direct) for a in found] == [
        ("gold.daily.revenue", ("value",), True),
        ("gold.top.name", ("rows",), False),
    ]
    assert "raw.orders.cust" in map(str, opened.table("raw.orders").affected("ID"))
    assert opened.table("gold.top").affected("name") == []
    with caplog.at_level("WARNING", "lakeward"):
        opened.table("raw.orders").alter().rename_column("amount", "value").commit()
    (record,) = caplog.records
    assert "gold.daily.revenue, gold.top.name used column amount" in record.getMessage()
    caplog.clear()
    with opened.transaction() as tx:
        tx.sql("ALTER TABLE raw.orders DROP COLUMN value")
        tx.alter("gold.top").add_column("new", "int64").rename_column("new", "newer")
        tx.alter("gold.top").drop_column("name")
    (record,) = caplog.records
    assert "drop column value of raw.orders" in record.getMessage()
    with pytest.raises(InvalidInput, match="no column"):
        opened.table("raw.orders").affected("nonsense")


def test_the_command_lists_what_is_affected(
    opened: lw.Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert opened.read_only is False
    words = ("lineage", "raw.orders", "--column", "amount", "--affected")
    for more in ((), ("--json",)):
        with pytest.raises(SystemExit) as ended:
            app(["--lake", str(tmp_path / "lake"), *more, *words])
        assert ended.value.code in (0, None)
    text, _, answer = capsys.readouterr().out.partition("{")
    assert "gold.daily.revenue" in text
    assert "directly" in text
    assert json.loads("{" + answer)["affected"][0]["column"] == "revenue"
    with pytest.raises(SystemExit) as ended:
        app(["--lake", str(tmp_path / "lake"), "lineage", "--affected"])
    assert ended.value.code not in (0, None)


def test_epochs_of_sinks_know_the_sources_that_they_are_given(
    opened: lw.Lake, tmp_path: Path
) -> None:
    with opened.sink("raw.orders", writer_id="w") as sink:
        sink.write([{"id": 2, "cust": 1, "amount": 1.0}])
        sink.commit_epoch(1, sources=["kafka://broker/orders"])
        sink.write([{"id": 3, "cust": 1, "amount": 1.0}])
        sink.submit_epoch(2).result()
    found = said(opened.table("raw.orders").lineage(depth=1))
    assert ("orders", "declared", "raw.orders") in found
    assert ("unknown", "unknown", "raw.orders") in found
    (tmp_path / "more.json").write_text('{"id": 4}\n')
    with opened.sink("raw.cust", writer_id="v") as sink:
        sink.consume(JsonFiles([tmp_path / "more.json"]))
    assert ("more.json", "declared", "raw.cust") in said(opened.table("raw.cust").lineage(depth=1))


def test_rows_of_a_branch_name_it_and_the_sources_that_its_writer_declares(
    opened: lw.Lake,
) -> None:
    daily = opened.table("gold.daily")
    for number, sources in enumerate([None, {"gold.daily": ["raw.cust", "s3://in/x.csv"]}]):
        branch = opened.branch(f"try{number}", tables=["gold.daily"])
        rows = pa.table({"name": ["x"], "revenue": [1.0]})
        write_deltalake(branch.table("gold.daily").location, rows, mode="append")
        branch.publish(sources=sources)
    found = said(daily.lineage(depth=1))
    assert ("branch try0", "unknown", "gold.daily") in found
    assert ("raw.cust", "declared", "gold.daily") in found
    assert ("x.csv", "declared", "gold.daily") in found
    branch = opened.branch("try", tables=["gold.daily"])
    with pytest.raises(InvalidInput, match=r"no table raw\.cust"):
        branch.publish(sources={"raw.cust": []})


def test_files_that_are_added_by_their_paths_are_sources(opened: lw.Lake) -> None:
    table = opened.table("raw.orders")
    place = Path(table.location) / "by_hand" / "new.parquet"
    place.parent.mkdir()
    pq.write_table(pa.table({"id": [2], "cust": [1], "amount": [1.0]}), place)
    with opened.transaction() as tx:
        tx.add_files("raw.orders", ["by_hand/new.parquet"])

    assert said(table.lineage()) == {
        ("orders.csv", "file", "raw.orders"),
        ("new.parquet", "file", "raw.orders"),
    }
    assert said(opened.lineage(file=str(place))) == {
        ("new.parquet", "file", "raw.orders"),
        ("raw.orders", "value", "gold.daily"),
    }


@pytest.mark.parametrize("mode", ["copy", "in-place"])
def test_migrated_tables_come_from_the_files_of_the_directory(
    opened: lw.Lake, tmp_path: Path, mode: str
) -> None:
    for region in ("eu", "us"):
        (tmp_path / "old" / f"region={region}").mkdir(parents=True)
        pq.write_table(pa.table({"id": [1]}), tmp_path / "old" / f"region={region}" / "a.parquet")

    opened.migrate(tmp_path / "old", "raw.old", mode=mode)

    found = opened.table("raw.old").lineage().edges
    assert {(str(e.source), e.kind.value, str(e.target)) for e in found} == {
        (str(tmp_path / "old" / f"region={region}" / "a.parquet"), "file", "raw.old")
        for region in ("eu", "us")
    }


def test_a_migrated_table_of_another_lake_comes_from_its_directory(
    opened: lw.Lake, tmp_path: Path
) -> None:
    write_deltalake(tmp_path / "foreign", pa.table({"id": [1]}))

    opened.migrate(tmp_path / "foreign", "raw.foreign", format="iceberg")

    assert said(opened.table("raw.foreign").lineage()) == {("foreign", "file", "raw.foreign")}


def test_a_migrated_table_of_the_lake_is_known_by_columns(opened: lw.Lake) -> None:
    opened.migrate("raw.cust", "raw.people")

    people = opened.table("raw.people")
    assert said(people.lineage()) == {
        ("raw.cust", "value", "raw.people"),
        ("unknown", "unknown", "raw.cust"),
    }
    assert ("raw.cust.name", "value", "raw.people.name") in said(people.lineage(column="name"))
    assert [str(one) for one in opened.table("raw.cust").affected("region")] == [
        "gold.daily.name",
        "gold.daily.revenue",
        "raw.people.region",
    ]


def test_lineage_of_a_lake_that_is_asked_again_and_again_is_that_of_a_new_handle(
    opened: lw.Lake, tmp_path: Path
) -> None:
    """A handle keeps the edges that it knows, and adds those of new commits."""

    def in_sql(text: str) -> None:
        with opened.transaction() as tx:
            tx.sql(text)

    steps: tuple[Callable[[], object], ...] = (
        lambda: None,
        lambda: in_sql("DELETE FROM raw.orders WHERE cust = 7"),
        lambda: opened.create("gold.top", {"name": "string"}),
        lambda: in_sql("INSERT INTO gold.top SELECT name FROM gold.daily WHERE revenue > 1"),
        lambda: in_sql("ALTER TABLE raw.orders RENAME COLUMN amount TO value"),
        lambda: in_sql(DAILY.replace("amount", "value")),
        lambda: opened.rename("raw.cust", "raw.customers"),
        lambda: opened.clone("gold.top", "gold.copy"),
        lambda: opened.table("gold.daily").append([{"name": "bob", "revenue": 1.0}]),
        lambda: opened.drop("gold.top"),
        lambda: opened.create("gold.top", {"name": "string"}),
        lambda: opened.table("gold.daily").restore(version=1),
    )
    for number, step in enumerate(steps):
        step()
        with lw.open(tmp_path / "lake") as new:
            assert opened.lineage() == new.lineage(), number
            for direction in ("upstream", "downstream"):
                ours = opened.table("raw.orders").lineage(direction=direction)
                assert ours == new.table("raw.orders").lineage(direction=direction), number
