"""Frames of DataFusion are written in a transaction, with a record of how they were made."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from datafusion import SessionConfig, SessionContext
from deltalake import DeltaTable
from pyiceberg.table import StaticTable

import lakeward as lw
from lakeward.integrations.datafusion import register
from lakeward.integrations.datafusion_writes import (
    ORDERING,
    RUNTIME,
    SCHEMA,
    commit_metadata,
    write_frame,
)

ROWS = pa.table({"a": [3, 1, 2, None], "b": ["x", "y", "z", "x"]})


@pytest.fixture
def lake(tmp_path: Path) -> Generator[lw.Lake]:
    """An empty lake."""
    with lw.open(tmp_path / "lake") as lake:
        yield lake


@pytest.fixture
def context() -> SessionContext:
    """A context with a table `t` and three partitions."""
    found = SessionContext(SessionConfig().with_target_partitions(3))
    found.from_arrow(ROWS, "t")
    return found


def _newest(lake: lw.Lake, name: str) -> Mapping[str, str]:
    return lake.table(name).history(limit=1)[0].properties


def _key(column: str, *, descending: bool = False, nulls_first: bool = False) -> dict[str, Any]:
    return {"column": column, "descending": descending, "nulls_first": nulls_first}


@pytest.mark.parametrize("is_there", [True, False], ids=["exists", "created"])
@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_the_commit_says_how_the_frame_was_made_and_is_published(
    lake: lw.Lake, context: SessionContext, format_: str, is_there: bool
) -> None:
    if is_there:
        lake.create("o", "a int64, b string", format=format_)
    lake.create("other", "a int64")
    frame = context.sql("SELECT a, b FROM t ORDER BY a DESC")
    with lake.transaction(message="why", properties={"job": "j"}) as tx:
        done = write_frame(tx, "o", frame, format=format_, context=context)
        tx.append("other", [{"a": 1}])
    assert done.inserted == 4
    assert lake.table("o").to_arrow()["a"].to_pylist() == [None, 3, 2, 1]
    found = _newest(lake, "o")
    assert json.loads(found[ORDERING]) == [_key("a", descending=True, nulls_first=True)]
    assert found[SCHEMA].startswith("sha256:")
    runtime = json.loads(found[RUNTIME])
    assert runtime["settings"]["datafusion.execution.target_partitions"] == "3"
    assert (runtime["partitions"], runtime["pyarrow"]) == (1, pa.__version__)
    assert found["job"] == "j"
    assert _newest(lake, "other") == {"job": "j"}
    if format_ == "delta":
        commit = DeltaTable(lake.table("o").location).history(1)[0]
        assert {**commit, **commit.get("tags", {})}[SCHEMA] == found[SCHEMA]
    else:
        metadata = str(lake.table("o").metadata_location)
        snapshot = StaticTable.from_metadata(metadata).current_snapshot()
        assert snapshot is not None
        assert snapshot.summary is not None
        assert snapshot.summary[ORDERING] == found[ORDERING]


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        ("SELECT * FROM t", []),
        ("SELECT a AS x, b FROM t ORDER BY a, b DESC LIMIT 2", ["x", "b"]),
        ("SELECT a AS x FROM t ORDER BY a DESC, b", ["x"]),
        ("SELECT a AS x FROM t ORDER BY b, a", []),
        ("SELECT b FROM t ORDER BY b, abs(a)", ["b"]),
        ("SELECT a + 1 AS x FROM t ORDER BY a", []),
        ("SELECT x AS y FROM (SELECT a AS x, b FROM t) ORDER BY x, b", ["y"]),
        ("SELECT b AS a, a AS b FROM t ORDER BY t.b, t.a", ["a", "b"]),
        ("SELECT b FROM (SELECT * FROM t ORDER BY b)", []),
        ("SELECT a FROM t UNION ALL SELECT a FROM t ORDER BY a", ["a"]),
        ("SELECT a, count(*) AS n FROM t GROUP BY a ORDER BY n, a", ["n", "a"]),
        ('SELECT a AS "o d" FROM t ORDER BY 1', ["o d"]),
    ],
)
def test_ordering_keys_are_columns_of_the_frame(
    context: SessionContext, query: str, keys: list[str]
) -> None:
    found = json.loads(commit_metadata(context.sql(query))[ORDERING])
    assert [key["column"] for key in found] == keys


def test_the_fingerprint_changes_with_names_types_and_order(context: SessionContext) -> None:
    queries = ("a, b", "b, a", "a AS x, b", "CAST(a AS int) AS a, b")
    found = [commit_metadata(context.sql(f"SELECT {q} FROM t"))[SCHEMA] for q in queries]
    again = commit_metadata(context.sql("SELECT a, b FROM t WHERE a > 1"))[SCHEMA]
    assert len(set(found)) == 4
    assert again == found[0]


def test_a_second_frame_for_a_table_has_no_ordering(lake: lw.Lake, context: SessionContext) -> None:
    frame = context.sql("SELECT a, b FROM t ORDER BY a")
    with lake.transaction() as tx:
        write_frame(tx, "o", frame)
        write_frame(tx, "o", frame)
    assert lake.table("o").count() == 8
    assert _newest(lake, "o")[ORDERING] == "[]"
    with lake.transaction() as tx:
        tx.append("o", ROWS)
        write_frame(tx, "o", frame)
    assert _newest(lake, "o")[ORDERING] == "[]"
    with lake.transaction() as tx:
        write_frame(tx, "o", frame)
    assert _newest(lake, "o")[ORDERING] != "[]"


def test_frames_over_tables_of_the_lake_are_upserted_and_overwritten(lake: lw.Lake) -> None:
    lake.create("o", "a int64, b string").append(ROWS.slice(0, 3))
    context = SessionContext()
    register(context, "o", lake.table("o"))
    with lake.transaction() as tx:
        more = context.sql("SELECT a, 'new' AS b FROM o WHERE a > 1")
        assert write_frame(tx, "o", more, mode="upsert", on="a").updated == 2
    assert sorted(lake.table("o").to_arrow()["b"].to_pylist()) == ["new", "new", "y"]
    with lake.transaction() as tx:
        write_frame(tx, "o", context.sql("SELECT * FROM o WHERE a = 1"), mode="overwrite")
    assert lake.table("o").count() == 1
    assert SCHEMA in _newest(lake, "o")
    with lake.transaction() as tx:
        write_frame(tx, "o", context.sql("SELECT * FROM o"), mode="ignore")
    with pytest.raises(lw.errors.AlreadyExists), lake.transaction() as tx:
        write_frame(tx, "o", context.sql("SELECT * FROM o"), mode="error")
    assert lake.table("o").version == 3


def test_what_is_written_again_under_the_same_id_is_written_once(
    lake: lw.Lake, context: SessionContext
) -> None:
    for _ in range(2):
        with lake.transaction(transaction_id="once") as tx:
            write_frame(tx, "o", context.sql("SELECT a FROM t"))
    assert lake.table("o").count() == 4


def test_bad_input_is_refused_and_nothing_is_committed(
    lake: lw.Lake, context: SessionContext
) -> None:
    lake.create("o", "a int64")
    with pytest.raises(lw.errors.InvalidInput, match="no frame of DataFusion"):
        lake.run(lambda tx: write_frame(tx, "o", ROWS))
    failing = context.sql("SELECT CAST(b AS bigint) AS a FROM t")
    with pytest.raises(lw.errors.InvalidInput, match="frame failed"):
        lake.run(lambda tx: write_frame(tx, "o", failing))
    with pytest.raises(lw.errors.InvalidInput, match="not written table o"):
        lake.run(lambda tx: tx.set_properties({"x": "y"}, table="o"))
    assert lake.table("o").version == 0


def test_properties_of_one_table_survive_a_replay_on_a_newer_version(lake: lw.Lake) -> None:
    table = lake.create("o", "a int64")
    with lake.transaction() as tx:
        tx.append("o", [{"a": 1}])
        tx.set_properties({"step": "one"}, table="o")
        table.append([{"a": 2}])
    assert _newest(lake, "o") == {"step": "one"}
