"""Stores that are rebuilt where tables of one name were dropped and created again."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakeward as lw
from tests.behaviour.lakes import ids


@pytest.mark.parametrize("newer", ["delta", "iceberg"])
@pytest.mark.parametrize("older", ["delta", "iceberg"])
def test_a_dropped_table_of_the_same_name_is_dropped_again(
    tmp_path: Path, older: str, newer: str
) -> None:
    with lw.open(tmp_path) as lake:
        for number, form in ((1, older), (2, newer)):
            made = lake.create("a", {"id": "int64"}, format=form)
            made.append([{"id": number}])
            if number == 1:
                lake.drop("a")
    for path in tmp_path.glob("lakeward.db*"):
        path.unlink()

    with lw.open(tmp_path, take_over=True) as lake:
        rebuilt = lake.rebuild()

        assert (rebuilt.tables, ids(lake, "a")) == ({"a": 1}, [2])
        (reason,) = rebuilt.skipped.values()
        own = reason.removeprefix("a newer table is called a; this one is dropped, as ")
        assert lake.doctor().healthy
        lake.table("a").vacuum()
        lake.vacuum()
        assert ids(lake, "a") == [2]
        lake.undrop(own)
        assert ids(lake, own) == [1]
