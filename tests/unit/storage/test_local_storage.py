"""A warehouse on a local disk: files are whole or not there, and stay inside."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lakeward.errors import CorruptTable, FileMissing, InvalidInput, StorageError
from lakeward.storage.local import LocalStorage


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path)


def _everything(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def test_put_if_absent_writes_once(storage: LocalStorage, tmp_path: Path) -> None:
    assert storage.put_if_absent("a/b/c.json", b"first")
    assert not storage.put_if_absent("a/b/c.json", b"second")

    assert _everything(tmp_path) == {"a/b/c.json": b"first"}


def test_put_if_absent_works_where_files_cannot_be_nameless(
    storage: LocalStorage, tmp_path: Path
) -> None:
    storage._anonymous = False

    assert storage.put_if_absent("a/c.json", b"first")
    assert not storage.put_if_absent("a/c.json", b"second")
    assert _everything(tmp_path) == {"a/c.json": b"first"}


@pytest.mark.parametrize("nameless", [True, False])
def test_one_of_many_wins(storage: LocalStorage, tmp_path: Path, *, nameless: bool) -> None:
    storage._anonymous = storage._anonymous and nameless

    def put(number: int) -> bool:
        return storage.put_if_absent("log/1.json", str(number).encode() * 1000)

    for _ in range(5):
        with ThreadPoolExecutor(8) as pool:
            won = list(pool.map(put, range(8)))
        assert won.count(True) == 1
        assert _everything(tmp_path) == {"log/1.json": str(won.index(True)).encode() * 1000}
        storage.delete(["log/1.json"])


def test_put_replaces_the_whole_file(storage: LocalStorage, tmp_path: Path) -> None:
    storage.put("a/x", b"long long long")
    storage.put("a/x", b"short")

    assert _everything(tmp_path) == {"a/x": b"short"}
    assert storage.read("a/x") == b"short"
    assert storage.size("a/x") == 5


def test_create_does_not_write_over_a_file(storage: LocalStorage, tmp_path: Path) -> None:
    storage.create("t/part.parquet", b"first")

    with pytest.raises(StorageError):
        storage.create("t/part.parquet", b"second")
    assert _everything(tmp_path) == {"t/part.parquet": b"first"}


def test_deleting_what_is_gone_is_fine(storage: LocalStorage, tmp_path: Path) -> None:
    storage.put("x", b"1")
    storage.delete(["x", "x", "never/was"])

    assert _everything(tmp_path) == {}


def test_a_missing_file_is_named(storage: LocalStorage) -> None:
    for use in (storage.read, storage.size):
        with pytest.raises(FileMissing) as caught:
            use("no/such")
        assert caught.value.path == "no/such"
    assert not storage.exists("no/such")


@pytest.mark.parametrize("path", ["../x", "a/../../x", "..", "a/.."])
def test_paths_that_climb_out_are_refused(storage: LocalStorage, tmp_path: Path, path: str) -> None:
    for use in (
        lambda: storage.put(path, b"x"),
        lambda: storage.put_if_absent(path, b"x"),
        lambda: storage.create(path, b"x"),
        lambda: storage.read(path),
        lambda: storage.delete([path]),
        lambda: storage.make_directory(path),
    ):
        with pytest.raises(InvalidInput):
            use()
    assert _everything(tmp_path) == {}


def test_listings_tell_files_and_directories(storage: LocalStorage) -> None:
    for path in ("t/a", "t/b/c", "t/b/d/e", "u"):
        storage.put(path, b"12")

    assert sorted(f.path for f in storage.listing("t")) == ["t/a"]
    assert sorted(f.path for f in storage.listing("t", recursive=True)) == [
        "t/a",
        "t/b/c",
        "t/b/d/e",
    ]
    assert list(storage.listing("nowhere")) == []
    assert storage.directories("t") == ["t/b"]
    assert {f.size for f in storage.listing("t")} == {2}


def test_a_listing_leaves_out_files_that_are_deleted_meanwhile(storage: LocalStorage) -> None:
    for name in "abc":
        storage.put(f"t/{name}", b"12")

    found = storage.listing("t")
    first = next(found).path
    storage.delete(f"t/{name}" for name in "abc")

    assert first in {"t/a", "t/b", "t/c"}
    assert list(found) == []


def test_a_file_in_the_way_of_a_directory_is_an_error_of_ours(storage: LocalStorage) -> None:
    storage.put("t", b"x")

    with pytest.raises(StorageError):
        storage.create("t/part", b"x")
    with pytest.raises(StorageError):
        storage.put("t/x", b"x")
    with pytest.raises(StorageError):
        storage.put_if_absent("t/x", b"x")
    with pytest.raises(StorageError):
        storage.make_directory("t/u")


@pytest.mark.parametrize("name", ["a.parquet", "/a/../b", "file:/a/../b", "/a/b\0c", "file:///\0"])
def test_a_name_that_no_file_has_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(CorruptTable, match="not named in full"):
        LocalStorage(tmp_path).path_of(name)
