"""Landing directories: which files are new."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from lakeward.errors import InvalidInput
from lakeward.model.inputs import InputFile
from lakeward.pipeline.arrivals import LandingDirectory


@pytest.fixture
def place(tmp_path: Path) -> Path:
    directory = tmp_path / "landing" / "orders"
    directory.mkdir(parents=True)
    return directory


def found(place: Path, taken: list[InputFile] | None = None) -> list[InputFile]:
    directory = LandingDirectory(str(place.parent), "orders")
    return directory.new({f.path: f for f in taken or []})


def test_every_file_is_new_at_first_in_the_order_of_names(place: Path) -> None:
    (place / "b.parquet").write_bytes(b"b")
    (place / "a.parquet").write_bytes(b"aa")
    (place / "day=1").mkdir()
    (place / "day=1" / "c.parquet").write_bytes(b"c")
    files = found(place)
    assert [(f.path, f.size) for f in files] == [
        ("a.parquet", 2),
        ("b.parquet", 1),
        ("day=1/c.parquet", 1),
    ]
    assert files[0].checksum == f"sha256:{hashlib.sha256(b'aa').hexdigest()}"


def test_files_in_the_making_and_other_files_are_left_alone(place: Path) -> None:
    for name in (".a.parquet", "_SUCCESS", "a.csv", "_temporary/a.parquet", ".tmp/a.parquet"):
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_bytes(b"x")
    assert found(place) == []


def test_a_file_that_was_taken_is_not_new(place: Path) -> None:
    (place / "a.parquet").write_bytes(b"a")
    taken = found(place)
    (place / "b.parquet").write_bytes(b"b")
    assert [f.path for f in found(place, taken)] == ["b.parquet"]


def test_a_file_that_was_only_touched_is_not_new(place: Path) -> None:
    (place / "a.parquet").write_bytes(b"a")
    taken = found(place)
    os.utime(place / "a.parquet", (1, 1))
    assert found(place, taken) == []


def test_a_file_that_was_taken_and_has_other_bytes_is_refused(place: Path) -> None:
    (place / "a.parquet").write_bytes(b"a")
    taken = found(place)
    (place / "a.parquet").write_bytes(b"b")
    os.utime(place / "a.parquet", (1, 1))
    with pytest.raises(InvalidInput, match="has other bytes now"):
        found(place, taken)


def test_a_directory_that_is_not_there_has_no_files(tmp_path: Path) -> None:
    assert LandingDirectory(str(tmp_path), "nowhere").new({}) == []
    assert LandingDirectory(str(tmp_path), "nowhere").example() is None


def test_whole_paths_need_no_landing_place(place: Path) -> None:
    (place / "a.parquet").write_bytes(b"a")
    directory = LandingDirectory("elsewhere", str(place))
    (file,) = directory.new({})
    assert directory.full(file) == str(place / "a.parquet")
    assert directory.example() == str(place / "a.parquet")
