"""Rows of files on an object store: appended, merged, and taken by `ingest`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import obstore
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import S3Store

import lakeward as lw
from lakeward.errors import InvalidInput, NotFound, SchemaMismatch
from tests.cli.console import ask
from tests.support.s3 import SECRET, S3Server

pytestmark = pytest.mark.s3


@pytest.fixture
def landing(s3_server: S3Server, tmp_path: Path) -> str:
    """A bucket with files of all formats, which is not the lake's."""
    bucket = s3_server.bucket()
    store = S3Store(
        bucket,
        endpoint=s3_server.endpoint,
        access_key_id=s3_server.options()["AWS_ACCESS_KEY_ID"],
        secret_access_key=SECRET,
        region="us-east-1",
        client_options={"allow_http": True},
    )
    pq.write_table(pa.table({"id": [1, 2], "name": ["a", "b"]}), tmp_path / "1.parquet")
    with pa.OSFile(str(tmp_path / "4.arrow"), "wb") as file:
        rows = pa.table({"id": [7], "name": ["g"]})
        with pa.ipc.new_file(file, rows.schema) as writer:
            writer.write_table(rows)
    with pa.output_stream(tmp_path / "2.csv.gz") as text:
        text.write(b"id,name\n3,c\n4,d\n")
    (tmp_path / "3.jsonl").write_bytes(orjson.dumps({"id": 5, "name": "e"}) + b"\n")
    (tmp_path / "bad.csv").write_text("id,name\n8,h\nnine,i\n")
    for name in ("1.parquet", "2.csv.gz", "3.jsonl", "4.arrow", "bad.csv"):
        place = f"in/deep/{name}" if name == "3.jsonl" else f"in/{name}"
        obstore.put(store, place, (tmp_path / name).read_bytes())
    return f"s3://{bucket}/in"


def test_addresses_and_patterns_of_a_store_are_data_like_paths(
    open_on: Callable[..., lw.Lake], landing: str, s3_server: S3Server, tmp_path: Path
) -> None:
    lake = open_on()
    lake.create("t", like=f"{landing}/1.parquet")
    with lake.transaction() as tx:
        assert tx.append("t", f"{landing}/*.parquet").inserted == 2
        tx.append("t", [f"{landing}/2.csv.gz", f"{landing}/**/*.jsonl", f"{landing}/4.arrow"])
        tx.merge("t", f"{landing}/1.parquet", on="id", matched={"name": "upper(source.name)"})
    found = lake.table("t").to_arrow().sort_by("id").to_pydict()
    assert found == {"id": [1, 2, 3, 4, 5, 7], "name": ["A", "B", "c", "d", "e", "g"]}

    with pytest.raises(NotFound, match="No file matches"):
        lake.table("t").append(f"{landing}/none/*.csv")
    with pytest.raises(InvalidInput, match="is a directory"):
        lake.table("t").append(f"{landing}/")
    with pytest.raises(SchemaMismatch, match=rf"line 3 of {landing}/bad.csv"):
        lake.table("t").append(f"{landing}/bad.csv")

    # A lake on disk reaches the store by options that are given.
    given = lw.Files(f"{landing}/1.parquet", storage_options=s3_server.options())
    assert SECRET not in repr(given)
    with lw.open(tmp_path / "local") as local:
        local.create("t", like=given)
        local.table("t").append(given)
        assert local.table("t").to_arrow()["id"].to_pylist() == [1, 2]


def test_ingest_takes_each_row_of_a_store_once(
    landing: str, s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3_server.options().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("LAKEWARD_LAKE", str(tmp_path / "lake"))
    ask("init")
    line = ("ingest", "--from", f"{landing}/*.parquet", "--into", "t")

    assert ask(*line, "--schema", "id int64, name string")["rows"] == 2
    assert ask(*line)["rows"] == 0
    assert ask("read", "t")["rows"] == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
