"""What commits leave behind is done soon, and nobody waits for it but those who close the lake."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

import lakeward as lw
from lakeward.formats.background import BackgroundWorker
from lakeward.log import heads
from lakeward.model import steps
from lakeward.model.names import TableName
from tests.behaviour.lakes import append, ids
from tests.support.inside import context_of
from tests.support.s3 import on_disk

pytestmark = pytest.mark.formats("delta")


@pytest.fixture
def held() -> Generator[threading.Event]:
    """Checkpoints get no further than their first file until this is set."""
    free = threading.Event()

    def observer(step: str) -> None:
        if step == "checkpoint.written":
            free.wait(30)

    steps.observe(observer)
    yield free
    free.set()
    steps.observe(None)


def _checkpoints(table: lw.Table) -> list[str]:
    return sorted(p.name for p in (on_disk(table.location) / "_delta_log").glob("*.checkpoint.*"))


def _pointer(table: lw.Table) -> Path:
    return on_disk(table.location) / "_delta_log/_last_checkpoint"


def test_a_commit_returns_before_its_checkpoint_is_done(
    lake: lw.Lake, held: threading.Event
) -> None:
    table = lake.create("t", {"id": "int64"}, policy={"checkpoint_interval": 2})
    for number in range(3):
        append(lake, "t", {"id": [number]})

    assert ids(lake, "t") == [0, 1, 2]
    assert not _pointer(table).exists()
    held.set()
    lake.publish()
    assert _checkpoints(table) == [f"{2:020d}.checkpoint.parquet"]
    assert _pointer(table).exists()


@pytest.mark.parametrize("repair", [True, False])
def test_closing_the_lake_waits_for_checkpoints(
    make_lake: Callable[..., lw.Lake], held: threading.Event, *, repair: bool
) -> None:
    lake = make_lake(repair=repair)
    table = lake.create("t", {"id": "int64"}, policy={"checkpoint_interval": 1})
    append(lake, "t", {"id": [1]})
    threading.Timer(0.05, held.set).start()

    lake.close()

    assert _pointer(table).exists()


def test_the_end_of_the_process_waits_for_checkpoints(tmp_path: Path) -> None:
    program = """if True:
        import sys, time
        import lakeward as lw
        from lakeward.model import steps
        slow = {"checkpoint.written": 0.2}
        steps.observe(lambda step: time.sleep(slow.get(step, 0)))
        lake = lw.open(sys.argv[1])
        lake.create("t", {"id": "int64"}, policy={"checkpoint_interval": 1})
        with lake.transaction() as tx:
            tx.append("t", {"id": [1]})
    """
    subprocess.run([sys.executable, "-c", program, tmp_path / "lake"], check=True)

    assert (tmp_path / "lake/t/_delta_log/_last_checkpoint").exists()


@pytest.mark.local
def test_a_checkpoint_that_fails_is_reported_and_the_commit_stands(
    lake: lw.Lake, caplog: pytest.LogCaptureFixture
) -> None:
    table = lake.create("t", {"id": "int64"}, policy={"checkpoint_interval": 1})
    in_the_way = on_disk(table.location) / "_delta_log" / f"{1:020d}.checkpoint.parquet"
    (in_the_way / "full").mkdir(parents=True)

    with caplog.at_level(logging.WARNING), lake.transaction() as tx:
        tx.append("t", {"id": [1]})
    lake.publish()

    assert tx.commit().published
    assert in_the_way.name in caplog.text
    append(lake, "t", {"id": [2]})
    lake.publish()
    assert _pointer(table).exists()
    assert ids(lake, "t") == [1, 2]


def test_the_store_notes_how_far_publication_got(lake: lw.Lake) -> None:
    lake.create("t", {"id": "int64"}, policy={"checkpoint_interval": 2})
    for number in range(2):
        append(lake, "t", {"id": [number]})
    context_of(lake).database.close()
    lake._background.wait()

    with context_of(lake).database.read() as session:
        assert heads.get(session, TableName.parse("t")).published == 2


def test_who_leaves_more_than_can_be_done_does_it_himself() -> None:
    background, free, mine = BackgroundWorker(), threading.Event(), threading.current_thread()
    done: list[tuple[int, threading.Thread]] = []

    def job(number: int) -> Callable[[], None]:
        def work() -> None:
            if threading.current_thread() is not mine:
                free.wait(30)
            done.append((number, threading.current_thread()))

        return work

    for number in range(4):
        background.do(job(number))
    assert done == [(2, mine), (3, mine)]
    free.set()
    background.wait()
    assert [number for number, _ in done] == [2, 3, 0, 1]
    assert mine not in [thread for _, thread in done[2:]]


def test_nothing_is_lost_however_many_leave_jobs_at_once() -> None:
    background = BackgroundWorker()
    done: list[int] = []

    def leave(start: int) -> None:
        for number in range(start, start + 50):
            background.do(lambda number=number: done.append(number))  # type: ignore[misc]

    threads = [threading.Thread(target=leave, args=(n * 50,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    background.wait()
    assert sorted(done) == list(range(300))


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_child_does_not_wait_for_its_parents_work() -> None:
    background, free = BackgroundWorker(), threading.Event()

    def long() -> None:
        free.wait(30)

    background.do(long)
    if not (child := os.fork()):
        background.wait()
        done: list[int] = []
        background.do(lambda: done.append(1))
        background.wait()
        os._exit(0 if done == [1] else 1)
    assert os.waitpid(child, 0)[1] == 0
    free.set()
    background.wait()
