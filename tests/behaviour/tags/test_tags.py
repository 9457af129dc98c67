"""Tags: one consistent cut under a name, for both formats, that other engines know too."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable

import lakeward as lw
from lakeward.context import context_of
from lakeward.errors import (
    AlreadyExists,
    InvalidInput,
    NotFound,
    TableNotFound,
    TransactionNotFound,
    VersionNotFound,
)
from lakeward.model import steps
from tests.behaviour.lakes import append, ids
from tests.support.iceberg import stranger_table


@pytest.fixture
def tagged(lake: lw.Lake, table_format: str) -> lw.Lake:
    """A lake with a tag in the middle of the history of two tables."""
    for name in ("sales.orders", "items"):
        lake.create(name, {"id": "int64"}, format=table_format)
    with lake.transaction() as tx:
        tx.append("sales.orders", [{"id": 1}])
        tx.append("items", [{"id": 10}])
    lake.tag("2026-close", message="books are closed")
    with lake.transaction() as tx:
        tx.delete("sales.orders", where="true")
        tx.append("sales.orders", [{"id": 2}])
        tx.append("items", [{"id": 20}])
    return lake


def test_a_tag_names_one_cut_over_all_tables(tagged: lw.Lake) -> None:
    (tag,) = tagged.tags()
    assert (tag.name, tag.versions) == ("2026-close", {"items": 1, "sales.orders": 1})
    assert tag.message == "books are closed"
    assert tag.whole
    assert tagged.table("sales.orders").at(tag="2026-close").to_arrow()["id"].to_pylist() == [1]
    with tagged.snapshot(at="2026-close") as cut:
        assert cut.tag == "2026-close"
        assert cut.versions == tag.versions
        assert cut.table("items").to_arrow()["id"].to_pylist() == [10]
    assert ids(tagged, "sales.orders") == [2]


@pytest.mark.formats("iceberg")
def test_a_version_that_the_metadata_no_longer_lists_is_tagged(lake: lw.Lake) -> None:
    table = lake.create("t", {"id": "int64"}, properties={"lakeward.snapshots": "2"})
    for n in range(6):
        append(lake, "t", [{"id": n}])
    early = table.history()[-2].transaction_id

    assert lake.tag("early", at=early).versions == {"t": 1}

    assert "early" not in stranger_table(lake, "t").refs()
    table.vacuum(retention="0s", force=True)
    assert table.at(tag="early").to_arrow()["id"].to_pylist() == [0]
    lake.restore(at="early")
    assert ids(lake, "t") == [0]
    assert lake.doctor().healthy


def test_a_tag_right_after_a_drop_lacks_the_table(tagged: lw.Lake) -> None:
    tagged.drop("items")

    assert tagged.tag("after").versions == {"sales.orders": 2}

    append(tagged, "sales.orders", [{"id": 3}])
    later = [change.position for change in tagged.changes(since="after")]
    assert len(later) == 1
    tagged.undrop("items")
    assert tagged.tag("back").versions == {"sales.orders": 3, "items": 2}
    assert tagged.tag("before", at="2026-close").versions == {"sales.orders": 1, "items": 1}


def test_no_change_after_a_tag_is_left_out_if_a_table_is_brought_back(tagged: lw.Lake) -> None:
    tagged.drop("items")
    tagged.tag("dropped")
    tagged.undrop("items")

    append(tagged, "items", [{"id": 30}])

    (change,) = tagged.changes(since="dropped")
    assert change.tables["items"].version == 3


def test_a_tag_at_an_earlier_time_transaction_or_tag_names_what_was_then(tagged: lw.Lake) -> None:
    first = tagged.table("items").history()[1]
    assert tagged.tag("by-time", at=first.timestamp).versions == {"items": 1, "sales.orders": 1}
    by_id = tagged.tag("by-id", at=first.transaction_id, tables=["items"])
    assert by_id.versions == {"items": 1}
    assert not by_id.whole
    assert tagged.tag("by-tag", at="2026-close").moment == tagged.tags()[-1].moment
    before = first.timestamp - timedelta(milliseconds=1)
    assert tagged.tag("empty", at=before).versions == {"items": 0, "sales.orders": 0}


def test_a_tag_that_exists_is_moved_only_when_that_is_said(tagged: lw.Lake) -> None:
    with pytest.raises(AlreadyExists, match="2026-close"):
        tagged.tag("2026-close")
    assert tagged.table("items").at(tag="2026-close").version == 1
    tagged.tag("2026-close", tables=["items"], replace=True)
    assert tagged.table("items").at(tag="2026-close").version == 2
    with pytest.raises(VersionNotFound, match=r"names no version of table sales\.orders"):
        tagged.table("sales.orders").at(tag="2026-close")


def test_a_tag_that_is_taken_away_is_unknown(tagged: lw.Lake) -> None:
    tagged.untag("2026-close")
    assert tagged.tags() == []
    for use in (
        lambda: tagged.untag("2026-close"),
        lambda: tagged.table("items").at(tag="2026-close"),
        lambda: tagged.snapshot(at="2026-close"),
    ):
        with pytest.raises(NotFound, match="2026-close"):
            use()


def test_a_table_at_a_transaction_is_as_that_left_the_lake(tagged: lw.Lake) -> None:
    own = append(tagged, "items", {"id": [30]})
    time.sleep(0.002)  # Cuts are by the millisecond.
    tagged.create("later", {"id": "int64"})
    newest = tagged.table("items").history()[0].transaction_id
    assert tagged.table("items").at(transaction=newest).version == own
    assert tagged.table("sales.orders").at(transaction=newest).version == 2
    with pytest.raises(VersionNotFound):
        tagged.table("later").at(transaction=newest)
    with pytest.raises(TransactionNotFound, match="no transaction 'nothing'"):
        tagged.table("items").at(transaction="nothing")
    open_one = tagged.transaction()
    open_one.append("items", [{"id": 1}])
    with pytest.raises(TransactionNotFound, match="is open"):
        tagged.table("items").at(transaction=open_one.transaction_id)
    open_one.rollback()


def test_lookups_are_counted_with_their_times(tagged: lw.Lake) -> None:
    table = tagged.table("items")
    record = table.history()[0]
    table.at(version=1)
    table.at(version=1)
    table.at(timestamp=record.timestamp)
    table.at(tag="2026-close")
    tagged.snapshot(at="2026-close")
    table.at(transaction=record.transaction_id)
    found = tagged.counters()
    counts = {k: found[f"lookups_by_{k}"] for k in ("version", "timestamp", "tag", "transaction")}
    assert counts == {"version": 2, "timestamp": 1, "tag": 2, "transaction": 1}
    assert found["lookups_by_version_us"] > 0


@pytest.mark.before_the_store
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("", "must be text"),
        ("a b", "not a name"),
        ("../x", "not a name"),
        ("é", "not a name"),
        ("x" * 129, "not a name"),
        ("12", "a version"),
        ("2026-11-15", "a time"),
        ("main", "newest"),
    ],
)
def test_a_name_that_could_mean_something_else_is_refused(
    lake: lw.Lake, name: str, says: str
) -> None:
    lake.create("t", {"id": "int64"})
    with pytest.raises(InvalidInput, match=says):
        lake.tag(name)
    assert lake.tags() == []


@pytest.mark.before_the_store
def test_tags_of_nothing_of_unknown_tables_and_of_two_places_are_refused(lake: lw.Lake) -> None:
    with pytest.raises(InvalidInput, match="would name no table"):
        lake.tag("nothing")
    lake.create("t", {"id": "int64"})
    with pytest.raises(TableNotFound, match="no table u"):
        lake.tag("x", tables=["u"])
    with pytest.raises(InvalidInput, match="only one of version= and tag="):
        lake.table("t").at(version=0, tag="x")
    with lake.transaction(transaction_id="load-7") as tx:
        tx.append("t", [{"id": 1}])
    with pytest.raises(InvalidInput, match="transaction has this id"):
        lake.tag("load-7")


def test_a_tag_of_a_dropped_table_still_reads(tagged: lw.Lake) -> None:
    tagged.drop("items")
    with tagged.snapshot(at="2026-close") as cut:
        assert cut.table("items").to_arrow()["id"].to_pylist() == [10]
    assert tagged.tags()[0].versions["items"] == 1
    tagged.create("items", {"id": "int64"})
    with pytest.raises(VersionNotFound, match="names no version"):
        tagged.table("items").at(tag="2026-close")
    tagged.untag("2026-close")


@pytest.mark.formats("iceberg")
@pytest.mark.local
def test_iceberg_readers_find_the_tag_and_the_lake_goes_on(tagged: lw.Lake) -> None:
    table = tagged.table("items")

    def refs() -> dict[str, str]:
        found = StaticTable.from_metadata(str(table.metadata_location)).metadata.refs
        return {name: ref.snapshot_ref_type.value for name, ref in found.items()}

    assert refs() == {"main": "branch", "2026-close": "tag"}
    source = StaticTable.from_metadata(str(table.metadata_location))
    snapshot = source.snapshot_by_name("2026-close")
    assert snapshot is not None
    read = source.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
    assert read["id"].to_pylist() == [10]
    version = table.version
    tagged.tag("again", at="2026-close")
    assert table.version == version
    assert append(tagged, "items", {"id": [30]}) == version + 1
    assert refs() == {"main": "branch", "2026-close": "tag", "again": "tag"}
    tagged.untag("2026-close")
    assert refs() == {"main": "branch", "again": "tag"}
    assert tagged.doctor().findings == ()


@pytest.mark.formats("iceberg")
def test_a_ref_of_another_engine_is_not_taken(tagged: lw.Lake) -> None:
    foreign = stranger_table(tagged, "items")
    foreign.manage_snapshots().create_tag(foreign.current_snapshot().snapshot_id, "theirs").commit()
    with pytest.raises(AlreadyExists, match="Iceberg tag 'theirs'"):
        tagged.tag("theirs")
    assert [t.name for t in tagged.tags()] == ["2026-close"]
    tagged.tag("theirs", replace=True)
    assert tagged.doctor().findings == ()


@pytest.mark.formats("iceberg")
@pytest.mark.parametrize("change", ["tag", "untag"])
@pytest.mark.parametrize("committed", [True, False])
def test_an_interrupt_at_the_end_of_a_tag_leaves_tables_that_work(
    tagged: lw.Lake, monkeypatch: pytest.MonkeyPatch, change: str, *, committed: bool
) -> None:
    kind = type(context_of(tagged).database)
    write, armed = kind.write, list[bool]()

    @contextmanager
    def interrupted(self: Any, **how: Any) -> Generator[Any]:
        with write(self, **how) as session:
            yield session
            if armed and not committed:
                armed.clear()
                raise KeyboardInterrupt
        if armed:
            # Ctrl-C came while the store committed, and Python handles it afterwards.
            armed.clear()
            raise KeyboardInterrupt

    monkeypatch.setattr(kind, "write", interrupted)
    steps.observe(lambda step: armed.append(True) if step == "tag.inserted" else None)
    try:
        with pytest.raises(KeyboardInterrupt):
            tagged.tag("late") if change == "tag" else tagged.untag("2026-close")
    finally:
        steps.observe(None)

    known = {t.name for t in tagged.tags()}
    happened = known == ({"2026-close", "late"} if change == "tag" else set())
    assert happened == committed
    assert append(tagged, "items", {"id": [30]})
    assert sorted(ids(tagged, "items")) == [10, 20, 30]
    assert tagged.doctor().healthy


def test_a_cut_has_the_names_that_tables_had_then(lake: lw.Lake, table_format: str) -> None:
    for number, name in enumerate(("a", "b"), 1):
        lake.create(name, {"id": "int64"}, format=table_format)
        append(lake, name, [{"id": number}])
    last = lake.table("b").history()[0]
    tag = lake.tag("close")
    lake.drop("a")
    lake.rename("b", "a")

    assert lake.tags()[0].versions == tag.versions == {"a": 1, "b": 1}
    for at in ("close", last.transaction_id, last.timestamp):
        cut = lake.snapshot(at=at)
        assert cut.versions == {"a": 1, "b": 1}
        assert {t.name: t.to_arrow()["id"].to_pylist() for t in cut} == {"a": [1], "b": [2]}
    assert lake.tag("again", at="close", tables=["b"]).versions == {"b": 1}
    assert lake.table("a").at(tag="again").to_arrow()["id"].to_pylist() == [2]


def test_the_rows_of_a_cut_go_out_under_the_names_of_then(lake: lw.Lake, tmp_path: Path) -> None:
    for number, name in enumerate(("a", "b"), 1):
        lake.create(name, {"id": "int64"})
        append(lake, name, [{"id": number}])
    lake.tag("close")
    lake.drop("a")
    lake.rename("b", "a")

    with lake.duckdb(at="close") as connection:
        assert connection.sql("SELECT a.id, b.id FROM a, b").fetchall() == [(1, 2)]
    with lake.snapshot(at="close") as cut:
        done = cut.export(tmp_path / "out")
    assert [(one.table, one.version) for one in done] == [("a", 1), ("b", 1)]
