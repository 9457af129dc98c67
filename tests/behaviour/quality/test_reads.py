"""Reads that are audited by policy, timed for service levels, and delivered as events."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from datafusion import SessionContext

import lakeward as lw
from lakeward.errors import ReadOnlyLake
from lakeward.integrations import ibis
from lakeward.integrations.datafusion import register
from lakeward.integrations.datasets import Dataset, DatasetLocation
from lakeward.log import queries
from lakeward.model.clock import now_ms
from tests.support.inside import context_of

READS: dict[str, Callable[[lw.Lake], Any]] = {
    "rows": lambda lake: lake.table("secret").to_arrow(columns=["id"]),
    "an older version": lambda lake: lake.table("secret").at(version=1).to_pandas(),
    "pages": lambda lake: lake.table("secret").head(1),
    "a counted condition": lambda lake: lake.table("secret").count("id > 1"),
    "a query": lambda lake: lake.sql("SELECT id FROM secret").to_arrow(),
    "a query of DuckDB": lambda lake: lake.sql("SELECT 1 FROM secret", engine="duckdb").to_arrow(),
    "views of DuckDB": lambda lake: lake.duckdb().close(),
    "a dataset": lambda lake: lake.table("secret").to_dataset().to_table(),
    "a lazy frame": lambda lake: lake.table("secret").scan_polars().collect(),
    "changes": lambda lake: lake.table("secret").changes(since=1).read_all(),
    "a transaction": lambda lake: in_transaction(lake, lambda tx: tx.read("secret")),
    "a statement": lambda lake: in_transaction(
        lake, lambda tx: tx.sql("INSERT INTO open SELECT id FROM secret")
    ),
    "an export": lambda lake: lake.table("secret").export(
        Path(tempfile.mkdtemp(dir=Path(context_of(lake).storage.root).parent)) / "out"
    ),
    "a difference": lambda lake: lake.table("secret").diff(1, 2, rows=True),
    "a named dataset": lambda lake: dataset(lake).to_arrow(),
    "a named dataset for engines": lambda lake: dataset(lake).to_dataset().to_table(),
    "a context of DataFusion": lambda lake: register(SessionContext(), "s", lake.table("secret")),
    "a dataset in DataFusion": lambda lake: register(SessionContext(), "s", dataset(lake)),
    "an expression of Ibis": lambda lake: through_ibis(lake),
    "a branch": lambda lake: on_branch(lake),
}


def dataset(lake: lw.Lake) -> Dataset:
    return Dataset(lake=lake, location=DatasetLocation(table="secret"))


def on_branch(lake: lw.Lake) -> None:
    branch = lake.branch("look", tables=["secret"])
    branch.table("secret").to_arrow()
    branch.drop()


def through_ibis(lake: lw.Lake) -> None:
    with ibis.connect(lake) as connection:
        connection.table("secret").to_pyarrow()


def in_transaction(lake: lw.Lake, work: Callable[[Any], object]) -> None:
    with lake.transaction() as tx:
        work(tx)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[lw.Lake]:
    with lw.open(tmp_path / "lake", actor="ann") as lake:
        for name in ("secret", "open"):
            lake.create(name, {"id": "int64"}).append([{"id": 1}, {"id": 2}])
        lake.table("secret").append([{"id": 3}])
        yield lake


def audited(lake: lw.Lake, table: str = "secret") -> list[lw.records.AuditRecord]:
    return lake.audit(table=table, action="READ")


@pytest.mark.parametrize("how", READS)
def test_reads_of_tables_whose_policy_says_so_are_in_the_trail(opened: lw.Lake, how: str) -> None:
    READS[how](opened)
    assert audited(opened) == []
    opened.set_policy("sec*", {"audit_reads": True})

    READS[how](opened)

    found = audited(opened)
    assert found
    assert {entry.actor for entry in found} == {"ann"}
    assert all(entry.version in (1, 2) for entry in found)
    opened.table("open").to_arrow()
    assert audited(opened, "open") == []
    assert opened.verify_audit().is_whole


def test_an_entry_says_what_was_read_and_no_values(opened: lw.Lake) -> None:
    opened.set_policy("secret", {"audit_reads": True})
    opened.table("secret").to_arrow(columns=["id"], where="id = 471100004711")
    opened.sql("SELECT id FROM secret WHERE id = 471100004711").to_arrow()
    opened.acting_as("bob").table("secret").to_arrow()
    bob, query, rows = audited(opened)
    assert (bob.actor, bob.detail) == ("bob", {"how": "rows"})
    assert query.detail == {"how": "sql"}
    assert (rows.detail, rows.version) == ({"how": "rows", "columns": ["id"]}, 2)
    assert "471100004711" not in str(audited(opened))
    assert len(audited(opened)) == 3


def test_a_read_that_cannot_be_recorded_is_refused(opened: lw.Lake, tmp_path: Path) -> None:
    opened.set_policy("secret", {"audit_reads": True})
    with lw.open(tmp_path / "lake", read_only=True) as lake:
        with pytest.raises(ReadOnlyLake, match="audited"):
            lake.table("secret").to_arrow()
        with pytest.raises(ReadOnlyLake, match="audited"):
            lake.sql("SELECT * FROM secret")
        assert lake.table("open").to_arrow().num_rows == 2
    assert audited(opened) == []


def test_commits_and_audited_reads_share_one_chain(opened: lw.Lake) -> None:
    opened.set_policy("secret", {"audit_reads": True})
    late = opened.transaction()
    late.append("secret", [{"id": 4}])
    opened.table("secret").to_arrow()
    late.commit()
    opened.table("secret").to_arrow()
    numbers = [entry.number for entry in opened.audit(table="secret")]
    assert numbers == sorted(numbers, reverse=True)
    assert len(set(numbers)) == len(numbers)
    assert opened.verify_audit().is_whole


def test_queries_are_timed_for_a_service_level(opened: lw.Lake) -> None:
    opened.sql("SELECT * FROM secret").to_arrow()
    level = {"objective": "query_latency", "table": "secret", "max": "5 s", "target": 0.5}
    opened.set_service_level("quick", level)
    assert opened.sla()[0].attained is None
    opened.sql("SELECT * FROM secret").to_arrow()
    opened.table("secret").to_arrow()
    opened.table("open").to_arrow()
    with opened.table("secret").to_reader():
        # Nobody read its rows, so nobody knows how long that takes.
        pass
    (found,) = opened.sla()
    assert (found.good, found.bad, found.kept) == (2, 0, True)
    assert found.wanted == "0.5 of reads ≤ 5s"
    with context_of(opened).database.write() as session:
        table_id = opened.table("secret").at().log_head.table_id
        queries.insert(session, [queries.QueryRow(table_id, now_ms(), 6000)] * 3)
    (found,) = opened.sla()
    assert (found.good, found.bad, found.kept) == (2, 3, False)


def test_times_that_wait_are_written_when_the_lake_is_closed(tmp_path: Path) -> None:
    level = {"objective": "query_latency", "table": "t", "max": "5 s"}
    with lw.open(tmp_path / "lake") as lake:
        lake.create("t", {"id": "int64"})
        lake.set_service_level("quick", level)
        lake.table("t").to_arrow()
    with lw.open(tmp_path / "lake") as lake:
        assert lake.sla()[0].good == 1


def test_reads_are_events(opened: lw.Lake) -> None:
    heard: list[Any] = []
    opened.on("read", heard.append)
    opened.sql("SELECT s.id FROM secret s JOIN open o ON s.id = o.id").to_arrow()
    opened.table("open").to_arrow(where="id = 1")
    assert opened.wait_for_listeners()
    query, rows = heard
    assert (dict(query.versions), query.how, query.rows) == ({"secret": 2, "open": 1}, "sql", 2)
    assert (dict(rows.versions), rows.how, rows.rows) == ({"open": 1}, "rows", 1)
    assert query.seconds > 0
    assert query.actor == "ann"


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
def test_the_time_of_a_query_includes_its_execution(opened: lw.Lake, engine: str) -> None:
    heard: list[Any] = []
    opened.create("many", {"id": "int64"}).append(pa.table({"id": range(8000)}))
    opened.on("read", heard.append)
    query = "SELECT sum((a.id * b.id) % 7) AS n FROM many a, many b WHERE a.id > ?"
    result = opened.sql(query, [0], engine=engine)
    began = time.perf_counter()
    result.to_arrow()
    took = time.perf_counter() - began
    assert opened.wait_for_listeners()
    assert took / 2 < heard[0].seconds <= took
