"""R5: published files that are torn, there already, or somebody else's; many publishers at once."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

import lakeward as lw
from lakeward.errors import ForeignCommit
from lakeward.log.drivers.postgres import PostgresDatabase
from lakeward.log.drivers.sqlite import SqliteDatabase
from tests.support import processes
from tests.support.invariants import check_lake, logged_bytes, published_path
from tests.support.sizes import sizes
from tests.support.target import LakeTarget

pytestmark = pytest.mark.slow

TABLE = "owed"


@dataclass(frozen=True)
class Load:
    """How many versions are owed, and how many publishers come at once."""

    backlog: int
    publishers: int = 8


@sizes("load", short=Load(40), full=Load(500))
@pytest.mark.parametrize("turns", [True, False], ids=["in turn", "all at once"])
def test_many_publishers_write_each_version_once_and_in_order(
    lake_target: LakeTarget,
    make_lake: Callable[[], lw.Lake],
    store: str,
    turns: bool,
    load: Load,
) -> None:
    lake = owing_lake(make_lake, load.backlog)
    with (
        watched(published_path(lake, TABLE, 0).parent) as (seen, wrong),
        processes.started(load.publishers, publish, lake_target, turns) as workers,
    ):
        for worker in workers:
            worker.finish()
    assert all(worker.killed or worker.process.exitcode == 0 for worker in workers)
    assert not wrong, f"version {wrong[0]} was not there when a later one was"
    before = files_of(lake, load.backlog)
    assert lake.publish() == {}
    make_lake()
    assert files_of(lake, load.backlog) == before, "a published file was written again"
    check_lake(lake, [TABLE])
    print(
        f"\nR5 {store}: {load.publishers} publishers {'in turn' if turns else 'all at once'} on a"
        f" backlog of {load.backlog}, {sum(w.killed for w in workers)} of them killed: each version"
        f" once, in order (looked {seen[0]} times), as logged"
    )


@pytest.mark.parametrize("kept", ["nothing", "one byte", "half", "all but one byte"])
def test_torn_file_is_made_whole_from_the_log(make_lake: Callable[[], lw.Lake], kept: str) -> None:
    lake = owing_lake(make_lake, 4)
    whole = logged_bytes(lake, TABLE, 2)
    size = {"nothing": 0, "one byte": 1, "half": len(whole) // 2, "all but one byte": -1}[kept]
    published_path(lake, TABLE, 2).write_bytes(whole[:size])

    make_lake()

    assert published_path(lake, TABLE, 2).read_bytes() == whole
    check_lake(lake, [TABLE])


def test_file_that_another_publisher_wrote_is_left_as_it_is(
    make_lake: Callable[[], lw.Lake],
) -> None:
    lake = owing_lake(make_lake, 4)
    path = published_path(lake, TABLE, 2)
    path.write_bytes(logged_bytes(lake, TABLE, 2))
    before = identity(path)

    make_lake()

    assert identity(path) == before
    check_lake(lake, [TABLE])


@pytest.mark.parametrize("kind", ["another commit", "ours and more", "no commit at all"])
def test_foreign_file_is_reported_and_left_alone_and_nothing_after_it_is_published(
    make_lake: Callable[[], lw.Lake], caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    lake = owing_lake(make_lake, 4)
    path = published_path(lake, TABLE, 2)
    ours = logged_bytes(lake, TABLE, 2)
    foreign = {
        "another commit": b'{"commitInfo":{"operation":"WRITE","engineInfo":"somebody"}}\n',
        "ours and more": ours + b'{"commitInfo":{}}\n',
        "no commit at all": b"\x00\xff not JSON",
    }[kind]
    path.write_bytes(foreign)

    with caplog.at_level(logging.WARNING):
        opened = make_lake()
    assert path.name in caplog.text
    with pytest.raises(ForeignCommit) as caught:
        opened.publish()
    assert (caught.value.table, caught.value.version) == (TABLE, 2)
    assert path.read_bytes() == foreign
    assert published_path(lake, TABLE, 1).exists()
    assert not published_path(lake, TABLE, 3).exists()

    # The log goes on, and says that the commit is not published.
    with opened.transaction() as tx:
        tx.append(TABLE, [{"n": 99}])
    assert not tx.commit().published
    assert path.read_bytes() == foreign
    assert not published_path(lake, TABLE, 3).exists()

    path.rename(path.with_suffix(".foreign"))
    opened.publish()
    check_lake(opened, [TABLE])


def test_foreign_file_in_the_place_of_the_next_version_is_never_overwritten(
    make_lake: Callable[[], lw.Lake], caplog: pytest.LogCaptureFixture
) -> None:
    lake = make_lake()
    lake.create(TABLE, {"n": "int64"})
    path = published_path(lake, TABLE, 1)
    path.write_bytes(b'{"commitInfo":{"operation":"WRITE","engineInfo":"somebody"}}\n')
    foreign = identity(path)

    with caplog.at_level(logging.WARNING), lake.transaction() as tx:
        tx.append(TABLE, [{"n": 1}])

    assert tx.commit().versions == {TABLE: 1}
    assert not tx.commit().published
    assert path.name in caplog.text
    assert identity(path) == foreign
    assert lake.table(TABLE).to_arrow().to_pydict() == {"n": [1]}


def publish(pipe: Connection, number: int, target: LakeTarget, turns: bool) -> None:
    """Open the lake, which publishes what is owed; every other publisher dies on the way."""
    if not turns:
        # Turns only save work: without them everybody races for every version.
        patch = pytest.MonkeyPatch()
        for kind in (SqliteDatabase, PostgresDatabase):
            patch.setattr(kind, "turn", lambda self, table_id: nullcontext())
    if number % 2:
        step = ("publish.written", "publish.linked")[number // 2 % 2]
        processes.kill_myself_at(step, number)
    pipe.send("ready")
    pipe.recv()
    target.open()


def owing_lake(make_lake: Callable[[], lw.Lake], backlog: int) -> lw.Lake:
    """A lake with a table of which only version 0 is published."""
    lake = make_lake()
    lake.create(TABLE, {"n": "int64"})
    directory = published_path(lake, TABLE, 0).parent
    with blocked(directory):
        for n in range(backlog):
            with lake.transaction() as tx:
                tx.append(TABLE, [{"n": n}])
            assert not tx.commit().published
    assert [p.name for p in directory.glob("*.json")] == [published_path(lake, TABLE, 0).name]
    return lake


@contextmanager
def blocked(directory: Path) -> Generator[None]:
    """Nothing can be written to the directory: for root too, who may write to read-only ones."""
    aside = directory.with_name("aside")
    directory.rename(aside)
    directory.touch()
    try:
        yield
    finally:
        directory.unlink()
        aside.rename(directory)


@contextmanager
def watched(directory: Path) -> Generator[tuple[list[int], list[int]]]:
    """How often somebody looked, and the versions that were missing below the newest one."""
    seen, wrong = [0], list[int]()
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            # What is listed was there before we look for what must be older.
            last = max(int(p.stem) for p in directory.glob("*.json") if p.stem.isdigit())
            wrong.extend(v for v in range(last) if not (directory / f"{v:020d}.json").exists())
            seen[0] += 1
            time.sleep(0.0005)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen, wrong
    finally:
        done.set()
        thread.join()


def files_of(lake: lw.Lake, newest: int) -> list[tuple[int, int]]:
    """The published files."""
    return [identity(published_path(lake, TABLE, v)) for v in range(newest + 1)]


def identity(path: Path) -> tuple[int, int]:
    """What tells a file from one written anew; that it was read changes nothing."""
    found = path.stat()
    return found.st_ino, found.st_mtime_ns
