"""Small bodies with very large rows are refused, and the service needs little memory for them."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.engines.arrow import received
from lakeward.engines.arrow.ipc_metadata import is_plain
from tests.support.service import ARROW, PARQUET, Service, orders, stream

ROWS = "/api/v1/tables/sales.texts/rows"
PENDING = "/api/v1/transactions/night-17/rows?table=sales.texts"
_MIB = 1 << 20
MOST = 80 * _MIB
"""What all rows of an upload may have here; each body below has at least 300 MiB."""


class Peak:
    """How many bytes of memory this process gained at most."""

    gained = 0


@contextmanager
def peak() -> Iterator[Peak]:
    """Measure the peak of this process, in which the service runs too."""
    pa.default_memory_pool().release_unused()
    Path("/proc/self/clear_refs").write_text("5")
    before, found = _status("VmRSS"), Peak()
    yield found
    found.gained = _status("VmHWM") - before


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def sent(client: httpx.Client, body: bytes, kind: str = ARROW, path: str = ROWS) -> httpx.Response:
    return client.post(path, content=body, headers={"content-type": kind})


def compressed(rows: pa.Table, codec: str = "zstd") -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue().to_pybytes())


def parquet(rows: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, **options)
    return bytes(sink.getvalue().to_pybytes())


def repeated(size: int, count: int) -> pa.Table:
    """One long text in many rows."""
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int16()), ["x" * size])
    return pa.table({"id": range(count), "text": texts})


def one(size: int) -> pa.Table:
    """One long text in one row."""
    return pa.table({"id": [1], "text": ["x" * size]})


def views(size: int, count: int) -> pa.Table:
    """The same, as views of one buffer."""
    view = struct.pack("<i4sii", size, b"xxxx", 0, 0) * count
    buffers = [None, pa.py_buffer(view), pa.py_buffer(b"x" * size)]
    texts = pa.Array.from_buffers(pa.string_view(), count, buffers)
    return pa.table({"id": range(count), "text": texts})


def zeros(count: int) -> pa.Table:
    """Rows of zeros and empty texts, which have 12 bytes each and can be compressed to nothing."""
    data = pa.py_buffer(bytes(8 * count + 8))
    ids = pa.Array.from_buffers(pa.int64(), count, [None, data])
    texts = pa.Array.from_buffers(pa.string(), count, [None, data, pa.py_buffer(b"")])
    return pa.table({"id": ids, "text": texts})


def lying() -> bytes:
    """A buffer whose length is said to be 100 GiB."""
    body = compressed(zeros(100_000))
    told = struct.pack("<q", 800_000)
    assert body.count(told) == 1
    return body.replace(told, struct.pack("<q", 100 << 30))


def listed_nulls() -> bytes:
    """A list of 2^27 nulls, which have no bytes; as columns of the table they would have."""
    nulls = pa.nulls(1 << 27)
    return stream(pa.table({"id": pa.ListArray.from_arrays([0, len(nulls)], nulls), "text": ["a"]}))


def named_often() -> bytes:
    """A schema in which 4,000 columns refer to one place with a long name."""
    count, name = 4000, "n" * 100_000
    schema = pa.schema([pa.field("a", pa.int64())] * (count - 1) + [pa.field(name, pa.int64())])
    data = bytearray(schema.serialize().to_pybytes())
    entries = next(
        at + 4 for at in range(8, len(data) - 4) if data[at : at + 4] == struct.pack("<I", count)
    )
    # Flatbuffers are written from their end: the first field is the one farthest away.
    places = [entries + 4 * n + _offset(data, entries + 4 * n) for n in range(count)]
    for n in range(count):
        struct.pack_into("<I", data, entries + 4 * n, places[-1] - entries - 4 * n)
    return bytes(data)


def _offset(data: bytearray, at: int) -> int:
    found: int = struct.unpack_from("<I", data, at)[0]
    return found


_ONE_PAGE: dict[str, Any] = {
    "compression": "zstd",
    "use_dictionary": False,
    "write_statistics": False,
}
BODIES: dict[str, Callable[[], tuple[str, bytes]]] = {
    "dictionary": lambda: (ARROW, stream(repeated(_MIB, 300))),
    "views": lambda: (ARROW, stream(views(_MIB, 300))),
    "zstd": lambda: (ARROW, compressed(zeros(26 * _MIB))),
    "lz4": lambda: (ARROW, compressed(zeros(26 * _MIB), "lz4")),
    "a length that lies": lambda: (ARROW, lying()),
    "nulls": lambda: (ARROW, listed_nulls()),
    "names": lambda: (ARROW, named_often()),
    "parquet with a dictionary": lambda: (PARQUET, parquet(repeated(_MIB, 300))),
    "parquet of zeros": lambda: (PARQUET, parquet(zeros(26 * _MIB), compression="zstd")),
    "a long page": lambda: (PARQUET, parquet(one(300 * _MIB), **_ONE_PAGE)),
}


@pytest.fixture
def texts(own: Service, serve: Callable[..., Service]) -> Service:
    """A service of a lake with a table of texts, which it writes to small files."""
    own.lake.create("sales.texts", "id int64, text string", properties={"target_file_size": "8mb"})
    own.lake.table("sales.texts").append({"id": [1], "text": ["a"]})
    return serve(own.lake, anonymous=None, max_rows=MOST)


_CASES = [(ROWS, name) for name in BODIES] + [(PENDING, "dictionary"), (PENDING, "a long page")]


@pytest.mark.parametrize(("path", "name"), _CASES)
def test_rows_of_a_small_body_that_are_very_large_are_refused(
    texts: Service, path: str, name: str
) -> None:
    client = texts.as_("writer")
    begin(client)
    kind, body = BODIES[name]()
    assert len(body) < 4 * _MIB

    with peak() as memory:
        answer = sent(client, body, kind, path)

    assert answer.status_code == 413, answer.text
    assert answer.json()["hint"]
    assert memory.gained < 240 * _MIB, f"{memory.gained:,}"
    assert texts.lake.table("sales.texts").count() == 1


def test_a_commit_of_rows_that_were_sent_needs_little_memory(
    own: Service, serve: Callable[..., Service]
) -> None:
    own.lake.create("sales.texts", "id int64, text string", properties={"target_file_size": "8mb"})
    client = serve(own.lake, anonymous=None).as_("writer")
    begin(client)
    answer = sent(client, parquet(repeated(_MIB, 500)), PARQUET, PENDING)
    assert answer.status_code == 200, answer.text

    with peak() as memory:
        answer = client.post("/api/v1/transactions/night-17/commit", json={})

    assert answer.status_code == 200, answer.text
    assert memory.gained < 320 * _MIB, f"{memory.gained:,}"
    assert own.lake.table("sales.texts").count() == 500


@pytest.mark.parametrize(
    ("kind", "made"),
    [
        (ARROW, compressed),
        (ARROW, lambda rows: compressed(rows, "lz4")),
        (ARROW, lambda rows: stream(as_(rows, pa.dictionary(pa.int32(), pa.string())))),
        (ARROW, lambda rows: stream(as_(rows, pa.string_view()))),
        (ARROW, stream),
        (PARQUET, parquet),
        (PARQUET, lambda rows: parquet(rows, compression="zstd", row_group_size=1000)),
    ],
    ids=["zstd", "lz4", "dictionary", "views", "plain", "parquet", "row groups"],
)
def test_rows_in_every_encoding_are_appended(
    texts: Service, kind: str, made: Callable[[pa.Table], bytes]
) -> None:
    count = 140_000
    rows = pa.table({"id": range(count), "text": [None, *map(str, range(count - 1))]})

    answer = sent(texts.as_("writer"), made(rows), kind)

    assert answer.status_code == 200, answer.text
    found = texts.lake.table("sales.texts").at(version=2).to_arrow().sort_by("id")
    assert found.slice(2).equals(rows.slice(1).cast(found.schema)), "row 1 is twice there"


def as_(rows: pa.Table, kind: pa.DataType) -> pa.Table:
    """Rows whose texts have another type."""
    return rows.set_column(1, "text", rows["text"].combine_chunks().cast(kind))


def begin(client: httpx.Client) -> None:
    assert client.post("/api/v1/transactions", json={"id": "night-17"}).status_code == 201


def test_plain_streams_are_decoded_without_a_process(
    texts: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def started(*_: object, **__: object) -> None:
        message = "a process was started"
        raise AssertionError(message)

    monkeypatch.setattr("lakeward.engines.arrow.received.subprocess.Popen", started)
    kinds = {
        "number": pa.int8(),
        "moment": pa.timestamp("us", "UTC"),
        "code": pa.binary(3),
        "price": pa.decimal128(9, 2),
        "texts": pa.list_(pa.large_string()),
        "place": pa.struct({"x": pa.float32(), "sizes": pa.map_(pa.string(), pa.bool_())}),
        "pair": pa.list_(pa.int64(), 2),
    }
    rows = pa.table({name: pa.nulls(3, kind) for name, kind in kinds.items()})

    with received.read_received(stream(rows), "arrow", received.Limits()) as reader:
        assert reader.read_all().equals(rows)


def test_plain_streams_are_limited_too(own: Service, serve: Callable[..., Service]) -> None:
    client = serve(own.lake, anonymous=None, max_rows=10_000).as_("writer")

    answers = [
        sent(client, stream(orders(*range(10, count))), ARROW, ROWS.replace("texts", "orders"))
        for count in (100, 1000)
    ]

    assert [a.status_code for a in answers] == [200, 413], answers[1].text
    assert own.lake.table("sales.orders").count() == 95


def test_only_the_first_schema_of_a_stream_is_looked_through(texts: Service) -> None:
    plain = stream(zeros(1))
    schema = zeros(1).schema.serialize().to_pybytes()
    assert plain.startswith(schema)

    assert is_plain(pa.py_buffer(plain))
    assert not is_plain(pa.py_buffer(schema + plain))
    assert sent(texts.as_("writer"), schema + plain).status_code == 400


def test_only_some_bodies_are_decoded_at_the_same_time(
    own: Service, serve: Callable[..., Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(received, "_PATIENCE_SECONDS", 0.0)
    client = serve(own.lake, anonymous=None, decoders=0).as_("writer")

    answers = [
        sent(client, parquet(orders(7)), PARQUET, "/api/v1/tables/sales.orders/rows"),
        sent(client, stream(orders(7)), ARROW, "/api/v1/tables/sales.orders/rows"),
    ]

    assert [a.status_code for a in answers] == [503, 200], answers[0].text


def test_a_body_whose_rows_are_read_gives_its_place_to_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(received, "_PATIENCE_SECONDS", 0.0)
    free = threading.BoundedSemaphore(1)
    body, limits = parquet(orders(7)), received.Limits(free=free)

    # Meanwhile the change of the first body may wait for a lock of its table.
    with received.read_received(body, "parquet", limits) as first:
        assert not free.acquire(blocking=False)
        assert first.read_all().num_rows == 1
        with received.read_received(body, "parquet", limits) as second:
            assert second.read_all().num_rows == 1

    assert free.acquire(blocking=False)


@pytest.mark.parametrize("form", ["arrow", "parquet"])
def test_an_error_of_what_is_done_with_the_rows_does_not_blame_the_body(form: str) -> None:
    """Such as one after the commit: "Nothing was written" would not be true."""
    rows, sink = orders(1, 2), pa.BufferOutputStream()
    pq.write_table(rows, sink)
    body = stream(rows) if form == "arrow" else sink.getvalue()

    def read_and_fail() -> None:
        with received.read_received(body, form, received.Limits()) as reader:
            assert reader.read_all().num_rows == 2
            message = "the disk is gone"
            raise OSError(message)

    with pytest.raises(OSError, match="the disk is gone"):
        read_and_fail()
