"""Exports to an object store: complete when the manifest is there, and never inside the lake."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeward as lw
from lakeward.errors import AlreadyExists, InvalidInput
from tests.support.s3 import SECRET, S3Server, on_disk

pytestmark = pytest.mark.s3


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
    # A lake on disk reaches the store by options that are given.
    with lw.open(tmp_path / "local") as local:
        local.create("t", "id int64").append({"id": [1]})
        where = f"s3://{bucket}/local"
        found = local.table("t").export(where, format="csv", storage_options=s3_server.options())
        assert (on_disk(where) / found.files[0].path).read_text().split() == ['"id"', "1"]
