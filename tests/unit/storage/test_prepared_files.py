"""Files that are written before they get a name."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from lakeward.errors import StorageError
from lakeward.storage import syncing
from lakeward.storage.local import LocalStorage
from lakeward.storage.syncing import sync_together


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


@pytest.mark.parametrize("kernel", [True, False], ids=["together", "one by one"])
def test_a_file_that_was_synced_with_others_is_not_synced_again(
    storage: LocalStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernel: bool
) -> None:
    if not kernel:
        monkeypatch.setattr(syncing, "KERNEL", None)
    prepared = storage.prepare("log/1.json", b"x")
    sync_together([storage.create("1.parquet", b"y"), prepared])
    if storage._anonymous:
        monkeypatch.setattr(os, "fsync", _full)

    assert prepared.put()
    assert _names(tmp_path) == ["1.parquet", "log/1.json"]


def test_what_goes_wrong_while_it_is_synced_is_told_by_put(
    storage: LocalStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", _full)
    prepared = storage.prepare("log/1.json", b"x")

    with pytest.raises(StorageError, match="No space left"):
        prepared.put()
    prepared.discard()
    assert _names(tmp_path) == []


def _full(_: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
