"""Loops that feed sinks: positions are committed with rows, so that each row is taken once."""

from __future__ import annotations

import datetime as dt
import io
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.errors import Conflict, InvalidInput, SchemaMismatch, StorageError
from lakeward.stream.epoch import EpochResult
from lakeward.stream.ipc import ArrowFiles, ArrowStream
from lakeward.stream.lines import JsonFiles, JsonStream
from lakeward.stream.source import Portion, Source
from tests.behaviour.lakes import ids

pytestmark = pytest.mark.formats("delta")
SCHEMA = {"id": "int64", "what": "string"}


def lines(*numbers: int) -> bytes:
    return b"".join(b'{"id": %d, "what": "x"}\n' % n for n in numbers)


def test_lines_of_files_are_taken_once_however_often_it_is_run(
    shared_lake: lw.Lake, name: str, tmp_path: Path
) -> None:
    first, second = tmp_path / "a.ndjson", tmp_path / "b.ndjson"
    first.write_bytes(lines(1, 2))
    second.write_bytes(lines(3))
    for more, total in ((b"", [1, 2, 3]), (lines(4), [1, 2, 3, 4]), (b"", [1, 2, 3, 4])):
        with first.open("ab") as file:
            file.write(more)
        with shared_lake.sink(name, writer_id="w", schema=SCHEMA) as sink:
            sink.consume(JsonFiles([first, second]), epoch_rows=2)
        assert ids(shared_lake, name) == total
    with shared_lake.sink(name, writer_id="w") as sink:
        done = sink.consume(JsonFiles([first, second]))
    assert (done.epochs, done.rows) == (0, 0)
    assert done.progress == {
        "files": {str(first): first.stat().st_size, str(second): second.stat().st_size}
    }


