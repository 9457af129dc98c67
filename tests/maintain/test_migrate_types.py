"""Sources as Spark, Hive, pandas and Polars write them, and sources that cannot be taken in."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder

import lakeward as lw
from lakeward.errors import LakewardError, SchemaMismatch, StorageError
from tests.support.iceberg import stranger_arrow

_IDS = pa.array([1, 2, 3])
_MOMENTS = [datetime(2026, 1, 1, 10, 0, 0, 123456, UTC), None, datetime(1950, 1, 1, tzinfo=UTC)]


def _source(root: Path, columns: dict[str, pa.Array], **options: Any) -> Path:
    root.mkdir()
    pq.write_table(pa.table(columns), root / "a.parquet", **options)
    return root


@pytest.mark.parametrize(
    ("form", "mode"), [("delta", "copy"), ("iceberg", "copy"), ("delta", "in-place")]
)
def test_moments_as_spark_and_hive_write_them_are_in_utc(
    lake: lw.Lake, tmp_path: Path, form: str, mode: str
) -> None:
    values = pa.array(_MOMENTS, pa.timestamp("ns"))
    source = _source(
        tmp_path / "in", {"id": _IDS, "c": values}, use_deprecated_int96_timestamps=True
    )
    assert lake.migrate(source, "t", format=form, mode=mode).is_verified

    table = lake.table("t")
    assert table.to_arrow()["c"].to_pylist() == _MOMENTS
    assert table.to_arrow(where="c < '1960-01-01T00:00:00Z'")["id"].to_pylist() == [3]
    if form == "delta":
        query = QueryBuilder().register("t", DeltaTable(table.location))
        told = pa.table(query.execute("SELECT c FROM t ORDER BY id"))
    else:
        told = stranger_arrow(lake, "t")
    assert told["c"].to_pylist() == _MOMENTS


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_copies_have_types_that_tables_have(lake: lw.Lake, tmp_path: Path, form: str) -> None:
    columns = {
        "at": pa.array(_MOMENTS, pa.timestamp("ns", tz="UTC")),
        "tiny": pa.array([1, None, -128], pa.int8()),
        "byte": pa.array([1, None, 255], pa.uint8()),
        "wide": pa.array([1, None, 2**32 - 1], pa.uint32()),
        "text": pa.array(["a", None, "b"], pa.string_view()),
    }
    source = _source(tmp_path / "in", columns)
    assert lake.migrate(source, "t", format=form).is_verified
    assert lake.table("t").to_arrow().to_pydict() == pa.table(columns).to_pydict()


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_files_that_pandas_and_polars_wrote_stay_in_place(
    lake: lw.Lake, tmp_path: Path, form: str
) -> None:
    text = pa.array(["a", None, "b"])
    kinds = [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
    columns = {f"c{n}": text.cast(kind) for n, kind in enumerate(kinds)}
    source = _source(tmp_path / "in", columns)
    assert lake.migrate(source, "t", format=form, mode="in-place").is_verified
    lake.table("t").delete(where="c2 = 'a'")
    assert lake.table("t").to_arrow().to_pydict() == {f"c{n}": [None, "b"] for n in range(3)}


def test_directories_named_like_dates_that_are_none_are_text(lake: lw.Lake, tmp_path: Path) -> None:
    for day in ("2026-01-31", "2026-02-30"):
        place = tmp_path / "in" / f"day={day}"
        place.mkdir(parents=True)
        pq.write_table(pa.table({"id": [1]}), place / "a.parquet")
    assert lake.migrate(tmp_path / "in", "t").columns["day"] == "string"
    assert sorted(lake.table("t").to_arrow()["day"].to_pylist()) == ["2026-01-31", "2026-02-30"]


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_rows_that_do_not_fit_are_refused_and_leave_no_table(
    lake: lw.Lake, tmp_path: Path, form: str
) -> None:
    source = _source(tmp_path / "in", {"c": pa.array([1, 2, 3], pa.timestamp("ns"))})
    with pytest.raises(SchemaMismatch, match="does not fit"):
        lake.migrate(source, "t", format=form)
    assert lake.tables() == []


def test_a_damaged_file_is_named_and_leaves_no_table(lake: lw.Lake, tmp_path: Path) -> None:
    source = _source(tmp_path / "in", {"c": pa.array(["x" * 500, "y" * 500])})
    path = source / "a.parquet"
    path.write_bytes(b"PAR1" + b"\xff" * 200 + path.read_bytes()[204:])
    with pytest.raises(StorageError, match=r"a\.parquet"):
        lake.migrate(source, "t")
    assert lake.tables() == []


def test_types_that_cannot_stay_in_place_leave_no_table(lake: lw.Lake, tmp_path: Path) -> None:
    source = _source(tmp_path / "in", {"c": pa.array([1, 2, 3], pa.timestamp("ms"))})
    with pytest.raises(LakewardError, match="ms"):
        lake.migrate(source, "t", mode="in-place")
    assert lake.tables() == []
    assert lake.migrate(source, "t").is_verified
