"""Conditions on tables of delta-rs whose columns are mapped, or held as views in their files."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

import lakeward as lw
from tests.behaviour.adoption.vectors import delete_rows

_NAN: Final = float("nan")
_ROWS: Final[list[dict[str, Any]]] = [
    {"id": 1, "s": "a", "b": b"x", "x": 1.0, "n": {"q": "u", "l": [{"k": "1"}]}},
    {"id": 2, "s": "b", "b": b"y", "x": _NAN, "n": {"q": "v", "l": []}},
    {"id": 3, "s": "c", "b": b"z", "x": 1.0, "n": {"q": "w", "l": [{"k": "2"}, None]}},
    {"id": 4, "s": "", "b": b"", "x": -0.0, "n": {"q": "", "l": None}},
]
_SCHEMA: Final = pa.schema(
    [
        ("id", pa.int64()),
        ("s", pa.string()),
        ("b", pa.binary()),
        ("x", pa.float64()),
        ("n", pa.struct([("q", pa.string()), ("l", pa.list_(pa.struct([("k", pa.string())])))])),
    ]
)
_CONDITIONS: Final[dict[str, Callable[[dict[str, Any]], bool]]] = {
    "id IN (1, NULL)": lambda r: r["id"] == 1,
    "id NOT IN (1, NULL)": lambda _: False,
    "NOT (id IN (1, NULL))": lambda _: False,
    "id IN (1, NULL) OR id = 4": lambda r: r["id"] in (1, 4),
    "id NOT IN (1, 2)": lambda r: r["id"] not in (1, 2),
    "s IN ('a', NULL)": lambda r: r["s"] == "a",
    "s = 'c'": lambda r: r["s"] == "c",
    "s <> 'c'": lambda r: r["s"] != "c",
    "s < 'b'": lambda r: r["s"] < "b",
    "s >= 'b'": lambda r: r["s"] >= "b",
    "s IN ('a', 'c')": lambda r: r["s"] in ("a", "c"),
    "s LIKE 'c%'": lambda r: r["s"].startswith("c"),
    "s IS NULL": lambda _: False,
    "lower(s) = 'c'": lambda r: r["s"] == "c",
    "b = X'79'": lambda r: r["b"] == b"y",
    "b > X'78'": lambda r: r["b"] > b"x",
    "b IN (X'79', X'80')": lambda r: r["b"] == b"y",
    "n.q = 'v'": lambda r: r["n"]["q"] == "v",
    "n.q > 'u' AND id > 2": lambda r: r["n"]["q"] > "u" and r["id"] > 2,
    "x > 5": lambda r: r["id"] == 2,
    "isnan(x)": lambda r: r["id"] == 2,
    "x <> 1": lambda r: r["id"] in (2, 4),
    "x = 0": lambda r: r["id"] == 4,
    "id = 2 AND s = 'b' AND x > 5": lambda r: r["id"] == 2,
    "CASE WHEN s = 'a' THEN id = 1 ELSE x > 5 END": lambda r: r["id"] in (1, 2),
}


def _delta_rs_table(where: Path, **configuration: str) -> Path:
    data = pa.Table.from_pylist(_ROWS, _SCHEMA)
    write_deltalake(where, data.slice(0, 3), configuration=configuration)
    write_deltalake(where, data.slice(3), mode="append")
    return where


def _with_views(where: Path) -> Path:
    """A table whose first file was written again by an update, which holds views."""
    DeltaTable(_delta_rs_table(where)).update(updates={"id": "id"}, predicate="id < 4")
    kinds = {pq.read_schema(f).field("s").type for f in where.glob("*.parquet")}
    assert pa.string_view() in kinds
    return where


def _with_views_and_vector(where: Path) -> Path:
    first = Path(DeltaTable(_with_views(where)).file_uris()[0]).name
    rows = pq.read_table(where / first, columns=["id"])["id"].to_pylist()
    delete_rows(where, DeltaTable(where).version() + 1, first, [rows.index(3)])
    return where


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Generator[lw.Lake]:
    """A lake with the tables of this file."""
    where = tmp_path_factory.mktemp("mapped")
    mode = "delta.columnMapping.mode"
    with lw.open(where / "lake") as lake:
        lake.adopt("by_name", _delta_rs_table(where / "name", **{mode: "name"}))
        lake.adopt("by_id", _delta_rs_table(where / "id", **{mode: "id"}))
        lake.adopt("views", _with_views(where / "views"))
        lake.adopt("vector", _with_views_and_vector(where / "vector"))
        yield lake


@pytest.mark.parametrize("name", ["by_name", "by_id", "views", "vector"])
def test_a_condition_finds_its_rows(lake: lw.Lake, name: str) -> None:
    rows = [r for r in _ROWS if name != "vector" or r["id"] != 3]
    table = lake.table(name)
    assert sorted(table.to_arrow(columns=["id"])["id"].to_pylist()) == [r["id"] for r in rows]
    read = sorted(table.to_arrow().to_pylist(), key=lambda r: r["id"])
    assert repr(read) == repr(rows)
    wrong = {}
    for condition, holds in _CONDITIONS.items():
        found = sorted(table.to_arrow(columns=["id"], where=condition)["id"].to_pylist())
        meant = [r["id"] for r in rows if holds(r)]
        if found != meant:
            wrong[condition] = (found, meant)
    assert not wrong


@pytest.mark.parametrize("name", ["by_name", "by_id", "views", "vector"])
def test_a_delete_removes_exactly_its_rows(lake: lw.Lake, name: str) -> None:
    rows = [r for r in _ROWS if name != "vector" or r["id"] != 3]
    wrong = {}
    for condition, holds in _CONDITIONS.items():
        tx = lake.transaction()
        tx.delete(name, where=condition)
        left = sorted(tx.read(name).column("id").to_pylist())
        tx.rollback()
        meant = [r["id"] for r in rows if not holds(r)]
        if left != meant:
            wrong[condition] = (left, meant)
    assert not wrong


def test_a_transaction_reads_columns_that_are_mapped_by_name(lake: lw.Lake) -> None:
    with lake.transaction() as tx:
        assert sorted(tx.read("by_name")["s"].to_pylist()) == ["", "a", "b", "c"]


def test_a_branch_filters_as_the_table_does(tmp_path: Path) -> None:
    with lw.open(tmp_path / "lake") as lake:
        lake.adopt("t", _delta_rs_table(tmp_path / "t"))
        branch = lake.branch("work", tables=["t"])
        wrong = {}
        for condition, holds in _CONDITIONS.items():
            rows = branch.table("t").to_arrow(columns=["id"], where=condition)
            found, meant = sorted(rows["id"].to_pylist()), [r["id"] for r in _ROWS if holds(r)]
            if found != meant:
                wrong[condition] = (found, meant)
        branch.drop()
    assert not wrong
