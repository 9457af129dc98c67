"""Exports to an object store: complete when the manifest is there, and never inside the lake."""

from __future__ import annotations

import secrets
import socket
import threading
import tracemalloc
from array import array
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeward as lw
from lakeward.errors import AlreadyExists, InvalidInput, StorageError
from tests.support.s3 import SECRET, S3Server, on_disk

pytestmark = pytest.mark.s3
SIZE = 40 * 2**20


def test_a_version_is_exported_to_a_store_with_its_manifest_last(
    open_on: Callable[..., lw.Lake], s3_server: S3Server, bucket: str, tmp_path: Path
) -> None:
    lake = open_on()
    table = lake.create("t", "id int64, part string", format="iceberg")
    table.append(pa.table({"id": range(10), "part": ["x y", "ü"] * 5}))
    lake.tag("kept")
    table.delete(where="id > 0")
    target = f"s3://{bucket}/out"
    done = table.at(tag="kept").export(target, partition_by=["part"], max_rows_per_file=4)
    place = on_disk(target)
    manifest = orjson.loads((place / "manifest.json").read_bytes())
    assert (manifest["version"], manifest["rows"]) == (1, 10)
    assert SECRET not in str(manifest)
    ids: list[int] = []
    for file in done.files:
        data = (place / file.path).read_bytes()
        assert (len(data), sha256(data).hexdigest()) == (file.bytes, file.sha256)
        ids += pq.read_table(pa.BufferReader(data))["id"].to_pylist()
    assert sorted(ids) == list(range(10))

    with pytest.raises(AlreadyExists):
        table.export(target)
    with pytest.raises(InvalidInput, match="lies in the lake"):
        table.export(f"s3://{bucket}/wh/t/out")

    def fail(rows: int, _: Any) -> None:
        message = f"stopped after {rows}"
        raise RuntimeError(message)

    with pytest.raises(RuntimeError, match="stopped"):
        table.export(f"s3://{bucket}/half", progress=fail)
    assert not (on_disk(f"s3://{bucket}/half") / "manifest.json").exists()
    assert not any(p.is_file() for p in on_disk(f"s3://{bucket}/half").rglob("*"))
    # A lake on disk reaches the store by options that are given.
    with lw.open(tmp_path / "local") as local:
        local.create("t", "id int64").append({"id": [1]})
        where = f"s3://{bucket}/local"
        found = local.table("t").export(where, format="csv", storage_options=s3_server.options())
        assert (on_disk(where) / found.files[0].path).read_text().split() == ['"id"', "1"]


def test_of_two_exports_to_one_place_at_once_one_is_refused(
    open_on: Callable[..., lw.Lake], bucket: str
) -> None:
    lake = open_on()
    table = lake.create("t", "id int64")
    table.append(pa.table({"id": range(10)}))
    target = f"s3://{bucket}/out"
    refused: list[AlreadyExists] = []

    def beside(*_: Any) -> None:
        if not refused:
            with pytest.raises(AlreadyExists) as caught:
                table.export(target, where="id < 3")
            refused.append(caught.value)

    done = table.export(target, progress=beside)

    assert len(refused) == 1
    place = on_disk(target)
    found = {p.relative_to(place).as_posix() for p in place.rglob("*") if p.is_file()}
    assert found == {"manifest.json", *(f.path for f in done.files)}
    assert pq.read_table(place / done.files[0].path).num_rows == 10


def test_a_large_file_is_uploaded_in_pieces(
    s3_server: S3Server, bucket: str, tmp_path: Path
) -> None:
    rows = _large()
    with lw.open(tmp_path / "lake") as lake:
        lake.create("t", "b binary").append(rows)
        tracemalloc.start()
        try:
            done = lake.table("t").export(f"s3://{bucket}/out", storage_options=s3_server.options())
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    (file,) = done.files
    found = (on_disk(f"s3://{bucket}/out") / file.path).read_bytes()
    assert (len(found), sha256(found).hexdigest()) == (file.bytes, file.sha256)
    assert pq.read_table(pa.BufferReader(found)).equals(rows)
    assert peak < SIZE / 2, f"{peak:,} bytes of Python's memory"


@pytest.mark.full
def test_a_file_whose_upload_breaks_off_does_not_appear(
    s3_server: S3Server, bucket: str, tmp_path: Path
) -> None:
    with Relay(s3_server.port, most=SIZE // 2) as relay, lw.open(tmp_path / "lake") as lake:
        lake.create("t", "b binary").append(_large())
        options = {**s3_server.options(relay.endpoint), "retry_timeout": "1s", "max_retries": "0"}
        with pytest.raises(StorageError):
            lake.table("t").export(f"s3://{bucket}/out", storage_options=options)
        assert relay.is_broken
        assert not (on_disk(f"s3://{bucket}/out") / "part-00000.parquet").exists()
        assert not (on_disk(f"s3://{bucket}/out") / "manifest.json").exists()


def _large() -> pa.Table:
    count = 40 * 2**10
    data = pa.py_buffer(secrets.token_bytes(SIZE))
    offsets = pa.py_buffer(array("i", range(0, SIZE + 1, SIZE // count)))
    return pa.table({"b": pa.Array.from_buffers(pa.binary(), count, [None, offsets, data])})


class Relay:
    """Passes connections on to a port until a number of bytes were sent; then all break."""

    def __init__(self, port: int, most: int) -> None:
        self._port, self._left = port, most
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.endpoint = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.is_broken = False

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._break()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._port))
                self._open += [client, server]
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(2**16):
                self._left -= len(data)
                if self._left < 0:
                    self._break()
                target.sendall(data)
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _break(self) -> None:
        self.is_broken = True
        for one in (self._listener, *self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
