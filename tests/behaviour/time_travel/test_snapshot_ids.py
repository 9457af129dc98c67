"""Versions by the name that other engines know them by: the Iceberg snapshot's."""

from __future__ import annotations

import pytest

import lakeward as lw
from tests.behaviour.lakes import append, column, delete, ids
from tests.behaviour.published import document
from tests.support.iceberg import stranger_arrow, stranger_table

pytestmark = pytest.mark.formats("iceberg")


@pytest.fixture
def table(shared_lake: lw.Lake, name: str) -> lw.Table:
    """Three versions after the one that made it."""
    table = shared_lake.create(name, {"id": "int64"})
    append(shared_lake, name, {"id": [1, 2]})
    append(shared_lake, name, {"id": [3]})
    delete(shared_lake, name, "id = 2")
    return table


def test_history_tells_the_snapshot_that_each_version_made(
    shared_lake: lw.Lake, table: lw.Table
) -> None:
    published = [s["snapshot-id"] for s in document(shared_lake, table.name)["snapshots"]]

    assert [v.snapshot_id for v in table.versions()] == [None, *published]
    assert [v.snapshot_id for v in table.history()] == [*published[::-1], None]


def test_every_version_can_be_handed_to_another_engine(
    shared_lake: lw.Lake, table: lw.Table
) -> None:
    for version in range(1, 4):
        snapshot = table.at(version=version)
        assert snapshot.metadata_location == table.metadata_location
        theirs = stranger_arrow(shared_lake, table.name, snapshot.snapshot_id)
        assert column(theirs) == column(snapshot.to_arrow())
    assert table.at(version=0).snapshot_id is None
    assert table.at().snapshot_id == table.history(limit=1)[0].snapshot_id


def test_a_cut_over_the_lake_has_the_snapshot_of_its_version(
    shared_lake: lw.Lake, table: lw.Table
) -> None:
    with shared_lake.snapshot() as cut:
        append(shared_lake, table.name, {"id": [9]})
        theirs = stranger_arrow(shared_lake, table.name, cut.table(table.name).snapshot_id)

    assert column(theirs) == [1, 3]
    assert ids(shared_lake, table.name) == [1, 3, 9]


def test_the_metadata_document_is_the_one_that_the_catalog_names(
    shared_lake: lw.Lake, table: lw.Table
) -> None:
    theirs = stranger_table(shared_lake, table.name)

    assert table.metadata_location == theirs.metadata_location
    assert table.at().snapshot_id == theirs.current_snapshot().snapshot_id


def test_a_version_that_made_no_snapshot_reads_as_the_one_before_it(
    shared_lake: lw.Lake, table: lw.Table
) -> None:
    """Others set properties: versions of the log, and no snapshots, however many there are."""
    before = table.at().snapshot_id
    theirs = stranger_table(shared_lake, table.name)
    for number in range(3):
        with theirs.transaction() as tx:
            tx.set_properties({"owner": f"number {number}"})
        assert table.properties["owner"] == f"number {number}"

    assert table.version == 6
    assert [v.snapshot_id for v in table.history(limit=3)] == [None, None, None]
    assert table.at().snapshot_id == before


@pytest.mark.formats("delta")
def test_versions_of_delta_tables_have_no_snapshot(shared_lake: lw.Lake, table: lw.Table) -> None:
    assert {v.snapshot_id for v in table.history()} == {None}
    assert table.at().snapshot_id is None
    assert table.metadata_location is None
