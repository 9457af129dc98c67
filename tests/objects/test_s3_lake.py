"""A lake on an S3 server, from the first table to the rebuilt store."""

from __future__ import annotations

import logging
import os
import shutil
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from pyiceberg.catalog import load_catalog

import lakeward as lw
from lakeward.errors import FileMissing, InvalidInput, LakewardError, StorageError, WrongWarehouse
from tests.behaviour.branches.working import upsert
from tests.support.inside import context_of
from tests.support.invariants import check_lake
from tests.support.s3 import SECRET, S3Server, on_disk

pytestmark = pytest.mark.s3

ROWS = pa.table({"id": [1, 2, 3], "name": ["a", "b c", None], "part": ["x y", "ü/1", "n"]})
SCHEMA = "id int64, name string, part string"
FORMATS = pytest.mark.parametrize("table_format", ["delta", "iceberg"])

Open = Callable[..., lw.Lake]


@FORMATS
def test_a_table_lives_on_s3_and_is_rebuilt_from_there(
    open_on: Open, table_format: str, bucket: str, tmp_path: Path
) -> None:
    lake = open_on()
    table = lake.create("sales.orders", SCHEMA, format=table_format, partition_by=["part"])
    for start in range(12):
        append(lake, "sales.orders", with_id(start))
    with lake.transaction() as tx:
        tx.delete("sales.orders", where="name = 'a'")
    with lake.transaction() as tx:
        tx.overwrite("sales.orders", ROWS.slice(2, 1), where="part = 'n'")
    lake.publish()

    assert table.location == f"s3://{bucket}/wh/sales/orders"
    assert repr(lake).endswith(f"warehouse='s3://{bucket}/wh')")
    before = check_lake(lake, ["sales.orders"])["sales.orders"]
    assert lake.doctor().findings == ()
    assert table.at(version=3).to_arrow().num_rows == 9

    lake.close()
    (tmp_path / "lake" / "lakeward.db").unlink()
    with pytest.raises(WrongWarehouse, match="lakeward rebuild"):
        open_on()
    again = open_on(take_over=True)
    assert again.rebuild().tables == {"sales.orders": 14}
    assert check_lake(again, ["sales.orders"])["sales.orders"] == before


def test_one_transaction_over_both_formats_is_seen_whole_by_others(open_on: Open) -> None:
    lake = open_on()
    for table_format in ("delta", "iceberg"):
        lake.create(table_format, SCHEMA, format=table_format)

    with lake.transaction() as tx:
        tx.append("delta", ROWS)
        tx.append("iceberg", ROWS)
        assert tx.read("delta").num_rows == 3
    check_lake(lake, ["delta", "iceberg"])


@FORMATS
def test_a_table_made_elsewhere_is_adopted_by_its_full_name(
    open_on: Open, table_format: str, s3_server: S3Server, tmp_path: Path
) -> None:
    outside = s3_server.bucket()
    with lw.open(
        tmp_path / "other",
        warehouse=f"s3://{outside}",
        storage_options=s3_server.options(),
    ) as other:
        other.create("t", SCHEMA, format=table_format)
        append(other, "t", ROWS)
    lake = open_on()

    table = lake.adopt("mine", f"s3a://{outside}/t", take_over=True)

    assert table.location == f"s3://{outside}/t"
    append(lake, "mine", ROWS)
    assert table.to_arrow().num_rows == 6
    assert lake.doctor().findings == ()


def test_an_open_delta_table_takes_commits_of_delta_rs_and_ours(open_on: Open) -> None:
    lake = open_on()
    table = lake.create("open", SCHEMA, guard=False)
    append(lake, "open", ROWS)
    options = context_of(lake).storage.delta_options()

    write_deltalake(table.location, ROWS, mode="append", storage_options=options)
    append(lake, "open", ROWS)

    assert table.version == 3
    assert table.to_arrow().num_rows == 9
    theirs = QueryBuilder().register("t", DeltaTable(table.location, storage_options=options))
    assert pa.table(theirs.execute("SELECT count(*) AS n FROM t"))["n"].to_pylist() == [9]


