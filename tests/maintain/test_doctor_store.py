"""The doctor finds every broken invariant of the log, on both stores."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

import lakeward as lw
from lakeward.errors import TableNotFound
from lakeward.maintain.doctor import Severity, examine
from tests.maintain.damage import T, codes, fill, look, run_sql, the
from tests.support.inside import context_of


def test_a_whole_lake_is_healthy_and_is_counted(lake: lw.Lake) -> None:
    fill(lake)
    fill(lake, "other")
    report = look(lake)
    assert report.healthy
    assert report.findings == ()
    assert (report.tables, report.versions, report.files) == (2, 8, 12)


def test_an_empty_lake_is_healthy(lake: lw.Lake) -> None:
    assert look(lake).findings == ()


def test_a_missing_version_is_a_gap(lake: lw.Lake) -> None:
    fill(lake, versions=4)
    run_sql(lake, "DELETE FROM lakeward_commit WHERE version = 2")
    finding = the(look(lake), "version-gap")
    assert finding.severity is Severity.ERROR
    assert (finding.table, finding.version) == (T, 2)
    assert finding.what == "Version 2 of shop.orders is missing."
    assert finding.mend is not None
    assert "rebuild" in finding.mend


def test_several_missing_versions_are_told_as_one_gap(lake: lw.Lake) -> None:
    fill(lake, versions=5)
    run_sql(lake, "DELETE FROM lakeward_commit WHERE version IN (2, 3, 4)")
    assert the(look(lake), "version-gap").what == "Versions 2 to 4 of shop.orders are missing."


def test_missing_first_versions_are_a_gap(lake: lw.Lake) -> None:
    fill(lake)
    run_sql(lake, "DELETE FROM lakeward_commit WHERE version = 0")
    assert the(look(lake), "version-gap").what == "Versions 0 to 0 of shop.orders are missing."


def test_a_table_without_any_version_is_found(lake: lw.Lake) -> None:
    fill(lake)
    run_sql(lake, "DELETE FROM lakeward_commit")
    assert the(look(lake), "version-gap").what == "The log has no versions of shop.orders."


def test_a_head_behind_its_newest_version_is_found(lake: lw.Lake) -> None:
    fill(lake)
    run_sql(lake, "UPDATE lakeward_head SET version = 2")
    assert the(look(lake), "head-version").version == 2


def test_a_head_with_another_time_than_its_version_is_found(lake: lw.Lake) -> None:
    fill(lake)
    run_sql(lake, "UPDATE lakeward_head SET timestamp_ms = timestamp_ms + 1")
    assert the(look(lake), "head-time").version == 3


def test_a_version_that_is_not_later_than_the_one_before_is_found(lake: lw.Lake) -> None:
    fill(lake)
    run_sql(
        lake,
        """UPDATE lakeward_commit SET timestamp_ms =
        (SELECT c.timestamp_ms FROM lakeward_commit c WHERE c.version = 1) WHERE version = 2""",
    )
    assert the(look(lake), "time-order").version == 2


def test_a_transaction_that_lost_a_table_is_found(lake: lw.Lake) -> None:
    fill(lake)
    fill(lake, "other")
    with lake.transaction() as tx:
        tx.append(T, [{"id": 1, "region": "n"}])
        tx.append("other", [{"id": 1, "region": "n"}])
    assert look(lake).healthy
    run_sql(
        lake,
        """DELETE FROM lakeward_commit WHERE version = 4 AND table_id =
        (SELECT table_id FROM lakeward_head WHERE name = 'other')""",
    )
    finding = the(look(lake), "transaction-torn")
    assert tx.transaction_id in finding.what
    assert "changed 2 tables; the log has 1 of them" in finding.what


def test_members_in_dropped_tables_still_count(lake: lw.Lake) -> None:
    fill(lake)
    fill(lake, "other")
    with lake.transaction() as tx:
        tx.append(T, [{"id": 1, "region": "n"}])
        tx.append("other", [{"id": 1, "region": "n"}])
    lake.drop("other")
    assert look(lake).findings == ()


def test_a_commit_of_a_transaction_that_is_not_ratified_is_found(lake: lw.Lake) -> None:
    fill(lake)
    newest = lake.table(T).history(limit=1)[0].transaction_id
    run_sql(
        lake,
        "UPDATE lakeward_transaction SET state = 'expired' WHERE transaction_id = :id",
        id=newest,
    )
    assert "registered as expired" in the(look(lake), "transaction-state").what


def test_a_commit_of_a_transaction_that_nobody_registered_is_found(lake: lw.Lake) -> None:
    fill(lake)
    newest = lake.table(T).history(limit=1)[0].transaction_id
    run_sql(lake, "DELETE FROM lakeward_transaction WHERE transaction_id = :id", id=newest)
    assert "not registered" in the(look(lake), "transaction-state").what


def test_a_ratified_transaction_without_a_commit_is_found(lake: lw.Lake) -> None:
    fill(lake)
    newest = lake.table(T).history(limit=1)[0].transaction_id
    run_sql(lake, "DELETE FROM lakeward_commit WHERE transaction_id = :id", id=newest)
    assert newest in the(look(lake), "transaction-lost").what


def test_transactions_that_write_no_version_are_not_lost(lake: lw.Lake) -> None:
    fill(lake)
    fill(lake, "other")
    with lake.transaction() as tx:
        tx.drop("other")
    consumer = lake.consumer("c", tables=[T])
    for change in consumer:
        with consumer.transaction(change):
            pass
    assert look(lake).findings == ()
    # As in a store of an older version, which has fewer records of them.
    run_sql(lake, "DELETE FROM lakeward_once WHERE key = :id", id=tx.transaction_id)
    assert look(lake).findings == ()


def test_a_definition_that_starts_late_is_found(lake: lw.Lake) -> None:
    fill(lake)
    run_sql(lake, "UPDATE lakeward_definition SET from_version = 1")
    assert "definition-range" in codes(look(lake))


def test_a_definition_that_ends_early_is_found(lake: lw.Lake) -> None:
    fill(lake)
    run_sql(lake, "UPDATE lakeward_definition SET until_version = 2")
    assert "has no definition that is current" in the(look(lake), "definition-range").what


def test_a_missing_definition_is_found(lake: lw.Lake) -> None:
    fill(lake)
    run_sql(lake, "DELETE FROM lakeward_definition")
    assert "definition-range" in codes(look(lake))


def test_a_definition_that_cannot_be_read_is_found(lake: lw.Lake) -> None:
    fill(lake)
    run_sql(lake, "UPDATE lakeward_definition SET body = '{}'")
    report = look(lake)
    assert "Definition 0 of shop.orders" in the(report, "definition-unreadable").what
    assert "check-failed" in codes(report), "checks that need the definition say so and go on"


def test_a_head_that_says_open_of_a_guarded_table_is_found(lake: lw.Lake) -> None:
    fill(lake)
    run_sql(lake, "UPDATE lakeward_head SET guarded = 0")
    assert the(look(lake), "guard").what == (
        "The head of shop.orders says open, its protocol says guarded."
    )


def test_a_file_removed_before_it_was_added_is_found(lake: lw.Lake) -> None:
    fill(lake)
    run_sql(
        lake,
        "UPDATE lakeward_file SET removed_version = 1 WHERE added_version = 2 AND ordinal = 0",
    )
    assert the(look(lake), "file-range").version == 2


def test_a_file_removed_by_a_version_that_is_not_there_is_found(lake: lw.Lake) -> None:
    fill(lake)
    run_sql(
        lake,
        "UPDATE lakeward_file SET removed_version = 99 WHERE added_version = 2 AND ordinal = 0",
    )
    assert "removed by version 99" in the(look(lake), "file-range").what


def test_a_file_added_by_a_version_that_is_not_there_is_found(lake: lw.Lake) -> None:
    fill(lake)
    run_sql(lake, "DELETE FROM lakeward_commit WHERE version = 2")
    found = [f for f in look(lake).findings if f.code == "file-range"]
    assert len(found) == 2
    assert {f.version for f in found} == {2}


def test_a_path_that_is_live_twice_is_found(lake: lw.Lake) -> None:
    fill(lake)
    path = next(f.path for f in lake.table(T).files() if f.added == 1)
    run_sql(
        lake,
        "UPDATE lakeward_file SET path = :path WHERE added_version = 3 AND ordinal = 0",
        path=path,
    )
    finding = the(look(lake), "file-twice")
    assert path in finding.what
    assert finding.version == 3


def test_a_path_that_is_removed_and_added_again_is_fine(lake: lw.Lake) -> None:
    fill(lake)
    path = next(f.path for f in lake.table(T).files() if f.added == 1)
    with lake.transaction() as tx:
        tx.remove_files(T, [path])
    with lake.transaction() as tx:
        tx.add_files(T, [path])
    assert look(lake).findings == ()


def test_progress_of_an_application_without_its_version_is_found(lake: lw.Lake) -> None:
    fill(lake)
    with lake.transaction() as tx:
        tx.record(T, "loader", 7)
    run_sql(lake, "UPDATE lakeward_app_transaction SET version = 77")
    assert "'loader'" in the(look(lake), "app-transaction").what


def test_a_changed_audit_entry_breaks_the_trail(lake: lw.Lake) -> None:
    fill(lake)
    run_sql(lake, "UPDATE lakeward_audit SET actor = 'nobody' WHERE seq = 2")
    assert "broken at entry 2" in the(look(lake), "audit-broken").what


def test_a_removed_audit_entry_breaks_the_trail(lake: lw.Lake) -> None:
    fill(lake)
    run_sql(lake, "DELETE FROM lakeward_audit WHERE seq = 4")
    assert "broken at entry 4" in the(look(lake), "audit-broken").what


def test_a_missing_row_of_the_statistics_index_is_found(lake: lw.Lake) -> None:
    fill(lake)
    assert run_sql(
        lake,
        """DELETE FROM lakeward_file_stat
        WHERE added_version = 2 AND ordinal = 1 AND field_id =
        (SELECT min(field_id) FROM lakeward_file_stat)""",
    )
    finding = the(look(lake), "statistics")
    assert "lacks field 1 of file 1 that version 2 added" in finding.what
    assert finding.mend is not None
    assert finding.mend.startswith("Selective reads may miss its rows.")


def test_a_wrong_row_of_the_statistics_index_is_found(lake: lw.Lake) -> None:
    fill(lake)
    run_sql(
        lake,
        """UPDATE lakeward_file_stat SET max_key = max_key + 1
        WHERE added_version = 2 AND ordinal = 1 AND field_id = 1""",
    )
    found = [f.what for f in look(lake).findings if f.code == "statistics"]
    assert len(found) == 2
    assert "lacks" in found[0]
    assert "has a wrong entry" in found[1]


def test_a_row_of_the_statistics_index_without_a_file_is_found(lake: lw.Lake) -> None:
    fill(lake)
    run_sql(
        lake,
        """INSERT INTO lakeward_file_stat (table_id, field_id, level, min_key, added_version,
        ordinal, max_key, nulls) SELECT table_id, 1, 0, 5, 3, 77, 5, 0 FROM lakeward_head""",
    )
    assert "has a wrong entry for field 1 of file 77" in the(look(lake), "statistics").what


def test_very_many_findings_of_a_kind_are_counted(lake: lw.Lake) -> None:
    fill(lake)
    run_sql(
        lake,
        """INSERT INTO lakeward_file_stat (table_id, field_id, level, min_key, added_version,
        ordinal, max_key, nulls) SELECT h.table_id, 1, 0, 5, c.version, 100 + s.ordinal * 10
        + s.added_version, 5, 0 FROM lakeward_head h CROSS JOIN lakeward_commit c
        CROSS JOIN (SELECT DISTINCT added_version, ordinal FROM lakeward_file_stat) s""",
    )
    found = [f for f in look(lake).findings if f.code == "statistics"]
    assert len(found) == 21
    assert found[-1].what.startswith("… and 4 more of the kind statistics")


def test_an_expired_transaction_and_pin_are_warnings(lake: lw.Lake) -> None:
    fill(lake)
    tx = lake.transaction()
    tx.append(T, [{"id": 1, "region": "n"}])
    cut = lake.snapshot()
    with cut:
        run_sql(lake, "UPDATE lakeward_transaction SET lease_until_ms = 1 WHERE state = 'open'")
        run_sql(lake, "UPDATE lakeward_pin SET lease_until_ms = 1")
        report = look(lake)
    assert report.healthy
    assert the(report, "transaction-expired").severity is Severity.WARNING
    assert tx.transaction_id in the(report, "transaction-expired").what
    assert the(report, "pin-expired").severity is Severity.WARNING


def test_leases_that_are_held_are_information(lake: lw.Lake) -> None:
    fill(lake)
    tx = lake.transaction(locks={T: "write"})
    tx.append(T, [{"id": 1, "region": "n"}])
    with lake.snapshot():
        report = look(lake)
    tx.rollback()
    assert the(report, "transaction-open").severity is Severity.INFO
    assert tx.transaction_id in the(report, "lock-held").what
    assert the(report, "lock-held").table == T
    assert the(report, "pin-held").severity is Severity.INFO
    assert codes(report) == set()


def test_only_the_tables_asked_for_are_examined(lake: lw.Lake) -> None:
    fill(lake)
    fill(lake, "other")
    run_sql(
        lake,
        """UPDATE lakeward_head SET timestamp_ms = 1 WHERE name = 'other'""",
    )
    assert look(lake, T).healthy
    assert not look(lake, "other").healthy
    with pytest.raises(TableNotFound):
        look(lake, "nothing")


def test_rows_that_are_no_rows_of_ours_do_not_stop_the_doctor(lake: lw.Lake) -> None:
    fill(lake)
    run_sql(lake, "UPDATE lakeward_commit SET info = 'not json' WHERE version = 1")
    run_sql(lake, "UPDATE lakeward_audit SET actor = 'nobody' WHERE seq = 2")
    assert {"check-failed", "audit-broken"} <= codes(look(lake))


def test_the_doctor_changes_nothing(make_lake: Callable[..., lw.Lake]) -> None:
    lake = make_lake()
    fill(lake)
    log_file = Path(lake.table(T).location) / "_delta_log" / f"{3:020d}.json"
    log_file.unlink()
    run_sql(lake, "UPDATE lakeward_head SET published = 2")
    untouched = make_lake(repair=False)
    untouched.doctor()
    untouched.close()
    assert not log_file.exists()


def test_progress_is_told_up_to_the_total(lake: lw.Lake) -> None:
    lake.create("t", {"id": "int64"})
    for _ in range(60):
        with lake.transaction() as tx:
            tx.append("t", [{"id": 1}])
    told: list[tuple[int, int | None]] = []
    examine(context_of(lake), progress=lambda done, total: told.append((done, total)))
    assert told == [(100, 121)]


def test_a_damaged_page_of_the_sqlite_file_is_found(tmp_path: Path) -> None:
    with lw.open(tmp_path) as lake:
        fill(lake, versions=60)
    path = tmp_path / "lakeward.db"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        root = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'lakeward_file_path'"
        ).fetchone()[0]
        size = connection.execute("PRAGMA page_size").fetchone()[0]
    connection.close()
    data = bytearray(path.read_bytes())
    data[(root - 1) * size : root * size] = b"\xff" * size
    path.write_bytes(data)
    with lw.open(tmp_path, repair=False) as lake:
        report = look(lake)
    found = [f for f in report.findings if f.code == "store-damaged"]
    assert found
    assert all(f.severity is Severity.ERROR for f in found)
    assert report.findings[0].mend is not None
    assert "Restore a backup" in report.findings[0].mend
