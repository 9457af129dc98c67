"""Where `LastWriterWins` resolved a conflict: what the change feed says, and the ids of rows."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import lakeward as lw
from tests.behaviour.lakes import append
from tests.support.delta_rows import row_ids
from tests.support.row_ids import stable_ids

_WINS = lw.LastWriterWins("id")


def _rows(*pairs: tuple[int, int]) -> list[dict[str, Any]]:
    return [{"id": i, "v": v} for i, v in pairs]


def _change(tx: lw.Transaction, name: str, kind: str) -> None:
    match kind:
        case "delete":
            tx.delete(name, where="v = 1")
        case "append":
            tx.append(name, _rows((1, 9), (4, 9)))
        case "overwrite":
            tx.overwrite(name, _rows((1, 9)), where="id = 1")


@pytest.mark.formats("delta")
@pytest.mark.parametrize("kind", ["delete", "append", "overwrite"])
def test_the_feed_has_every_change(shared_lake: lw.Lake, name: str, kind: str) -> None:
    table = shared_lake.create(name, "id int64, v int64", policy={"change_data_feed": True})
    append(shared_lake, name, _rows((1, 1), (2, 1), (3, 5)))
    tx = shared_lake.transaction(on_conflict=_WINS)
    tx.read(name)
    _change(tx, name, kind)
    with shared_lake.transaction() as other:
        other.update(name, set={"v": "v + 1"}, where="id = 1")
    append(shared_lake, name, _rows((4, 4), (5, 5)))
    version = tx.commit().versions[name]

    found = table.changes(since=version).read_all().to_pylist()
    signs = {"insert": 1, "delete": -1}
    model = _counted(table, version - 1)
    for row in found:
        model[row["id"], row["v"]] += signs[row["_change_type"]]
    assert {row: n for row, n in model.items() if n} == _counted(table, version)
    assert len(found) == {"delete": 2, "append": 4, "overwrite": 2}[kind]


def _counted(table: lw.Table, version: int) -> Counter[tuple[int, int]]:
    rows = table.at(version=version).to_arrow().to_pylist()
    return Counter((r["id"], r["v"]) for r in rows)


@pytest.mark.local
def test_rows_that_stay_keep_their_ids(shared_lake: lw.Lake, name: str, table_format: str) -> None:
    table = _with_ids(shared_lake, name, table_format, "id int64, v int64")
    append(shared_lake, name, _rows((1, 1), (2, 2), (3, 3), (4, 4)))
    tx = shared_lake.transaction(on_conflict=_WINS)
    tx.delete(name, where="id = 1")
    with shared_lake.transaction() as other:
        other.update(name, set={"v": "v + 10"}, where="id <= 2")
    before = _ids(table)
    assert tx.commit().attempts == 2

    assert _ids(table) == {key: own for key, own in before.items() if key != 1}


@pytest.mark.local
def test_copies_of_rows_with_a_touched_key_keep_their_ids(
    shared_lake: lw.Lake, name: str, table_format: str
) -> None:
    table = _with_ids(shared_lake, name, table_format, "id int64, v int64, n int64")
    rows = [{"id": i, "v": v, "n": 10 * i + v} for i, v in ((1, 1), (1, 2), (2, 1), (2, 2))]
    append(shared_lake, name, rows)
    tx = shared_lake.transaction(on_conflict=_WINS)
    tx.delete(name, where="v = 1 AND id = 1")
    with shared_lake.transaction() as other:
        other.delete(name, where="n = 22")
    before = _ids(table, "n")
    assert tx.commit().attempts == 2

    assert sorted(_ids(table, "n")) == [12, 21]
    assert _ids(table, "n") == {key: before[key] for key in (12, 21)}


def _with_ids(lake: lw.Lake, name: str, table_format: str, columns: str) -> lw.Table:
    properties = {"delta": {"delta.enableRowTracking": "true"}, "iceberg": {"format-version": "3"}}
    return lake.create(name, columns, properties=properties[table_format])


def _ids(table: lw.Table, key: str = "id") -> dict[Any, int]:
    found = row_ids(table, key) if table.format == "delta" else stable_ids(table, key)
    return {value: own for value, (own, _) in found.items()}
