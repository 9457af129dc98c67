"""What a commit promises is on disk before it is promised, whichever thread takes it there."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import lakeward as lw
from lakeward.model import steps
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


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> set[tuple[int, int]]:
    """Files and directories whose sync is over; the disk takes its time."""
    done: set[tuple[int, int]] = set()
    sync = os.fsync

    def slow(handle: int) -> None:
        found = os.fstat(handle)
        # A name takes longer than the bytes, so that nobody is safe by accident.
        time.sleep(SLOW_SECONDS * (4 if stat.S_ISDIR(found.st_mode) else 1))
        sync(handle)
        done.add(_identity(found))

    monkeypatch.setattr(os, "fsync", slow)
    return done


def test_data_and_its_name_are_safe_before_the_log_is_asked(
    lake: lw.Lake, synced: set[tuple[int, int]], at_step: Any
) -> None:
    place = on_disk(lake.create("t", {"id": "int64"}).location)
    missing: list[str] = []

    def look() -> None:
        needed = [place, *place.glob("*.parquet")]
        missing.extend(p.name for p in needed if _identity(p.stat()) not in synced)

    at_step("ratify.locked", look)
    synced.clear()
    append(lake, "t", {"id": [1]})

    assert len(data_files(lake, "t")) == 1
    assert missing == []


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
    assert not _unnamed_files()
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
    assert not _unnamed_files()


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _listing(table: lw.Table) -> list[str]:
    return sorted(p.name for p in (on_disk(table.location) / "_delta_log").iterdir())


def _unnamed_files() -> list[str]:
    """Files of ours that are open and have no name."""
    found = []
    for handle in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found.append(str(handle.readlink()))
    return [f for f in found if "_delta_log" in f and f.endswith("(deleted)")]
