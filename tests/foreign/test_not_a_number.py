"""Rows with NaN in tables that others wrote: no condition loses one, and no delete misses one.

Writers leave NaN out of a file's statistics, in the table's log and in the Parquet footer alike.
In a condition NaN equals itself and is greater than every number, as in Spark.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

import lakeward as lw
from tests.behaviour.iceberg.theirs import their_catalog

_NAN: Final = math.nan
_FILES: Final[list[list[float | None]]] = [
    [1.0, _NAN],
    [1.0, 2.0, _NAN],
    [_NAN],
    [1.0],
    [None, 1.0, _NAN],
    [math.inf, _NAN, 1.0],
    [-math.inf, 1.0],
    [-0.0, 0.0],
    [0.0, _NAN],
    [7.0, 8.0],
    [None],
]
_ROWS: Final = [
    {"id": number, "x": value}
    for number, value in enumerate(value for file in _FILES for value in file)
]


def _key(value: float) -> tuple[bool, float]:
    """Orders numbers as conditions do: NaN equals itself and is the greatest."""
    return (True, 0.0) if math.isnan(value) else (False, value)


def _compared(op: str, bound: float) -> Callable[[float | None], bool]:
    limit = _key(bound)
    tests: dict[str, Callable[[tuple[bool, float]], bool]] = {
        "=": lambda k: k == limit,
        "<>": lambda k: k != limit,
        "<": lambda k: k < limit,
        "<=": lambda k: k <= limit,
        ">": lambda k: k > limit,
        ">=": lambda k: k >= limit,
    }
    return lambda value: value is not None and tests[op](_key(value))


def _spelled(value: float) -> str:
    return str(value) if math.isfinite(value) else f"CAST('{value}' AS DOUBLE)"


_CONDITIONS: Final[dict[str, Callable[[float | None], bool]]] = {
    f"{column} {op} {_spelled(bound)}": _compared(op, bound)
    for column, bounds in (
        ("x", (1.0, 5.0, -0.0, _NAN, math.inf, -math.inf)),
        ("f", (1.0, 5.0)),
    )
    for bound in bounds
    for op in ("=", "<>", "<", "<=", ">", ">=")
} | {
    "isnan(x)": lambda v: v is not None and math.isnan(v),
    "isnan(f)": lambda v: v is not None and math.isnan(v),
    "NOT isnan(x)": lambda v: v is None or not math.isnan(v),
    "x + 1 > 6": lambda v: v is not None and _key(v) > _key(5.0),
    "NOT x <= 1": _compared(">", 1.0),
    "NOT (x = 1 OR x = 2)": lambda v: v is not None and v not in (1.0, 2.0),
    "x NOT IN (1, 2)": lambda v: v is not None and v not in (1.0, 2.0),
    "x BETWEEN 5 AND CAST('NaN' AS DOUBLE)": _compared(">=", 5.0),
    "id >= 0 AND x > 5": _compared(">", 5.0),
    "id < 0 OR x > 5": _compared(">", 5.0),
    "x IS NULL": lambda v: v is None,
    "x IS NULL OR x > 5": lambda v: v is None or _key(v) > _key(5.0),
    "coalesce(x, 9) > 8": lambda v: v is None or _key(v) > _key(8.0),
    "CASE WHEN x > 5 THEN true ELSE false END": _compared(">", 5.0),
}


def _tables() -> list[pa.Table]:
    number, out = 0, []
    for values in _FILES:
        ids = pa.array(range(number, number + len(values)), pa.int64())
        number += len(values)
        out.append(
            pa.table(
                {
                    "id": ids,
                    "x": pa.array(values, pa.float64()),
                    "f": pa.array(values, pa.float32()),
                }
            )
        )
    return out


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Generator[lw.Lake]:
    """A lake with one table of every writer."""
    where = tmp_path_factory.mktemp("nan")
    with lw.open(where / "lake") as lake:
        _delta(lake, where / "delta")
        _checkpointed(lake, where / "checkpointed")
        _iceberg(lake, where)
        for form in ("delta", "iceberg"):
            _by_hand(lake, form)
            _own(lake, form)
        yield lake


def _delta(lake: lw.Lake, where: Path) -> None:
    for data in _tables():
        write_deltalake(where, data, mode="append")
    lake.adopt("by_delta_rs", where)


def _checkpointed(lake: lw.Lake, where: Path) -> None:
    for data in _tables():
        write_deltalake(where, data, mode="append")
    DeltaTable(where).create_checkpoint()
    for log in sorted((where / "_delta_log").glob("*.json"))[:-1]:
        log.unlink()
    lake.adopt("from_checkpoint", where)


def _iceberg(lake: lw.Lake, where: Path) -> None:
    with their_catalog(where / "theirs") as catalog:
        catalog.create_namespace("n")
        table = catalog.create_table("n.t", _tables()[0].schema)
        for data in _tables():
            table.append(data)
        lake.adopt("by_pyiceberg", table.metadata_location)


def _by_hand(lake: lw.Lake, form: str) -> None:
    name = f"added_{form}"
    table = lake.create(name, _tables()[0].schema, format=form)
    paths = []
    for number, data in enumerate(_tables()):
        paths.append(f"part-{number}.parquet")
        place = Path(table.location) / paths[-1]
        place.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(data, place)
    with lake.transaction() as tx:
        tx.add_files(name, paths)


def _own(lake: lw.Lake, form: str) -> None:
    name = f"own_{form}"
    lake.create(name, _tables()[0].schema, format=form)
    for data in _tables():
        with lake.transaction() as tx:
            tx.append(name, data)


_NAMES: Final = (
    "by_delta_rs",
    "from_checkpoint",
    "by_pyiceberg",
    "added_delta",
    "added_iceberg",
    "own_delta",
    "own_iceberg",
)


@pytest.mark.parametrize("name", _NAMES)
def test_a_condition_finds_every_row_with_nan(lake: lw.Lake, name: str) -> None:
    wrong = {}
    for condition, holds in _CONDITIONS.items():
        found = lake.table(name).to_arrow(columns=["id"], where=condition)["id"].to_pylist()
        meant = [row["id"] for row in _ROWS if holds(row["x"])]
        if sorted(found) != meant:
            wrong[condition] = (sorted(found), meant)
    assert not wrong


@pytest.mark.parametrize("name", _NAMES)
def test_a_delete_removes_every_row_with_nan(lake: lw.Lake, name: str) -> None:
    wrong = {}
    for condition, holds in list(_CONDITIONS.items())[::2]:
        tx = lake.transaction()
        tx.delete(name, where=condition)
        left = sorted(tx.read(name).column("id").to_pylist())
        tx.rollback()
        meant = [row["id"] for row in _ROWS if not holds(row["x"])]
        if left != meant:
            wrong[condition] = (left, meant)
    assert not wrong


def test_own_files_without_nan_are_still_pruned_by_their_bounds(tmp_path: Path) -> None:
    with lw.open(tmp_path / "lake") as lake:
        lake.create("t", pa.schema([("x", pa.float64())]))
        for values in ([1.0, 2.0], [3.0, 4.0], [5.0, _NAN]):
            with lake.transaction() as tx:
                tx.append("t", pa.table({"x": values}))

        assert len(lake.table("t").files(where="x > 2.5")) == 2
        assert len(lake.table("t").files(where="x > 4.5")) == 1


def test_foreign_files_are_still_pruned_by_their_lower_bounds(tmp_path: Path) -> None:
    for values in ([1.0, 2.0], [3.0, _NAN], [5.0, 6.0]):
        write_deltalake(tmp_path / "t", pa.table({"x": values}), mode="append")
    with lw.open(tmp_path / "lake") as lake:
        table = lake.adopt("t", tmp_path / "t")

        assert len(table.files(where="x < 4")) == 2
        assert len(table.files(where="x = 0")) == 0
        assert len(table.files(where="x > 5")) == 3


def test_a_checkpoint_tells_no_upper_bound_of_a_file_that_may_have_nan(tmp_path: Path) -> None:
    """Engines that order NaN last would skip the row with NaN, as they did before."""
    often = {"delta.checkpointInterval": "2"}
    data = pa.table({"id": [1, 2], "x": [1.0, _NAN]})
    write_deltalake(tmp_path / "t", data, configuration=often)
    with lw.open(tmp_path / "lake") as lake:
        lake.adopt("t", tmp_path / "t")
        for number in range(4):
            with lake.transaction() as tx:
                tx.append("t", pa.table({"id": [number], "x": [float(number)]}))
        lake.publish()
    checkpoint = max((tmp_path / "t" / "_delta_log").glob("*.checkpoint.parquet"))
    adds: list[dict[str, Any]] = [
        row["add"] for row in pq.read_table(checkpoint).to_pylist() if row["add"] is not None
    ]
    known = [json.loads(add["stats"]) for add in adds]
    (theirs,) = [s for s in known if s["numRecords"] == 2]
    assert theirs["minValues"]["x"] == 1.0
    assert "x" not in theirs["maxValues"]
    assert all("x" in s["maxValues"] for s in known if s is not theirs)
