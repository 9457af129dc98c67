"""Rows that the statistics index lacks are inserted by the doctor, and by a rebuilt store."""

from __future__ import annotations

from pathlib import Path

import lakeward as lw
from tests.behaviour.lakes import append, delete
from tests.maintain.damage import codes, look, run_sql


def _returned(lake: lw.Lake) -> lw.Table:
    """A table whose column was dropped and came back, with a file that was restored in between."""
    table = lake.create("t", "id int64, x int64")
    append(lake, "t", {"id": [1, 2], "x": [5, 6]})
    table.alter().drop_column("x").commit()
    delete(lake, "t", "id > 0")
    table.restore(version=2)
    table.restore(version=1)
    return table


def test_the_doctor_finds_and_inserts_rows_that_older_versions_left_out(lake: lw.Lake) -> None:
    table = _returned(lake)
    assert run_sql(lake, "DELETE FROM lakeward_file_stat WHERE field_id = 2 AND added_version > 1")
    assert table.to_arrow(where="x = 5").num_rows == 0
    assert "statistics" in codes(look(lake))

    report = lake.doctor(fix=True)

    assert report.mended is not None
    assert report.mended.indexed == {"t": 1}
    assert codes(report) == set()
    assert table.to_arrow(where="x = 5")["id"].to_pylist() == [1]


def test_the_doctor_keeps_wrong_rows(lake: lw.Lake) -> None:
    _returned(lake)
    wrong = "UPDATE lakeward_file_stat SET max_key = max_key + 1 WHERE field_id = 2"
    assert run_sql(lake, wrong)

    report = lake.doctor(fix=True)

    assert report.mended is not None
    assert report.mended.indexed == {}
    assert "statistics" in codes(report)


def test_a_rebuilt_store_finds_the_rows(tmp_path: Path) -> None:
    with lw.open(tmp_path / "lake") as lake:
        _returned(lake)
    for path in (tmp_path / "lake").glob("lakeward.db*"):
        path.unlink()

    with lw.open(tmp_path / "lake", take_over=True) as lake:
        lake.rebuild()
        assert lake.table("t").to_arrow(where="x = 5")["id"].to_pylist() == [1]
        assert "statistics" not in codes(look(lake))
