"""A SQLite store that nobody has open is read as it is, and no writer changes it meanwhile."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from threading import Event, Thread

import pytest

from lakeward.errors import ReadOnlyLake, StoreUnavailable
from lakeward.log.binding import get_setting, put_setting
from lakeward.log.database import Database
from lakeward.log.drivers.connect import connect


@pytest.fixture
def at_rest(tmp_path: Path) -> Generator[Database]:
    """A read-only store without a write-ahead log."""
    connect(tmp_path).close()
    with closing(connect(tmp_path, create=False, read_only=True)) as database:
        yield database


def test_a_writer_waits_until_the_session_is_over(at_rest: Database, tmp_path: Path) -> None:
    wrote = Event()

    def write() -> None:
        with closing(connect(tmp_path)) as writer:
            with writer.write() as session:
                put_setting(session, "x", "1")
            wrote.set()

    thread = Thread(target=write)
    with at_rest.read() as session:
        thread.start()
        assert not wrote.wait(0.2)
        assert get_setting(session, "x") is None
    thread.join(30)
    with at_rest.read() as session:
        assert get_setting(session, "x") == "1"


def test_a_change_by_a_program_that_takes_no_lock_is_noticed(
    at_rest: Database, tmp_path: Path
) -> None:
    def change() -> None:
        with closing(sqlite3.connect(tmp_path / "lakeward.db")) as stranger:
            stranger.execute("CREATE TABLE theirs (a)")

    with pytest.raises(StoreUnavailable, match="changed by another program"), at_rest.read():
        change()

    assert at_rest.has_table("theirs")


def test_nothing_is_made_or_written(at_rest: Database, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    with at_rest.read() as session:
        assert get_setting(session, "schema_version")
    with pytest.raises(ReadOnlyLake), at_rest.write():
        pass
    with pytest.raises(ReadOnlyLake), at_rest.turn(1):
        pass
    assert sorted(tmp_path.rglob("*")) == before


def test_an_older_store_is_refused_and_not_migrated(tmp_path: Path) -> None:
    with closing(connect(tmp_path)) as writer, writer.write() as session:
        put_setting(session, "schema_version", "9")

    with pytest.raises(ReadOnlyLake, match="must be migrated"):
        connect(tmp_path, create=False, read_only=True)
