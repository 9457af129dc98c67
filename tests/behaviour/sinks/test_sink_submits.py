"""Epochs committed behind their producer: in order, each once, and none after one that failed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

import pytest

import lakeward as lw
from lakeward.errors import EpochFailed, EpochOutOfOrder, Fenced, Refused
from lakeward.stream.sink import Sink
from tests.behaviour.lakes import data_files, ids

SCHEMA = {"id": "int64"}


def opened(lake: lw.Lake, name: str, **options: object) -> Sink:
    return lake.sink(name, writer_id="w", schema=SCHEMA, **options)  # type: ignore[arg-type]


@contextmanager
def held(lake: lw.Lake) -> Generator[tuple[threading.Event, threading.Event]]:
    """Holds commits up just before they are ratified: the events say that one waits, and let go."""
    waits, go = threading.Event(), threading.Event()

    def hold(_: lw.StagedCommit) -> None:
        waits.set()
        assert go.wait(30)

    lake.hooks.before_commit(hold)
    try:
        yield waits, go
    finally:
        go.set()
        lake.hooks.remove(hold)


def test_epochs_are_committed_in_order_while_the_producer_goes_on(
    shared_lake: lw.Lake, name: str
) -> None:
    with opened(shared_lake, name) as sink:
        submitted = []
        for epoch in range(30):
            sink.write({"id": [epoch]})
            submitted.append(sink.submit_epoch(epoch, progress={"at": epoch}))
        results = [s.result() for s in submitted]
        assert [r.versions for r in results] == [{name: n + 1} for n in range(30)]
        assert (sink.last_epoch, sink.progress) == (29, {"at": 29})
        assert sink.metrics().commits == 30
    assert ids(shared_lake, name) == list(range(30))


def test_rows_written_meanwhile_are_in_the_next_epoch(make_lake: Callable[[], lw.Lake]) -> None:
    lake = make_lake()
    with opened(lake, "t") as sink:
        with held(lake) as (waits, go):
            sink.write({"id": [1]})
            first = sink.submit_epoch(1)
            assert waits.wait(30)
            sink.write({"id": [2]})
            second = sink.submit_epoch(2)
            assert not first.done()
            go.set()
            assert (first.result().rows, second.result().rows) == (1, 1)
        sink.write({"id": [3]})
        assert sink.commit_epoch(3).versions == {"t": 3}
    assert ids(lake, "t") == [1, 2, 3]


def test_a_commit_waits_for_those_that_were_submitted(make_lake: Callable[[], lw.Lake]) -> None:
    lake = make_lake()
    with opened(lake, "t") as sink, held(lake) as (waits, go):
        sink.write({"id": [1]})
        sink.submit_epoch(1)
        assert waits.wait(30)
        threading.Timer(0.02, go.set).start()
        sink.write({"id": [2]})
        assert sink.commit_epoch(2).versions == {"t": 2}


def test_numbers_follow_those_that_are_under_way(make_lake: Callable[[], lw.Lake]) -> None:
    lake = make_lake()
    with opened(lake, "t") as sink, held(lake) as (waits, go):
        sink.submit_epoch(1)
        assert waits.wait(30)
        for wrong in (0, 1, 3):
            with pytest.raises(EpochOutOfOrder):
                sink.submit_epoch(wrong)
        second = sink.submit_epoch(2)
        go.set()
        assert not second.result().replayed
    assert lake.table("t").app_version("w") == 2


def test_epochs_that_are_there_are_replayed(shared_lake: lw.Lake, name: str) -> None:
    with opened(shared_lake, name) as sink:
        for epoch in range(3):
            sink.write({"id": [epoch]})
            sink.submit_epoch(epoch)
    with opened(shared_lake, name) as sink:
        replayed = []
        for epoch in range(1, 5):
            sink.write({"id": [epoch]})
            replayed.append(sink.submit_epoch(epoch))
        assert [r.result().replayed for r in replayed] == [True, True, False, False]
    assert ids(shared_lake, name) == [0, 1, 2, 3, 4]


def test_what_was_submitted_is_committed_before_the_sink_is_closed(
    shared_lake: lw.Lake, name: str
) -> None:
    with opened(shared_lake, name) as sink:
        sink.write({"id": [1]})
        sink.submit_epoch(1)
        sink.write({"id": [66]})
    assert ids(shared_lake, name) == [1]


def test_after_one_that_failed_none_is_committed_until_discard(
    make_lake: Callable[[], lw.Lake],
) -> None:
    lake = make_lake()
    with opened(lake, "t", flush_rows=1) as sink:
        sink.write({"id": [0]})
        sink.commit_epoch(0)
        kept = data_files(lake, "t")
        waits, go = threading.Event(), threading.Event()

        def refuse(_: lw.StagedCommit) -> None:
            waits.set()
            assert go.wait(30)
            what = "no"
            raise Refused(what)

        lake.hooks.before_commit(refuse)
        submitted = []
        for epoch in (1, 2, 3):
            sink.write({"id": [epoch]})
            submitted.append(sink.submit_epoch(epoch))
        assert waits.wait(30)
        go.set()
        with pytest.raises(Refused):
            submitted[0].result()
        for later in submitted[1:]:
            with pytest.raises(EpochFailed):
                later.result()
        lake.hooks.remove(refuse)
        with pytest.raises(EpochFailed):
            sink.write({"id": [4]})
        with pytest.raises(EpochFailed):
            sink.commit_epoch(4)
        assert data_files(lake, "t") == kept
        sink.discard()
        assert sink.last_epoch == 0
        for epoch in (1, 2, 3):
            sink.write({"id": [epoch]})
            sink.submit_epoch(epoch)
    assert ids(lake, "t") == [0, 1, 2, 3]


def test_an_older_instance_that_submits_is_fenced_off(shared_lake: lw.Lake, name: str) -> None:
    zombie = opened(shared_lake, name)
    opened(shared_lake, name).close()
    zombie.write({"id": [66]})
    first = zombie.submit_epoch(1)
    with pytest.raises(Fenced):
        first.result()
    with pytest.raises(Fenced):
        zombie.submit_epoch(2)
    zombie.close()
    assert ids(shared_lake, name) == []
