"""The transactions of the whole lake in their order, and consumers that keep their place."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

import lakeward as lw
from lakeward.errors import Conflict, InvalidInput, TableNotFound, TransactionNotFound
from lakeward.log import positions
from lakeward.log.database import Database, Session
from lakeward.log.positions import Placed
from lakeward.log.waiting import waiter
from tests.behaviour.lakes import append
from tests.support.inside import context_of

pytestmark = pytest.mark.formats("delta")


@pytest.fixture
def both(lake: lw.Lake) -> lw.Lake:
    """A lake with a table of each format, changed by three transactions."""
    lake.create("a", {"id": "int64"}, format="delta")
    lake.create("b", {"id": "int64"}, format="iceberg")
    with lake.transaction(message="both") as tx:
        tx.append("a", {"id": [1]})
        tx.append("b", {"id": [2, 3]})
    lake.table("a").delete(where="id = 1", message="gone")
    append(lake, "b", {"id": [4]})
    return lake


def _told(changes: Any) -> list[tuple[str | None, dict[str, int]]]:
    return [(c.message, {n: t.count() for n, t in c.tables.items()}) for c in changes]


def test_transactions_come_whole_and_in_order(both: lw.Lake) -> None:
    found = list(both.changes())

    assert _told(found) == [
        (None, {"a": 0}),
        (None, {"b": 0}),
        ("both", {"a": 1, "b": 2}),
        ("gone", {"a": 1}),
        (None, {"b": 1}),
    ]
    assert [c.position for c in found] == sorted({c.position for c in found})
    record = both.transaction_record(found[2].transaction_id)
    assert {n: t.version for n, t in found[2].tables.items()} == record.versions
    assert found[2].actor == record.actor
    deleted = found[3].tables["a"].to_arrow().to_pylist()
    assert [(r["id"], r["_change_type"]) for r in deleted] == [(1, "delete")]


def test_a_stream_begins_where_it_is_told_to(both: lw.Lake) -> None:
    found = list(both.changes())
    third = found[2]

    for since in (third.position, third.transaction_id, third.timestamp):
        assert list(both.changes(since=since)) == found[2:]
    assert list(both.changes(after=third.position)) == found[3:]
    assert list(both.changes(since="2999-01-01")) == []
    assert _told(both.changes(tables=["b"])) == [
        (None, {"b": 0}),
        ("both", {"b": 2}),
        (None, {"b": 1}),
    ]


def test_who_begins_at_a_tag_or_after_the_newest_gets_what_is_committed_next(
    both: lw.Lake,
) -> None:
    both.tag("begun")
    newest = list(both.changes())[-1]
    moment = newest.timestamp + timedelta(milliseconds=1)
    late, tagged = both.consumer("late", since=moment), both.consumer("tagged", since="begun")
    followed = both.follow(since=moment, timeout=0)
    assert list(late) == list(tagged) == list(both.changes(since="begun")) == []

    time.sleep(0.002)
    append(both, "a", [{"id": 99}])

    assert [set(c.tables) for c in late] == [set(c.tables) for c in tagged] == [{"a"}]
    assert [c.position for c in followed] == [c.position for c in both.changes(since="begun")]
    assert [c.position for c in late] == [c.position for c in both.changes(since=moment)]


def test_bad_starts_are_refused(both: lw.Lake) -> None:
    with pytest.raises(TransactionNotFound, match="neither a moment, nor a tag, nor"):
        both.changes(since="nothing")
    with pytest.raises(TableNotFound):
        both.changes(tables=["nope"])
    with pytest.raises(InvalidInput, match="not both"):
        both.changes(since=1, after=1)
    with pytest.raises(InvalidInput):
        both.consumer("")


def test_a_dropped_table_stays_in_the_stream(both: lw.Lake) -> None:
    both.drop("a")

    assert _told(both.changes())[2] == ("both", {"a": 1, "b": 2})


def test_each_table_has_the_name_that_it_had_at_the_commit(both: lw.Lake) -> None:
    """Two tables of one transaction have one name later: none hides the other."""
    (before,) = (c for c in both.changes() if c.message == "both")
    both.drop("a")
    both.rename("b", "a")
    both.create("b", {"id": "int64"})
    append(both, "b", {"id": [9]})

    after = list(both.changes())
    (same,) = (c for c in after if c.message == "both")
    assert {n: (t.table_id, t.version) for n, t in same.tables.items()} == {
        n: (t.table_id, t.version) for n, t in before.tables.items()
    }
    assert [t.name_now for t in same.tables.values()] == ["a", "a"]
    assert same.tables["a"].to_arrow()["id"].to_pylist() == [1]
    assert _told(after)[4:] == [
        (None, {"b": 1}),
        (None, {"a": 0}),
        (None, {"b": 0}),
        (None, {"b": 1}),
    ]
    found = both.changes(tables=["a"])
    assert [list(c.tables) for c in found] == [["a"], ["b"], ["a", "b"], ["a"], ["b"], ["a"]]
    expected = {"a": 1, "b": 1}
    assert both.outcome(same.transaction_id).versions == expected
    assert both.transaction_record(same.transaction_id).versions == expected


def test_a_consumer_goes_on_where_it_was(both: lw.Lake, make_lake: Callable[..., lw.Lake]) -> None:
    consumer = both.consumer("index")
    seen = []
    for change in consumer:
        seen.append(change.position)
        consumer.done(change)
        if len(seen) == 3:
            break

    again = make_lake().consumer("index", since="2999-01-01")
    assert again.position == seen[-1]
    assert [c.message for c in again] == ["gone", None]
    (record,) = both.consumers()
    assert (record.name, record.position) == ("index", seen[-1])
    again.rewind(0)
    assert len(list(consumer)) == 5
    again.forget()
    assert both.consumers() == []


def test_what_a_consumer_writes_and_its_position_are_one_commit(both: lw.Lake) -> None:
    both.create("out", {"n": "int64"})
    consumer = both.consumer("index")
    first, second = list(consumer)[:2]
    with consumer.transaction(first) as tx:
        tx.append("out", {"n": [1]})
    failing = consumer.transaction(second)
    failing.append("out", {"n": [2]})
    failing.rollback()

    assert consumer.position == first.position
    assert both.table("out").to_arrow()["n"].to_pylist() == [1]
    with pytest.raises(Conflict, match="done with transaction"):
        consumer.transaction(first)
    with consumer.transaction(second):
        pass
    assert consumer.position == second.position


def test_its_own_transactions_do_not_come_back(both: lw.Lake) -> None:
    both.create("out", {"n": "int64"})
    consumer = both.consumer("index")
    for change in consumer:
        with consumer.transaction(change) as tx:
            tx.append("out", {"n": [change.position]})

    assert list(consumer) == []
    assert len(list(both.consumer("other"))) == 6 + 6


def test_of_two_processes_that_are_one_consumer_one_is_refused(
    both: lw.Lake, make_lake: Callable[..., lw.Lake]
) -> None:
    both.create("out", {"n": "int64"})
    one, other = both.consumer("index"), make_lake().consumer("index")
    change = next(iter(one))
    late = other.transaction(change)
    late.append("out", {"n": [2]})
    with one.transaction(change) as tx:
        tx.append("out", {"n": [1]})

    with pytest.raises(Conflict, match="done with transaction"):
        late.commit()
    assert both.table("out").to_arrow()["n"].to_pylist() == [1]


def test_a_follower_is_woken_by_a_commit_of_another_process(
    both: lw.Lake, make_lake: Callable[..., lw.Lake]
) -> None:
    consumer = both.consumer("index", since="2999-01-01")
    assert list(consumer) == []
    consumer.rewind(list(both.changes())[-1].position)
    writer = make_lake()
    timer = threading.Timer(0.3, lambda: append(writer, "a", {"id": [9]}))
    began = time.monotonic()
    timer.start()
    change = next(consumer.follow(timeout=60))

    assert _told([change]) == [(None, {"a": 1})]
    assert time.monotonic() - began < 30
    assert list(consumer.follow(timeout=0)) == [change]


def test_nothing_is_passed_on_while_an_earlier_transaction_may_appear(
    both: lw.Lake, store: str
) -> None:
    """A transaction that took its position first commits last; only PostgreSQL lets it."""
    if store != "postgres":
        pytest.skip("SQLite has one writer at a time")
    known = list(both.changes())
    with context_of(both).database.write() as earlier:
        positions.take(earlier)
        append(both, "a", {"id": [5]})
        while_it_runs = list(both.changes())
    after = list(both.changes())

    assert while_it_runs == known
    assert _told(after[len(known) :]) == [(None, {"a": 1})]


def test_an_adopted_table_comes_version_by_version(both: lw.Lake) -> None:
    location = both.table("a").location
    both.drop("a")
    before = len(list(both.changes()))
    both.adopt("again", location, take_over=True)

    adopted = list(both.changes())[before:]
    assert [c.tables["again"].version for c in adopted] == [0, 1, 2, 3]
    assert both.table("again").history(limit=1)[0].operation == "ADOPT TABLE"


def test_the_id_by_which_a_consumer_knows_its_transactions_cannot_be_replaced(
    both: lw.Lake,
) -> None:
    consumer = both.consumer("copy")
    change = list(consumer)[-1]
    with pytest.raises(InvalidInput, match="takes no transaction_id"):
        consumer.transaction(change, transaction_id="mine")
    with consumer.transaction(change) as tx:
        tx.append("a", {"id": [7]})

    assert list(consumer) == []


def test_tables_are_selected_by_a_name_of_the_past(both: lw.Lake) -> None:
    append(both, "a", {"id": [1]})
    append(both, "b", {"id": [2]})
    consumer = both.consumer("copy", tables=["a"])
    before = [c.position for c in both.changes(tables=["a"])]
    both.rename("a", "c")
    both.drop("b")

    assert [c.position for c in both.changes(tables=["a"])][: len(before)] == before
    again = both.consumer("copy", tables=["a"])
    assert [c.position for c in again][: len(before)] == before
    assert all("b" in c.tables for c in both.changes(tables=["b"]))
    assert len(list(both.changes(tables=["b"]))) > 1
    assert consumer.position == 0
    with pytest.raises(TableNotFound, match="nowhere"):
        both.changes(tables=["nowhere"])


def test_a_follower_of_some_tables_reads_transactions_of_others_once(
    both: lw.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    pages = positions.pages

    def noted(database: Database, after: int) -> Iterator[list[list[Placed]]]:
        looks.append(after)
        return pages(database, after)

    monkeypatch.setattr(positions, "pages", noted)
    newest = [change.position for change in both.changes()][-1]
    looks.clear()

    seen = [change.position for change in both.follow(tables=["a"], timeout=0.5)]

    assert max(seen) < newest
    assert len(looks) > 1
    assert set(looks[1:]) == {newest}


def test_a_commit_notifies_followers(
    both: lw.Lake, make_lake: Callable[..., lw.Lake], store: str
) -> None:
    if store != "postgres":
        pytest.skip("only PostgreSQL notifies")
    follower: Any = waiter(context_of(both).database)
    try:
        append(make_lake(), "a", {"id": [9]})
        found = list(follower._connection.notifies(timeout=30, stop_after=1))
    finally:
        follower.close()
    assert len(found) == 1


def test_a_follower_on_sqlite_looks_less_and_less_often(
    both: lw.Lake, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if store != "sqlite":
        pytest.skip("PostgreSQL notifies")
    follower = waiter(context_of(both).database)
    follower.wait(5)  # It has not looked before, so it returns at once.
    looks: list[float] = []
    last = positions.last

    def noted(session: Session) -> int:
        looks.append(time.monotonic())
        return last(session)

    monkeypatch.setattr(positions, "last", noted)
    follower.wait(1.0)
    follower.close()
    assert 5 < len(looks) < 25
