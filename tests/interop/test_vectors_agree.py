"""Rows that we delete in place are deleted for strangers, too, version for version."""

from __future__ import annotations

import pytest

import lakeward as lw
from tests.behaviour.lakes import append, column, delete
from tests.interop.readers import DeltaRs, DuckDb, Reader

ROWS = 50_000


@pytest.fixture(params=["delta-rs", pytest.param("duckdb", marks=pytest.mark.peers)])
def honest(request: pytest.FixtureRequest) -> Reader:
    """A reader that honours deletion vectors; Polars refuses tables that have them."""
    if request.param == "delta-rs":
        return DeltaRs()
    found: DuckDb = request.getfixturevalue("duckdb")
    return found


@pytest.fixture(scope="module")
def marked(own_lake: lw.Lake) -> lw.Table:
    """Partitions, several vectors in a file, sparse and dense ones, a vector on a vector."""
    table = own_lake.create(
        "marked",
        {"id": "int64", "p": "string"},
        partition_by=["p"],
        policy={"merge_on_read": True, "merge_on_read_fraction": 0.5, "checkpoint_interval": 5},
    )
    append(own_lake, "marked", [{"id": n, "p": "ab c"[n % 3]} for n in range(ROWS)])
    delete(own_lake, "marked", "id IN (0, 1, 2, 49999) OR id BETWEEN 5000 AND 9000")
    delete(own_lake, "marked", "id % 7 = 3 AND id > 30000")
    delete(own_lake, "marked", "p = 'a' AND id < 30")
    append(own_lake, "marked", [{"id": -1, "p": None}])
    delete(own_lake, "marked", "id = 4")
    own_lake.publish()
    return table


@pytest.mark.parametrize("version", [2, 3, 4, 6])
def test_every_version_reads_the_same(honest: Reader, marked: lw.Table, version: int) -> None:
    ours = column(marked.at(version=version).to_arrow(columns=["id"]))

    theirs = column(honest.rows(marked.location, version=version))

    assert ours == theirs
    assert len(ours) < ROWS
    assert any(f.file.deletion_vector for f in marked.at(version=version).files())
