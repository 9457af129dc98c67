"""Which commits an alteration looks at for the columns that depend on one."""

from __future__ import annotations

from lakeward.log.lineage import SourcedCommit
from lakeward.model.commit import CommitInfo
from lakeward.read.affected import distinct

_INFO = CommitInfo("t", "WRITE")


def _commit(table: int, version: int, text: str) -> SourcedCommit:
    flow = {"by": "sql", "tables": {"raw.orders": [1, version]}, "text": text}
    return SourcedCommit(table, version, version, _INFO, (flow,))


def test_a_statement_that_a_job_repeats_is_looked_at_once() -> None:
    repeated = [_commit(2, version, "INSERT INTO gold SELECT amount") for version in (1, 2, 3)]
    other = _commit(2, 4, "INSERT INTO gold SELECT id")
    elsewhere = _commit(3, 5, "INSERT INTO gold SELECT amount")
    assert distinct([*repeated, other, elsewhere]) == [repeated[2], other, elsewhere]
