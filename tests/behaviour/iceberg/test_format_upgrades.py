"""Iceberg tables get a newer format version: rows, older versions and other readers stay right."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable

import lakeward as lw
from lakeward.errors import InvalidInput, UnsupportedFeature
from tests.behaviour.iceberg.strangers import every_version
from tests.behaviour.iceberg.theirs import BY_DAY, eventful, rows, their_catalog
from tests.behaviour.lakes import append, column, delete, ids, unchanged
from tests.support.invariants import check_lake
from tests.support.row_ids import check_row_ids, metadata_of


@pytest.fixture
def theirs(tmp_path: Path) -> Generator[SqlCatalog]:
    """A catalog of somebody else's."""
    with their_catalog(tmp_path / "theirs") as found:
        yield found


def _document(table: lw.Table) -> dict[str, Any]:
    return metadata_of(str(table.metadata_location))


def _their_rows(table: lw.Table) -> pa.Table:
    return StaticTable.from_metadata(str(table.metadata_location)).scan().to_arrow()


def _path(location: str) -> Path:
    return Path(location.removeprefix("file://"))


@pytest.mark.parametrize("shape", ["usual", "oldest"])
@pytest.mark.parametrize("version", ["2", "3"])
def test_a_table_of_version_1_is_upgraded_and_written(
    one_lake: lw.Lake, theirs: SqlCatalog, name: str, version: str, shape: str
) -> None:
    made, expected = eventful(
        theirs, "shop.orders", properties={"format-version": "1"}, partition_spec=BY_DAY
    )
    path = _path(made.metadata_location)
    if shape == "oldest":
        _make_old(made, path)
    table = one_lake.adopt(name, str(path))
    before = every_version(table)
    assert before == expected

    table.alter().set_property("format-version", version).commit()

    assert every_version(table)[: len(before)] == before
    body = _document(table)
    assert body["format-version"] == int(version)
    assert "schema" not in body
    assert "partition-spec" not in body
    known = check_row_ids(body, {}) if version == "3" else {}
    append(one_lake, name, rows(9))
    delete(one_lake, name, "id = 4")
    if version == "3":
        check_row_ids(_document(table), known)
    assert ids(one_lake, name) == [3, 5, 6, 9]
    assert column(_their_rows(table)) == [3, 5, 6, 9]
    assert every_version(table)[: len(before)] == before
    with one_lake.transaction() as tx:
        tx.update(name, set={"note": "'changed'"}, where="id = 5")
    assert table.to_arrow(where="note = 'changed'")["id"].to_pylist() == [5]
    found = one_lake.doctor(tables=[name]).findings
    assert [f for f in found if f.code != "reclaimable"] == []
    table.restore(version=0)
    assert every_version(table)[-1] == before[0]


def test_snapshots_that_name_their_manifests_themselves_are_not_upgraded(
    one_lake: lw.Lake, theirs: SqlCatalog, name: str
) -> None:
    made, expected = eventful(theirs, "shop.orders", properties={"format-version": "1"})
    path = _path(made.metadata_location)
    _name_manifests(made, path)
    table = one_lake.adopt(name, str(path))
    with unchanged(one_lake), pytest.raises(UnsupportedFeature, match="name their manifests"):
        table.alter().set_property("format-version", "2").commit()
    assert every_version(table) == expected


def test_rows_of_an_upgraded_table_have_ids_and_new_columns_defaults(
    one_lake: lw.Lake, name: str
) -> None:
    lake, t = one_lake, name
    table = lake.create(t, "id int64, note string default 'n'", format="iceberg")
    append(lake, t, [{"id": 1, "note": None}, {"id": 2, "note": "a"}])
    stale = lake.transaction()
    stale.append(t, [{"id": 3}])

    table.alter().enable("row_lineage").commit()
    stale.commit()
    table.alter().add_column("kind", "string", default="'k'").commit()
    append(lake, t, [{"id": 4}])

    known = check_row_ids(_document(table), {})
    assert sum(map(len, known.values())) == 4
    found = {r["id"]: (r["note"], r["kind"]) for r in table.to_arrow().to_pylist()}
    assert found == {1: (None, "k"), 2: ("a", "k"), 3: ("n", "k"), 4: ("n", "k")}
    assert table.at(version=1).schema.names == ["id", "note"]
    table.restore(version=1)
    assert _document(table)["format-version"] == 3
    check_lake(lake, [t])


def test_a_version_that_is_none_or_older_is_refused(lake: lw.Lake) -> None:
    table = lake.create("t", {"id": "int64"}, format="iceberg", properties={"format-version": "3"})
    with unchanged(lake):
        with pytest.raises(UnsupportedFeature, match="cannot go back"):
            table.alter().set_property("format-version", "2").commit()
        for value in ("1", "4", "two"):
            with pytest.raises(InvalidInput, match="not a format version"):
                table.alter().set_property("format-version", value).commit()
        with pytest.raises(InvalidInput, match="always has"):
            table.alter().unset_property("format-version").commit()
        with pytest.raises(UnsupportedFeature, match="row_lineage"):
            table.alter().enable("deletion_vectors").commit()


def _make_old(made: Any, path: Path) -> None:
    """One schema and one spec, no ids of partition fields, no table id, no logs."""
    body = json.loads(path.read_text())
    for key in ("schemas", "current-schema-id", "partition-specs", "default-spec-id"):
        body.pop(key)
    for key in ("table-uuid", "snapshot-log", "metadata-log", "refs", "last-partition-id"):
        body.pop(key, None)
    for field in body["partition-spec"]:
        field.pop("field-id")
    for snapshot in body["snapshots"]:
        snapshot.pop("schema-id", None)
    assert made is not None
    path.write_text(json.dumps(body))


def _name_manifests(made: Any, path: Path) -> None:
    """Snapshots name their manifests themselves, so that nobody counted their files."""
    body = json.loads(path.read_text())
    known = {s.snapshot_id: s for s in made.metadata.snapshots}
    for snapshot in body["snapshots"]:
        manifests = known[snapshot["snapshot-id"]].manifests(made.io)
        snapshot["manifests"] = [m.manifest_path for m in manifests]
        _path(snapshot.pop("manifest-list")).unlink()
    path.write_text(json.dumps(body))
