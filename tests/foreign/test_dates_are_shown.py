"""Rows with dates that Python does not have, where they are shown: in errors and on the console."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.errors import ConstraintViolation
from tests.cli.console import ask, tell
from tests.foreign.values import array

OLD = "-9999-01-01"


@pytest.fixture
def rows() -> pa.Table:
    nested = pa.StructArray.from_arrays([array([-4_371_587, None], "date")], names=["d"])
    return pa.table({"n": [1, 1], "day": array([-4_371_587, None], "date"), "s": nested})


def test_a_violation_shows_the_row(tmp_path: Path, rows: pa.Table) -> None:
    with lw.open(tmp_path / "lake") as lake:
        lake.create("a.t", rows.schema, constraints={"more": "n > 1"})
        with pytest.raises(ConstraintViolation) as caught, lake.transaction() as tx:
            tx.append("a.t", rows)
    shown = caught.value.facts["sample"][0]
    assert (shown["n"], shown["day"]) == (1, OLD)
    assert OLD in shown["s"]


def test_keys_that_come_twice_are_shown(tmp_path: Path, rows: pa.Table) -> None:
    with lw.open(tmp_path / "lake") as lake:
        lake.create("a.t", rows.schema)
        twice = pa.concat_tables([rows.slice(0, 1)] * 2)
        with lake.transaction() as tx:
            tx.append("a.t", rows)
        with pytest.raises(ConstraintViolation) as caught, lake.transaction() as tx:
            tx.merge("a.t", twice, on="day")
    assert caught.value.facts["sample"][0]["day"] == OLD


def test_the_console_shows_rows_and_partitions(tmp_path: Path, rows: pa.Table) -> None:
    place = tmp_path / "lake"
    with lw.open(place) as lake:
        lake.create("a.t", rows.schema, partition_by=["day"])
        with lake.transaction() as tx:
            tx.append("a.t", rows)

    found = ask("read", "a.t", "--lake", place)["rows"]
    assert sorted(str(r["day"]) for r in found) == [OLD, "None"]
    assert OLD in tell("read", "a.t", "--lake", place)
    assert OLD in str(ask("diff", "a.t", "0", "1", "--lake", place))
