"""Connections of a SQLite store are closed, also by a lake that nobody closes."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import lakeward as lw
from tests.support.inside import context_of


def test_a_lake_that_nobody_closes_closes_its_connections_when_it_is_collected(
    tmp_path: Path,
) -> None:
    lake = lw.open(tmp_path / "lake")
    lake.tables()
    database: Any = context_of(lake).database
    idle, watched = database._idle, weakref.ref(database)
    assert idle
    del lake, database
    gc.collect()

    assert watched() is None
    assert not idle


def test_an_interrupt_at_the_end_of_a_write_session_keeps_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lw.open(tmp_path / "lake") as lake, lw.open(tmp_path / "lake") as other:
        database: Any = context_of(lake).database
        give_back, left = type(database).give_back, [True]

        def interrupted(self: Any, *given: Any) -> None:
            if self is database and left:
                left.pop()
                raise KeyboardInterrupt
            give_back(self, *given)

        monkeypatch.setattr(type(database), "give_back", interrupted)
        with pytest.raises(KeyboardInterrupt), database.write():
            pass
        writer = Thread(target=other.create, args=("t", "n int64"), daemon=True)
        writer.start()
        writer.join(10)

        assert not writer.is_alive(), "nobody else can write"
        assert [t.name for t in lake.tables()] == ["t"]
