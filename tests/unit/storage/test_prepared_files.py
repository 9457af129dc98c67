"""Files that are written before they get a name, by a thread that nobody depends on."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from lakeward.errors import StorageError
from lakeward.storage.helper import Helper
from lakeward.storage.local import LocalStorage


@pytest.fixture(params=["nameless", "aside"])
def storage(tmp_path: Path, request: pytest.FixtureRequest) -> LocalStorage:
    found = LocalStorage(tmp_path)
    found._anonymous = found._anonymous and request.param == "nameless"
    found.make_directory("log")
    return found


def _names(root: Path) -> list[str]:
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())


def _open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_a_prepared_file_appears_whole_when_it_is_put(
    storage: LocalStorage, tmp_path: Path
) -> None:
    prepared = storage.prepare("log/1.json", b"all of it")
    assert _names(tmp_path) == []

    assert prepared.put()
    assert (tmp_path / "log/1.json").read_bytes() == b"all of it"
    assert _names(tmp_path) == ["log/1.json"]


def test_a_name_that_is_taken_is_left_alone(storage: LocalStorage, tmp_path: Path) -> None:
    prepared = storage.prepare("log/1.json", b"late")
    assert storage.put_if_absent("log/1.json", b"first")
    before = _open_files()

    assert not prepared.put()
    prepared.discard()
    assert (tmp_path / "log/1.json").read_bytes() == b"first"
    assert _names(tmp_path) == ["log/1.json"]
    assert _open_files() <= before


def test_a_discarded_file_was_never_there(storage: LocalStorage, tmp_path: Path) -> None:
    storage.prepare("log/0.json", b"warm up").discard()
    before = _open_files()

    for _ in range(3):
        prepared = storage.prepare("log/1.json", b"no")
        prepared.discard()
        prepared.discard()
    assert _names(tmp_path) == []
    assert _open_files() == before


def test_a_directory_that_is_missing_is_made(storage: LocalStorage, tmp_path: Path) -> None:
    assert storage.prepare("new/log/1.json", b"x").put()

    assert _names(tmp_path) == ["new/log/1.json"]


def test_what_went_wrong_in_the_thread_is_told_by_put(
    storage: LocalStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    prepared = storage.prepare("log/1.json", b"x")

    with pytest.raises(StorageError, match="No space left"):
        prepared.put()
    prepared.discard()
    assert _names(tmp_path) == []


def test_a_call_is_made_once_whoever_waits_for_it() -> None:
    made: list[int] = []
    pending = Helper().begin(lambda: made.append(1))

    waiting = [threading.Thread(target=pending.wait) for _ in range(4)]
    for thread in waiting:
        thread.start()
    for thread in waiting:
        thread.join()
    pending.wait()
    assert made == [1]


def test_an_error_is_raised_as_often_as_it_is_asked_for() -> None:
    def wrong() -> None:
        message = "wrong"
        raise ValueError(message)

    pending = Helper().begin(wrong)
    for _ in range(2):
        with pytest.raises(ValueError, match="wrong"):
            pending.wait()


def test_who_waits_does_not_depend_on_a_busy_thread() -> None:
    helper = Helper()
    free = threading.Event()

    def long() -> None:
        free.wait(30)

    busy = helper.begin(long)
    made: list[int] = []

    helper.begin(lambda: made.append(1)).wait()
    assert made == [1]
    free.set()
    busy.wait()


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_child_has_a_thread_of_its_own() -> None:
    helper = Helper()
    helper.begin(lambda: None).wait()
    read, write = os.pipe()
    if not (child := os.fork()):
        done = threading.Event()
        helper.begin(done.set)
        os.write(write, b"y" if done.wait(10) else b"n")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 1) == b"y"
    os.close(read)
    os.close(write)
