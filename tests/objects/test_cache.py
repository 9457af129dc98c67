"""What is kept of files on an object store, in memory and on a local disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datafusion import SessionContext
from obstore.store import S3Store

import lakeward as lw
from lakeward.errors import InvalidInput, LakewardError
from lakeward.integrations.datafusion import register
from tests.support.inside import context_of
from tests.support.s3 import S3Server, on_disk

pytestmark = pytest.mark.s3
_ROWS = 30_000


def _rows(seed: int) -> pa.Table:
    """Rows that do not compress, so that a file is larger than what is fetched of its end."""
    numbers = np.random.default_rng(seed).random((2, _ROWS))
    return pa.table({"a": numbers[0], "b": numbers[1]})


def _remove_data(lake: lw.Lake, name: str = "t") -> None:
    """Delete the data files from the server's disk, so that only a cache can have them."""
    for path in on_disk(lake.table(name).location).rglob("*.parquet"):
        if "_delta_log" not in path.parts:
            path.unlink()


def test_columns_that_were_read_are_not_fetched_again(open_on: Callable[..., lw.Lake]) -> None:
    lake = open_on()
    lake.create("t", "a double, b double").append(_rows(1))
    first = lake.table("t").to_arrow(columns=["a"])
    before = lake.counters()
    assert before["cache_misses"] > 0
    _remove_data(lake)
    assert lake.table("t").to_arrow(columns=["a"]) == first
    after = lake.counters()
    assert after["cache_misses"] == before["cache_misses"]
    assert after["cache_hits"] > before.get("cache_hits", 0)
    assert after["cache_hit_bytes"] > _ROWS * 8
    with pytest.raises(LakewardError):
        lake.table("t").to_arrow(columns=["b"])


def _client(server: S3Server, bucket: str) -> S3Store:
    options = server.options()
    return S3Store(
        bucket,
        endpoint=options["AWS_ENDPOINT_URL"],
        access_key_id=options["AWS_ACCESS_KEY_ID"],
        secret_access_key=options["AWS_SECRET_ACCESS_KEY"],
        region="us-east-1",
        client_options={"allow_http": True},
    )


def _file(seed: int) -> bytes:
    target = pa.BufferOutputStream()
    pq.write_table(_rows(seed), target)
    return target.getvalue().to_pybytes()


@pytest.mark.parametrize("has_etag", [True, False])
def test_a_file_that_its_producer_replaced_is_read_anew(
    open_on: Callable[..., lw.Lake], s3_server: S3Server, bucket: str, has_etag: bool
) -> None:
    lake = open_on()
    table = lake.create("t", "a double, b double")
    store = _client(s3_server, bucket)
    # The lake's own files have such names too, and are written once.
    key = "in/6f1e2d3c-0a1b-4c5d-8e9f-001122334455.parquet"
    address = f"s3://{bucket}/{key}"
    on_disk(address).parent.mkdir(parents=True)
    for seed in (1, 2):
        if has_etag:
            obstore.put(store, key, _file(seed))
        else:  # The server keeps the ETag of what it wrote itself only.
            on_disk(address).write_bytes(_file(seed))
        assert (obstore.head(store, key)["e_tag"] is not None) == has_etag
        table.overwrite(address)
        assert table.to_arrow()["a"].equals(_rows(seed)["a"])


def test_without_a_cache_nothing_is_kept(open_on: Callable[..., lw.Lake]) -> None:
    lake = open_on(cache=False)
    lake.create("t", "a double, b double").append(_rows(1))
    assert lake.table("t").to_arrow().num_rows == _ROWS
    assert "cache_misses" not in lake.counters()
    _remove_data(lake)
    with pytest.raises(LakewardError):
        lake.table("t").to_arrow()
    with pytest.raises(InvalidInput, match="must be a Cache"):
        open_on(cache=5)


def test_a_file_that_is_replaced_under_its_name_is_read_anew(
    open_on: Callable[..., lw.Lake], s3_server: S3Server, bucket: str
) -> None:
    lake = open_on()
    table = lake.create("t", "a double, b double")
    store, key = _client(s3_server, bucket), "wh/t/given.parquet"
    obstore.put(store, key, _file(1))
    with lake.transaction() as tx:
        tx.add_files("t", ["given.parquet"])
    assert table.to_arrow()["a"].equals(_rows(1)["a"])
    obstore.put(store, key, _file(2))
    assert table.to_arrow()["a"].equals(_rows(2)["a"])


def test_each_version_is_read_as_it_is(open_on: Callable[..., lw.Lake]) -> None:
    lake = open_on()
    table = lake.create("t", "a double, b double")
    for seed in (1, 2):
        with lake.transaction() as tx:
            tx.overwrite("t", _rows(seed))
    for _ in range(2):
        for version in (1, 2):
            assert table.at(version=version).to_arrow()["a"].equals(_rows(version)["a"])


def test_a_cache_stays_below_its_size(open_on: Callable[..., lw.Lake], tmp_path: Path) -> None:
    limit = 3 * _ROWS * 8
    near = tmp_path / "near"
    lake = open_on(cache=lw.Cache(memory=limit, directory=near, disk=limit))
    table = lake.create("t", "a double, b double")
    for seed in range(3):
        table.append(_rows(seed))
        assert table.to_arrow().num_rows == (seed + 1) * _ROWS
        storage: Any = context_of(lake).storage
        assert 0 < storage._cache.size <= limit
        assert 0 < sum(f.stat().st_size for f in near.iterdir()) <= limit


def test_a_directory_serves_other_processes_and_damage_is_noticed(
    open_on: Callable[..., lw.Lake], tmp_path: Path
) -> None:
    kept = lw.Cache(memory=0, directory=tmp_path / "near")
    lake = open_on(cache=kept)
    lake.create("t", "a double, b double").append(_rows(1))
    first = lake.table("t").to_arrow()
    other = open_on(cache=kept)
    assert other.table("t").to_arrow() == first
    assert "cache_misses" not in other.counters()
    for file in (tmp_path / "near").iterdir():
        file.write_bytes(file.read_bytes()[:-1] + b"\0")
    again = open_on(cache=kept)
    assert again.table("t").to_arrow() == first
    assert again.counters()["cache_misses"] > 0


def test_datafusion_reads_files_of_a_store_through_our_reader(
    open_on: Callable[..., lw.Lake],
) -> None:
    lake = open_on()
    table = lake.create("t", "a double, b double")
    table.append(_rows(1))
    context = SessionContext()
    done = register(context, "t", table)
    assert (done.way, done.reason) == ("dataset", "the files are in an object store")
    found = pa.table(context.sql("SELECT count(*) AS n FROM t WHERE a < 0.5"))
    assert found["n"].to_pylist() == [table.to_arrow(where="a < 0.5").num_rows]
