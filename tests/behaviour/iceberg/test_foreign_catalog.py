"""What others do to the lake's Iceberg tables beside their rows: refs, expiry, and the catalog."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from pathlib import Path

import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.errors import CorruptTable, ForeignCommit
from lakeward.log import heads
from lakeward.model.names import TableName
from tests.behaviour.iceberg.strangers import Stranger, agree, every_version
from tests.behaviour.lakes import append, ids
from tests.support.inside import context_of
from tests.support.s3 import on_disk


@pytest.fixture
def table(one_lake: lw.Lake, name: str) -> lw.Table:
    """Three rows in three versions of ours."""
    made = one_lake.create(name, {"id": "int64", "note": "string"}, format="iceberg")
    for number in (1, 2, 3):
        append(one_lake, name, [{"id": number, "note": "ours"}])
    return made


def test_tags_and_branches_change_no_version_and_survive_our_commits(
    one_lake: lw.Lake, one_stranger: Stranger, table: lw.Table, name: str
) -> None:
    theirs = one_stranger.table(name)
    first, newest = theirs.history()[0].snapshot_id, theirs.current_snapshot().snapshot_id
    theirs.manage_snapshots().create_tag(first, "audited").create_branch(newest, "side").commit()

    assert table.version == 3
    append(one_lake, name, [{"id": 4, "note": "ours"}])

    refs = one_stranger.table(name).refs()
    assert (refs["audited"].snapshot_id, refs["side"].snapshot_id) == (first, newest)
    assert refs["main"].snapshot_id == table.at().snapshot_id
    assert one_stranger.rows(name, first)["id"].to_pylist() == [1]
    assert [v.operation for v in table.history(limit=1)] == ["WRITE"]


def test_rows_on_another_branch_are_not_the_tables(
    one_lake: lw.Lake, one_stranger: Stranger, table: lw.Table, name: str
) -> None:
    theirs = one_stranger.table(name)
    theirs.manage_snapshots().create_branch(theirs.current_snapshot().snapshot_id, "side").commit()
    aside = pa.Table.from_pylist([{"id": 9}], theirs.schema().as_arrow())
    theirs.append(aside, branch="side")

    assert ids(one_lake, name) == [1, 2, 3]
    append(one_lake, name, [{"id": 4, "note": "ours"}])
    assert ids(one_lake, name) == [1, 2, 3, 4]
    found = one_stranger.table(name).scan().use_ref("side").to_arrow()
    assert sorted(found["id"].to_pylist()) == [1, 2, 3, 9]


def test_expired_snapshots_stay_in_the_lakes_history(
    one_lake: lw.Lake, one_stranger: Stranger, table: lw.Table, name: str
) -> None:
    theirs = one_stranger.table(name)
    old = [s.snapshot_id for s in theirs.history()[:2]]
    theirs.maintenance.expire_snapshots().by_ids(old).commit()

    assert table.version == 3
    assert every_version(table) == [[], [1], [1, 2], [1, 2, 3]]
    append(one_lake, name, [{"id": 4, "note": "ours"}])
    assert agree(one_stranger, table) == 4
    assert len(one_stranger.table(name).metadata.snapshots) == 2


def test_a_table_whose_known_metadata_was_deleted_is_taken_over_as_one_commit(
    one_lake: lw.Lake, one_stranger: Stranger, table: lw.Table, name: str
) -> None:
    """As Spark leaves it after expiry with deletion of old metadata."""
    known = on_disk(one_stranger.table(name).metadata_location)
    one_stranger.append(name, [{"id": 4, "note": "theirs"}])
    one_stranger.table(name).delete("id = 2")
    one_stranger.append(name, [{"id": 5, "note": "theirs"}])
    theirs = one_stranger.table(name)
    old = [
        s for s in theirs.metadata.snapshots if s.snapshot_id != theirs.metadata.current_snapshot_id
    ]
    theirs.maintenance.expire_snapshots().by_ids([s.snapshot_id for s in old]).commit()
    for snapshot in old:
        Path(snapshot.manifest_list).unlink()
    known.unlink()

    # Another process, which has never read what is gone.
    with lw.open(one_lake.warehouse) as fresh:
        assert ids(fresh, name) == [1, 3, 4, 5]
        assert fresh.table(name).version == 4
        append(fresh, name, [{"id": 6, "note": "ours"}])
        assert agree(one_stranger, fresh.table(name)) == 5


def test_a_table_dropped_from_the_catalog_is_reported(
    one_lake: lw.Lake, one_stranger: Stranger, table: lw.Table, name: str
) -> None:
    one_stranger.catalog.drop_table(name)

    with pytest.raises(CorruptTable, match=r"took table .* out of the lake's Iceberg catalog"):
        table.to_arrow()
    with pytest.raises(CorruptTable, match="doctor --fix"):
        append(one_lake, name, [{"id": 4, "note": "ours"}])


def test_a_table_renamed_in_the_catalog_is_reported_with_its_new_name(
    one_lake: lw.Lake, one_stranger: Stranger, table: lw.Table, name: str
) -> None:
    one_stranger.catalog.rename_table(name, f"{name}_moved")

    with pytest.raises(CorruptTable, match=f"renamed table {name} to {name}_moved"):
        table.to_arrow()


def test_another_table_under_the_same_name_is_not_taken_for_ours(
    one_lake: lw.Lake, one_stranger: Stranger, table: lw.Table, name: str
) -> None:
    theirs = one_stranger.table(name)
    one_stranger.catalog.drop_table(name)
    location = f"{one_lake.warehouse}/elsewhere-{name}"
    one_stranger.catalog.create_table(name, theirs.schema(), location=location)

    with pytest.raises(ForeignCommit, match="another table in the place"):
        table.to_arrow()
    with pytest.raises(ForeignCommit):
        append(one_lake, name, [{"id": 4, "note": "ours"}])

    one_lake.drop(name)
    assert one_stranger.table(name).location() == location


def test_a_foreign_type_that_the_lake_does_not_know_is_reported_and_breaks_nothing(
    one_lake: lw.Lake, one_stranger: Stranger, table: lw.Table, name: str
) -> None:
    from pyiceberg.types import GeometryType

    from lakeward.errors import UnsupportedFeature

    with one_stranger.table(name).update_schema() as update:
        update.add_column("place", GeometryType())
    with pytest.raises(UnsupportedFeature, match="geometry"):
        table.to_arrow()
    with one_stranger.table(name).update_schema() as update:
        update.delete_column("place")

    assert ids(one_lake, name) == [1, 2, 3]
    append(one_lake, name, [{"id": 4, "note": "ours"}])
    assert agree(one_stranger, table) == 4


@pytest.fixture
def damaged(one_stranger: Stranger, table: lw.Table, name: str) -> Generator[Path]:
    one_stranger.append(name, [{"id": 4, "note": "theirs"}])
    path = on_disk(one_stranger.table(name).metadata_location)
    shutil.copy(path, path.with_suffix(".kept"))
    path.write_bytes(path.read_bytes()[:100])
    yield path
    shutil.move(path.with_suffix(".kept"), path)


def test_a_torn_foreign_document_is_reported_and_takes_nothing_with_it(
    one_lake: lw.Lake, table: lw.Table, damaged: Path, name: str
) -> None:
    with pytest.raises(CorruptTable) as caught:
        table.to_arrow()
    assert caught.value.path == str(damaged)
    with pytest.raises(CorruptTable):
        append(one_lake, name, [{"id": 5, "note": "ours"}])
    with context_of(one_lake).database.read() as session:
        assert heads.get(session, TableName.parse(name)).version == 3
