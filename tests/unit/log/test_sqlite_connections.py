"""Connections of a SQLite store are closed, also by a lake that nobody closes."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

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
