"""Strangers read the same rows before and after compaction and clustering, version for version."""

from __future__ import annotations

import pytest

import lakeward as lw
from tests.behaviour.lakes import append, column, delete
from tests.interop.readers import DeltaRs, DuckDb, Reader


@pytest.fixture(params=["delta-rs", pytest.param("duckdb", marks=pytest.mark.peers)])
def stranger(request: pytest.FixtureRequest) -> Reader:
    """A reader of another project."""
    if request.param == "delta-rs":
        return DeltaRs()
    found: DuckDb = request.getfixturevalue("duckdb")
    return found


@pytest.fixture(scope="module")
def optimized(own_lake: lw.Lake) -> lw.Table:
    """Packed, purged of deletion vectors, Z-ordered and sorted, with Bloom filters."""
    table = own_lake.create(
        "optimized",
        {"id": "int64", "p": "string"},
        partition_by=["p"],
        policy={"merge_on_read": True, "merge_on_read_fraction": 0.5},
        properties={"lakeward.bloom": "id"},
    )
    for start in range(0, 3000, 1000):
        append(own_lake, "optimized", [{"id": start + n, "p": "ab"[n % 2]} for n in range(1000)])
    delete(own_lake, "optimized", "id % 10 = 3")
    table.optimize()
    table.optimize(zorder=["id"], target_size=4_000)
    append(own_lake, "optimized", [{"id": -1, "p": None}])
    table.optimize(sort="id")
    own_lake.publish()
    return table


@pytest.mark.parametrize("version", [4, 5, 6, 7, 8])
def test_every_version_reads_the_same(stranger: Reader, optimized: lw.Table, version: int) -> None:
    ours = column(optimized.at(version=version).to_arrow(columns=["id"]))

    theirs = column(stranger.rows(optimized.location, version=version))

    assert ours == theirs
    assert len(ours) == 2700 + (version > 6)
