"""A lake on Google's object store, as far as fake-gcs-server is one."""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from pyiceberg.catalog import load_catalog
from pyiceberg.table import StaticTable

import lakeward as lw
from lakeward.errors import StorageError, WrongWarehouse
from tests.support.gcs import Gcs

pytestmark = [
    pytest.mark.gcs,
    pytest.mark.xdist_group("gcs"),
    # Where the shared server cannot be had, those who start one of their own are skipped too.
    pytest.mark.usefixtures("gcs"),
]

ROWS = pa.table({"id": [1, 2, 3], "name": ["a", "b c", None], "part": ["x y", "ü/1", "n"]})
SCHEMA = "id int64, name string, part string"
FORMATS = ("delta", "iceberg")

Open = Callable[..., lw.Lake]


@pytest.fixture
def bucket(gcs: Gcs) -> str:
    """A fresh, empty bucket."""
    return gcs.bucket()


@pytest.fixture
def open_on(gcs: Gcs, bucket: str, tmp_path: Path) -> Generator[Open]:
    """Opens the test's lake."""
    with ExitStack() as stack:

        def opened(**options: Any) -> lw.Lake:
            settings = {"warehouse": f"gs://{bucket}/wh", "storage_options": gcs.options()}
            return stack.enter_context(lw.open(tmp_path / "lake", **{**settings, **options}))

        yield opened


def test_what_was_written_is_read_by_delta_rs_and_pyiceberg(open_on: Open) -> None:
    lake = open_on()
    for table_format in FORMATS:
        lake.create(table_format, SCHEMA, format=table_format, partition_by=["part"])
    with lake.transaction() as tx:
        for table_format in FORMATS:
            tx.append(table_format, ROWS)

    options = lake.storage_options("delta")
    delta = DeltaTable(lake.table("delta").location, storage_options=options)
    pointer = lake.table("iceberg").metadata_location
    assert pointer is not None
    iceberg = StaticTable.from_metadata(pointer, lake.storage_options("iceberg"))

    assert delta.to_pyarrow_table().sort_by("id").equals(ROWS)
    assert iceberg.scan().to_arrow().sort_by("id")["part"].to_pylist() == ["x y", "ü/1", "n"]


def test_a_lake_is_rebuilt_from_gcs(open_on: Open, tmp_path: Path) -> None:
    lake = open_on()
    for table_format in FORMATS:
        lake.create(table_format, SCHEMA, format=table_format, partition_by=["part"])
    for start in range(4):
        with lake.transaction() as tx:
            for table_format in FORMATS:
                tx.append(table_format, with_id(start))
    before = {name: lake.table(name).to_arrow().sort_by("id") for name in FORMATS}
    lake.close()

    (tmp_path / "lake" / "lakeward.db").unlink()
    with pytest.raises(WrongWarehouse, match="lakeward rebuild"):
        open_on()
    again = open_on(take_over=True)

    assert again.rebuild().tables == {"delta": 4, "iceberg": 4}
    for name in FORMATS:
        assert again.table(name).to_arrow().sort_by("id").equals(before[name])
    assert again.doctor().findings == ()


def test_an_open_delta_table_takes_commits_of_delta_rs_and_ours_at_once(open_on: Open) -> None:
    lake = open_on()
    table = lake.create("open", SCHEMA, guard=False)
    options = lake.storage_options("delta")

    def theirs(start: int) -> None:
        write_deltalake(table.location, with_id(start), mode="append", storage_options=options)

    def ours(start: int) -> None:
        lake.run(lambda tx: tx.append("open", with_id(start)))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: (theirs if n % 2 else ours)(n), range(12)))

    assert table.version == 12
    assert sorted(table.to_arrow()["id"].to_pylist()) == sorted(
        number for start in range(12) for number in with_id(start)["id"].to_pylist()
    )
    found = QueryBuilder().register("t", DeltaTable(table.location, storage_options=options))
    assert pa.table(found.execute("SELECT count(*) AS n FROM t"))["n"].to_pylist() == [36]


@pytest.mark.parametrize("table_format", FORMATS)
def test_a_table_made_elsewhere_is_adopted_by_its_full_name(
    open_on: Open, table_format: str, gcs: Gcs, tmp_path: Path
) -> None:
    outside = gcs.bucket()
    with lw.open(
        tmp_path / "other", warehouse=f"gs://{outside}", storage_options=gcs.options()
    ) as other:
        other.create("t", SCHEMA, format=table_format)
        other.table("t").append(ROWS)
    lake = open_on()

    table = lake.adopt("mine", f"gcs://{outside}/t", take_over=True)
    table.append(ROWS)

    assert table.location == f"gs://{outside}/t"
    assert table.to_arrow().num_rows == 6
    assert lake.doctor().findings == ()


def test_a_table_of_another_catalog_is_adopted_with_the_lakes_own_token(
    open_on: Open, bucket: str, tmp_path: Path
) -> None:
    lake = open_on()
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/theirs.db", "name": "theirs"}
    options = lake.storage_options("iceberg")
    theirs = load_catalog(**catalog, warehouse=f"gs://{bucket}/theirs", **options)
    try:
        theirs.create_namespace("db")
        theirs.create_table("db.t", ROWS.schema).append(ROWS)
    finally:
        theirs.engine.dispose()  # type: ignore[attr-defined]

    lake.adopt("mine", "db.t", catalog=catalog)

    assert lake.table("mine").to_arrow().num_rows == 3


def test_unsigned_requests_look_for_no_credentials(open_on: Open, gcs: Gcs) -> None:
    lake = open_on(storage_options=gcs.unsigned())

    lake.create("t", SCHEMA).append(ROWS)

    assert lake.table("t").to_arrow().num_rows == 3


def test_who_has_no_token_reads_a_public_bucket_and_a_wrong_one_is_told(tmp_path: Path) -> None:
    with Gcs(strict=True) as strict:
        place = f"gs://{strict.bucket()}/wh"
        options = strict.options()
        with lw.open(tmp_path / "lake", warehouse=place, storage_options=options) as lake:
            lake.create("t", SCHEMA).append(ROWS)
        wrong = {**options, "GOOGLE_BEARER_TOKEN": "a-wrong-token"}
        with pytest.raises(StorageError, match="does not let these credentials") as caught:
            lw.open(tmp_path / "lake", storage_options=wrong)

        with lw.open(tmp_path / "lake", storage_options=strict.unsigned()) as lake:
            assert lake.table("t").to_arrow().num_rows == 3
            with pytest.raises(StorageError, match=r"AccessDenied|AuthenticationRequired"):
                lake.table("t").append(ROWS)

    assert "a-wrong-token" not in str(caught.value)


def test_a_missing_bucket_is_told_before_anything_is_made(open_on: Open, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="its bucket does not exist"):
        open_on(warehouse="gs://no-such-bucket/wh")

    assert not (tmp_path / "lake").exists()


def test_a_store_that_overwrites_is_found_out_and_nothing_is_made(
    open_on: Open, tmp_path: Path
) -> None:
    with Gcs(careless=True) as careless:
        place = f"gs://{careless.bucket()}/wh"
        with pytest.raises(StorageError, match="does not honour put-if-absent"):
            open_on(warehouse=place, storage_options=careless.options())

    assert not (tmp_path / "lake").exists()


def with_id(start: int) -> pa.Table:
    """The rows, with ids of their own."""
    return ROWS.set_column(0, "id", pa.array([start * 10 + n for n in range(3)]))
