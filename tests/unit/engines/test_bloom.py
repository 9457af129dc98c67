"""Bloom filters of Parquet files are probed as the specification says."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest

from lakeward.engines.arrow.bloom import file_may_have, xxh64
from lakeward.model.types import Field, Primitive


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", 0xEF46DB3751D8E999),
        (b"a", 0xD24EC4F1A98C6E5B),
        (b"abc", 0x44BC2CF5AD770999),
        (b"Nobody inspects the spammish repetition", 0xFBCEA83C8A378BF1),
    ],
)
def test_hashes_are_those_of_xxh64(data: bytes, found: int) -> None:
    assert xxh64(data) == found


@pytest.mark.parametrize(
    ("kind", "arrow"), [("string", pa.string()), ("int64", pa.int64()), ("int32", pa.int32())]
)
def test_every_value_is_found_and_few_others(tmp_path: Path, kind: str, arrow: pa.DataType) -> None:
    values = [f"key {n}" if kind == "string" else n * 3 for n in range(2000)]
    others = [f"other {n}" if kind == "string" else n * 3 + 1 for n in range(500)]
    path = str(tmp_path / "f.parquet")
    options = {"k": {"ndv": 1000, "fpp": 0.01}}
    data = pa.table({"k": pa.array(values, arrow)})
    pq.write_table(data, path, bloom_filter_options=options, row_group_size=1000)
    field = Field(1, "k", Primitive(kind))
    disk = pa.fs.LocalFileSystem()

    def has(value: object) -> bool:
        return file_may_have(disk, path, {field: [value]}, by_id=False)  # type: ignore[list-item]

    assert all(has(v) for v in values[::17])
    assert sum(has(v) for v in others) < 50
    # A file that has the column under no id, or no filter, is never left out.
    assert file_may_have(disk, path, {field: [others[0]]}, by_id=True)
    pq.write_table(data, path)
    assert all(has(v) for v in others[:10])
