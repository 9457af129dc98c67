"""Events: what listeners get, when, and that they never change what happened."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from datetime import UTC
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import lakeward as lw
from lakeward.errors import Conflict, InvalidInput, Refused
from lakeward.model.steps import observe

SCHEMA = {"id": "int64"}


@pytest.fixture
def opened(tmp_path: Path) -> Any:
    with lw.open(tmp_path / "lake") as lake:
        lake.create("t", SCHEMA)
        yield lake


def _append(lake: lw.Lake, *tables: str, **options: Any) -> lw.CommitResult:
    with lake.transaction(**options) as tx:
        for table in tables:
            tx.append(table, [{"id": 1}])
    return tx.commit()


def test_a_commit_over_two_tables_is_one_event(
    lake: lw.Lake, name: str, new_name: Callable[[], str]
) -> None:
    other = new_name()
    for table in (name, other):
        lake.create(table, SCHEMA)
    events: list[lw.CommitEvent] = []
    lake.on("commit", events.append)

    with lake.transaction(message="why") as tx:
        tx.append(name, [{"id": 1}])
        tx.delete(other, where="id = 5")
        tx.append(other, [{"id": 2}])
    result = tx.commit()
    assert lake.wait_for_listeners()

    (event,) = events
    assert event.transaction_id == result.transaction_id
    assert event.versions == result.versions == {name: 1, other: 1}
    assert event.timestamp == result.timestamp
    assert event.timestamp.tzinfo is UTC
    newest = lake.table(name).history()[0]
    assert (event.actor, event.message) == (newest.actor, "why")
    assert event.operations == {t: lake.table(t).history()[0].operation for t in (name, other)}
    assert event.published


def test_an_event_cannot_be_changed(opened: lw.Lake) -> None:
    events: list[Any] = []
    opened.on("commit", events.append)

    _append(opened, "t")
    assert opened.wait_for_listeners()

    with pytest.raises(FrozenInstanceError):
        events[0].published = False
    with pytest.raises(TypeError):
        events[0].versions["t"] = 7
    with pytest.raises(TypeError):
        events[0].operations["t"] = "MERGE"


def test_the_commit_is_visible_and_published_when_a_listener_runs(opened: lw.Lake) -> None:
    log = Path(opened.table("t").location) / "_delta_log"
    seen: list[Any] = []

    @opened.on("commit")
    def look(event: lw.CommitEvent) -> None:
        version = event.versions["t"]
        published = (log / f"{version:020}.json").exists()
        outcome = opened.outcome(event.transaction_id)
        seen.append((opened.table("t").version, published, outcome.committed))

    _append(opened, "t")
    assert opened.wait_for_listeners()

    assert seen == [(1, True, True)]


def test_each_listener_gets_its_events_in_order_and_in_one_thread_of_its_own(
    opened: lw.Lake,
) -> None:
    seen: list[tuple[str, int, int]] = []

    def note(letter: str, event: lw.CommitEvent) -> None:
        seen.append((letter, threading.get_ident(), event.versions["t"]))

    for letter in "abc":
        opened.on("commit", partial(note, letter))
    for _ in range(5):
        _append(opened, "t")
    assert opened.wait_for_listeners()

    for letter in "abc":
        assert [v for found, _, v in seen if found == letter] == [1, 2, 3, 4, 5]
    threads = {(letter, ident) for letter, ident, _ in seen}
    assert len(threads) == len({ident for _, ident in threads}) == 3
    assert threading.get_ident() not in {ident for _, ident in threads}


def test_a_listener_that_raises_is_logged_by_name_and_changes_nothing(
    opened: lw.Lake, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[Any] = []

    @opened.on("commit")
    def quarrelsome(_: lw.CommitEvent) -> None:
        raise Refused("I will not have it.")  # noqa: EM101

    opened.on("commit", seen.append)
    with caplog.at_level(logging.WARNING, "lakeward"):
        result = _append(opened, "t")
        assert opened.wait_for_listeners()

    assert result.versions == {"t": 1}
    assert opened.table("t").to_arrow().num_rows == 1
    assert len(seen) == 1
    (warning,) = [r.getMessage() for r in caplog.records]
    assert "quarrelsome" in warning
    assert "I will not have it." in warning


def test_an_event_tells_that_publishing_failed(
    opened: lw.Lake, caplog: pytest.LogCaptureFixture
) -> None:
    events: list[lw.CommitEvent] = []
    opened.on("commit", events.append)
    foreign = Path(opened.table("t").location) / "_delta_log" / f"{1:020}.json"
    foreign.write_text('{"commitInfo": {}}')

    with caplog.at_level(logging.ERROR, "lakeward"):
        result = _append(opened, "t")
    foreign.unlink()
    assert opened.wait_for_listeners()

    assert [(e.versions["t"], e.published) for e in events] == [(1, False)]
    assert not result.published


def test_what_is_not_committed_is_no_event(opened: lw.Lake) -> None:
    events: list[lw.CommitEvent] = []
    opened.on("commit", events.append)

    with opened.transaction():
        pass
    opened.transaction().rollback()
    with opened.transaction() as reader:
        reader.read("t")
    slow = opened.transaction()
    slow.overwrite("t", [{"id": 1}])
    _append(opened, "t")
    with pytest.raises(Conflict):
        slow.commit()
    assert opened.wait_for_listeners()

    assert [e.versions for e in events] == [{"t": 1}]


def test_a_replay_by_id_is_delivered_once(opened: lw.Lake) -> None:
    events: list[lw.CommitEvent] = []
    opened.on("commit", events.append)

    first, second = (opened.transaction(transaction_id="night-1") for _ in range(2))
    for tx in (first, second):
        tx.append("t", [{"id": 1}])
    assert first.commit().versions == second.commit().versions == {"t": 1}
    assert first.commit() is first.commit()
    assert _append(opened, "t", transaction_id="night-1").versions == {"t": 1}
    assert opened.wait_for_listeners()

    assert [e.transaction_id for e in events] == ["night-1"]


def test_a_listener_may_commit_and_its_events_come_after(opened: lw.Lake) -> None:
    opened.create("audit", SCHEMA)
    seen: list[tuple[str, dict[str, int]]] = []

    @opened.on("commit")
    def audit(event: lw.CommitEvent) -> None:
        seen.append(("audit", dict(event.versions)))
        if "t" in event.versions:
            _append(opened, "audit")

    opened.on("commit", lambda event: seen.append(("second", dict(event.versions))))

    for _ in range(2):
        _append(opened, "t")
        assert opened.wait_for_listeners()

    for listener in ("audit", "second"):
        assert [versions for found, versions in seen if found == listener] == [
            versions for n in (1, 2) for versions in ({"t": n}, {"audit": n})
        ]
    assert opened.table("audit").to_arrow().num_rows == 2


def test_a_listener_may_lock_the_table_that_was_just_committed(opened: lw.Lake) -> None:
    done = []

    @opened.on("commit")
    def again(event: lw.CommitEvent) -> None:
        if event.message is None:
            with opened.transaction(message="again", locks={"t": "write"}, lock_timeout=0) as tx:
                tx.append("t", [{"id": 2}])
            done.append(tx.commit().versions)

    with opened.transaction(locks={"t": "write"}) as tx:
        tx.append("t", [{"id": 1}])
    assert opened.wait_for_listeners()

    assert done == [{"t": 2}]


def test_threads_that_commit_at_once_deliver_each_commit_once(opened: lw.Lake) -> None:
    seen: list[str] = []
    opened.on("commit", lambda event: seen.append(event.transaction_id))
    results: list[str] = []

    def work() -> None:
        results.extend(_append(opened, "t").transaction_id for _ in range(5))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert opened.wait_for_listeners()

    assert sorted(seen) == sorted(results)
    assert len(set(seen)) == 20


def test_sinks_branches_and_functions_deliver_too(opened: lw.Lake) -> None:
    seen: list[dict[str, int]] = []
    opened.on("commit", lambda event: seen.append(dict(event.versions)))

    opened.run(lambda tx: tx.append("t", [{"id": 1}]))
    with opened.sink("t", writer_id="w") as sink:
        sink.write([{"id": 2}])
        sink.commit_epoch(1)
    branch = opened.branch("b", tables=["t"])
    branch.publish()
    assert opened.wait_for_listeners()

    assert seen[:2] == [{"t": 1}, {"t": 2}]


def test_off_ends_it_and_other_lake_objects_hear_nothing(opened: lw.Lake, tmp_path: Path) -> None:
    seen: list[Any] = []
    opened.on("commit", seen.append)
    with lw.open(tmp_path / "lake") as other:
        _append(other, "t")
    assert seen == []
    opened.off("commit", seen.append)
    opened.off("commit", print)
    _append(opened, "t")
    assert opened.wait_for_listeners()
    assert seen == []


def test_events_and_listeners_that_make_no_sense_are_refused(opened: lw.Lake) -> None:
    with pytest.raises(InvalidInput, match="no event 'comit'"):
        opened.on("comit", print)
    with pytest.raises(InvalidInput, match="no event"):
        opened.off("comit", print)
    bad: Any = 5
    with pytest.raises(InvalidInput, match="function of an event"):
        opened.on("commit", bad)


def test_events_need_no_observer_of_steps(opened: lw.Lake) -> None:
    observe(None)
    seen: list[Any] = []
    opened.on("commit", seen.append)
    _append(opened, "t")
    assert opened.wait_for_listeners()
    assert len(seen) == 1
