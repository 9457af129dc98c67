"""Merges of data that is larger than the memory they may take."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import lakeward as lw
from lakeward.errors import ConstraintViolation, InvalidInput, SchemaMismatch, StorageError
from lakeward.write.plan.memory import VARIABLE
from tests.support.inside import context_of

pytestmark = pytest.mark.local

MakeLake = Callable[..., lw.Lake]
_ROWS: Final = 3000


@pytest.fixture
def spilled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Callable[[], int]]:
    """How many temporary files of merges there are, named or not."""
    place = tmp_path / "spilled"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))

    def count() -> int:
        mapped = Path("/proc/self/maps").read_text().splitlines()
        held = {line.split(maxsplit=5)[5] for line in mapped if str(place) in line}
        return len(held) + len(list(place.iterdir()))

    yield count
    # An error has the rows that it arose with, until nobody has the error.
    gc.collect()
    assert count() == 0


def numbers(start: int, stop: int, v: int = 0, key: str = "id") -> pa.Table:
    ids = list(range(start, stop))
    return pa.table({key: ids, "v": [v] * len(ids), "s": [f"row {n}" for n in ids]})


def batches(*tables: pa.Table) -> pa.RecordBatchReader:
    def each() -> Iterator[pa.RecordBatch]:
        for table in tables:
            yield from table.to_batches(max_chunksize=100)

    return pa.RecordBatchReader.from_batches(tables[0].schema, each())


@pytest.fixture
def lake(make_lake: MakeLake, spilled: Callable[[], int]) -> lw.Lake:
    """One whose merges hold a few hundred rows at a time, with a table of three files."""
    assert spilled() == 0
    lake = make_lake(merge_memory=100_000)
    lake.create("t.numbers", numbers(0, 1).schema)
    for start in range(0, _ROWS, 1000):
        with lake.transaction() as tx:
            tx.append("t.numbers", numbers(start, start + 1000))
    return lake


def rows_of(lake: lw.Lake) -> list[tuple[int, int]]:
    found = lake.table("t.numbers").to_arrow()
    return sorted(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True))


def test_data_from_a_reader_is_merged_out_of_a_temporary_file(
    lake: lw.Lake, spilled: Callable[[], int]
) -> None:
    tx = lake.transaction()
    done = tx.merge("t.numbers", batches(numbers(2000, 5000, v=7)), on="id")
    assert (done.updated, done.inserted, done.deleted) == (1000, 2000, 0)
    assert (done.files_touched, done.files_skipped) == (1, 2)
    assert spilled() == 1
    tx.commit()
    assert spilled() == 0
    expected = [(n, 0 if n < 2000 else 7) for n in range(5000)]
    assert rows_of(lake) == expected
    assert lake.table("t.numbers").history()[0].metrics["numSourceRows"] == 3000


@pytest.mark.parametrize("form", ["table", "dataset", "tables", "dictionaries"])
def test_data_of_any_form_may_be_larger(
    lake: lw.Lake, spilled: Callable[[], int], tmp_path: Path, form: str
) -> None:
    data = numbers(2500, 4000, v=1)
    pq.write_table(data, tmp_path / "data.parquet")
    given: dict[str, Any] = {
        "table": data,
        "dataset": ds.dataset(tmp_path / "data.parquet"),
        "tables": [data.slice(0, 700), data.slice(700)],
        "dictionaries": data.to_pylist(),
    }
    with lake.transaction() as tx:
        done = tx.merge("t.numbers", given[form], on="id")
        # What the user holds in memory anyway is not written anywhere.
        assert spilled() == (form != "table")
    assert (done.updated, done.inserted) == (500, 1000)
    assert rows_of(lake) == [(n, 0 if n < 2500 else 1) for n in range(4000)]


def test_a_rollback_takes_the_temporary_file_with_it(
    lake: lw.Lake, spilled: Callable[[], int]
) -> None:
    tx = lake.transaction()
    tx.merge("t.numbers", batches(numbers(0, 2000, v=7)), on="id", not_matched_by_source="delete")
    assert spilled() == 1
    tx.rollback()
    assert spilled() == 0
    assert rows_of(lake) == [(n, 0) for n in range(_ROWS)]


def test_keys_that_are_twice_in_data_are_found_wherever_they_are(lake: lw.Lake) -> None:
    data = batches(numbers(0, 2500, v=1), numbers(5, 6, v=2))
    with (
        pytest.raises(ConstraintViolation, match=r"match one row of t.numbers, with {'id': 5}"),
        lake.transaction() as tx,
    ):
        tx.merge("t.numbers", data, on="id")
    assert rows_of(lake) == [(n, 0) for n in range(_ROWS)]


def test_missing_keys_are_counted_over_all_data(lake: lw.Lake) -> None:
    empty = pa.table({"id": pa.array([None], pa.int64()), "v": [1], "s": ["none"]})
    data = batches(empty, numbers(0, 2500, v=1), empty)
    with (
        pytest.raises(ConstraintViolation, match="2 missing values") as failed,
        lake.transaction() as tx,
    ):
        tx.merge("t.numbers", data, on="id")
    assert [row["s"] for row in failed.value.sample] == ["none", "none"]


def test_batches_that_come_late_and_do_not_fit_are_refused(lake: lw.Lake) -> None:
    late = [numbers(0, 2500), numbers(2500, 2501, key="key")]
    with (
        pytest.raises(SchemaMismatch, match="different columns"),
        lake.transaction() as tx,
    ):
        tx.merge("t.numbers", late, on="id")
    assert rows_of(lake) == [(n, 0) for n in range(_ROWS)]


def test_a_change_that_is_made_again_finds_its_data(lake: lw.Lake) -> None:
    tx = lake.transaction(isolation="read_committed")
    tx.merge("t.numbers", batches(numbers(2000, 4000, v=7)), on="id")
    with lake.transaction() as other:
        other.merge("t.numbers", numbers(3500, 3600, v=9), on="id")
    tx.commit()
    assert rows_of(lake) == [(n, 0 if n < 2000 else 7) for n in range(4000)]


def test_a_temporary_directory_that_cannot_take_data_is_named(
    lake: lw.Lake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    with (
        pytest.raises(StorageError, match=r"nowhere.*TMPDIR"),
        lake.transaction() as tx,
    ):
        tx.merge("t.numbers", batches(numbers(0, 2500)), on="id")
    assert rows_of(lake) == [(n, 0) for n in range(_ROWS)]


@pytest.mark.before_the_store
@pytest.mark.parametrize("given", [0, -1, "many", 1.5])
def test_what_is_no_number_of_bytes_is_refused(make_lake: MakeLake, given: Any) -> None:
    with pytest.raises(InvalidInput, match="merge_memory"):
        make_lake(merge_memory=given)


def test_the_environment_may_say_how_much_memory_a_merge_takes(
    make_lake: MakeLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "4096")
    assert context_of(make_lake()).merge_memory == 4096
    assert context_of(make_lake(merge_memory=77)).merge_memory == 77
    monkeypatch.setenv(VARIABLE, "2 GB")
    with pytest.raises(InvalidInput, match=VARIABLE):
        make_lake()


_CHILD: Final = dedent(
    """
    import sys
    import threading
    import numpy as np
    import pyarrow as pa
    import lakeward as lw

    def some(start, stop):
        ids = np.arange(start, stop)
        # Keys in no order, so that every block has rows of all files.
        return pa.record_batch({"id": ids * 7919 % 1_000_003, "text": [f"{n:0400}" for n in ids]})

    def reader(start, stop):
        parts = (some(n, n + 20_000) for n in range(start, stop, 20_000))
        return pa.RecordBatchReader.from_batches(some(0, 1).schema, parts)

    def memory():
        for line in open("/proc/self/status"):
            if line.startswith("RssAnon"):
                return int(line.split()[1]) * 1024

    lake = lw.open(sys.argv[1], merge_memory=int(sys.argv[2]))
    lake.create("t.rows", some(0, 1).schema, properties={"delta.targetFileSize": "8388608"})
    with lake.transaction() as tx:
        tx.append("t.rows", reader(0, 200_000))
    with lake.transaction() as tx:
        tx.merge("t.rows", reader(0, 20_000), on="id")
    before, most, done = memory(), 0, threading.Event()

    def watch():
        global most
        while not done.wait(0.005):
            most = max(most, memory())

    threading.Thread(target=watch, daemon=True).start()
    with lake.transaction() as tx:
        tx.merge("t.rows", reader(100_000, 900_000), on="id")
    done.set()
    print(most - before, lake.table("t.rows").at(version=3).to_arrow(columns=["id"]).num_rows)
    """
)


def test_memory_stays_far_below_the_size_of_the_data(tmp_path: Path) -> None:
    size = 800_000 * 400
    command = [sys.executable, "-c", _CHILD, str(tmp_path / "lake"), str(16 * 2**20)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    taken, rows = map(int, done.stdout.split())
    assert rows == 900_000
    assert taken < size / 2
