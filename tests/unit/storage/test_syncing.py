"""Files that are synced together, by the kernel or one by one."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from lakeward.errors import StorageError
from lakeward.storage import syncing
from lakeward.storage.base import Pending, Underway
from lakeward.storage.local import _SMALL_BYTES, LocalStorage
from lakeward.storage.syncing import _AT_ONCE, Syncing, sync_in_turn, sync_together


@pytest.fixture(params=["kernel", "alone"], autouse=True)
def way(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    if request.param == "alone":
        monkeypatch.setattr(syncing, "KERNEL", None)
    elif syncing.KERNEL is None:
        pytest.skip("the kernel syncs nothing together here")
    return str(request.param)


@pytest.fixture
def handles(tmp_path: Path) -> Generator[list[int]]:
    opened = [os.open(tmp_path / str(n), os.O_CREAT | os.O_WRONLY) for n in range(3)]
    for handle in opened:
        os.write(handle, b"x")
    yield opened
    for handle in opened:
        with suppress(OSError):
            os.close(handle)


def _open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_files_are_synced_and_may_be_waited_for_again(handles: list[int]) -> None:
    under_way = Syncing(handles)
    under_way.wait()
    under_way.wait()


def test_it_is_a_sync_that_is_asked_for() -> None:
    # Of a pipe one can ask for everything but that.
    read, write = os.pipe()
    with pytest.raises(OSError, match="Invalid argument"):
        Syncing([write]).wait()
    os.close(read)
    os.close(write)


def test_one_that_fails_among_others_is_told(handles: list[int]) -> None:
    read, write = os.pipe()
    for position in range(len(handles) + 1):
        with pytest.raises(OSError, match="Invalid argument") as told:
            Syncing([*handles[:position], read, *handles[position:]]).wait()
        assert told.value.errno == errno.EINVAL
    Syncing(handles).wait()
    os.close(read)
    os.close(write)


def test_a_file_that_was_closed_is_told(handles: list[int]) -> None:
    os.close(handles[1])
    with pytest.raises(OSError, match="Bad file descriptor"):
        Syncing(handles).wait()


def test_there_may_be_more_files_than_a_ring_takes(handles: list[int]) -> None:
    Syncing(handles * _AT_ONCE).wait()


def test_what_nobody_waits_for_is_let_go(handles: list[int]) -> None:
    Syncing(handles).wait()
    before = len(syncing._IDLE)
    for _ in range(20):
        Syncing(handles)
    Syncing(handles).wait()
    assert len(syncing._IDLE) <= max(before, 1)


def test_threads_do_not_get_each_others_answers(handles: list[int]) -> None:
    read, write = os.pipe()
    wrong: list[str] = []

    def sound() -> None:
        for _ in range(50):
            try:
                Syncing(handles).wait()
            except OSError as error:
                wrong.append(str(error))

    def unsound() -> None:
        for _ in range(50):
            try:
                Syncing([read]).wait()
            except OSError:
                continue
            wrong.append("a pipe was synced")

    threads = [threading.Thread(target=t) for t in (sound, unsound) * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    os.close(read)
    os.close(write)


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_child_syncs_for_itself(handles: list[int]) -> None:
    Syncing(handles).wait()
    under_way = Syncing(handles)
    if not (child := os.fork()):
        told = 1
        with suppress(BaseException):
            under_way.wait()
            Syncing(handles).wait()
            told = 0
        os._exit(told)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    under_way.wait()


def test_a_kernel_that_refuses_is_done_without(
    handles: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    if syncing.KERNEL is None:
        return
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)

    def refused(*_: object) -> None:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(syncing.KERNEL, "submit", refused)
    Syncing(handles).wait()
    assert synced == handles
    syncing._IDLE.clear()
    monkeypatch.setattr(syncing.KERNEL, "setup", refused)
    Syncing(handles).wait()
    assert synced == handles * 2


def test_a_kernel_that_takes_some_is_asked_for_none(
    handles: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    if syncing.KERNEL is None:
        return
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    submit = syncing.KERNEL.submit
    monkeypatch.setattr(syncing.KERNEL, "submit", lambda c, n, r: submit(c, min(n, 1), r))
    Syncing(handles).wait()
    assert synced == handles


@pytest.mark.parametrize("sync", [sync_together, sync_in_turn])
@pytest.mark.parametrize("size", [10, _SMALL_BYTES + 1], ids=["small", "large"])
def test_created_files_are_closed_once_they_are_safe(
    tmp_path: Path, size: int, sync: Callable[[Sequence[Underway]], None]
) -> None:
    storage = LocalStorage(tmp_path)
    sync_together([storage.create("warm", b"x" * size)])
    before = _open_files()

    files = [storage.create(f"a/{n}", b"x" * size) for n in range(3)]
    assert _open_files() > before
    sync(files)

    assert _open_files() == before
    assert [(tmp_path / f"a/{n}").stat().st_size for n in range(3)] == [size] * 3


@pytest.mark.parametrize("size", [10, _SMALL_BYTES + 1], ids=["small", "large"])
def test_created_files_that_nobody_needs_are_closed(tmp_path: Path, size: int) -> None:
    storage = LocalStorage(tmp_path)
    sync_together([storage.create("warm", b"x")])
    before = _open_files()

    storage.create("discarded", b"x" * size).discard()
    storage.create("forgotten", b"x" * size)

    assert _open_files() == before


@pytest.mark.parametrize("size", [10, _SMALL_BYTES + 1], ids=["small", "large"])
def test_a_file_that_cannot_be_made_safe_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    def failing(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    storage = LocalStorage(tmp_path)
    before = _open_files()
    file = storage.create("t/1.parquet", b"x" * size)
    monkeypatch.setattr(Syncing, "wait", failing)

    with pytest.raises(StorageError, match=r"t/1\.parquet could not be.*Input/output"):
        sync_together([file])
    assert _open_files() <= before + 1


def test_a_call_is_made_once_whoever_waits_for_it() -> None:
    made: list[int] = []
    pending = Pending(lambda: made.append(1))

    waiting = [threading.Thread(target=pending.wait) for _ in range(4)]
    for thread in waiting:
        thread.start()
    for thread in waiting:
        thread.join()
    sync_together([pending])
    assert made == [1]


def test_an_error_is_raised_as_often_as_it_is_asked_for() -> None:
    def wrong() -> None:
        message = "wrong"
        raise ValueError(message)

    pending = Pending(wrong)
    for _ in range(2):
        with pytest.raises(ValueError, match="wrong"):
            pending.wait()
