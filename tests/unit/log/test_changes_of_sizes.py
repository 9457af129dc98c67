"""Sizes and totals of a version that are computed from those of another version."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakeward as lw
from lakeward.log import files, sizes, totals
from lakeward.log.database import Session
from lakeward.log.statement import Statement
from lakeward.read.totals import KnownSizes, KnownTotals
from tests.support.inside import context_of


def test_totals_and_sizes_of_any_version_are_those_that_are_counted(tmp_path: Path) -> None:
    with lw.open(tmp_path / "lake") as lake:
        table = lake.create("t", "id int64, text string")
        for number in range(4):
            table.append({"id": [number, -number], "text": ["x" * 40_000 * number] * 2})
        table.delete(where="id = 2")
        table.overwrite({"id": [7], "text": ["y"]})
        table.append({"id": [8], "text": ["z"]})
        table_id = table.at().log_head.table_id
        versions = range(table.version + 1)
        with context_of(lake).database.read() as session:
            counted = {v: totals.at(session, table_id, v) for v in versions}
            classes = {v: sizes.at(session, table_id, v) for v in versions}
            for first in versions:
                for second in versions:
                    known, known_sizes = KnownTotals(), KnownSizes()
                    known.at(session, table_id, first)
                    known_sizes.at(session, table_id, first)
                    assert known.at(session, table_id, second) == counted[second]
                    assert known_sizes.at(session, table_id, second) == classes[second]
        assert [(g.version, g.files, g.rows, g.bytes) for g in table.growth(limit=5)] == [
            (v, counted[v].files, counted[v].rows, counted[v].size) for v in versions[-5:]
        ]


@pytest.mark.parametrize(
    ("statement", "index"),
    [
        (totals._GAINED[0], "lakeward_file_key (table_id=? AND added_version>?"),
        (totals._LOST[0], "lakeward_file_state (table_id=? AND removed_version>? AND removed"),
        (totals._STORED_SINCE, "lakeward_file_path (table_id=? AND path=?)"),
        (sizes._GAINED, "lakeward_file_key (table_id=? AND added_version>?"),
        (sizes._LOST, "lakeward_file_state (table_id=? AND removed_version>? AND removed"),
        (files._REMOVED_SINCE, "lakeward_file_state (table_id=? AND removed_version>? AND removed"),
        (files._AT_AFTER, "lakeward_file_key (table_id=? AND added_version>?"),
    ],
)
def test_what_changed_is_read_without_the_other_files_of_the_table(
    tmp_path: Path, statement: Statement, index: str
) -> None:
    names = ("table_id", "before", "after", "version", "rooted", "schemed")
    with (
        lw.open(tmp_path / "lake") as lake,
        context_of(lake).database.read() as session,
    ):
        explained = Statement(f"EXPLAIN QUERY PLAN {statement._source}")

        assert index in _plan(session, explained, dict.fromkeys(names, 1))


def _plan(session: Session, statement: Statement, params: dict[str, int]) -> str:
    return " ".join(str(row[3]) for row in session.rows(statement, params))
