"""Long work says how much of it is done, and of how much, so that a bar can show what remains."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import lakeward as lw
from lakeward.log.statement import Statement
from lakeward.model.progress import reported
from tests.support.inside import context_of

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})


class _Seen:
    """What a listener was told."""

    def __init__(self) -> None:
        self.told: list[tuple[int, int | None]] = []

    def __call__(self, done: int, total: int | None) -> None:
        self.told.append((done, total))

    def check(self, total: int | None = None) -> None:
        """It only grew, the total was known from the first step on, and all of it was done."""
        done = [d for d, _ in self.told]
        assert done == sorted(done)
        last, of = self.told[-1]
        assert last == of
        assert all(t == of for d, t in self.told if d)
        assert len({d for d in done if d}) > 1 or of == 1
        if total is not None:
            assert of == total


@pytest.fixture
def lake(tmp_path: Path) -> lw.Lake:
    lake = lw.open(tmp_path / "lake")
    lake.create("s.t", ROWS.schema)
    for _ in range(4):
        with lake.transaction() as tx:
            tx.append("s.t", ROWS)
    return lake


def test_an_export_and_its_import_count_the_rows_of_the_log(lake: lw.Lake, tmp_path: Path) -> None:
    seen = _Seen()
    with lake:
        copy = lake.export_store(tmp_path / "store.zip", progress=seen)
    seen.check(sum(copy.rows.values()))
    again = _Seen()
    (tmp_path / "lake" / "lakeward.db").unlink()
    with lw.open(tmp_path / "lake2", warehouse=tmp_path / "lake", take_over=True) as other:
        other.import_store(tmp_path / "store.zip", progress=again)
    again.check(sum(copy.rows.values()))


def test_a_backup_counts_pages_and_is_one_snapshot_while_others_write(
    lake: lw.Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakeward.log.drivers.sqlite._PAGES", 3)
    seen, others = _Seen(), lw.open(tmp_path / "lake")

    def write_and_count(done: int, total: int | None) -> None:
        seen(done, total)
        if done and len(seen.told) < 20:
            with others.transaction() as tx:
                tx.append("s.t", ROWS)

    with lake, others:
        before = lake.table("s.t").version
        worker = threading.Thread(
            target=lake.backup, args=(tmp_path / "copy.db",), kwargs={"progress": write_and_count}
        )
        worker.start()
        worker.join(60)
        assert not worker.is_alive()
        assert lake.table("s.t").version > before
    seen.check()
    with closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
        assert copy.execute("SELECT version FROM lakeward_head").fetchall() == [(before,)]
        assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_adopting_counts_versions(tmp_path: Path) -> None:
    for _ in range(5):
        write_deltalake(tmp_path / "lake" / "foreign", ROWS, mode="append")
    seen = _Seen()
    with lw.open(tmp_path / "lake") as lake:
        lake.adopt("s.t", tmp_path / "lake" / "foreign", progress=seen)
    seen.check(5)


def test_adopting_an_iceberg_table_counts_snapshots(tmp_path: Path) -> None:
    with lw.open(tmp_path / "one") as one:
        one.create("s.t", ROWS.schema, format="iceberg")
        for _ in range(4):
            with one.transaction() as tx:
                tx.append("s.t", ROWS)
        location = one.table("s.t").location
    seen = _Seen()
    with lw.open(tmp_path / "two") as two:
        two.adopt("s.t", location, take_over=True, progress=seen)
    seen.check()


def test_publishing_counts_versions(lake: lw.Lake, tmp_path: Path) -> None:
    with lake:
        location = Path(lake.table("s.t").location)
    seen = _Seen()
    with lw.open(tmp_path / "lake", repair=False) as again:
        for name in ("00000000000000000003.json", "00000000000000000004.json"):
            (location / "_delta_log" / name).unlink()
        with context_of(again).database.write() as session:
            session.run(Statement("UPDATE lakeward_head SET published = 2"), {})
        again.publish(progress=seen)
    seen.check(2)
    assert (location / "_delta_log" / "00000000000000000004.json").exists()


def test_relocating_counts_files(lake: lw.Lake, tmp_path: Path) -> None:
    lake.close()
    (tmp_path / "lake").rename(tmp_path / "moved")
    seen = _Seen()
    lw.relocate(tmp_path / "moved", progress=seen)
    seen.check(4)


def test_a_delete_counts_files_and_a_comparison_rows(lake: lw.Lake) -> None:
    deleting, comparing = _Seen(), _Seen()
    with lake:
        with reported(deleting), lake.transaction() as tx:
            tx.delete("s.t", where="id = 1")
        # Each of the four files is looked at, and then written again.
        assert deleting.told[0] == (0, 4)
        assert deleting.told[-1] == (8, 8)
        with reported(comparing):
            found = lake.table("s.t").diff(4, 5, rows=True).rows
        assert found is not None
        comparing.check(8 * ROWS.num_rows - found.deleted)
