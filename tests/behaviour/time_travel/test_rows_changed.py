"""`diff` and `history` count the rows that commits changed, not those that they wrote again."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import lakeward as lw
from tests.cli.console import run

ROWS = 5000


def _table(lake: lw.Lake, **settings: object) -> None:
    lake.create("t", {"id": "int64", "x": "int64"}, **settings)  # type: ignore[arg-type]
    numbers = pa.array(range(ROWS))
    with lake.transaction() as tx:
        tx.append("t", pa.table({"id": numbers, "x": numbers}))


def _changed(lake: lw.Lake) -> tuple[int, int, int] | None:
    table = lake.table("t")
    newest = table.history(limit=1)[0]
    found = table.diff(newest.version - 1, newest.version).changed
    assert newest.changed == found
    return found


def test_an_update_counts_the_rows_that_it_changed(lake: lw.Lake) -> None:
    _table(lake)
    assert _changed(lake) == (ROWS, 0, 0)
    with lake.transaction() as tx:
        tx.update("t", set={"x": "x + 1"}, where="id < 997")

    diff = lake.table("t").diff(1, 2)
    assert diff.changed == (0, 997, 0)
    # The files that were written again hold all rows.
    assert diff.rows_added == diff.rows_removed == ROWS


def test_each_operation_says_what_it_did(lake: lw.Lake) -> None:
    _table(lake)
    with lake.transaction() as tx:
        tx.delete("t", where="id >= 4990")
    assert _changed(lake) == (0, 0, 10)
    with lake.transaction() as tx:
        new = [{"id": n, "x": -1} for n in range(4985, 4993)]
        tx.merge("t", new, on="id", matched="update", not_matched="insert")
    assert _changed(lake) == (3, 5, 0)
    with lake.transaction() as tx:
        tx.overwrite("t", [{"id": 1, "x": 1}])
    assert _changed(lake) == (1, 0, 4993)

    table = lake.table("t")
    assert table.diff(1, 4).changed == (4, 5, 5003)
    assert table.diff(4, 1).changed == (5003, 5, 4)
    assert table.diff(2, 2).changed == (0, 0, 0)


def test_several_operations_of_a_transaction_are_counted_together(lake: lw.Lake) -> None:
    _table(lake)
    with lake.transaction() as tx:
        tx.append("t", [{"id": -1, "x": 0}, {"id": -2, "x": 0}])
        tx.update("t", set={"x": "7"}, where="id = 3 OR id = 4")
        tx.merge("t", [{"id": 5, "x": 9}, {"id": -3, "x": 0}], on="id", matched="update")
    assert _changed(lake) == (3, 3, 0)
    with lake.transaction() as tx:
        tx.delete("t", where="id < 0")
        tx.append("t", [{"id": -4, "x": 0}])
        tx.update("t", set={"x": "7"}, where="id = 3")
    assert _changed(lake) == (1, 1, 3)
    with lake.transaction() as tx:
        tx.overwrite("t", [{"id": 1, "x": 0}], where="id < 3")
    assert _changed(lake) == (1, 0, 4)


@pytest.mark.formats("delta")
def test_a_commit_that_does_not_tell_is_shown_as_such(lake: lw.Lake, tmp_path: Path) -> None:
    """Another engine may rewrite files and leave the metrics out."""
    write_deltalake(tmp_path / "t", pa.table({"id": [1, 2]}))
    write_deltalake(tmp_path / "t", pa.table({"id": [3, 4, 5]}), mode="overwrite")
    lake.adopt("t", tmp_path / "t")
    assert lake.table("t").diff(0, 1).changed is None


@pytest.mark.formats("delta")
def test_rows_that_vectors_delete_are_counted(lake: lw.Lake) -> None:
    _table(lake, policy={"merge_on_read": True})
    with lake.transaction() as tx:
        tx.delete("t", where="id < 4")
    assert _changed(lake) == (0, 0, 4)
    with lake.transaction() as tx:
        tx.update("t", set={"x": "0"}, where="id < 10")
    assert _changed(lake) == (0, 6, 0)


def test_the_command_line_shows_the_rows_that_changed(lake: lw.Lake, tmp_path: object) -> None:
    _table(lake)
    with lake.transaction() as tx:
        tx.update("t", set={"x": "x + 1"}, where="id < 997")
    target = lake.label.removesuffix("/lakeward.db")
    if "://" in target or target == lake.label:
        pytest.skip("the program finds a lake in a directory")
    text = run("diff", "t", "--lake", target).out
    assert "rows 0 inserted, 997 updated, 0 deleted" in text
    assert "5,000 rows" not in text
    assert "    997 " in run("history", "t", "--limit", "1", "--lake", target).out