def test_a_line_that_does_not_fit_is_named_and_what_was_committed_stays(
    shared_lake: lw.Lake, name: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.ndjson"
    path.write_bytes(lines(1) + b'{"id": "two"}\n' + lines(3))
    with shared_lake.sink(name, writer_id="w", schema=SCHEMA) as sink:
        with pytest.raises(InvalidInput) as caught:
            sink.consume(JsonFiles([path]))
        assert caught.value.line == 2
        assert str(path) in str(caught.value)
        path.write_bytes(lines(1, 2, 3))
        sink.consume(JsonFiles([path]))
    assert ids(shared_lake, name) == [1, 2, 3]


@pytest.mark.parametrize(
    "bad", [b"[1]", b"{", b'{"id": 1, "other": 2}', b'{"id": 1.5}', b"\xff", b'"text"']
)
def test_what_is_no_row_is_refused(shared_lake: lw.Lake, name: str, bad: bytes) -> None:
    with shared_lake.sink(name, writer_id="w", schema=SCHEMA) as sink:
        with pytest.raises(InvalidInput):
            sink.consume(JsonStream(io.BytesIO(lines(1) + bad + b"\n")))
        assert sink.last_epoch is None


def test_values_of_all_kinds_are_read_from_lines(shared_lake: lw.Lake, name: str) -> None:
    schema = (
        "d date, t timestamp, n timestamp_ntz, m decimal(10,2), f double, b boolean,"
        " l list<date>, s struct<a: int64, d: date>"
    )
    line = {
        "d": "2024-05-06",
        "t": "2024-05-06T07:08:09.123456Z",
        "n": "2024-05-06 07:08:09",
        "m": "1.25",
        "f": 1,
        "b": True,
        "l": ["2024-05-06", None],
        "s": {"a": 1, "d": "2024-05-06"},
    }
    day, moment = dt.date(2024, 5, 6), dt.datetime(2024, 5, 6, 7, 8, 9, tzinfo=dt.UTC)
    with shared_lake.sink(name, writer_id="w", schema=schema) as sink:
        sink.consume(JsonStream(io.BytesIO(json.dumps(line).encode())))
    (row,) = shared_lake.table(name).to_arrow().to_pylist()
    assert row == {
        "d": day,
        "t": moment.replace(microsecond=123456),
        "n": moment.replace(tzinfo=None),
        "m": Decimal("1.25"),
        "f": 1.0,
        "b": True,
        "l": [day, None],
        "s": {"a": 1, "d": day},
    }


def test_maps_are_read_from_lines(shared_lake: lw.Lake, name: str) -> None:
    with shared_lake.sink(name, writer_id="w", schema="id int64, m map<string, int64>") as sink:
        sink.consume(JsonStream(io.BytesIO(b'{"id": 1, "m": {"a": 2}}\n\n{"id": 2}\n')))
    found = {r["id"]: r["m"] for r in shared_lake.table(name).to_arrow().to_pylist()}
    assert found == {1: [("a", 2)], 2: None}


def test_changes_come_in_lines_too(shared_lake: lw.Lake, name: str) -> None:
    def consumed(text: bytes) -> None:
        with shared_lake.sink(name, writer_id="w", mode="upsert", key="id", schema=SCHEMA) as sink:
            sink.consume(JsonStream(io.BytesIO(text)))

    consumed(lines(1, 2))
    consumed(b'{"id": 1, "_change_type": "delete"}\n{"id": 3, "_change_type": "insert"}\n')
    assert ids(shared_lake, name) == [2, 3]


def test_a_stream_that_is_replayed_is_taken_from_where_it_was(
    shared_lake: lw.Lake, name: str
) -> None:
    whole = lines(*range(10))
    with shared_lake.sink(name, writer_id="w", schema=SCHEMA) as sink:
        sink.consume(JsonStream(io.BytesIO(whole[: len(lines(0, 1, 2))])))
    with shared_lake.sink(name, writer_id="w") as sink:
        sink.consume(JsonStream(io.BytesIO(whole), replay=True))
    assert ids(shared_lake, name) == list(range(10))
    other = JsonStream(io.BytesIO(lines(1)), replay=True)
    with shared_lake.sink(name, writer_id="w") as sink, pytest.raises(InvalidInput, match="same"):
        sink.consume(other)


def test_a_stream_comes_in_pieces_of_any_size(shared_lake: lw.Lake, name: str) -> None:
    class Pipe(io.RawIOBase):
        def __init__(self, data: bytes) -> None:
            self._left = data

        def read1(self, _: int) -> bytes:
            some, self._left = self._left[:7], self._left[7:]
            return some

    with shared_lake.sink(name, writer_id="w", schema=SCHEMA) as sink:
        sink.consume(JsonStream(Pipe(lines(*range(20))[:-1])))  # type: ignore[arg-type]
    assert ids(shared_lake, name) == list(range(20))


@pytest.mark.parametrize("kind", ["file", "stream"])
def test_batches_of_arrow_files_are_taken_once(
    shared_lake: lw.Lake, name: str, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "a.arrow"
    batches = [pa.record_batch({"id": [n], "what": ["x"]}) for n in range(5)]
    new = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
    with new(path, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    for _ in range(2):
        with shared_lake.sink(name, writer_id="w", schema=SCHEMA) as sink:
            sink.consume(ArrowFiles([path]), epoch_rows=2)
            assert sink.progress == {"batches": {str(path): 5}}
    assert ids(shared_lake, name) == list(range(5))


def test_batches_of_an_arrow_stream_are_replayed(shared_lake: lw.Lake, name: str) -> None:
    written = io.BytesIO()
    with pa.ipc.new_stream(written, pa.schema({"id": pa.int64(), "what": pa.string()})) as writer:
        for number in range(3):
            writer.write_batch(pa.record_batch({"id": [number], "what": ["x"]}))
    for replay in (False, True):
        with shared_lake.sink(name, writer_id="w", schema=SCHEMA) as sink:
            sink.consume(ArrowStream(io.BytesIO(written.getvalue()), replay=replay))
    assert ids(shared_lake, name) == [0, 1, 2]
    with shared_lake.sink(name, writer_id="w") as sink, pytest.raises(InvalidInput):
        sink.consume(ArrowStream(io.BytesIO(b"nonsense")))


def test_files_that_cannot_be_read_are_named(
    shared_lake: lw.Lake, name: str, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong.arrow"
    wrong.write_bytes(b"nonsense")
    shrunk = tmp_path / "a.ndjson"
    shrunk.write_bytes(lines(1, 2))
    with shared_lake.sink(name, writer_id="w", schema=SCHEMA) as sink:
        for source, kind in (
            (JsonFiles([tmp_path / "none"]), StorageError),
            (ArrowFiles([tmp_path / "none"]), StorageError),
            (ArrowFiles([wrong]), InvalidInput),
        ):
            with pytest.raises(kind, match=str(tmp_path)):
                sink.consume(source)
        sink.consume(JsonFiles([shrunk]))
        shrunk.write_bytes(lines(3))
        with pytest.raises(InvalidInput, match="Another file"):
            sink.consume(JsonFiles([shrunk]))


class Shaky(Source):
    """Ten rows; fails now and then, as the test says."""

    def __init__(self, failures: list[Exception | None]) -> None:
        self._failures = failures
        self.told: list[dict[str, Any]] = []

    def start(self, progress: Any, schema: pa.Schema, table: str) -> None:
        self._next = 0 if progress is None else progress["next"]

    def portions(self) -> Iterator[Portion]:
        for number in range(self._next, 10):
            failure = self._failures.pop(0) if self._failures else None
            if failure is not None:
                raise failure
            yield Portion({"id": [number], "what": ["x"]}, 1, {"next": number + 1})

    def committed(self, position: Any) -> None:
        self.told.append(dict(position))


def test_an_accident_that_may_pass_sends_the_loop_back_to_the_last_epoch(
    shared_lake: lw.Lake, name: str
) -> None:
    source = Shaky([None, None, None, None, Conflict("once"), None, Conflict("twice")])
    results: list[EpochResult] = []
    with shared_lake.sink(name, writer_id="w", schema=SCHEMA) as sink:
        done = sink.consume(source, epoch_rows=3, on_epoch=results.append)
    assert ids(shared_lake, name) == list(range(10))
    assert (done.restarts, done.rows, done.epochs) == (2, 10, 4)
    assert [r.epoch for r in results] == [0, 1, 2, 3]
    assert source.told[-1] == {"next": 10}


def test_an_accident_that_stays_ends_the_loop(shared_lake: lw.Lake, name: str) -> None:
    with shared_lake.sink(name, writer_id="w", schema=SCHEMA) as sink:
        with pytest.raises(SchemaMismatch):
            sink.consume(Shaky([None, SchemaMismatch("never")]))
        with pytest.raises(Conflict):
            sink.consume(Shaky([Conflict("again")] * 5), restarts=1)


def test_an_epoch_is_committed_when_it_is_old_enough(shared_lake: lw.Lake, name: str) -> None:
    with shared_lake.sink(name, writer_id="w", schema=SCHEMA) as sink:
        done = sink.consume(Shaky([]), epoch_seconds=0)
    assert done.epochs == 10


def test_sources_of_different_kinds_do_not_forget_each_other(
    shared_lake: lw.Lake, name: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.ndjson"
    path.write_bytes(lines(1))
    with shared_lake.sink(name, writer_id="w", schema=SCHEMA) as sink:
        sink.consume(JsonFiles([path]))
        sink.consume(JsonStream(io.BytesIO(lines(2))))
        sink.consume(JsonFiles([path]))
    assert ids(shared_lake, name) == [1, 2]
