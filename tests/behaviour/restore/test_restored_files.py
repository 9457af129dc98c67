"""What restoring publishes: deletion vectors, change feeds, manifests, partition specs."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

import lakeward as lw
from lakeward.errors import Conflict, ConstraintViolation, InvalidInput, VersionNotFound
from tests.behaviour.lakes import append, ids
from tests.behaviour.published import document
from tests.support.iceberg import stranger_arrow, stranger_table


def _delta_ids(lake: lw.Lake, name: str) -> list[int]:
    found = QueryBuilder().register("t", DeltaTable(lake.table(name).location))
    rows = pa.table(found.execute("SELECT id FROM t").read_all())
    return sorted(rows["id"].to_pylist())


@pytest.mark.formats("delta")
def test_the_deletion_vector_of_the_version_comes_back(lake: lw.Lake) -> None:
    table = lake.create(
        "t",
        {"id": "int64"},
        properties={
            "delta.enableDeletionVectors": "true",
            "lakeward.mergeOnRead.fraction": "1",
            "delta.enableChangeDataFeed": "true",
        },
    )
    append(lake, "t", {"id": list(range(10))})
    for where in ("id = 3", "id = 5"):
        table.delete(where=where)
    vectors = [[f.file.deletion_vector for f in table.at(version=v).files()] for v in (1, 2, 3)]
    assert vectors[0] == [None]
    assert vectors[1] != vectors[2]
    for version in (2, 1, 3, 1, 2):
        table.restore(version=version)
        assert [f.file.deletion_vector for f in table.files()] == vectors[version - 1]
        expected = sorted(table.at(version=version).to_arrow()["id"].to_pylist())
        assert sorted(table.to_arrow()["id"].to_pylist()) == expected == _delta_ids(lake, "t")
    assert table.version == 8
    lake.undo(table.history()[0].transaction_id)
    assert [f.file.deletion_vector for f in table.files()] == vectors[0]
    assert _delta_ids(lake, "t") == list(range(10))
    assert lake.doctor().findings == ()


@pytest.mark.formats("delta")
def test_the_change_feed_of_a_restore_has_the_rows_that_come_and_go(lake: lw.Lake) -> None:
    table = lake.create("t", {"id": "int64"}, properties={"delta.enableChangeDataFeed": "true"})
    append(lake, "t", {"id": [1, 2]})
    append(lake, "t", {"id": [3]})
    table.overwrite(pa.table({"id": [9]}))
    table.restore(version=1)
    lake.publish()
    feed = DeltaTable(table.location).load_cdf(starting_version=4, ending_version=4).read_all()
    rows = pa.table(feed).to_pylist()
    changed = sorted((r["_change_type"], r["id"]) for r in rows)
    assert changed == [("delete", 9), ("insert", 1), ("insert", 2)]


@pytest.mark.formats("iceberg")
def test_iceberg_lists_restored_files_as_added_under_their_own_sequence_numbers(
    lake: lw.Lake,
) -> None:
    table = lake.create("t", {"id": "int64"}, format="iceberg")
    for number in (1, 2, 3):
        append(lake, "t", {"id": [number]})
    table.delete(where="id < 3")
    append(lake, "t", {"id": [4]})
    table.restore(version=3)
    source = stranger_table(lake, "t")
    entries: list[Any] = []
    for manifest in source.current_snapshot().manifests(source.io):
        entries += manifest.fetch_manifest_entry(source.io, discard_deleted=False)
    own = source.current_snapshot().snapshot_id
    found = {(e.status.name, e.sequence_number) for e in entries if e.snapshot_id == own}
    assert found == {("ADDED", 1), ("ADDED", 2), ("DELETED", 5)}
    assert sorted(stranger_arrow(lake, "t")["id"].to_pylist()) == [1, 2, 3]
    table.restore(version=5)
    assert sorted(stranger_arrow(lake, "t")["id"].to_pylist()) == [3, 4]
    assert lake.doctor().findings == ()


@pytest.mark.formats("iceberg")
def test_files_of_another_partitioning_come_back_under_theirs(lake: lw.Lake) -> None:
    table = lake.create(
        "t", {"id": "int64", "day": "string"}, format="iceberg", partition_by=["day"]
    )
    append(lake, "t", {"id": [1, 2], "day": ["a", "b"]})
    table.alter().drop_partition_field("day").add_partition_field("bucket(4, id)").commit()
    table.overwrite(pa.table({"id": [7, 8], "day": ["c", "d"]}))
    table.restore(version=1)
    assert table.partition_by == ["day"]
    assert sorted(stranger_arrow(lake, "t")["id"].to_pylist()) == [1, 2]
    assert table.to_arrow(where="day = 'b'")["id"].to_pylist() == [2]
    append(lake, "t", {"id": [3], "day": ["a"]})
    table.restore(version=3)
    assert table.partition_by == ["bucket(4, id)"]
    assert sorted(stranger_arrow(lake, "t")["id"].to_pylist()) == [7, 8]
    assert table.to_arrow(where="id = 7")["id"].to_pylist() == [7]
    assert lake.doctor().findings == ()


@pytest.mark.formats("iceberg")
def test_the_ids_of_partition_fields_are_not_given_out_again_after_a_restore(
    lake: lw.Lake,
) -> None:
    """Iceberg refuses a table whose specs have different fields of one id."""
    table = lake.create("t", {"id": "int64", "s": "string"}, format="iceberg")
    append(lake, "t", {"id": [1, 2], "s": ["a", "b"]})
    table.alter().add_partition_field("bucket(4, id)").commit()
    append(lake, "t", {"id": [3], "s": ["c"]})

    table.restore(version=1)
    assert lake.doctor().findings == ()
    with pytest.raises(InvalidInput, match="taken by the partition field"):
        table.alter().add_column("id_bucket", "int64").commit()
    table.alter().add_partition_field("truncate(1, s)").commit()
    append(lake, "t", {"id": [4], "s": ["d"]})

    specs = document(lake, "t")["partition-specs"]
    found = {f["field-id"]: f["transform"] for spec in specs for f in spec["fields"]}
    assert found == {1000: "bucket[4]", 1001: "truncate[1]"}
    assert sorted(stranger_arrow(lake, "t")["id"].to_pylist()) == [1, 2, 4]
    table.restore(version=3)
    assert table.partition_by == ["bucket(4, id)"]
    assert table.to_arrow(where="id = 3")["id"].to_pylist() == [3]
    assert lake.doctor().findings == ()


@pytest.mark.formats("iceberg")
def test_rows_of_format_version_3_keep_their_ids(lake: lw.Lake) -> None:
    table = lake.create("t", {"id": "int64"}, format="iceberg", properties={"format-version": "3"})
    append(lake, "t", {"id": [1, 2]})
    append(lake, "t", {"id": [3]})

    def first_ids() -> dict[str, Any]:
        source = stranger_table(lake, "t")
        found = {}
        for manifest in source.current_snapshot().manifests(source.io):
            for entry in manifest.fetch_manifest_entry(source.io):
                found[entry.data_file.file_path] = entry.sequence_number
        return found

    before = first_ids()
    table.overwrite(pa.table({"id": [9]}))
    table.restore(version=2)
    assert first_ids() == before
    assert sorted(stranger_arrow(lake, "t")["id"].to_pylist()) == [1, 2, 3]
    assert lake.doctor().findings == ()


def test_a_restore_that_breaks_a_foreign_key_is_refused(lake: lw.Lake, table_format: str) -> None:
    lake.create(
        "people",
        {"id": "int64"},
        format=table_format,
        constraints={"key": lw.Unique("id")},
    )
    lake.create(
        "orders",
        {"person": "int64"},
        format=table_format,
        constraints={"of": lw.ForeignKey("person", references="people", key="id")},
    )
    append(lake, "people", {"id": [1]})
    append(lake, "people", {"id": [2]})
    append(lake, "orders", {"person": [2]})
    with pytest.raises(ConstraintViolation):
        lake.table("people").restore(version=1)
    assert lake.table("people").count() == 2
    moment = lake.table("people").at(version=1).timestamp
    lake.restore(at=moment)
    assert (lake.table("people").count(), lake.table("orders").count()) == (1, 0)


@pytest.mark.local
def test_a_vacuumed_version_is_not_restored_and_the_oldest_is_named(
    lake: lw.Lake, table_format: str
) -> None:
    table = lake.create("t", {"id": "int64"}, format=table_format)
    append(lake, "t", {"id": [1]})
    held = append(lake, "t", {"id": [2]})
    lake.tag("kept", tables=["t"])
    table.overwrite(pa.table({"id": [3]}))
    table.overwrite(pa.table({"id": [4]}))
    planned = lake.transaction()
    planned.restore("t", version=3)
    table.vacuum(retention="0 seconds", force=True)
    with pytest.raises(VersionNotFound, match="was vacuumed"):
        planned.commit()
    with pytest.raises(VersionNotFound, match="promised") as raised:
        table.at(version=3).to_arrow()
    assert raised.value.promised_version == 0
    with pytest.raises(VersionNotFound, match="oldest version that can be restored is") as raised:
        table.restore(version=3)
    oldest = raised.value.oldest_version
    assert oldest == table.retention().oldest_version
    assert table.version == 4
    table.restore(version=held)
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2]
    assert table.at(version=oldest).count() >= 0
    assert lake.doctor().findings == ()


@pytest.mark.local
def test_tables_that_are_not_restored_may_be_vacuumed(lake: lw.Lake, table_format: str) -> None:
    for name in ("a", "b"):
        lake.create(name, {"id": "int64"}, format=table_format)
        append(lake, name, {"id": [1]})
    then = lake.table("b").history()[0].transaction_id
    for name in ("a", "b"):
        lake.table(name).overwrite(pa.table({"id": [2]}))
    lake.table("b").vacuum(retention="0 seconds", force=True)
    with pytest.raises(VersionNotFound, match="of b was vacuumed") as raised:
        lake.restore(at=then)
    assert "Nothing was changed. The oldest version that can be restored" in str(raised.value)
    assert raised.value.oldest_version == lake.table("b").retention().oldest_version
    with pytest.raises(VersionNotFound, match="of b was vacuumed"):
        lake.tag("all", at=then)

    assert lake.tag("some", at=then, tables=["a"]).versions == {"a": 1}
    assert lake.restore(at=then, tables=["a"]).versions == {"a": 3}
    assert (ids(lake, "a"), ids(lake, "b")) == ([1], [2])
    lake.drop("b")
    assert lake.restore(at=then, dry_run=True).skipped == (("b", "dropped since"),)


@pytest.mark.local
def test_an_undo_whose_files_are_vacuumed_changes_nothing_and_names_the_oldest(
    lake: lw.Lake, table_format: str
) -> None:
    table = lake.create("t", {"id": "int64"}, format=table_format)
    append(lake, "t", {"id": [1]})
    table.overwrite(pa.table({"id": [2]}))
    bad = table.history()[0].transaction_id
    table.vacuum(retention="0 seconds", force=True)
    with pytest.raises(VersionNotFound, match="oldest version that can be restored is") as raised:
        lake.undo(bad)
    assert raised.value.oldest_version == table.retention().oldest_version
    assert (table.version, table.to_arrow()["id"].to_pylist()) == (2, [2])


def test_the_dry_run_of_an_undo_names_files_and_rows_that_come_and_go(
    lake: lw.Lake, table_format: str
) -> None:
    table = lake.create("t", {"id": "int64"}, format=table_format)
    append(lake, "t", {"id": [1, 2, 3]})
    old = {f.path for f in table.files()}
    table.overwrite(pa.table({"id": [4]}))
    new = {f.path for f in table.files()}

    planned = lake.undo(table.history()[0].transaction_id, dry_run=True)

    (found,) = planned.tables
    assert (found.table, found.version, found.to_version) == ("t", 2, 1)
    assert (found.files_added, found.rows_added) == (1, 3)
    assert (found.files_removed, found.rows_removed) == (1, 1)
    assert (set(found.added_files), set(found.removed_files)) == (old, new)
    assert table.version == 2


@pytest.mark.parametrize("later", ["required", "check"])
def test_undo_brings_no_row_back_that_a_later_rule_refuses(lake: lw.Lake, later: str) -> None:
    table = lake.create("t", {"id": "int64", "v": "int64"})
    append(lake, "t", [{"id": 1, "v": None}, {"id": 2, "v": 5}])
    with lake.transaction() as tx:
        # An undo of a delete alone is refused already.
        tx.alter("t").set_property("team", "x")
        tx.delete("t", where="v IS NULL")
    done = tx.commit()
    if later == "required":
        table.alter().set_not_null("v").commit()
    else:
        table.alter().add_constraint("known", "v IS NOT NULL").commit()

    with pytest.raises(Conflict, match=r"made column v required|added the check known"):
        lake.undo(done.transaction_id)

    assert ids(lake, "t") == [2]
    assert table.version == 3
