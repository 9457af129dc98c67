"""A store that is older than its files, as after a backup was put back."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import lakeward as lw
from tests.maintain.damage import look, the


@pytest.mark.parametrize("further", [False, True])
def test_commits_that_the_store_forgot_are_not_to_be_moved_away(
    tmp_path: Path, *, further: bool
) -> None:
    place = tmp_path / "lake"
    with lw.open(place) as lake:
        lake.create("t", {"id": "int64"})
        lake.backup(tmp_path / "old.db")
        append(lake, 1)
    shutil.copy(tmp_path / "old.db", place / "lakeward.db")

    with lw.open(place, repair=False) as lake:
        if further:
            append(lake, 2)
        finding = the(look(lake), "published-foreign" if further else "foreign-commit")
    assert "rebuild" in (finding.mend or "")
    assert "move the file away" not in (finding.mend or "")


def append(lake: lw.Lake, number: int) -> None:
    with lake.transaction() as tx:
        tx.append("t", [{"id": number}])
