"""Partitioned tables: values that are no good directory names, and values that are missing."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.errors import SchemaMismatch
from tests.behaviour.lakes import append, data_files, ids, unchanged
from tests.behaviour.samples import PARTITIONING, VALUES, exact_rows, partition_sample
from tests.support.iceberg import stranger_arrow
from tests.support.s3 import on_disk

_LIKE_NULL = ["", "__HIVE_DEFAULT_PARTITION__"]
_AWKWARD = [
    " ",
    ".",
    "..",
    "/",
    "a/b",
    "../../etc",
    "a=b",
    "a b",
    "a%2Fb",
    "%",
    "null",
    "__HIVE_DEFAULT_PARTITION__x",
    "ünï🦆",
    "'; DROP TABLE lakeward_head; --",
    'double"quote',
    "new\nline",
    "tab\t",
    "back\\slash",
    "a:b*c?d",
    "#hash",
    "{brace}",
    "UPPER",
    "upper",
    "x" * 250,
    "é" * 40,
]


@pytest.mark.parametrize("kind", PARTITIONING)
def test_every_partition_type_round_trips(shared_lake: lw.Lake, name: str, kind: str) -> None:
    data = partition_sample(kind)
    table = shared_lake.create(name, data.schema, partition_by=["x"])
    append(shared_lake, name, data)
    append(shared_lake, name, data.to_pylist())

    found = table.to_arrow()
    assert found.schema == table.schema.to_arrow()
    assert exact_rows(found.slice(0, data.num_rows)) == exact_rows(data)
    assert exact_rows(found.slice(data.num_rows)) == exact_rows(data)
    assert len(table.files()) == 2 * data.num_rows


@pytest.mark.parametrize("kind", PARTITIONING)
def test_missing_values_have_a_partition_of_their_own(
    shared_lake: lw.Lake, name: str, kind: str
) -> None:
    data = partition_sample(kind)
    table = shared_lake.create(name, data.schema, partition_by=["x"])
    append(shared_lake, name, data)

    (only,) = table.files(where="x IS NULL")
    assert list(only.partition.values()) == [None]
    assert table.to_arrow(where="x IS NULL")["id"].to_pylist() == [data["id"][-1].as_py()]
    assert len(table.files(where="x IS NOT NULL")) == data.num_rows - 1


def test_awkward_text_is_kept_and_stays_inside_the_table(shared_lake: lw.Lake, name: str) -> None:
    table = shared_lake.create(name, {"id": "int64", "p": "string"}, partition_by=["p"])
    append(shared_lake, name, {"id": range(len(_AWKWARD)), "p": _AWKWARD})

    assert table.to_arrow().sort_by("id")["p"].to_pylist() == _AWKWARD
    location = on_disk(table.location)
    for file in table.files():
        path = (location / file.path).resolve()
        assert path.is_file()
        assert path.is_relative_to(location)
        assert len(file.path.split("/")) == 2
    assert {f.path for f in table.files()} == data_files(shared_lake, name)


@pytest.mark.parametrize("value", _AWKWARD, ids=range(len(_AWKWARD)))
def test_awkward_text_is_found_again(shared_lake: lw.Lake, value: str) -> None:
    table = _awkward_table(shared_lake)
    literal = "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"

    assert table.to_arrow(where=f"p = {literal}")["p"].to_pylist() == [value]
    assert len(table.files(where=f"p = {literal}")) == 1


def test_short_values_tell_themselves_in_the_path(shared_lake: lw.Lake, name: str) -> None:
    table = shared_lake.create(
        name, {"id": "int64", "day": "date", "kind": "string"}, partition_by=["day", "kind"]
    )
    append(shared_lake, name, [{"id": 1, "day": date(2026, 1, 2), "kind": "a/b"}])

    (file,) = table.files()
    assert [unquote(p) for p in file.path.split("/")[:2]] == ["day=2026-01-02", "kind=a/b"]


def test_two_partition_columns_split_by_pairs(shared_lake: lw.Lake, name: str) -> None:
    table = shared_lake.create(
        name, {"id": "int64", "a": "int32", "b": "boolean"}, partition_by=["b", "a"]
    )
    rows = [
        {"id": n, "a": (None, 1, 2)[n % 3], "b": (None, True, False)[n // 3 % 3]} for n in range(18)
    ]
    append(shared_lake, name, rows)

    assert len(table.files()) == 9
    assert table.to_arrow().sort_by("id").to_pylist() == rows
    assert len(table.files(where="a = 1 AND b")) == 1
    assert len(table.files(where="a = 1")) == 3
    assert len(table.files(where="a IS NULL OR NOT b")) == 5


def test_partition_columns_may_stand_anywhere_in_the_schema(
    shared_lake: lw.Lake, name: str
) -> None:
    table = shared_lake.create(
        name, {"p": "string", "id": "int64", "q": "date", "z": "string"}, partition_by=["q", "p"]
    )
    rows: list[dict[str, Any]] = [
        {"p": "a", "id": 1, "q": date(2026, 1, 1), "z": "x"},
        {"p": "b", "id": 2, "q": None, "z": "y"},
    ]
    append(shared_lake, name, rows)

    assert table.to_arrow().column_names == ["p", "id", "q", "z"]
    assert table.to_arrow().sort_by("id").to_pylist() == rows
    assert table.to_arrow(columns=["q"]).num_rows == 2


def test_timestamps_at_the_edge_of_a_microsecond_do_not_mix(
    shared_lake: lw.Lake, name: str
) -> None:
    table = shared_lake.create(name, {"id": "int64", "at": "timestamp"}, partition_by=["at"])
    moments = [datetime(2026, 1, 1, 0, 0, 0, n, tzinfo=UTC) for n in range(3)]
    append(shared_lake, name, {"id": [0, 1, 2], "at": moments})

    assert len(table.files()) == 3
    assert table.to_arrow(where="at = '2026-01-01 00:00:00.000001'")["id"].to_pylist() == [1]
    assert table.to_arrow(where="at > '2026-01-01 00:00:00.000001'")["id"].to_pylist() == [2]


def test_very_many_partitions_in_one_append(shared_lake: lw.Lake, name: str) -> None:
    table = shared_lake.create(name, {"id": "int64", "p": "int32"}, partition_by=["p"])
    append(shared_lake, name, {"id": range(1000), "p": [n % 250 for n in range(1000)]})

    assert len(table.files()) == 250
    assert ids(shared_lake, name) == list(range(1000))
    assert ids(shared_lake, name, where="p = 7") == [7, 257, 507, 757]


@pytest.mark.parametrize("column", ["with space", "a=b", "ünï", "a/b", "__row", "__row_list"])
def test_partition_columns_may_have_awkward_names(
    shared_lake: lw.Lake, name: str, column: str
) -> None:
    table = shared_lake.create(name, {"id": "int64", column: "string"}, partition_by=[column])
    append(shared_lake, name, pa.table({"id": [1, 2, 3], column: ["x", "y", "x"]}))

    assert len(table.files()) == 2
    assert table.to_arrow(where=f"`{column}` = 'y'")["id"].to_pylist() == [2]


@pytest.mark.formats("delta")
@pytest.mark.parametrize("value", _LIKE_NULL, ids=["empty", "stand-in for null"])
def test_values_that_readers_would_take_for_others_are_refused(
    shared_lake: lw.Lake, name: str, value: str
) -> None:
    """Delta takes an empty text for null, and Polars takes the value from the directory."""
    _check_refused(shared_lake, name, value)


@pytest.mark.formats("iceberg")
@pytest.mark.parametrize("value", _LIKE_NULL, ids=["empty", "stand-in for null"])
def test_values_that_look_like_none_are_values_where_no_reader_asks_the_directory(
    shared_lake: lw.Lake, name: str, value: str
) -> None:
    table = shared_lake.create(name, {"id": "int64", "p": "string"}, partition_by=["p"])
    append(shared_lake, name, {"id": [1, 2], "p": [value, None]})

    assert len(table.files()) == 2
    assert table.to_arrow(where="p IS NULL")["id"].to_pylist() == [2]
    assert table.to_arrow(where=f"p = '{value}'").to_pylist() == [{"id": 1, "p": value}]
    found = {row["id"]: row["p"] for row in stranger_arrow(shared_lake, name).to_pylist()}
    assert found == {1: value, 2: None}


@pytest.mark.parametrize("value", ["x" * 300, "é" * 100], ids=["long", "long when spelled"])
def test_values_that_are_too_long_for_a_directory_are_refused(
    shared_lake: lw.Lake, name: str, value: str
) -> None:
    _check_refused(shared_lake, name, value)


def _check_refused(shared_lake: lw.Lake, name: str, value: str) -> None:
    shared_lake.create(name, {"id": "int64", "p": "string"}, partition_by=["p"])

    with unchanged(shared_lake), pytest.raises(SchemaMismatch) as caught:
        append(shared_lake, name, {"id": [1, 2], "p": ["fine", value]})

    assert (caught.value.table, caught.value.column) == (name, "p")
    assert caught.value.hint


@pytest.mark.parametrize("kind", ["date", "timestamp", "timestamp_ntz"])
def test_moments_beyond_the_calendar_are_refused_as_partitions_only(
    shared_lake: lw.Lake, name: str, kind: str
) -> None:
    arrow = VALUES[kind][0]
    far = pa.array([2**30], pa.int32()) if kind == "date" else pa.array([2**62], pa.int64())
    data = pa.table({"id": [1], "x": far.cast(arrow)})
    plain = shared_lake.create(f"{name}_plain", data.schema)
    shared_lake.create(name, data.schema, partition_by=["x"])

    with unchanged(shared_lake), pytest.raises(SchemaMismatch) as caught:
        append(shared_lake, name, data)
    assert (caught.value.table, caught.value.column) == (name, "x")
    append(shared_lake, plain.name, data)
    assert plain.to_arrow().equals(data.cast(plain.to_arrow().schema))
    assert plain.to_arrow(where="x > '2026-01-01'").num_rows == 1


def _awkward_table(lake: lw.Lake) -> lw.Table:
    name = "space.awkward"
    if name not in [t.name for t in lake.tables()]:
        lake.create(name, {"id": "int64", "p": "string"}, partition_by=["p"])
        append(lake, name, {"id": range(len(_AWKWARD)), "p": _AWKWARD})
    return lake.table(name)
