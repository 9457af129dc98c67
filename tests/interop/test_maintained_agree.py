"""Strangers read every promised version alike, after each step of maintenance and a migration."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeward as lw
from tests.behaviour.lakes import column
from tests.interop.maintained import published_versions, steps
from tests.interop.readers import DuckDb, Polars, Reader
from tests.support.iceberg import stranger_arrow


def test_every_promised_version_of_a_delta_table_reads_the_same(
    own_lake: lw.Lake, name: str, stranger: Reader
) -> None:
    counts = {}
    for step, table in steps(own_lake, name, "delta"):
        own_lake.publish()
        versions = published_versions(table)
        if isinstance(stranger, Polars):
            # It does not read deletion vectors, which versions before the first compaction have.
            versions = [v for v in versions if v > 6]
        for version in versions:
            ours = column(table.at(version=version).to_arrow(columns=["id"]))
            assert column(stranger.rows(table.location, version=version)) == ours, (step, version)
        counts[step] = len(versions)
    own_lake.untag("kept")
    assert counts["log compacted"] > counts["expired"] > 1, counts


def test_every_promised_snapshot_of_an_iceberg_table_reads_the_same(
    own_lake: lw.Lake, name: str, request: pytest.FixtureRequest
) -> None:
    duckdb: DuckDb = request.getfixturevalue("duckdb")
    read = 0
    for step, table in steps(own_lake, name, "iceberg"):
        for version in table.versions():
            number = version.snapshot_id
            try:
                ours = column(table.at(version=version.version).to_arrow(columns=["id"]))
            except lw.errors.VersionNotFound:
                continue
            if number is None:
                continue
            assert column(stranger_arrow(own_lake, name, number)) == ours, (step, version)
            theirs = duckdb.iceberg_rows(str(table.metadata_location), number)
            assert column(theirs) == ours, (step, version)
            read += 1
    own_lake.untag("kept")
    assert read > 50


@pytest.mark.parametrize("mode", ["copy", "in-place"])
def test_a_migrated_delta_table_reads_the_same(
    own_lake: lw.Lake, name: str, stranger: Reader, tmp_path: Path, mode: str
) -> None:
    for day in range(3):
        place = tmp_path / "in" / f"day={day}"
        place.mkdir(parents=True)
        pq.write_table(pa.table({"id": [day * 10, day * 10 + 1]}), place / "x.parquet")

    if mode == "in-place" and isinstance(stranger, Polars):
        pytest.skip("Polars does not read files outside of a table's directory")
    own_lake.migrate(tmp_path / "in", name, mode=mode)

    table = own_lake.table(name)
    assert column(stranger.rows(table.location)) == [0, 1, 10, 11, 20, 21]
    assert table.count() == 6