@FORMATS
def test_missing_files_are_told_and_never_waited_for(open_on: Open, table_format: str) -> None:
    lake = open_on()
    table = lake.create("t", SCHEMA, format=table_format)
    for start in range(8):
        append(lake, "t", with_id(start))
    for file in table.files():
        on_disk(f"{table.location}/{file.path}").unlink()

    for _ in range(20):
        with pytest.raises(FileMissing):
            table.to_arrow()


def test_missing_files_with_rows_deleted_in_place_are_told_as_well(open_on: Open) -> None:
    lake = open_on(cache=False)
    table = lake.create("t", {"id": "int64"}, policy={"merge_on_read": True})
    for start in range(4):
        append(lake, "t", {"id": list(range(start * 100, start * 100 + 100))})
    with lake.transaction() as tx:
        tx.delete("t", where="id % 100 = 7")
    assert table.to_arrow(where="id > 50").num_rows == 346
    for file in table.files():
        on_disk(f"{table.location}/{file.path}").unlink()

    for where in [None, "id > 50"] * 5:
        with pytest.raises(FileMissing):
            table.to_arrow(where=where)


def test_wrong_credentials_are_told_before_anything_is_made(
    open_on: Open, s3_server: S3Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    options = {**s3_server.options(), "AWS_SECRET_ACCESS_KEY": "a-wrong-secret-value"}

    with pytest.raises(StorageError, match="403 SignatureDoesNotMatch") as caught:
        open_on(storage_options=options)

    assert not (tmp_path / "lake").exists()
    assert_unseen("a-wrong-secret-value", caught.value, caplog.text)


def test_a_missing_bucket_is_told_before_anything_is_made(open_on: Open, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="its bucket does not exist"):
        open_on(warehouse="s3://no-such-bucket/wh")

    assert not (tmp_path / "lake").exists()


def test_options_that_make_no_sense_are_told_before_anything_is_made(
    open_on: Open, s3_server: S3Server, tmp_path: Path
) -> None:
    secret = {**s3_server.options(), "AWS_SECRET": SECRET}
    cases: list[dict[str, Any]] = [
        {"storage_options": secret},
        {"storage_options": [SECRET]},
        {"storage_options": SECRET},
        {"warehouse": f"s3://me:{SECRET}@bucket"},
        {"warehouse": "s3://"},
        {"warehouse": "s3://bucket/../x"},
    ]
    for case in cases:
        with pytest.raises(InvalidInput) as caught:
            open_on(**case)
        assert_unseen(SECRET, caught.value)

    assert not (tmp_path / "lake").exists()


def test_no_secret_is_left_in_the_store_the_files_or_the_log(
    open_on: Open, bucket: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    lake = open_on()
    for table_format in ("delta", "iceberg"):
        lake.create(table_format, SCHEMA, format=table_format)
        append(lake, table_format, ROWS)
    shown = f"{lake!r} {context_of(lake)!r} {context_of(lake).storage!r} {lake.table('delta')!r}"
    lake.close()

    files = [p for p in tmp_path.rglob("*") if p.is_file()]
    files += [p for p in on_disk(f"s3://{bucket}").rglob("*") if p.is_file()]
    assert len(files) > 8
    assert not [p for p in files if SECRET.encode() in p.read_bytes()]
    assert SECRET not in shown + caplog.text


def test_options_come_from_the_environment(
    open_on: Open, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3_server.options().items():
        monkeypatch.setenv(name, value)

    lake = open_on(storage_options=None)

    lake.create("t", SCHEMA)
    append(lake, "t", ROWS)
    assert lake.table("t").to_arrow().num_rows == 3


def test_what_was_not_published_is_published_by_the_next_to_open_the_lake(
    open_on: Open, bucket: str
) -> None:
    lake = open_on()
    table = lake.create("t", SCHEMA)
    append(lake, "t", ROWS)
    published = on_disk(f"{table.location}/_delta_log/{1:020d}.json")
    before = published.read_bytes()
    published.unlink()

    open_on()

    assert published.read_bytes() == before
    assert orjson.loads(before.splitlines()[0])["commitInfo"]["operation"] == "WRITE"


def append(lake: lw.Lake, name: str, rows: pa.Table) -> None:
    """Append in a transaction of its own."""
    with lake.transaction() as tx:
        tx.append(name, rows)


def with_id(start: int) -> pa.Table:
    """The rows, with ids of their own."""
    return ROWS.set_column(0, "id", pa.array([start * 10 + n for n in range(3)]))


def assert_unseen(secret: str, error: LakewardError, *more: str) -> None:
    """Assert that nothing a person or a program gets to see has a secret in it."""
    shown = "".join(traceback.format_exception(error))
    for text in (str(error), repr(error), repr(error.facts), shown, *more):
        assert secret not in text


def test_a_branch_with_a_change_feed_is_published_with_the_lakes_own_credentials(
    open_on: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [n for n in os.environ if n.startswith("AWS_")]:
        monkeypatch.delenv(name)
    lake = open_on()
    lake.create("t", SCHEMA, properties={"delta.enableChangeDataFeed": "true"})
    append(lake, "t", ROWS)
    branch = lake.branch("audit", tables=["t"])
    options = lake.storage_options("delta")
    for start in (10, 20):
        write_deltalake(
            branch.table("t").location, with_id(start), mode="append", storage_options=options
        )
    changed = pa.table({"id": [1], "name": ["changed"], "part": ["x y"]})
    upsert(branch.table("t").location, changed)
    assert branch.table("t").to_arrow().num_rows == 9
    assert branch.table("t").to_arrow(where="id = 1")["name"].to_pylist() == ["changed"]

    branch.publish()

    rows = lake.table("t").to_arrow()
    assert rows.num_rows == 9
    assert rows.filter(pc.field("id") == 1)["name"].to_pylist() == ["changed"]
    assert lake.doctor().findings == ()


def test_a_table_of_another_catalog_is_adopted_with_the_lakes_own_credentials(
    open_on: Open, bucket: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in [n for n in os.environ if n.startswith("AWS_")]:
        monkeypatch.delenv(name)
    lake = open_on()
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/theirs.db", "name": "theirs"}
    options = lake.storage_options("iceberg")
    theirs = load_catalog(**catalog, warehouse=f"s3://{bucket}/theirs", **options)
    try:
        theirs.create_namespace("db")
        theirs.create_table("db.t", ROWS.schema).append(ROWS)
    finally:
        theirs.engine.dispose()  # type: ignore[attr-defined]

    lake.adopt("mine", "db.t", catalog=catalog)

    assert lake.table("mine").to_arrow().num_rows == 3


def test_a_store_knows_its_warehouse_on_s3_and_is_relocated_to_another_prefix(
    open_on: Open, bucket: str, s3_server: S3Server, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"storage_options": s3_server.options()}
    with open_on() as lake:
        for table_format in ("delta", "iceberg"):
            lake.create(table_format, SCHEMA, format=table_format, partition_by=["part"])
            append(lake, table_format, ROWS)
            append(lake, table_format, with_id(7))
    with open_on(warehouse=None) as lake:
        assert lake.warehouse == f"s3://{bucket}/wh"
    with pytest.raises(WrongWarehouse, match=f"s3://{bucket}/wh"):
        open_on(warehouse=f"s3://{bucket}/other")
    with pytest.raises(WrongWarehouse, match="belongs to"):
        lw.open(tmp_path / "second", warehouse=f"s3://{bucket}/wh", **options)
    assert not (tmp_path / "second").exists()

    shutil.move(on_disk(f"s3://{bucket}/wh"), on_disk(f"s3://{bucket}") / "moved")
    done = lw.relocate(tmp_path / "lake", warehouse=f"s3://{bucket}/moved", **options)

    assert (done.old, done.new) == (f"s3://{bucket}/wh", f"s3://{bucket}/moved")
    with open_on(warehouse=None) as lake:
        check_lake(lake, ["delta", "iceberg"])
        for table_format in ("delta", "iceberg"):
            assert lake.table(table_format).at(version=1).to_arrow().num_rows == 3
            append(lake, table_format, with_id(8))
            assert lake.table(table_format).to_arrow().num_rows == 9
        assert {f.severity.value for f in lake.doctor().findings} <= {"info"}
