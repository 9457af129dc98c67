"""Cuts by time and by transaction: exact, the same whenever they are asked for, never a half."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
import time_machine
from deltalake import write_deltalake

import lakeward as lw
from lakeward.errors import TableNotFound, TransactionNotFound, VersionNotFound
from lakeward.log import pins
from lakeward.log.statement import Statement
from lakeward.model import steps
from lakeward.model.clock import now_ms
from tests.behaviour.lakes import append, column, ids
from tests.support.inside import context_of

NAMES = ("a", "b", "c", "d")


@pytest.fixture
def four(lake: lw.Lake) -> lw.Lake:
    for name in NAMES:
        lake.create(name, {"id": "int64"})
    return lake


def _commit(lake: lw.Lake, *names: str) -> lw.CommitResult:
    with lake.transaction() as tx:
        for name in names:
            tx.append(name, {"id": [1]})
    return tx.commit()


def _tick() -> None:
    """Let the millisecond pass: what happens in one is one moment."""
    now = now_ms()
    while now_ms() == now:
        time.sleep(0.0005)


def test_cuts_by_transaction_stay_the_same_while_writers_commit(four: lw.Lake) -> None:
    """Asked for while others commit in the same millisecond, and again when all is over."""
    made: list[lw.CommitResult] = []
    cuts: dict[str, dict[str, int]] = {}

    def work(seed: int) -> None:
        choose = random.Random(seed)
        for _ in range(12):
            done = _commit(four, *choose.sample(NAMES, choose.randint(1, 3)))
            made.append(done)
            cuts[done.transaction_id] = dict(four.snapshot(at=done.transaction_id).versions)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))

    for done in made:
        cut = cuts[done.transaction_id]
        assert cut == dict(four.snapshot(at=done.transaction_id).versions)
        assert {name: cut[name] for name in done.versions} == dict(done.versions)
        for other in made:
            inside = {version <= cut[name] for name, version in other.versions.items()}
            assert len(inside) == 1


def test_cuts_by_time_stay_the_same_while_writers_commit(four: lw.Lake) -> None:
    stop = threading.Event()

    def write(names: tuple[str, ...]) -> None:
        while not stop.is_set():
            _commit(four, *names)

    writers = [threading.Thread(target=write, args=(n,)) for n in (("a", "b"), ("c",), ("d",))]
    for writer in writers:
        writer.start()
    try:
        cuts = {}
        for _ in range(25):
            moment = datetime.now(UTC)
            cuts[moment] = dict(four.snapshot(at=moment).versions)
    finally:
        stop.set()
        for writer in writers:
            writer.join()

    for moment, cut in cuts.items():
        assert cut == dict(four.snapshot(at=moment).versions)
        assert cut["a"] == cut["b"]


def test_a_commit_that_has_its_time_and_is_under_way_is_waited_for(four: lw.Lake) -> None:
    """It will be in the cut for ever after, so it must be in it at once."""
    inserted, go_on = threading.Event(), threading.Event()

    def hold(step: str) -> None:
        if step == "ratify.inserted":
            inserted.set()
            assert go_on.wait(30)

    steps.observe(hold)
    try:
        with ThreadPoolExecutor(2) as pool:
            commit = pool.submit(_commit, four, "a", "b")
            assert inserted.wait(30)
            moment = datetime.now(UTC)
            cut = pool.submit(lambda: dict(four.snapshot(at=moment).versions))
            # Enough for a cut that does not wait; for one that does, no time is.
            wait([cut], timeout=0.5)
            go_on.set()
            commit.result(30)
            found = cut.result(30)
    finally:
        go_on.set()
        steps.observe(None)

    assert found == dict(four.snapshot(at=moment).versions) == {"a": 1, "b": 1, "c": 0, "d": 0}


def test_a_transaction_that_took_its_position_earlier_is_waited_for(
    four: lw.Lake, store: str
) -> None:
    """It commits after the one that the cut is asked for by; only PostgreSQL lets it."""
    if store != "postgres":
        pytest.skip("SQLite has one writer at a time")
    inserted, go_on = threading.Event(), threading.Event()

    def hold(step: str) -> None:
        if step == "ratify.inserted" and not inserted.is_set():
            inserted.set()
            assert go_on.wait(30)

    steps.observe(hold)
    try:
        with ThreadPoolExecutor(3) as pool:
            earlier = pool.submit(_commit, four, "a")
            assert inserted.wait(30)
            done = _commit(four, "b").transaction_id
            cut = pool.submit(lambda: dict(four.snapshot(at=done).versions))
            alone = pool.submit(lambda: four.table("a").at(transaction=done).version)
            # Enough for those that do not wait.
            wait([cut], timeout=0.5)
            wait([alone], timeout=0.5)
            go_on.set()
            earlier.result(30)
            assert (cut.result(30)["a"], alone.result(30)) == (1, 1)
    finally:
        go_on.set()
        steps.observe(None)


def test_a_cut_is_taken_when_its_moment_is_over(four: lw.Lake) -> None:
    """Before that, somebody could still commit at that very time."""
    moment = datetime.now(UTC) + timedelta(milliseconds=80)
    cut = dict(four.snapshot(at=moment).versions)
    assert datetime.now(UTC) > moment
    _commit(four, "a")

    assert dict(four.snapshot(at=moment).versions) == cut


def test_a_cut_says_its_moment_and_the_version_of_each_table(four: lw.Lake) -> None:
    done = _commit(four, "a", "c")
    _commit(four, "a", "b")

    snapshot = four.snapshot(at=done.transaction_id)
    assert snapshot.moment == done.timestamp
    assert {t.name: t.version for t in snapshot} == {"a": 1, "b": 0, "c": 1, "d": 0}
    assert snapshot.table("a").timestamp == done.timestamp
    assert four.snapshot().moment is None


@pytest.mark.parametrize("spelled", ["datetime", "text", "milliseconds"])
def test_moments_may_be_spelled_as_everywhere(four: lw.Lake, spelled: str) -> None:
    done = _commit(four, "a")
    assert done.timestamp is not None
    _commit(four, "a")
    at: datetime | str | int = done.timestamp
    if spelled == "text":
        at = done.timestamp.isoformat()
    elif spelled == "milliseconds":
        at = int(done.timestamp.timestamp() * 1000)

    assert four.snapshot(at=at).versions["a"] == 1


def test_a_table_that_was_dropped_later_is_in_the_cut(four: lw.Lake) -> None:
    append(four, "a", {"id": [7]})
    done = _commit(four, "b")
    _tick()
    four.drop("a")

    with four.snapshot(at=done.transaction_id) as snapshot:
        assert column(snapshot.table("a").to_arrow()) == [7]
    with four.snapshot() as snapshot, pytest.raises(TableNotFound):
        snapshot.table("a")


def test_of_two_tables_of_one_name_the_cut_has_the_one_of_its_time(four: lw.Lake) -> None:
    append(four, "a", {"id": [7]})
    before = _commit(four, "b")
    _tick()
    four.drop("a")
    between = _commit(four, "b")
    _tick()
    four.create("a", {"id": "int64", "more": "string"})
    append(four, "a", {"id": [8], "more": ["x"]})
    after = _commit(four, "b")

    cuts = [four.snapshot(at=done.transaction_id) for done in (before, between, after)]
    assert column(cuts[0].table("a").to_arrow()) == [7]
    assert "a" not in cuts[1].versions
    assert column(cuts[2].table("a").to_arrow()) == [8]


def test_a_table_of_the_lake_comes_before_one_that_was_adopted_later_with_an_older_history(
    four: lw.Lake, tmp_path: Path
) -> None:
    write_deltalake(tmp_path / "old", pa.table({"id": [99]}))
    append(four, "a", {"id": [7]})
    done = _commit(four, "b")
    _tick()
    four.drop("a")
    four.adopt("a", tmp_path / "old")

    assert column(four.snapshot(at=done.transaction_id).table("a").to_arrow()) == [7]
    assert column(four.snapshot().table("a").to_arrow()) == [99]


def test_a_transaction_that_was_not_committed_has_no_cut(four: lw.Lake) -> None:
    tx = four.transaction()
    tx.append("a", {"id": [1]})
    with pytest.raises(TransactionNotFound) as caught:
        four.snapshot(at=tx.transaction_id)
    assert caught.value.transaction_id == tx.transaction_id
    tx.rollback()
    with pytest.raises(TransactionNotFound):
        four.snapshot(at=tx.transaction_id)


def test_a_moment_yet_to_come_shows_what_is_there_now(four: lw.Lake) -> None:
    append(four, "a", {"id": [1]})

    assert four.snapshot(at=datetime.now(UTC) + timedelta(days=1)).versions["a"] == 1


def test_pins_are_held_while_the_block_runs_and_ignored_when_their_lease_is_over(
    four: lw.Lake,
) -> None:
    append(four, "a", {"id": [1]})
    database = context_of(four).database

    def oldest(ahead: int = 0) -> int | None:
        with database.read() as session:
            head = four.snapshot().table("a").log_head
            return pins.oldest(session, head.table_id, database.clock_ms(session) + ahead)

    with four.snapshot() as snapshot:
        append(four, "a", {"id": [2]})
        assert oldest() == 1
        assert oldest(ahead=61_000) is None
        assert column(snapshot.table("a").to_arrow()) == [1]
    assert oldest() is None
    assert ids(four, "a") == [1, 2]


def test_pins_of_the_dead_are_cleared_by_the_next_to_open_the_lake(
    lake: lw.Lake, make_lake: Callable[..., lw.Lake]
) -> None:
    lake.create("a", {"id": "int64"})
    snapshot = lake.snapshot()
    snapshot.__enter__()  # and its process dies
    count = Statement("SELECT count(*) FROM lakeward_pin")
    with context_of(lake).database.write() as session:
        session.script("UPDATE lakeward_pin SET lease_until_ms = 1")
    other = make_lake()
    with context_of(other).database.read() as session:
        assert session.row(count)[0] == 0


def test_a_pin_is_renewed_while_its_holder_lives(lake: lw.Lake) -> None:
    lake.create("a", {"id": "int64"})
    until = Statement("SELECT max(lease_until_ms) FROM lakeward_pin")
    with lake.snapshot():
        with context_of(lake).database.write() as session:
            session.script("UPDATE lakeward_pin SET lease_until_ms = 1")
        pins.extend(context_of(lake).database, sorted(lake._keeper._pins))
        with context_of(lake).database.read() as session:
            now = context_of(lake).database.clock_ms(session)
            assert session.row(until)[0] > now


@pytest.fixture
def one_millisecond() -> Iterator[None]:
    """All commits of the test get the same time, if they change different tables."""
    with time_machine.travel(datetime.now(UTC), tick=False):
        yield


@pytest.mark.usefixtures("one_millisecond")
def test_a_later_transaction_of_the_same_millisecond_is_not_in_the_cut(four: lw.Lake) -> None:
    first = _commit(four, "a")
    second = _commit(four, "b")
    assert first.timestamp == second.timestamp

    assert four.snapshot(at=first.transaction_id).versions == {"a": 1, "b": 0, "c": 0, "d": 0}
    assert four.table("b").at(transaction=first.transaction_id).version == 0
    assert four.table("a").at(transaction=second.transaction_id).version == 1
    four.table("b").restore(transaction=first.transaction_id)
    assert ids(four, "b") == []


@pytest.mark.usefixtures("one_millisecond")
def test_tables_made_and_dropped_in_the_same_millisecond_are_in_the_right_cuts(
    four: lw.Lake,
) -> None:
    before = _commit(four, "a")
    four.drop("b")
    between = _commit(four, "c")
    rows = pa.table({"id": [1]})
    with four.transaction() as tx:
        tx.create("b", rows.schema, format="iceberg")
        tx.append("b", rows)

    cuts = [
        dict(four.snapshot(at=done.transaction_id).versions)
        for done in (before, between, tx.commit())
    ]
    assert cuts == [
        {"a": 1, "b": 0, "c": 0, "d": 0},
        {"a": 1, "c": 1, "d": 0},
        {"a": 1, "b": 1, "c": 1, "d": 0},
    ]
    with pytest.raises(VersionNotFound):
        four.table("b").at(transaction=between.transaction_id)


@pytest.mark.usefixtures("one_millisecond")
def test_changes_after_a_tag_have_the_transactions_of_its_millisecond(four: lw.Lake) -> None:
    first = _commit(four, "a")
    four.tag("present")
    second = _commit(four, "b")
    four.tag("first", at=first.transaction_id)
    four.tag("again", at="present")
    four.tag("time", at=first.timestamp)

    for name in ("present", "first", "again"):
        found = [c.transaction_id for c in four.changes(since=name)]
        assert found == [second.transaction_id], name
    assert four.snapshot(at="present").versions == four.snapshot(at="first").versions
    assert list(four.changes(since="time")) == []


def test_a_cut_by_transaction_is_right_when_clocks_disagree(four: lw.Lake) -> None:
    with time_machine.travel(datetime.now(UTC) + timedelta(hours=1)):
        ahead = _commit(four, "a")
    behind = _commit(four, "b")

    assert four.snapshot(at=ahead.transaction_id).versions["b"] == 0
    assert four.table("b").at(transaction=ahead.transaction_id).version == 0
    assert four.snapshot(at=behind.transaction_id).versions["a"] == 1
    assert four.table("a").at(transaction=behind.transaction_id).version == 1


def test_clocks_that_disagree_do_not_split_a_transaction(four: lw.Lake) -> None:
    _commit(four, "a", "b")
    with time_machine.travel(datetime.now(UTC) + timedelta(hours=1)):
        ahead = _commit(four, "a")
    done = _commit(four, "a", "b")

    assert done.timestamp is not None
    assert ahead.timestamp is not None
    assert done.timestamp > ahead.timestamp
    for at in (ahead, done):
        cut = four.snapshot(at=at.transaction_id).versions
        assert (cut["a"] >= 3) == (cut["b"] >= 2)
