"""Tables made like data, with the usual names of types, and only if they are not there."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeward as lw
from lakeward.errors import AlreadyExists, InvalidInput, NotFound
from tests.behaviour.lakes import append, unchanged

pytestmark = pytest.mark.before_the_store

_TABLE = pa.table({"id": pa.array([1]), "name": ["a"], "at": pa.array([1], pa.timestamp("us"))})
_COLUMNS = "id: int64\nname: string\nat: timestamp_ntz"
_PANDAS = pd.DataFrame({"id": [1], "name": ["a"], "at": pd.to_datetime(["2026-01-01"])})
_POLARS = pl.DataFrame(_TABLE)


def _parquet(directory: Path) -> Path:
    pq.write_table(_TABLE, directory / "x.parquet")
    return directory / "x.parquet"


def _csv(directory: Path) -> str:
    (directory / "x.csv").write_text("id,name,at\n1,a,2026-01-01 00:00:00\n")
    return str(directory / "*.csv")


def _json(directory: Path) -> Path:
    (directory / "x.jsonl").write_text('{"id": 1, "name": "a", "at": "2026-01-01 00:00:00"}\n')
    return directory / "x.jsonl"


def _arrow(directory: Path) -> Path:
    with pa.ipc.new_file(directory / "x.arrow", _TABLE.schema) as writer:
        writer.write_table(_TABLE)
    return directory / "x.arrow"


_LIKE: dict[str, Callable[[Path], Any]] = {
    "table": lambda _: _TABLE,
    "batch": lambda _: _TABLE.to_batches()[0],
    "reader": lambda _: _TABLE.to_reader(),
    "schema": lambda _: _TABLE.schema,
    "nanoseconds": lambda _: _TABLE.schema.set(2, pa.field("at", pa.timestamp("ns"))),
    "pandas": lambda _: _PANDAS,
    "pandas types": lambda _: _PANDAS.dtypes,
    "polars": lambda _: _POLARS,
    "polars lazy": lambda _: _POLARS.lazy(),
    "polars schema": lambda _: _POLARS.schema,
    "dicts": lambda _: _TABLE.to_pylist(),
    "parquet": _parquet,
    "csv": _csv,
    "arrow": _arrow,
    "json": _json,
}


@pytest.mark.parametrize("kind", _LIKE)
def test_a_table_is_made_like_data(
    shared_lake: lw.Lake, name: str, tmp_path: Path, kind: str
) -> None:
    made = shared_lake.create(name, like=_LIKE[kind](tmp_path))

    assert str(made.schema) == _COLUMNS
    assert made.to_arrow().num_rows == 0


def test_times_in_json_lines_have_the_types_by_which_they_are_read(
    shared_lake: lw.Lake, name: str, tmp_path: Path
) -> None:
    given: list[dict[str, Any]] = [
        {
            "text": "2025-13-01T00:00:00.5",
            "utc": "2025-06-01T12:00:00Z",
            "wall": "2025-06-01 12:00:00.5",
            "day": "2025-06-01",
            "mixed": "2025-06-01T12:00:00",
            "s": {"days": ["2025-06-01"], "at": None},
        },
        {
            "text": "2025-06-01T00:00:00",
            "utc": "2025-06-01T12:00:00+02:00",
            "wall": "2025-06-01",
            "day": None,
            "mixed": "2025-06-01T12:00:00Z",
            "s": {"days": [], "at": "2025-06-01T12:00:00.25Z"},
        },
    ]
    lines = "".join(f"{json.dumps(row)}\n" for row in given)
    (tmp_path / "x.jsonl").write_text(lines)

    table = shared_lake.create(name, like=tmp_path / "x.jsonl")
    append(shared_lake, name, tmp_path / "x.jsonl")

    assert str(table.schema) == (
        "text: string\nutc: timestamp\nwall: timestamp_ntz\nday: date\nmixed: timestamp\n"
        "s: struct<days: list<date>, at: timestamp>"
    )
    noon = datetime.fromisoformat("2025-06-01T12:00:00")
    rows = table.to_arrow().to_pylist()
    assert [r["utc"] for r in rows] == [_utc(noon), _utc(noon.replace(hour=10))]
    assert [r["wall"] for r in rows] == [noon.replace(microsecond=500_000), noon.replace(hour=0)]
    assert [r["day"] for r in rows] == [noon.date(), None]
    assert rows[1]["s"]["at"] == _utc(noon.replace(microsecond=250_000))


def _utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC)


def test_a_table_is_made_like_another_table(shared_lake: lw.Lake, name: str) -> None:
    first = shared_lake.create(name, "id int64 not null")

    assert str(shared_lake.create(f"{name}_2", like=first).schema) == "id: int64 not null"


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"like": pa.schema([("x", pa.null())])}, InvalidInput, "'x' has no values"),
        ({"like": 5}, InvalidInput, "`like`"),
        ({"like": "nothing.csv"}, NotFound, "nothing.csv"),
        ({"like": _TABLE, "schema": "id int64"}, InvalidInput, "by `schema` or by `like`"),
        ({}, InvalidInput, "by `schema` or by `like`"),
        ({"schema": "id int, Id int"}, InvalidInput, "differ only in case"),
        ({"schema": "id int, id int"}, InvalidInput, "two columns 'id'"),
        ({"schema": "s struct<a: int, a: int>"}, InvalidInput, "two parts 'a' of column s"),
        ({"like": pa.table([[1], [2]], names=["a", "a"])}, InvalidInput, "two columns 'a'"),
    ],
)
def test_columns_that_make_no_table_are_refused(
    shared_lake: lw.Lake, name: str, given: dict[str, Any], error: type[Exception], message: str
) -> None:
    with unchanged(shared_lake), pytest.raises(error, match=message):
        shared_lake.create(name, **given)


def test_types_may_have_their_usual_names(shared_lake: lw.Lake, name: str) -> None:
    columns = (
        "a int, b bigint not null, e bool, f real, g double precision,"
        " h varchar(20), i text, j character varying(5), k numeric(10,2), l decimal(5), m bytea,"
        " n timestamptz, o timestamp with time zone, p timestamp without time zone, q array<int>"
    )
    found = str(shared_lake.create(name, columns).schema).replace("\n", ", ")

    assert found == (
        "a: int32, b: int64 not null, e: boolean, f: float, g: double,"
        " h: string, i: string, j: string, k: decimal(10,2), l: decimal(5,0), m: binary,"
        " n: timestamp, o: timestamp, p: timestamp_ntz, q: list<int32>"
    )


def test_types_of_python_are_types(shared_lake: lw.Lake, name: str) -> None:
    made = shared_lake.create(name, {"a": int, "b": str, "c": float, "d": "bigint", "e": bool})

    assert [str(f.type) for f in made.schema] == ["int64", "string", "double", "int64", "boolean"]


def test_a_table_that_is_there_is_returned_as_it_is(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, "id int64")
    append(shared_lake, name, [{"id": 1}])

    again = shared_lake.create(name, "other string", if_not_exists=True)

    assert (again.version, again.schema.names) == (1, ["id"])
    with pytest.raises(AlreadyExists) as caught:
        shared_lake.create(name, "id int64")
    assert "if_not_exists" in str(caught.value.hint)
    assert "rop" not in str(caught.value.hint)


def test_several_threads_may_make_one_table(shared_lake: lw.Lake, name: str) -> None:
    with ThreadPoolExecutor(4) as threads:
        made = list(
            threads.map(
                lambda _: shared_lake.create(name, "id int64", if_not_exists=True).version, range(4)
            )
        )

    assert made == [0] * 4
