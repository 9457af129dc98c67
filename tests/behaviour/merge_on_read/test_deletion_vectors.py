"""Rows deleted in place: files stay, readers agree, and who meets in a file conflicts."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import lakeward as lw
from lakeward.errors import Conflict, CorruptTable, FileMissing, InvalidInput
from tests.behaviour.lakes import append, column, data_files, delete, ids, overwrite
from tests.interop.readers import DeltaRs
from tests.support.invariants import check_lake
from tests.support.s3 import on_disk
from tests.support.tables import table_of

pytestmark = pytest.mark.formats("delta")
ROWS = 100

_TABLE = (
    table_of(id="int64", v="string")
    .merging_on_read()
    .rows(*([{"id": start + n, "v": f"v{n % 7}"} for n in range(ROWS)] for start in (0, 1000)))
)
"""Two files of a hundred rows: ids from 0 on, and from 1000 on."""


def _all_but(*gone: int) -> list[int]:
    return [i for i in (*range(ROWS), *range(1000, 1000 + ROWS)) if i not in gone]


def _vector_files(lake: lw.Lake) -> set[str]:
    return data_files(lake, "t", "*.bin")


def test_few_rows_go_in_place_and_more_of_them_later(lake: lw.Lake) -> None:
    table = _TABLE.make(lake)
    before = data_files(lake, "t")

    delete(lake, "t", "id IN (3, 50, 1007)")

    assert data_files(lake, "t") == before
    assert len(_vector_files(lake)) == 1
    assert ids(lake, "t") == _all_but(3, 50, 1007)
    assert ids(lake, "t", where="v = 'v3' AND id < 60") == [
        i for i in range(60) if i % 7 == 3 and i not in (3, 50)
    ]
    first = table.history()[0]
    assert first.metrics["numDeletedRows"] == 3
    assert first.metrics["numDeletionVectorsAdded"] == 2
    assert (first.metrics["numFiles"], first.metrics["numRemovedFiles"]) == (0, 0)

    delete(lake, "t", "id = 4")

    assert data_files(lake, "t") == before
    assert ids(lake, "t") == _all_but(3, 4, 50, 1007)
    second = table.history()[0]
    assert second.metrics["numDeletedRows"] == 1
    assert second.metrics["numDeletionVectorsUpdated"] == 1
    assert {f.file.live_rows for f in table.files()} == {97, 99}
    assert table.at().totals().rows == 2 * ROWS - 4
    assert column(table.at(version=3).to_arrow()) == _all_but(3, 50, 1007)
    assert column(table.at(version=2).to_arrow()) == _all_but()
    found = table.diff(2, 4)
    assert found.rows_removed - found.rows_added == 4
    check_lake(lake, ["t"])
    assert lake.doctor().findings == ()


def test_many_rows_are_written_again_and_a_file_without_rows_is_dropped(lake: lw.Lake) -> None:
    table = _TABLE.make(lake)
    before = data_files(lake, "t")
    delete(lake, "t", "id IN (1, 2)")

    delete(lake, "t", "id < 11")
    assert len(data_files(lake, "t") - before) == 1
    assert table.history()[0].metrics["numDeletedRows"] == 9
    delete(lake, "t", "id = 1000")
    marked = _vector_files(lake)
    delete(lake, "t", "v >= 'v' AND id >= 1000")

    assert _vector_files(lake) == marked
    assert table.history()[0].metrics["numDeletedRows"] == ROWS - 1
    (left,) = table.files()
    assert left.file.deletion_vector is None
    assert ids(lake, "t") == list(range(11, ROWS))
    check_lake(lake, ["t"])


def test_a_file_without_such_rows_is_not_touched(lake: lw.Lake) -> None:
    table = _TABLE.make(lake)
    before = [(f.path, f.added) for f in table.files()]

    delete(lake, "t", "v = 'nobody' OR id = 500")

    assert [(f.path, f.added) for f in table.files()] == before
    assert table.history()[0].metrics["numDeletedRows"] == 0


@pytest.mark.parametrize(("fraction", "in_place"), [(0, 0), (0.02, 2), (1, 99)])
def test_the_table_says_how_many_rows_are_few(
    lake: lw.Lake, fraction: float, in_place: int
) -> None:
    _TABLE.make(lake, policy={"merge_on_read_fraction": fraction})
    if in_place:
        delete(lake, "t", f"id < {in_place}")
        assert len(_vector_files(lake)) == 1
    delete(lake, "t", f"id < {min(in_place + 1, 99)}")
    assert len(_vector_files(lake)) == (1 if in_place else 0)
    assert min(ids(lake, "t")) == min(in_place + 1, 99)


@pytest.mark.parametrize("fraction", [-0.1, 1.5, "few", "nan", True])
def test_a_fraction_that_is_none_is_refused(lake: lw.Lake, fraction: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        _TABLE.make(lake, policy={"merge_on_read_fraction": fraction})
    assert caught.value.parameter == "merge_on_read_fraction"
    assert lake.tables() == []


def test_a_transaction_sees_what_it_deleted_and_may_delete_more(lake: lw.Lake) -> None:
    _TABLE.make(lake)

    with lake.transaction() as tx:
        tx.delete("t", where="id = 1")
        assert column(tx.read("t", where="id < 5")) == [0, 2, 3, 4]
        tx.append("t", [{"id": 2000 + n, "v": "own"} for n in range(20)])
        tx.delete("t", where="id IN (2, 2000)")
        assert column(tx.read("t", columns=["id"], where="id < 5 OR v = 'own'")) == [
            0,
            3,
            4,
            *range(2001, 2020),
        ]

    assert ids(lake, "t") == [*_all_but(1, 2), *range(2001, 2020)]
    assert len(_vector_files(lake)) == 1, "the first vector was replaced before the commit"
    check_lake(lake, ["t"])


def test_what_is_rolled_back_leaves_nothing(lake: lw.Lake) -> None:
    _TABLE.make(lake)

    tx = lake.transaction()
    tx.delete("t", where="id = 1")
    assert len(_vector_files(lake)) == 1
    assert "reclaimable" not in {f.code for f in lake.doctor().findings}
    tx.rollback()

    assert _vector_files(lake) == set()
    assert ids(lake, "t") == _all_but()


def test_two_that_delete_in_one_file_conflict_and_the_second_runs_again(lake: lw.Lake) -> None:
    _TABLE.make(lake)
    first = lake.transaction()
    first.delete("t", where="id = 1")
    second = lake.transaction()
    second.delete("t", where="id = 2")
    first.commit()

    with pytest.raises(Conflict) as caught:
        second.commit()
    assert caught.value.kind == "removed"
    assert ids(lake, "t") == _all_but(1)

    lake.run(lambda tx: tx.delete("t", where="id = 2"))
    assert ids(lake, "t") == _all_but(1, 2)
    check_lake(lake, ["t"])


def test_read_committed_deletes_on_top_of_what_others_deleted(lake: lw.Lake) -> None:
    _TABLE.make(lake)
    with lake.transaction(isolation="read_committed") as tx:
        tx.delete("t", where="id = 1")
        delete(lake, "t", "id = 2")

    assert ids(lake, "t") == _all_but(1, 2)
    check_lake(lake, ["t"])


def test_deletes_in_other_files_pass(lake: lw.Lake) -> None:
    _TABLE.make(lake)
    first = lake.transaction()
    first.delete("t", where="id = 1")
    second = lake.transaction()
    second.delete("t", where="id = 1001")
    first.commit()
    second.commit()

    assert ids(lake, "t") == _all_but(1, 1001)
    check_lake(lake, ["t"])


def test_rows_are_replaced_beside_rows_deleted_in_place(lake: lw.Lake) -> None:
    table = _TABLE.make(lake)
    delete(lake, "t", "id = 7")

    overwrite(lake, "t", [{"id": 5, "v": "new"}], where="id = 5")

    assert ids(lake, "t") == _all_but(7)
    assert table.to_arrow(where="id = 5")["v"].to_pylist() == ["new"]
    with lake.transaction() as tx:
        paths = [f.path for f in table.files() if f.file.deletion_vector is not None]
        tx.remove_files("t", paths)
    assert ids(lake, "t") == [5, *range(1000, 1000 + ROWS)]
    check_lake(lake, ["t"])


def test_rows_that_a_sink_replaces_by_key_go_in_place(lake: lw.Lake) -> None:
    table = _TABLE.make(lake)
    before = data_files(lake, "t")

    with lake.sink("t", writer_id="w", mode="upsert", key="id") as sink:
        sink.write([{"id": 3, "v": "new"}, {"id": 1003, "v": "new"}, {"id": 5000, "v": "new"}])
        sink.commit_epoch(0)
        sink.write([{"id": 3, "v": "newer"}, {"id": 4, "v": "new"}])
        sink.commit_epoch(1)

    live = {f.path: f.file for f in table.files()}
    assert before < set(live)
    assert [live[path].live_rows for path in sorted(before)] == [ROWS - 2, ROWS - 1]
    assert ids(lake, "t") == [*_all_but(), 5000]
    new = table.to_arrow(where="v LIKE 'new%'").sort_by("id")
    assert new["id"].to_pylist() == [3, 4, 1003, 5000]
    assert new["v"].to_pylist() == ["newer", "new", "new", "new"]
    check_lake(lake, ["t"])


@pytest.mark.local
def test_copies_of_a_table_keep_what_is_deleted(lake: lw.Lake) -> None:
    _TABLE.make(lake)
    delete(lake, "t", "id = 1")

    lake.clone("t", "copy")
    delete(lake, "copy", "id = 2")

    assert ids(lake, "copy") == _all_but(1, 2)
    assert ids(lake, "t") == _all_but(1)
    check_lake(lake, ["t", "copy"])


def test_partitions_and_checkpoints_keep_vectors(lake: lw.Lake) -> None:
    table = lake.create(
        "p",
        {"id": "int64", "p": "string"},
        partition_by=["p"],
        policy={"merge_on_read": True, "checkpoint_interval": 2},
    )
    append(lake, "p", [{"id": n, "p": "ab c"[n % 4]} for n in range(200)])
    delete(lake, "p", "id IN (1, 4)")
    delete(lake, "p", "id = 8")
    append(lake, "p", [{"id": 1000, "p": None}])
    lake.publish()

    left = [n for n in range(200) if n not in (1, 4, 8)]
    assert list(on_disk(table.location).glob("_delta_log/*.checkpoint.parquet"))
    assert ids(lake, "p") == [*left, 1000]
    assert column(DeltaRs().rows(table.location)) == [*left, 1000]
    check_lake(lake, ["p"])


@pytest.mark.local
def test_the_change_feed_tells_the_rows_that_went_and_no_others(lake: lw.Lake) -> None:
    """Readers of the feed derive nothing from vectors."""
    table = _TABLE.make(lake, policy={"change_data_feed": True})
    delete(lake, "t", "id = 1")
    delete(lake, "t", "id IN (2, 1001)")
    assert len(_vector_files(lake)) == 2
    with lake.transaction() as tx:
        tx.delete("t", where="id = 3")
        tx.append("t", [{"id": 9000, "v": "new"}])

    def told(version: int) -> list[tuple[str, int]]:
        reader = DeltaTable(table.location).load_cdf(version, version)
        rows = pa.table(reader.read_all()).to_pylist()
        return sorted((r["_change_type"], r["id"]) for r in rows)

    assert told(3) == [("delete", 1)]
    assert told(4) == [("delete", 2), ("delete", 1001)]
    assert told(5) == [("delete", 3), ("insert", 9000)]
    check_lake(lake, ["t"])


@pytest.mark.parametrize("damage", ["gone", "torn", "changed"])
def test_a_damaged_vector_is_told_and_no_row_comes_back(lake: lw.Lake, damage: str) -> None:
    table = _TABLE.make(lake)
    delete(lake, "t", "id = 1")
    (name,) = _vector_files(lake)
    path = on_disk(table.location) / name
    data = path.read_bytes()
    match damage:
        case "gone":
            path.unlink()
        case "torn":
            path.write_bytes(data[:20])
        case _:
            path.write_bytes(data[:-6] + b"\7" + data[-5:])

    with pytest.raises(FileMissing if damage == "gone" else CorruptTable):
        table.to_arrow()
    with pytest.raises(FileMissing if damage == "gone" else CorruptTable):
        delete(lake, "t", "id = 2")
    assert table.version == 3
    assert table.to_arrow(where="id >= 1000").num_rows == ROWS
    found = [f.code for f in lake.doctor().findings]
    assert found == ["file-missing" if damage == "gone" else "vector-damaged"]


def test_an_open_table_takes_vectors_too(lake: lw.Lake) -> None:
    """Its commits are arbitrated by the files, which others write as well."""
    lake.create("open", {"id": "int64"}, policy={"merge_on_read": True}, guard=False)
    append(lake, "open", {"id": list(range(ROWS))})
    delete(lake, "open", "id = 1")
    delete(lake, "open", "id = 2")

    table = lake.table("open")
    assert ids(lake, "open") == [0, *range(3, ROWS)]
    assert column(DeltaRs().rows(table.location)) == ids(lake, "open")
    (file,) = table.files()
    assert file.file.live_rows == ROWS - 2


@pytest.mark.formats("iceberg")
def test_iceberg_tables_refuse_the_policy(lake: lw.Lake) -> None:
    with pytest.raises(InvalidInput) as caught:
        lake.create("t", {"id": "int64"}, format="iceberg", policy={"merge_on_read": True})
    assert "merge_on_read" in str(caught.value)
    assert lake.tables() == []
