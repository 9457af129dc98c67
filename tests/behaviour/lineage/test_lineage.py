"""Lineage: what is recorded with commits, what is found from it, and what is said to be unknown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import lakeward as lw
from lakeward.cli.main import app
from lakeward.errors import InvalidInput
from lakeward.log import lineage
from lakeward.model.file import LIVE
from lakeward.model.lineage.graph import Lineage
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
    assert ("gold.daily.name", "rows", "gold.daily.revenue") in found


def test_updates_and_deletes_of_operations_are_known_by_columns(opened: lw.Lake) -> None:
    with opened.transaction() as tx:
        tx.update("raw.orders", set={"amount": "CAST(cust AS DOUBLE)"}, where="id > 1")
    with opened.transaction() as tx:
        tx.delete("raw.cust", where="region = 'hidden-text'")
    with opened.transaction() as tx:
        tx.sql("UPDATE raw.orders SET cust = 4711 WHERE id IN (SELECT id FROM raw.cust)")
    orders = said(opened.table("raw.orders").lineage(column="amount", depth=1))
    assert {("raw.orders.cust", "value"), ("raw.orders.id", "rows")} <= {e[:2] for e in orders}
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


def test_what_makes_no_sense_is_refused(opened: lw.Lake) -> None:
    with pytest.raises(InvalidInput, match="no column 'nonsense'"):
        opened.table("gold.daily").lineage(column="nonsense")
    with pytest.raises(InvalidInput, match="no direction"):
        opened.table("gold.daily").lineage(direction="sideways")
