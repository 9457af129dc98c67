"""What a commit promises is on disk before it is promised, whoever takes it there."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import lakeward as lw
from lakeward.model import steps
from lakeward.storage import syncing
from lakeward.storage.syncing import _Ring
from tests.behaviour.lakes import append, data_files, ids, log_files
from tests.behaviour.published import document
from tests.support.s3 import on_disk

# There is nothing to sync on an object store.
pytestmark = pytest.mark.local

SLOW_SECONDS = 0.05


class Stop(Exception):
    """Ends a commit in the middle."""


@pytest.fixture
def at_step() -> Generator[Callable[[str, Callable[[], None]], None]]:
    """Lets something happen whenever a step is reached."""
    actions: dict[str, Callable[[], None]] = {}

    def observer(step: str) -> None:
        if step in actions:
            actions[step]()

    steps.observe(observer)
    yield actions.__setitem__
    steps.observe(None)


@pytest.fixture(params=["together", "one by one"])
def synced(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> set[tuple[int, int]]:
    """Files and directories whose sync is over; the disk takes its time."""
    done: set[tuple[int, int]] = set()
    sync, ask, end = os.fsync, _Ring.begin, _Ring.end
    asked: dict[_Ring, list[os.stat_result]] = {}

    def slow(handle: int) -> None:
        found = os.fstat(handle)
        # A name takes longer than the bytes, so that nobody is safe by accident.
        time.sleep(SLOW_SECONDS * (4 if stat.S_ISDIR(found.st_mode) else 1))
        sync(handle)
        done.add(_identity(found))

    def begin(ring: _Ring, handles: Sequence[int]) -> bool:
        asked[ring] = [os.fstat(handle) for handle in handles]
        return ask(ring, handles)

    def slow_end(ring: _Ring, count: int) -> int:
        time.sleep(SLOW_SECONDS)
        failed = end(ring, count)
        done.update(_identity(found) for found in asked.pop(ring))
        return failed

    monkeypatch.setattr(os, "fsync", slow)
    monkeypatch.setattr(_Ring, "begin", begin)
    monkeypatch.setattr(_Ring, "end", slow_end)
    if request.param == "one by one":
        monkeypatch.setattr(syncing, "KERNEL", None)
    elif syncing.KERNEL is None:
        pytest.skip("the kernel syncs nothing together here")
    return done


@pytest.mark.parametrize("busy", [False, True], ids=["alone", "busy"])
def test_data_and_its_name_are_safe_before_the_log_commits(
    lake: lw.Lake,
    make_lake: Callable[[], lw.Lake],
    synced: set[tuple[int, int]],
    at_step: Any,
    busy: bool,
) -> None:
    place = on_disk(lake.create("t", {"id": "int64"}).location)
    missing: list[str] = []

    def look() -> None:
        newest = max(place.glob("*.parquet"), key=lambda p: p.stat().st_mtime_ns)
        missing.extend(p.name for p in (place, newest) if _identity(p.stat()) not in synced)

    before = 0
    if busy:
        # Others write as well, so nobody holds the store for longer than he must.
        for writer in (lake, make_lake(), lake):
            before = append(writer, "t", {"id": [0]})
        at_step("ratify.locked", look)
    at_step("ratify.inserted", look)
    synced.clear()
    append(lake, "t", {"id": [1]})

    assert len(data_files(lake, "t")) == before + 1
    assert missing == []


def test_nobody_is_kept_waiting_for_much_data(
    lake: lw.Lake, synced: set[tuple[int, int]], at_step: Any
) -> None:
    """Much data is synced before the store is taken, which others may want."""
    place = on_disk(lake.create("t", {"noise": "binary"}).location)
    missing: list[str] = []

    def look() -> None:
        needed = [place, *place.glob("*.parquet")]
        missing.extend(p.name for p in needed if _identity(p.stat()) not in synced)

    at_step("ratify.locked", look)
    synced.clear()
    append(lake, "t", {"noise": [os.urandom(2**21)]})

    assert len(data_files(lake, "t")) == 1
    assert missing == []


def test_files_that_wait_for_their_sync_are_few(lake: lw.Lake, at_step: Any) -> None:
    lake.create("t", {"id": "int64", "part": "int64"}, partition_by=["part"])
    append(lake, "t", {"id": [0], "part": [0]})
    before, most = _open_files(), 0

    def count() -> None:
        nonlocal most
        most = max(most, _open_files())

    at_step("stage.file-written", count)
    append(lake, "t", {"id": list(range(100)), "part": list(range(100))})
    assert before < most <= before + 2 * 32
    undone = lake.transaction()
    undone.append("t", {"id": list(range(40)), "part": list(range(40))})
    undone.rollback()

    assert _open_files() <= before
    assert len(data_files(lake, "t")) == 101


@pytest.mark.formats("delta")
def test_published_bytes_are_safe_before_they_have_a_name(
    lake: lw.Lake, synced: set[tuple[int, int]], at_step: Any
) -> None:
    lake.create("t", {"id": "int64"})
    unsafe: list[str] = []

    def look() -> None:
        newest = log_files(lake, "t")[-1]
        unsafe.extend([newest.name] if _identity(newest.stat()) not in synced else [])

    at_step("publish.linked", look)
    append(lake, "t", {"id": [1]})

    assert len(log_files(lake, "t")) == 2
    assert unsafe == []


@pytest.mark.formats("iceberg")
def test_metadata_and_its_names_are_safe_before_the_pointer_moves(
    lake: lw.Lake, synced: set[tuple[int, int]], at_step: Any
) -> None:
    metadata = on_disk(lake.create("t", {"id": "int64"}).location) / "metadata"
    append(lake, "t", {"id": [1]})
    before = set(metadata.iterdir())
    looked: list[int] = []
    missing: list[str] = []

    def look() -> None:
        new = set(metadata.iterdir()) - before
        looked.append(len(new))
        missing.extend(p.name for p in (metadata, *new) if _identity(p.stat()) not in synced)

    at_step("iceberg.swapped", look)
    synced.clear()
    append(lake, "t", {"id": [2]})

    # A manifest, the list that names it, and the document that names the list.
    assert looked == [3]
    assert missing == []


@pytest.mark.formats("delta")
@pytest.mark.parametrize("step", ["ratify.locked", "ratify.inserted"])
def test_a_commit_that_ends_before_its_point_leaves_nothing_published(
    lake: lw.Lake, at_step: Any, step: str
) -> None:
    table = lake.create("t", {"id": "int64"})
    append(lake, "t", {"id": [1]})
    before = _listing(table)

    def stop() -> None:
        raise Stop

    at_step(step, stop)
    with pytest.raises(Stop):
        append(lake, "t", {"id": [2]})
    at_step(step, lambda: None)

    assert _listing(table) == before
    assert not _unnamed_files(table)
    append(lake, "t", {"id": [3]})
    assert ids(lake, "t") == [1, 3]


@pytest.mark.formats("iceberg")
@pytest.mark.parametrize("step", ["iceberg.prepared", "iceberg.swapped", "ratify.inserted"])
def test_a_commit_that_ends_before_its_point_leaves_no_metadata(
    lake: lw.Lake, at_step: Any, step: str
) -> None:
    table = lake.create("t", {"id": "int64"})
    append(lake, "t", {"id": [1]})
    before = sorted((on_disk(table.location) / "metadata").iterdir()), document(lake, "t")

    def stop() -> None:
        raise Stop

    at_step(step, stop)
    with pytest.raises(Stop):
        append(lake, "t", {"id": [2]})
    at_step(step, lambda: None)

    assert (sorted((on_disk(table.location) / "metadata").iterdir()), document(lake, "t")) == before
    append(lake, "t", {"id": [3]})
    assert ids(lake, "t") == [1, 3]


@pytest.mark.formats("delta")
def test_nothing_is_to_be_seen_before_the_log_has_it(lake: lw.Lake, at_step: Any) -> None:
    table = lake.create("t", {"id": "int64"})
    seen: list[list[str]] = []

    def look() -> None:
        # The file that waits for its name is surely written by now.
        time.sleep(SLOW_SECONDS)
        seen.append(_listing(table))

    at_step("ratify.inserted", look)
    append(lake, "t", {"id": [1]})

    assert seen == [[f"{0:020d}.json"]]
    assert len(log_files(lake, "t")) == 2
    assert not _unnamed_files(table)


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _listing(table: lw.Table) -> list[str]:
    return sorted(p.name for p in (on_disk(table.location) / "_delta_log").iterdir())


def _open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def _unnamed_files(table: lw.Table) -> list[str]:
    """Files of the table's log that are open and have no name."""
    found = []
    for handle in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found.append(str(handle.readlink()))
    log = str(on_disk(table.location) / "_delta_log")
    return [f for f in found if f.startswith(log) and f.endswith("(deleted)")]
