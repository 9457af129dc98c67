"""Landing directories: which files are new, which are not taken, and what is refused."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.errors import InvalidInput, NotFound
from lakeward.model.inputs import InputFile
from lakeward.pipeline.arrivals import Arrivals, LandingDirectory


@pytest.fixture
def place(tmp_path: Path) -> Path:
    directory = tmp_path / "landing" / "orders"
    directory.mkdir(parents=True)
    return directory


def write(file: Path, *ids: int) -> bytes:
    pq.write_table(pa.table({"id": list(ids)}), file)
    return file.read_bytes()


def look(place: Path, taken: list[InputFile] | None = None) -> Arrivals:
    directory = LandingDirectory(str(place.parent), "orders")
    return directory.look({f.path: f for f in taken or []})


def found(place: Path, taken: list[InputFile] | None = None) -> list[InputFile]:
    return list(look(place, taken).new)


def test_every_file_is_new_at_first_in_the_order_of_names(place: Path) -> None:
    write(place / "b.PARQUET", 1)
    data = write(place / "a.parquet", 1, 2)
    (place / "day=1").mkdir()
    write(place / "day=1" / "c.parquet", 3)
    files = found(place)
    assert [f.path for f in files] == ["a.parquet", "b.PARQUET", "day=1/c.parquet"]
    assert files[0].size == len(data)
    assert files[0].checksum == f"sha256:{hashlib.sha256(data).hexdigest()}"


def test_files_in_the_making_are_left_alone_and_other_files_are_named(place: Path) -> None:
    for name in (".a.parquet", "_SUCCESS", "_temporary/a.parquet", ".tmp/a.parquet"):
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_bytes(b"x")
    assert look(place).not_taken == ()
    for name in ("b.json", "a.csv", "part-0"):
        (place / name).write_bytes(b"x")
    assert found(place) == []
    assert look(place).not_taken == ("a.csv", "b.json", "part-0")


def test_a_file_that_was_taken_is_not_new(place: Path) -> None:
    write(place / "a.parquet", 1)
    taken = found(place)
    write(place / "b.parquet", 2)
    assert [f.path for f in found(place, taken)] == ["b.parquet"]


def test_a_file_that_was_only_touched_is_not_new(place: Path) -> None:
    write(place / "a.parquet", 1)
    taken = found(place)
    os.utime(place / "a.parquet", (1, 1))
    assert found(place, taken) == []


def test_a_file_that_was_taken_and_has_other_bytes_is_refused(place: Path) -> None:
    write(place / "a.parquet", 1)
    taken = found(place)
    write(place / "a.parquet", 2)
    os.utime(place / "a.parquet", (1, 1))
    with pytest.raises(InvalidInput, match="has other bytes now"):
        found(place, taken)


@pytest.mark.parametrize("data", [b"", b"id,amount\n1,2\n", b"PAR1 cut short"])
def test_a_damaged_file_is_refused_by_name(place: Path, data: bytes) -> None:
    (place / "a.parquet").write_bytes(data)
    with pytest.raises(InvalidInput, match=r"orders/a\.parquet is no whole Parquet file"):
        found(place)


def test_a_directory_that_is_not_there_is_refused_unless_that_is_allowed(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="nowhere does not exist") as caught:
        LandingDirectory(str(tmp_path), "nowhere").look({})
    assert "missing_ok=True" in str(caught.value.hint)
    allowed = LandingDirectory(str(tmp_path), "nowhere", missing_ok=True)
    assert allowed.look({}) == Arrivals(is_missing=True)
    assert allowed.example() is None
    (tmp_path / "empty").mkdir()
    assert LandingDirectory(str(tmp_path), "empty").look({}).new == ()


def test_a_file_in_the_place_of_a_directory_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "orders.parquet", 1)
    with pytest.raises(NotFound):
        LandingDirectory(str(tmp_path), "orders.parquet").look({})


def test_whole_paths_need_no_landing_place(place: Path) -> None:
    write(place / "a.parquet", 1)
    directory = LandingDirectory("elsewhere", str(place))
    (file,) = directory.look({}).new
    assert directory.full(file) == str(place / "a.parquet")
    assert directory.example() == str(place / "a.parquet")
