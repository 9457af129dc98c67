"""Delta tables that are partitioned by floats: NaN, the infinities, and numbers of 32 bits."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder

import lakeward as lw
from tests.support.delta_log import Log, add

_NAN: Final = math.nan
_TEXTS: Final = ("NaN", "Infinity", "-Infinity", "30.4", "-0.0", "1.5", None)


def _single(value: float) -> float:
    return float(pa.scalar(value, pa.float32()).as_py())


def _value(kind: str, text: str | None) -> float | None:
    if text is None:
        return None
    return _single(float(text)) if kind == "float" else float(text)


def _key(value: float) -> tuple[bool, float]:
    return (True, 0.0) if math.isnan(value) else (False, value)


def _conditions(kind: str) -> dict[str, Callable[[float], bool]]:
    rounded = _value(kind, "30.4") or 0.0
    return {
        "isnan(p)": math.isnan,
        "p = CAST('NaN' AS DOUBLE)": math.isnan,
        "p > 5": lambda v: _key(v) > _key(5.0),
        "p <> 1.5": lambda v: v != 1.5,
        "p = CAST('Infinity' AS DOUBLE)": lambda v: v == math.inf,
        "p < 0": lambda v: v < 0,
        "p = 0": lambda v: v == 0,
        "p < 30.4": lambda v: v < 30.4,
        "p >= 30.4": lambda v: _key(v) >= _key(30.4),
        "p = 30.4": lambda v: v == 30.4,
        f"p = CAST('30.4' AS {kind})": lambda v: v == rounded,
        f"p < CAST('30.4' AS {kind})": lambda v: v < rounded,
        f"p <= CAST('30.4' AS {kind})": lambda v: v <= rounded,
        "p NOT IN (1.5, 30.4)": lambda v: v not in (1.5, 30.4),
    }


@pytest.fixture(params=["float", "double"])
def kind(request: pytest.FixtureRequest) -> str:
    """The type of the partition column."""
    found: str = request.param
    return found


@pytest.fixture
def place(tmp_path: Path, kind: str) -> Path:
    """A table with a file for each value."""
    log = Log(tmp_path / "t")
    files: list[dict[str, Any]] = []
    for number, text in enumerate(_TEXTS):
        pq.write_table(pa.table({"id": [number, number + 100]}), log.root / f"{number}.parquet")
        size = (log.root / f"{number}.parquet").stat().st_size
        files.append({"add": add(f"{number}.parquet", size=size, partitionValues={"p": text})})
    often = {"delta.checkpointInterval": "2"}
    columns = [("id", "long"), ("p", kind)]
    log.start(columns, *files, partitionColumns=["p"], configuration=often)
    return log.root


def test_values_of_every_kind_are_read_and_found(tmp_path: Path, place: Path, kind: str) -> None:
    with lw.open(tmp_path / "lake") as lake:
        table = lake.adopt("t", place)

        values = [_value(kind, text) for text in _TEXTS]
        rows = table.to_arrow(columns=["id", "p"]).to_pylist()
        assert [repr(r["p"]) for r in rows if r["id"] < 100] == [repr(v) for v in values]
        wrong = {}
        for condition, holds in _conditions(kind).items():
            found = sorted(table.to_arrow(columns=["id"], where=condition)["id"].to_pylist())
            some = [n for n, v in enumerate(values) if v is not None and holds(v)]
            meant = sorted([*some, *(n + 100 for n in some)])
            if found != meant:
                wrong[condition] = (found, meant)
        assert not wrong


def test_a_delete_by_such_a_value_and_a_checkpoint_keep_the_others(
    tmp_path: Path, place: Path, kind: str
) -> None:
    """Rows of a partition on NaN are written again under it, and other engines read them."""
    with lw.open(tmp_path / "lake") as lake:
        table = lake.adopt("t", place)
        for condition in ("isnan(p) AND id >= 100", "p = CAST('-Infinity' AS DOUBLE)", "p < 30.4"):
            with lake.transaction() as tx:
                tx.delete("t", where=condition)
        lake.publish()
        left = {r["id"]: repr(r["p"]) for r in table.to_arrow().to_pylist()}

    values = {n: _value(kind, text) for n, text in enumerate(_TEXTS)}
    kept = [n for n, v in values.items() if v is None or not v < 30.4]
    meant = {n + more: repr(values[n]) for n in kept for more in (0, 100)}
    del meant[100]
    assert left == meant
    assert list((place / "_delta_log").glob("*.checkpoint.parquet"))
    theirs = QueryBuilder().register("t", DeltaTable(place)).execute("SELECT id, p FROM t")
    assert {r["id"]: repr(r["p"]) for r in pa.table(theirs).to_pylist()} == meant


def test_a_cast_to_float_rounds_on_own_tables(tmp_path: Path) -> None:
    with lw.open(tmp_path / "lake") as lake:
        table = lake.create("t", {"f": "float"})
        with lake.transaction() as tx:
            tx.append("t", pa.table({"f": pa.array([30.4, 1.0], pa.float32())}))

        assert table.to_arrow(where="f = CAST('30.4' AS FLOAT)").num_rows == 1
        assert table.to_arrow(where="f < CAST('30.4' AS FLOAT)").num_rows == 1
        assert table.to_arrow(where="f < 30.4").num_rows == 2
        assert table.to_arrow(where="f < CAST('1e300' AS FLOAT)").num_rows == 2
