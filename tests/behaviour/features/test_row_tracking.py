"""Row tracking: every row has an id that stays with it, whatever becomes of its file."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

import lakeward as lw
from lakeward.errors import UnsupportedFeature
from tests.behaviour.lakes import unchanged
from tests.support.delta_rows import high_water_mark, published, row_ids

pytestmark = pytest.mark.formats("delta")
_TRACKED = {"delta.enableRowTracking": "true"}


def _rows(start: int, end: int) -> list[dict[str, int]]:
    return [{"id": n, "n": 0} for n in range(start, end)]


@pytest.mark.parametrize("mapping", ["none", "id"])
@pytest.mark.local
def test_rows_keep_their_ids_through_updates_deletes_and_merges(
    lake: lw.Lake, mapping: str
) -> None:
    """Where columns are found by ids in files, the hidden columns are found by their names."""
    properties = {**_TRACKED, "delta.columnMapping.mode": mapping}
    table = lake.create("t", "id int64, n int64", properties=properties)
    table.append(_rows(0, 5))
    table.append(_rows(5, 10))
    assert row_ids(table) == {n: (n, 1 if n < 5 else 2) for n in range(10)}
    with lake.transaction() as tx:
        tx.update("t", set={"n": "n + 1"}, where="id IN (1, 6)")
        tx.delete("t", where="id = 2")
    with lake.transaction() as tx:
        tx.merge("t", [{"id": 1, "n": 7}, {"id": 100, "n": 7}], on="id")
    found = row_ids(table)
    assert {n: i for n, (i, _) in found.items() if n < 100} == {n: n for n in range(10) if n != 2}
    assert found[100][0] > 9
    versions = {n: v for n, (_, v) in found.items()}
    assert (versions[0], versions[1], versions[6], versions[7], versions[100]) == (1, 4, 3, 2, 4)
    assert high_water_mark(table) >= max(i for i, _ in found.values())
    assert {r["id"]: r["n"] for r in table.to_arrow().to_pylist() if r["n"]} == {1: 7, 6: 1, 100: 7}
    assert table.to_arrow().column_names == ["id", "n"]
    table.optimize(zorder=["id"])
    assert row_ids(table) == found
    if mapping == "id":
        table.alter().rename_column("n", "m").commit()
    table.overwrite([], where="id = 3")
    assert row_ids(table) == {n: i for n, i in found.items() if n != 3}


@pytest.mark.local
def test_rows_that_a_transaction_adds_and_changes_get_ids_once(lake: lw.Lake) -> None:
    table = lake.create("t", "id int64, n int64", properties=_TRACKED)
    with lake.transaction() as tx:
        tx.append("t", _rows(0, 4))
        tx.update("t", set={"n": "1"}, where="id = 3")
        tx.append("t", _rows(4, 6))
    assert sorted(i for i, _ in row_ids(table).values()) == list(range(6))


@pytest.mark.local
def test_a_mapped_table_with_renamed_columns_keeps_the_ids(lake: lw.Lake) -> None:
    table = lake.create("t", "id int64, n int64", properties=_TRACKED)
    table.append(_rows(0, 4))
    table.alter().rename_column("n", "m").commit()
    with lake.transaction() as tx:
        tx.update("t", set={"m": "5"}, where="id = 2")
    assert {n: i for n, (i, _) in row_ids(table).items()} == {n: n for n in range(4)}
    assert table.to_arrow(where="m = 5")["id"].to_pylist() == [2]


@pytest.mark.local
def test_enabling_gives_ids_to_the_rows_that_are_there(lake: lw.Lake) -> None:
    table = lake.create("t", "id int64, n int64")
    table.append(_rows(0, 3))
    table.append(_rows(3, 6))
    done = table.alter().enable("row_tracking").commit()
    assert done.versions == {"t": 3}
    assert sorted(i for i, _ in row_ids(table).values()) == list(range(6))
    assert {a["dataChange"] for a in published(table, "add") if a["at"] == 3} == {False}
    # The protocol allows one action for a file: readers skip an `add` beside a `remove` of it.
    assert not [a for a in published(table, "remove") if a["at"] == 3]
    table.append(_rows(6, 7))
    assert row_ids(table)[6] == (6, 4)


def test_rows_are_not_written_in_the_transaction_that_gives_ids(lake: lw.Lake) -> None:
    table = lake.create("t", "id int64, n int64")
    table.append(_rows(0, 3))
    tx = lake.transaction()
    tx.alter("t").enable("row_tracking")
    with unchanged(lake), pytest.raises(UnsupportedFeature, match="separate transaction"):
        tx.append("t", _rows(3, 4))
    tx = lake.transaction()
    tx.append("t", _rows(3, 4))
    with pytest.raises(UnsupportedFeature, match="separate transaction"):
        tx.alter("t").enable("row_tracking")
    assert table.version == 1


@pytest.mark.local
def test_an_append_that_began_before_gets_ids(lake: lw.Lake) -> None:
    table = lake.create("t", "id int64, n int64")
    table.append(_rows(0, 3))
    tx = lake.transaction()
    tx.append("t", _rows(3, 5))
    table.alter().enable("row_tracking").commit()
    tx.commit()
    assert sorted(i for i, _ in row_ids(table).values()) == list(range(5))


@pytest.mark.local
def test_deletion_vectors_and_ids_go_together(lake: lw.Lake) -> None:
    policy = {"merge_on_read": True, "merge_on_read_fraction": 1}
    table = lake.create("t", "id int64, n int64", properties=_TRACKED, policy=policy)
    table.append(_rows(0, 6))
    with lake.transaction() as tx:
        tx.update("t", set={"n": "1"}, where="id = 4")
    adds = published(table, "add")
    found = {a["baseRowId"]: "deletionVector" in a for a in adds if a["at"] == 2}
    assert found == {0: True, 6: False}
    new = next(f for f in table.files() if f.file.deletion_vector is None)
    assert row_ids_of(table, new.path) == [4]


def row_ids_of(table: lw.Table, path: str) -> list[int]:
    """The ids that a file holds."""
    name = table.definition.properties["delta.rowTracking.materializedRowIdColumnName"]
    found: list[int] = pq.read_table(f"{table.location.removeprefix('file://')}/{path}")[
        name
    ].to_pylist()
    return found


@pytest.mark.local
def test_a_clone_goes_on_above_the_ids_of_its_files(lake: lw.Lake) -> None:
    table = lake.create("t", "id int64, n int64", properties=_TRACKED)
    table.append(_rows(0, 4))
    copy = lake.clone("t", "copy")
    copy.append(_rows(10, 12))
    assert high_water_mark(copy) == 5
    assert [f.file.extra["baseRowId"] for f in copy.files() if f.file.extra] == [0, 4]


@pytest.mark.parametrize("zorder", [None, ["n"]])
def test_rows_that_a_compaction_moves_keep_ids_and_versions(
    lake: lw.Lake, zorder: list[str] | None
) -> None:
    table = lake.create("t", "id int64, n int64", properties=_TRACKED)
    for start in range(4):
        table.append([{"id": n, "n": -n} for n in range(start, 20, 4)])
    with lake.transaction() as tx:
        tx.update("t", set={"n": "100"}, where="id = 5")
    before = row_ids(table)
    table.optimize(zorder=zorder)
    assert len(table.files()) == 1
    assert row_ids(table) == before
