"""The doctor compares the published files with the log, and mends what is safe to mend."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake

import lakeward as lw
from lakeward.errors import VersionNotFound
from lakeward.formats.delta.log_compaction import write_compacted
from lakeward.formats.delta.segment import Segment
from lakeward.formats.delta.vectors import vector_path
from lakeward.log import pruning
from lakeward.maintain.doctor import Severity, mend, published_checks
from lakeward.maintain.doctor.findings import CheckedTable
from lakeward.write.commit.publications import publish_again
from tests.maintain.damage import T, codes, data_file, fill, log_file, look, run_sql, the
from tests.support.inside import context_of

OpenLake = Callable[..., lw.Lake]


def test_a_version_that_is_not_yet_published_is_owed(make_lake: OpenLake) -> None:
    lake = make_lake()
    fill(lake)
    log_file(lake, 3).unlink()
    report = look(lake)
    finding = the(report, "owed")
    assert finding.severity is Severity.WARNING
    assert (finding.table, finding.version) == (T, 3)
    assert report.healthy


def test_a_published_version_that_is_lost_is_an_error(lake: lw.Lake) -> None:
    fill(lake)
    lake.publish()
    log_file(lake, 2).unlink()
    finding = the(look(lake), "published-missing")
    assert finding.severity is Severity.ERROR
    assert finding.version == 2
    assert finding.mend is not None
    assert "doctor --fix" in finding.mend


def test_a_torn_published_file_is_found(lake: lw.Lake) -> None:
    fill(lake)
    whole = log_file(lake, 2).read_bytes()
    log_file(lake, 2).write_bytes(whole[:100])
    finding = the(look(lake), "published-torn")
    assert f"100 of {len(whole)} bytes" in finding.what


def test_a_published_file_of_somebody_else_is_found(lake: lw.Lake) -> None:
    fill(lake)
    path = log_file(lake, 2)
    path.write_bytes(path.read_bytes().replace(b"WRITE", b"WROTE"))
    finding = the(look(lake), "published-foreign")
    assert finding.version == 2
    assert "Nothing was overwritten" in (finding.mend or "")


def test_a_version_beyond_the_newest_is_foreign(lake: lw.Lake) -> None:
    fill(lake)
    shutil.copy(log_file(lake, 3), log_file(lake, 4))
    finding = the(look(lake), "foreign-commit")
    assert finding.severity is Severity.ERROR
    assert finding.version == 4


def test_a_commit_of_others_on_an_open_table_is_drift(lake: lw.Lake, tmp_path: Path) -> None:
    place = tmp_path / "open"
    write_deltalake(place, pa.table({"id": [1, 2]}))
    lake.adopt("open", place, guard=False)
    write_deltalake(place, pa.table({"id": [3]}), mode="append")
    finding = the(look(lake), "drift")
    assert finding.severity is Severity.WARNING
    assert lake.table("open").to_arrow().num_rows == 3, "using the table takes the commit over"
    assert look(lake).findings == ()


def test_a_commit_of_others_on_a_table_that_refuses_drift_is_an_error(
    lake: lw.Lake, tmp_path: Path
) -> None:
    place = tmp_path / "closed"
    write_deltalake(place, pa.table({"id": [1, 2]}))
    lake.adopt("closed", place, guard=False, drift="refuse")
    write_deltalake(place, pa.table({"id": [3]}), mode="append")
    assert "refuses it" in the(look(lake), "foreign-commit").what


def test_an_adopted_table_with_a_checkpoint_is_healthy(lake: lw.Lake, tmp_path: Path) -> None:
    place = tmp_path / "adopted"
    for number in range(4):
        write_deltalake(place, pa.table({"id": [number]}), mode="append")
    DeltaTable(place).create_checkpoint()
    lake.adopt("adopted", place)
    with lake.transaction() as tx:
        tx.append("adopted", [{"id": 99}])
    assert look(lake).findings == ()


def _with_checkpoint(lake: lw.Lake) -> Path:
    lake.create(T, {"id": "int64", "region": "string"}, policy={"checkpoint_interval": 2})
    for number in range(3):
        with lake.transaction() as tx:
            tx.append(T, [{"id": number, "region": "n"}])
    lake.publish()
    found = log_file(lake, 2).with_suffix(".checkpoint.parquet")
    assert found.exists()
    assert look(lake).findings == ()
    return found


def test_a_checkpoint_that_is_no_parquet_is_found(lake: lw.Lake) -> None:
    _with_checkpoint(lake).write_bytes(b"PAR1 nothing PAR1")
    finding = the(look(lake), "checkpoint-unreadable")
    assert finding.version == 2
    assert finding.mend is not None
    assert "every commit is there" in finding.mend


def test_a_checkpoint_that_lacks_a_file_is_found(lake: lw.Lake) -> None:
    checkpoint = _with_checkpoint(lake)
    table = pq.read_table(checkpoint)
    pq.write_table(table.slice(0, table.num_rows - 1), checkpoint)
    assert (
        "lists 1 files that are not the 2 of version 2" in the(look(lake), "checkpoint-wrong").what
    )


def test_a_pointer_that_is_no_json_is_found(lake: lw.Lake) -> None:
    _with_checkpoint(lake).with_name("_last_checkpoint").write_text("{")
    assert "cannot be read" in the(look(lake), "last-checkpoint").what


def test_a_checkpoint_of_a_vacuumed_version_is_healthy(lake: lw.Lake) -> None:
    table = lake.create(T, {"id": "int64"})
    table.append([{"id": 1}])
    table.checkpoint()
    for number in range(2):
        # The second vacuum prunes the rows of the log that name what the first deleted.
        table.overwrite([{"id": number}])
        table.vacuum(retention="0s", force=True)
    with pytest.raises(lw.errors.VersionNotFound):
        table.at(version=1).to_arrow()
    assert log_file(lake, 1).with_suffix(".checkpoint.parquet").exists()
    assert look(lake).healthy


def test_a_pointer_to_a_checkpoint_that_is_not_there_is_found(lake: lw.Lake) -> None:
    checkpoint = _with_checkpoint(lake)
    checkpoint.with_name("_last_checkpoint").write_text(json.dumps({"version": 1, "size": 1}))
    assert "version 1, which is not there" in the(look(lake), "last-checkpoint").what


def test_a_missing_data_file_is_found(lake: lw.Lake) -> None:
    fill(lake)
    path = data_file(lake)
    path.unlink()
    finding = the(look(lake), "file-missing")
    assert path.name in finding.what
    assert finding.version == 1


def test_a_data_file_of_another_size_is_found(lake: lw.Lake) -> None:
    fill(lake)
    path = data_file(lake)
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[:-1])
    assert f"has {size - 1} bytes; the log knows {size}" in the(look(lake), "file-size").what


def test_a_file_that_a_version_removed_may_be_gone(lake: lw.Lake) -> None:
    fill(lake)
    path = data_file(lake)
    with lake.transaction() as tx:
        tx.overwrite(T, [{"id": 1, "region": "n"}])
    path.unlink()
    assert look(lake).findings == ()


def test_a_file_that_nobody_owns_is_reclaimable_and_no_error(lake: lw.Lake) -> None:
    fill(lake)
    data_file(lake).with_name("part-00000-stray.snappy.parquet").write_bytes(b"12345")
    report = look(lake)
    finding = the(report, "reclaimable")
    assert finding.severity is Severity.INFO
    assert "1 file below shop.orders (5 bytes)" in finding.what
    assert "part-00000-stray.snappy.parquet" in finding.what
    assert report.healthy


def test_files_of_an_open_transaction_are_not_reclaimable(lake: lw.Lake) -> None:
    fill(lake)
    tx = lake.transaction()
    tx.append(T, [{"id": 1, "region": "n"}])
    assert "reclaimable" not in {f.code for f in look(lake).findings}
    run_sql(
        lake,
        "UPDATE lakeward_transaction SET state = 'expired' WHERE transaction_id = :id",
        id=tx.transaction_id,
    )
    assert tx.transaction_id in the(look(lake), "reclaimable").what


def test_files_of_older_versions_are_not_reclaimable(lake: lw.Lake) -> None:
    fill(lake)
    with lake.transaction() as tx:
        tx.overwrite(T, [{"id": 1, "region": "n"}])
    assert look(lake).findings == ()


def test_a_table_inside_the_directory_of_another_is_not_reclaimable(lake: lw.Lake) -> None:
    fill(lake, "shop")
    fill(lake, "shop.orders")
    assert look(lake).findings == ()


def test_a_table_outside_the_warehouse_is_examined_too(lake: lw.Lake, tmp_path: Path) -> None:
    place = tmp_path / "elsewhere" / "t"
    write_deltalake(place, pa.table({"id": [1, 2], "p": ["a", "b"]}), partition_by=["p"])
    lake.adopt("t", place)
    assert look(lake).findings == ()
    (place / "stray.parquet").write_bytes(b"123")
    assert "stray.parquet" in the(look(lake), "reclaimable").what
    next(place.glob("p=a/*.parquet")).unlink()
    assert codes(look(lake)) == {"file-missing"}


def test_paths_with_odd_characters_are_found_where_they_are(lake: lw.Lake) -> None:
    lake.create("t", {"id": "int64", "p": "string"}, partition_by=["p"])
    with lake.transaction() as tx:
        tx.append("t", [{"id": n, "p": p} for n, p in enumerate(["a b", "ü/%", "=", "_x", None])])
    assert look(lake).findings == ()


def test_the_path_of_a_deletion_vector_is_derived_as_delta_says() -> None:
    encoded = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^"}
    expected = "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    assert vector_path(encoded) == expected
    assert vector_path({"storageType": "p", "pathOrInlineDv": "/x/dv.bin"}) == "/x/dv.bin"
    assert vector_path({"storageType": "i", "pathOrInlineDv": "wi5b=000010000siXQKl0rr9"}) is None


@pytest.mark.parametrize("damage", ["missing", "torn"])
def test_fixing_writes_lost_and_torn_versions_again(lake: lw.Lake, damage: str) -> None:
    fill(lake)
    lake.publish()
    path = log_file(lake, 2)
    whole = path.read_bytes()
    path.unlink() if damage == "missing" else path.write_bytes(whole[:50])
    mended = mend(context_of(lake), look(lake))
    assert mended.published == {T: 1}
    assert path.read_bytes() == whole
    assert look(lake).findings == ()


def test_fixing_publishes_what_is_owed(make_lake: OpenLake) -> None:
    lake = make_lake()
    fill(lake)
    path = log_file(lake, 3)
    whole = path.read_bytes()
    path.unlink()
    mend(context_of(lake), look(lake))
    assert path.read_bytes() == whole
    assert look(lake).findings == ()


def test_fixing_overwrites_nothing_of_others(lake: lw.Lake) -> None:
    fill(lake)
    path = log_file(lake, 2)
    foreign = path.read_bytes().replace(b"WRITE", b"WROTE")
    path.write_bytes(foreign)
    mend(context_of(lake), look(lake))
    assert path.read_bytes() == foreign
    assert codes(look(lake)) == {"published-foreign"}


def test_fixing_closes_what_the_dead_left_open(lake: lw.Lake) -> None:
    fill(lake)
    tx = lake.transaction()
    tx.append(T, [{"id": 1, "region": "n"}])
    run_sql(lake, "UPDATE lakeward_transaction SET lease_until_ms = 1 WHERE state = 'open'")
    assert mend(context_of(lake), look(lake)).expired == 1
    assert lake.outcome(tx.transaction_id).state.value == "expired"
    assert codes(look(lake)) == set()


def test_a_directory_that_is_gone_is_told_version_by_version(lake: lw.Lake) -> None:
    fill(lake)
    lake.publish()
    shutil.rmtree(lake.table(T).location)
    report = look(lake)
    assert codes(report) == {"published-missing", "file-missing"}
    assert len(report.of(Severity.ERROR)) == 4 + 6


def test_a_busy_lake_is_not_taken_for_a_damaged_one(make_lake: OpenLake) -> None:
    lake, other = make_lake(), make_lake()
    fill(lake)
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            with other.transaction() as tx:
                tx.append(T, [{"id": 1, "region": "n"}])

    writer = threading.Thread(target=write)
    writer.start()
    try:
        found = [f for _ in range(10) for f in look(lake).findings]
    finally:
        stop.set()
        writer.join()
    kinds = {f.code for f in found}
    assert kinds <= {"transaction-open", "owed"}, kinds


def test_a_checkpoint_that_is_written_meanwhile_is_not_missed(
    lake: lw.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(lake)
    listed = published_checks._segment

    def listed_before(table: CheckedTable) -> Segment:
        found = listed(table)
        lake.table(T).append([{"id": 1, "region": "n"}])
        lake.table(T).checkpoint()
        return found

    monkeypatch.setattr(published_checks, "_segment", listed_before)
    assert codes(look(lake)) == set()


class Killed(BaseException):
    """Ends a process in the middle of its work."""


@pytest.fixture
def half_pruned(lake: lw.Lake, monkeypatch: pytest.MonkeyPatch) -> lw.Lake:
    """A lake whose vacuum was killed after it had deleted rows of the log."""
    table = lake.create(T, "id int64, v int64")
    table.append([{"id": n, "v": 0} for n in range(10)])
    table.update(set={"v": "1"}, where="id = 5")
    table.append([{"id": 10, "v": 0}])

    def killed(*_: object) -> int:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(pruning, "prune_changes", killed)
        with pytest.raises(Killed):
            lake.table(T).vacuum(retention=0, force=True)
    return lake


def test_the_commits_before_a_killed_vacuum_are_healthy(half_pruned: lw.Lake) -> None:
    assert look(half_pruned).findings == ()


def test_a_commit_whose_rows_are_pruned_is_not_published_again(half_pruned: lw.Lake) -> None:
    path = log_file(half_pruned, 2)
    before = path.read_bytes()
    half_pruned.publish()
    path.unlink()
    half_pruned.doctor(fix=True)
    context, head = context_of(half_pruned), half_pruned.table(T).at().log_head
    with pytest.raises(VersionNotFound, match="vacuumed"):
        publish_again(context, head, [2])
    assert not path.exists()
    assert not write_compacted(context, head, 2, 3)
    path.write_bytes(before)
    publish_again(context, head, [2])
    assert path.read_bytes() == before


def test_a_lost_commit_of_a_vacuumed_version_is_found_and_replaced(lake: lw.Lake) -> None:
    table = lake.create(T, "id int64, v int64")
    table.append([{"id": n, "v": 0} for n in range(10)])
    table.update(set={"v": "1"}, where="id = 5")
    table.append([{"id": 10, "v": 0}])
    lake.publish()
    lake.table(T).vacuum(retention=0, force=True)
    assert look(lake).findings == ()
    log_file(lake, 2).unlink()
    finding = the(look(lake), "published-lost")
    assert (finding.severity, finding.version) == (Severity.ERROR, 2)
    report = lake.doctor(fix=True)
    assert report.mended is not None
    assert report.mended.checkpoints == (T,)
    assert report.findings == ()
    assert not log_file(lake, 2).exists(), "its removals are not known"
    found = QueryBuilder().register("t", DeltaTable(lake.table(T).location))
    assert pa.table(found.execute("SELECT count(*) AS n FROM t")).to_pylist() == [{"n": 11}]
    log_file(lake, 1).unlink()
    assert look(lake).findings == (), "the checkpoint replaces older commits, too"
