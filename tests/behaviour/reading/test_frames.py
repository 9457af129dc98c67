"""Rows as frames: pandas, Polars, the first ones, how many, and the Arrow stream itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.errors import InvalidExpression, InvalidInput, MissingExtra
from tests.behaviour.lakes import append, delete
from tests.support.inside import context_of

BIG = 2**53 + 1
ROWS = [{"id": BIG, "n": None, "s": "a"}, {"id": 2, "n": BIG, "s": None}]


@pytest.fixture
def table(lake: lw.Lake) -> lw.Table:
    """A table of two rows, with missing values."""
    made = lake.create("t", "id int64 not null, n int64, s string")
    append(lake, "t", ROWS)
    return made


def test_frames_have_the_values_of_the_rows(table: lw.Table) -> None:
    for source in (table, table.at(), table.at(version=1)):
        frame = source.to_pandas()
        assert list(frame.columns) == ["id", "n", "s"]
        assert [str(t) for t in frame.dtypes[:2]] == ["int64", "Int64"]
        assert frame["n"].isna().tolist() == [True, False]
        assert (frame["id"][0], frame["n"][1]) == (BIG, BIG)
        assert source.to_polars().to_dicts() == ROWS
        part = source.to_pandas(columns=["s", "id"], where="id > 2")
        assert part.to_dict("list") == {"s": ["a"], "id": [BIG]}
        assert source.to_polars(columns=["id"], where="n is null").to_dicts() == [{"id": BIG}]


def test_other_libraries_take_the_table_itself(lake: lw.Lake, table: lw.Table) -> None:
    assert pa.table(table).to_pylist() == ROWS
    assert pl.DataFrame(table).to_dicts() == ROWS
    assert pa.RecordBatchReader.from_stream(table.at(version=0)).read_all().num_rows == 0
    lake.create("copy", "id int64 not null, n int64, s string")
    append(lake, "copy", table)
    assert lake.table("copy").to_arrow().to_pylist() == ROWS


def test_the_first_rows(lake: lw.Lake, table: lw.Table) -> None:
    assert table.head().to_pylist() == ROWS
    assert table.head(1).to_pylist() == ROWS[:1]
    assert table.head(0).to_pylist() == []
    assert table.at().head(9, columns=["id"], where="id = 2").to_pylist() == [{"id": 2}]
    assert table.head(1).schema == table.to_arrow().schema
    for bad in (-1, 1.5, "3"):
        with pytest.raises(InvalidInput, match="`n`"):
            table.head(bad)  # type: ignore[arg-type]


def test_the_log_counts_rows_without_reading_a_file(lake: lw.Lake, table: lw.Table) -> None:
    append(lake, "t", [{"id": n, "n": n % 3, "s": "b"} for n in range(10, 20)])
    _lose_files(lake, table)

    assert table.count() == 12
    assert table.at(version=1).count() == 2
    assert table.count("id >= 2") == 12
    assert table.count(where="id < 0") == 0


@pytest.mark.parametrize(
    "where", ["id > 12", "n = 1", "s is null", "s = 'b' and n <> 0", "id = 1 or id >= 18", "true"]
)
def test_a_count_is_that_of_the_rows_read(
    shared_lake: lw.Lake, new_name: Callable[[], str], where: str
) -> None:
    name = new_name()
    table = shared_lake.create(name, {"id": "int64", "n": "int64", "s": "string"})
    for start in (0, 10, 20):
        rows = [
            {"id": i, "n": i % 3, "s": None if i % 5 == 0 else "b"}
            for i in range(start, start + 10)
        ]
        append(shared_lake, name, rows)
    delete(shared_lake, name, "id = 13 or id = 25")

    assert table.count(where) == table.to_arrow(where=where).num_rows
    assert table.count() == 28


@pytest.mark.formats("delta")
def test_rows_marked_by_deletion_vectors_do_not_count(lake: lw.Lake) -> None:
    table = lake.create("t", {"id": "int64"}, policy={"merge_on_read": True})
    append(lake, "t", {"id": list(range(1000))})
    delete(lake, "t", "id = 7")

    assert table.at().files()[0].file.deletion_vector is not None
    assert (table.count(), table.count("id >= 0"), table.count("id < 10")) == (999, 999, 9)


@pytest.mark.before_the_store
def test_a_wrong_condition_is_refused(table: lw.Table) -> None:
    with pytest.raises(InvalidExpression):
        table.count("nonsense > 1")


@pytest.mark.before_the_store
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_missing_library_is_named(
    table: lw.Table, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    monkeypatch.setitem(__import__("sys").modules, library, None)
    with pytest.raises(MissingExtra, match=f"pip install {library}"):
        getattr(table, f"to_{library}")()


def _lose_files(lake: lw.Lake, table: lw.Table, keep: int = 0) -> None:
    storage = context_of(lake).storage
    location = table.at().log_head.location
    storage.delete([f"{location}/{f.path}" for f in table.files()[keep:]])
    with pytest.raises(Exception):  # noqa: B017, PT011  any: the files are gone
        table.to_arrow()


def test_a_frame_of_only_missing_integers_and_of_no_rows(lake: lw.Lake) -> None:
    table = lake.create("t", {"n": "int32", "b": "boolean"})
    assert table.to_pandas().shape == (0, 2)
    append(lake, "t", [{"n": None, "b": None}])
    frame: Any = table.to_pandas()
    assert [str(t) for t in frame.dtypes] == ["Int32", "boolean"]
    assert frame.isna().all(axis=None)
    assert isinstance(frame, pd.DataFrame)


def test_integers_inside_of_values_of_pandas_are_exact(shared_lake: lw.Lake, name: str) -> None:
    table = shared_lake.create(name, "l list<int64>, m map<string, int64>, s struct<x: int64>")
    large = 2**62 + 1
    table.append([{"l": [large, None], "m": {"a": large, "b": None}, "s": {"x": large}}])
    table.append([{"l": None, "m": None, "s": {"x": None}}])

    for frame in (table.to_pandas(), shared_lake.sql(f"SELECT * FROM {name}").to_pandas()):
        row = frame[frame["l"].notna()].iloc[0]
        assert [*row["l"]] == [large, None]
        assert dict(row["m"]) == {"a": large, "b": None}
        assert row["s"] == {"x": large}


@pytest.mark.parametrize("rows", [1, 9, 10, 11, 130])
def test_the_first_rows_of_many_files_are_those_of_all_rows(
    shared_lake: lw.Lake, new_name: Callable[[], str], rows: int
) -> None:
    """Files are looked up in lists that become longer; each row comes once, in the same order."""
    table = shared_lake.create(new_name(), "id int64, n int64", partition_by=["n"])
    table.append(pa.table({"id": range(rows), "n": range(rows)}))
    table.delete(where="id % 4 = 1")
    table.append([{"id": 1000, "n": 1}])

    everything = table.to_arrow().to_pylist()
    assert table.head(500).to_pylist() == everything
    for start in range(0, len(everything) + 3, 7):
        page = table.at().page(offset=start, limit=7)
        assert page.data.to_pylist() == everything[start : start + 7]
        assert page.more == (start + 7 < len(everything))


def test_the_first_rows_do_not_need_the_other_files(lake: lw.Lake) -> None:
    table = lake.create("many", "id int64, n int64", partition_by=["n"])
    table.append(pa.table({"id": range(200), "n": range(200)}))
    _lose_files(lake, table, keep=10)

    assert table.head(1).num_rows == 1
    assert table.at().page(limit=3).data.num_rows == 3
