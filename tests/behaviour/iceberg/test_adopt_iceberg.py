"""Iceberg tables that others made, taken into the lake where they lie, with their history."""

from __future__ import annotations

import gzip
import json
import shutil
import sqlite3
import uuid
from collections.abc import Callable, Generator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.transforms import DayTransform
from pyiceberg.types import GeometryType

import lakeward as lw
from lakeward.errors import (
    AlreadyExists,
    CorruptTable,
    ForeignCommit,
    InvalidInput,
    StorageError,
    TableNotFound,
    UnsupportedFeature,
)
from tests.behaviour.iceberg.strangers import Stranger, agree, every_version
from tests.behaviour.iceberg.theirs import BY_DAY, SCHEMA, eventful, rows, their_catalog
from tests.behaviour.lakes import append, delete, ids, unchanged


@pytest.fixture
def theirs(tmp_path: Path) -> Generator[SqlCatalog]:
    """A catalog of somebody else's."""
    with their_catalog(tmp_path / "theirs") as found:
        yield found


def _path(location: str) -> Path:
    return Path(location.removeprefix("file://"))


def _places(table: Any) -> dict[str, str | Path]:
    return {
        "metadata file": table.metadata_location,
        "plain metadata file": _path(table.metadata_location),
        "directory": _path(table.location()),
    }


@pytest.mark.parametrize("place", ["metadata file", "plain metadata file", "directory"])
def test_every_snapshot_becomes_a_version_that_reads_as_it_did(
    one_lake: lw.Lake, one_stranger: Stranger, theirs: SqlCatalog, name: str, place: str
) -> None:
    made, expected = eventful(theirs, "shop.orders")
    before = _files(made)

    table = one_lake.adopt(name, _places(made)[place])

    assert (table.format, table.version) == ("iceberg", len(expected) - 1)
    assert every_version(table) == expected
    assert [v.operation for v in table.versions()] == [
        "APPEND",
        "APPEND",
        "OVERWRITE",
        "OVERWRITE",
        "APPEND",
    ]
    assert [table.at(version=v).snapshot_id for v in range(5)] == [
        s.snapshot_id for s in made.history()
    ]
    assert table.uuid == str(made.metadata.table_uuid)
    assert _files(made) == before
    assert agree(one_stranger, table) == 4


@pytest.mark.local
def test_an_adopted_table_is_written_by_both_sides_through_the_lakes_catalog(
    lake: lw.Lake, stranger: Stranger, theirs: SqlCatalog, name: str
) -> None:
    made, _ = eventful(theirs, "shop.orders")
    table = lake.adopt(name, made.metadata_location)

    append(lake, name, rows(10))
    stranger.table(name).append(rows(11))
    delete(lake, name, "id = 3")

    assert ids(lake, name) == [4, 5, 6, 10, 11]
    assert agree(stranger, table) == 5
    assert table.to_arrow(where="day = '1970-01-12'")["id"].to_pylist() == [11]
    # The catalog that it came from was not told.
    assert theirs.load_table("shop.orders").scan().to_arrow().num_rows == 4


def test_a_table_is_found_by_its_name_in_another_catalog(
    one_lake: lw.Lake, theirs: SqlCatalog, name: str, tmp_path: Path
) -> None:
    _, expected = eventful(theirs, "shop.orders")
    uri = f"sqlite:///{tmp_path}/theirs/catalog.db"

    table = one_lake.adopt(
        name, "shop.orders", catalog={"type": "sql", "uri": uri, "name": "theirs"}
    )

    assert every_version(table) == expected


def test_a_table_that_is_not_in_the_other_catalog_is_not_found(
    one_lake: lw.Lake, theirs: SqlCatalog, name: str, tmp_path: Path
) -> None:
    theirs.create_namespace("shop")
    described = {"type": "sql", "uri": f"sqlite:///{tmp_path}/theirs/catalog.db", "name": "theirs"}

    with unchanged(one_lake):
        for missing in ("shop.orders", "nowhere.orders"):
            with pytest.raises(TableNotFound, match=missing):
                one_lake.adopt(name, missing, catalog=described)


def test_no_secret_of_a_catalog_is_told(one_lake: lw.Lake, name: str) -> None:
    secret = "hunter2/with@odd:parts"
    quoted = "hunter2%2Fwith%40odd%3Aparts"
    tries: list[dict[str, str]] = [
        {"type": "sql", "uri": f"postgresql+psycopg://me:{quoted}@localhost:1/none"},
        {"type": "sql", "uri": f"nonsense://me:{quoted}@localhost/none"},
        {"type": "rest", "uri": "http://localhost:1", "token": secret, "credential": secret},
        {"type": "unheard of", "token": secret},
        {"type": "sql", "token": secret},
    ]
    for properties in tries:
        with unchanged(one_lake), pytest.raises((InvalidInput, StorageError)) as caught:
            one_lake.adopt(name, "shop.orders", catalog=properties)
        told = f"{caught.value} {caught.value!r} {caught.value.facts} {caught.value.__cause__}"
        assert caught.value.__suppress_context__
        assert not any(part in told for part in ("hunter2", quoted, secret)), told


def test_asking_a_catalog_that_is_not_there_makes_none(
    one_lake: lw.Lake, name: str, tmp_path: Path
) -> None:
    with pytest.raises((InvalidInput, StorageError)):
        one_lake.adopt(
            name, "a.b", catalog={"type": "sql", "uri": f"sqlite:///{tmp_path}/nothing.db"}
        )

    with closing(sqlite3.connect(tmp_path / "nothing.db")) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == []


def test_a_table_that_others_made_in_the_lakes_catalog_is_adopted_by_name(
    lake: lw.Lake, stranger: Stranger
) -> None:
    made, expected = eventful(stranger.catalog, "shop.orders")

    table = lake.adopt("shop.orders", "shop.orders", catalog="lakeward")

    assert every_version(table) == expected
    assert stranger.catalog.list_tables("shop") == [("shop", "orders")]
    assert stranger.table("shop.orders").metadata_location == made.metadata_location
    append(lake, "shop.orders", rows(10))
    assert agree(stranger, table) == 5


def test_the_lakes_catalog_decides_which_document_of_its_table_is_current(
    one_lake: lw.Lake, one_stranger: Stranger
) -> None:
    made, expected = eventful(one_stranger.catalog, "shop.older")
    old = made.metadata.metadata_log[1].metadata_file

    table = one_lake.adopt("shop.older", old)

    assert every_version(table) == expected


def test_a_table_of_the_lakes_catalog_is_not_adopted_under_a_second_name(
    one_lake: lw.Lake, one_stranger: Stranger
) -> None:
    made, _ = eventful(one_stranger.catalog, "shop.twice")

    with unchanged(one_lake), pytest.raises(AlreadyExists, match=r"as shop\.twice"):
        one_lake.adopt("other.name", made.metadata_location)


def test_a_name_that_the_lake_or_its_catalog_has_is_refused(
    one_lake: lw.Lake, one_stranger: Stranger, theirs: SqlCatalog
) -> None:
    made, _ = eventful(theirs, "shop.orders")
    one_lake.create("taken", {"id": "int64"})
    one_stranger.catalog.create_namespace_if_not_exists("shop")
    one_stranger.catalog.create_table("shop.taken", SCHEMA)

    for taken in ("taken", "shop.taken"):
        with unchanged(one_lake), pytest.raises(AlreadyExists):
            one_lake.adopt(taken, made.metadata_location)


def test_a_table_is_adopted_once(one_lake: lw.Lake, theirs: SqlCatalog, name: str) -> None:
    made, _ = eventful(theirs, "shop.orders")
    one_lake.adopt(name, made.metadata_location)

    for place in _places(made).values():
        with unchanged(one_lake), pytest.raises(AlreadyExists):
            one_lake.adopt("another.name", place)


def test_a_table_of_another_lake_is_taken_over_only_when_asked_to(
    one_lake: lw.Lake, one_stranger: Stranger, tmp_path: Path, name: str
) -> None:
    with lw.open(tmp_path / "other") as other:
        table = other.create("theirs", SCHEMA, format="iceberg")
        append(other, "theirs", rows(1))
        place = table.location

    with unchanged(one_lake), pytest.raises(AlreadyExists, match="kept by a lake, as theirs"):
        one_lake.adopt(name, place)

    taken = one_lake.adopt(name, place, take_over=True)
    assert every_version(taken) == [[], [1], [1]], "the newest version is the adoption"
    append(one_lake, name, rows(2))
    assert agree(one_stranger, taken) == 2


@pytest.mark.local
def test_foreign_commits_can_be_refused(
    lake: lw.Lake, stranger: Stranger, theirs: SqlCatalog, name: str
) -> None:
    made, _ = eventful(theirs, "shop.orders")
    table = lake.adopt(name, made.metadata_location, drift="refuse")
    append(lake, name, rows(10))
    stranger.table(name).append(rows(11))

    assert ids(lake, name) == [3, 4, 5, 6, 10]
    with pytest.raises(ForeignCommit, match="refuses it"):
        append(lake, name, rows(12))
    assert table.version == 5


def test_partitions_constraints_of_types_and_names_come_along(
    one_lake: lw.Lake, one_stranger: Stranger, theirs: SqlCatalog, name: str
) -> None:
    made, expected = eventful(theirs, "shop.orders", partition_spec=BY_DAY)
    with made.update_spec() as update:
        update.remove_field("day")
        update.add_field("day", DayTransform(), "the_day")
    made.append(rows(20))
    with made.update_schema() as change:
        change.rename_column("note", "remark")
        change.make_column_optional("id")
    with made.transaction() as transaction:
        transaction.set_properties(owner="them")

    table = one_lake.adopt(name, made.metadata_location)

    assert table.schema.names == ["id", "remark", "day"]
    assert table.at(version=0).schema.names == ["id", "note", "day"]
    assert table.properties["owner"] == "them"
    assert table.history(limit=1)[0].operation == "SET TABLE"
    assert every_version(table) == [*expected, *[sorted([*expected[-1], 20])] * 2]
    assert table.to_arrow(where="day = '1970-01-21'")["id"].to_pylist() == [20]
    append(one_lake, name, rows(21).rename_columns(table.schema.names))
    delete(one_lake, name, "day = '1970-01-04'")
    assert agree(one_stranger, table) == 5


def test_rows_are_deleted_from_files_that_are_partitioned_by_a_dropped_column(
    one_lake: lw.Lake, one_stranger: Stranger, theirs: SqlCatalog, name: str
) -> None:
    made, expected = eventful(theirs, "shop.orders", partition_spec=BY_DAY)
    with made.update_spec() as update:
        update.remove_field("day")
    with made.update_schema(allow_incompatible_changes=True) as change:
        change.delete_column("day")
    one_lake.adopt(name, made.metadata_location)

    delete(one_lake, name, f"id = {expected[-1][0]}")

    assert ids(one_lake, name) == expected[-1][1:]
    assert one_stranger.table(name).scan().to_arrow()["id"].sort().to_pylist() == expected[-1][1:]


def _files(table: Any) -> dict[Path, bytes]:
    return {p: p.read_bytes() for p in _path(table.location()).rglob("*") if p.is_file()}


def test_both_formats_at_one_place_are_asked_about(
    one_lake: lw.Lake, theirs: SqlCatalog, name: str
) -> None:
    made, expected = eventful(theirs, "shop.orders")
    place = _path(made.location())
    write_deltalake(place, pa.table({"id": [100]}))

    with unchanged(one_lake), pytest.raises(InvalidInput, match="Both a Delta and an Iceberg"):
        one_lake.adopt(name, place)

    assert every_version(one_lake.adopt(name, place, format="iceberg")) == expected
    one_lake.drop(name)
    assert ids(one_lake, one_lake.adopt(f"{name}_d", place, format="delta").name) == [100]


def test_nothing_at_the_place_is_not_found(one_lake: lw.Lake, name: str, tmp_path: Path) -> None:
    (tmp_path / "empty" / "metadata").mkdir(parents=True)

    for place in (tmp_path / "none", tmp_path / "empty"):
        with unchanged(one_lake), pytest.raises(TableNotFound):
            one_lake.adopt(name, place)
    with unchanged(one_lake), pytest.raises(TableNotFound):
        one_lake.adopt(name, name, catalog="lakeward")
    with unchanged(one_lake), pytest.raises(InvalidInput, match="keeps its name"):
        one_lake.adopt(name, "another", catalog="lakeward")
    with pytest.raises(TableNotFound):
        one_lake.adopt(name, tmp_path / "empty", format="iceberg")
    with pytest.raises(CorruptTable):
        one_lake.adopt(name, tmp_path / "v1.metadata.json")
    for odd in ({"format": "hudi"}, {"catalog": "x"}, {"catalog": {}, "format": "delta"}):
        with pytest.raises(InvalidInput):
            one_lake.adopt(name, tmp_path, **odd)


def test_a_table_with_no_snapshot_is_empty(
    one_lake: lw.Lake, one_stranger: Stranger, theirs: SqlCatalog, name: str
) -> None:
    theirs.create_namespace("shop")
    made = theirs.create_table("shop.orders", SCHEMA)

    table = one_lake.adopt(name, made.metadata_location)

    assert (table.version, table.to_arrow().num_rows) == (0, 0)
    append(one_lake, name, rows(1))
    assert agree(one_stranger, table) == 1


def test_of_several_documents_the_newest_is_taken(
    one_lake: lw.Lake, theirs: SqlCatalog, name: str
) -> None:
    """A Hadoop catalog's hint may lag behind; a compressed document is one, too."""
    made, expected = eventful(theirs, "shop.orders")
    metadata = _path(made.location()) / "metadata"
    newest = _path(made.metadata_location)
    others = sorted(metadata.glob("*.metadata.json"))
    for number, path in enumerate(others):
        target = metadata / f"v{number}.metadata.json"
        if path == newest:
            target = metadata / f"v{number}.gz.metadata.json"
            target.write_bytes(gzip.compress(path.read_bytes()))
            path.unlink()
        else:
            path.rename(target)
    (metadata / "version-hint.text").write_text(f"{len(others) - 2}\n")

    assert every_version(one_lake.adopt(name, metadata.parent)) == expected


def test_the_first_format_version_is_read_and_not_written(
    one_lake: lw.Lake, theirs: SqlCatalog, name: str
) -> None:
    made, expected = eventful(theirs, "shop.orders", properties={"format-version": "1"})
    assert made.metadata.format_version == 1

    table = one_lake.adopt(name, made.metadata_location)

    assert every_version(table) == expected
    refused = pytest.raises(UnsupportedFeature, match="format version 1")
    with unchanged(one_lake), refused as caught:
        append(one_lake, name, rows(9))
    assert "set_property('format-version', '2')" in str(caught.value.hint)


def test_the_oldest_shape_of_the_first_version_is_read(
    one_lake: lw.Lake, theirs: SqlCatalog, name: str
) -> None:
    """With one schema and one spec, no ids of partition fields, no table id, no logs."""
    made, expected = eventful(
        theirs, "shop.orders", properties={"format-version": "1"}, partition_spec=BY_DAY
    )
    path = _path(made.metadata_location)
    body = json.loads(path.read_text())
    for key in ("schemas", "current-schema-id", "partition-specs", "default-spec-id"):
        body.pop(key)
    for key in ("table-uuid", "snapshot-log", "metadata-log", "refs", "last-partition-id"):
        body.pop(key, None)
    for field in body["partition-spec"]:
        field.pop("field-id")
    for snapshot in body["snapshots"]:
        snapshot.pop("schema-id", None)
    path.write_text(json.dumps(body))

    table = one_lake.adopt(name, path)

    assert every_version(table) == expected
    assert str(uuid.UUID(table.uuid)) == table.uuid
    assert table.to_arrow(where="day = '1970-01-05'")["id"].to_pylist() == [4]


def test_the_third_format_version_is_read(one_lake: lw.Lake, theirs: SqlCatalog, name: str) -> None:
    made, expected = eventful(theirs, "shop.orders")
    path = _path(made.metadata_location)
    body = json.loads(path.read_text())
    body |= {"format-version": 3, "next-row-id": 100}
    for snapshot in body["snapshots"]:
        snapshot |= {"first-row-id": 0, "added-rows": 0}
    filled = {"id": 4, "name": "extra", "type": "long", "required": False, "initial-default": 7}
    body["schemas"].append({**body["schemas"][0], "schema-id": 1})
    body["schemas"][1]["fields"] = [*body["schemas"][0]["fields"], filled]
    body |= {"current-schema-id": 1, "last-column-id": 4}
    path.write_text(json.dumps(body))

    table = one_lake.adopt(name, path)

    assert every_version(table)[:-1] == expected
    assert table.to_arrow()["extra"].to_pylist() == [7] * 4
    assert table.to_arrow(where="extra = 7").num_rows == 4


def _unknown_type(made: Any) -> None:
    with made.update_schema() as update:
        update.add_column("at", GeometryType())


def _unknown_transform(made: Any) -> None:
    _edit(
        made,
        lambda body: body["partition-specs"][0]["fields"].append(
            {"source-id": 1, "field-id": 1000, "name": "x", "transform": "zorder"}
        ),
    )


def _unknown_version(made: Any) -> None:
    _edit(made, lambda body: body.update({"format-version": 4}))


@pytest.mark.parametrize("change", [_unknown_type, _unknown_transform, _unknown_version])
def test_what_the_lake_cannot_read_is_refused_and_nothing_changed(
    one_lake: lw.Lake, theirs: SqlCatalog, name: str, change: Callable[[Any], None]
) -> None:
    made, _ = eventful(theirs, "shop.orders")
    change(made)
    before = _files(made)

    with unchanged(one_lake), pytest.raises(UnsupportedFeature):
        one_lake.adopt(name, made.metadata_location)
    assert _files(made) == before


def _edit(made: Any, change: Callable[[dict[str, Any]], object]) -> None:
    path = _path(made.metadata_location)
    body = json.loads(path.read_text())
    change(body)
    path.write_text(json.dumps(body))


def _garbage(made: Any) -> None:
    _path(made.metadata_location).write_bytes(b"\x00\x01 not json")


def _torn(made: Any) -> None:
    path = _path(made.metadata_location)
    path.write_bytes(path.read_bytes()[:-50])


def _other_json(made: Any) -> None:
    _path(made.metadata_location).write_text('["format-version", 2]')


def _no_schema(made: Any) -> None:
    _edit(made, lambda body: body.update({"schemas": [], "current-schema-id": 7}))


def _no_location(made: Any) -> None:
    _edit(made, lambda body: body.pop("location"))


def _no_current(made: Any) -> None:
    _edit(made, lambda body: body.update({"current-snapshot-id": 12345}))


def _climbs(made: Any) -> None:
    place = f"{_path(made.location())}/../../../list.avro"
    _edit(made, lambda body: body["snapshots"][-1].update({"manifest-list": place}))


def _no_list(made: Any) -> None:
    _path(made.current_snapshot().manifest_list).unlink()


def _cut_list(made: Any) -> None:
    path = _path(made.current_snapshot().manifest_list)
    path.write_bytes(path.read_bytes()[:-30])


def _no_manifest(made: Any) -> None:
    _manifests(made)[0].unlink()


def _cut_manifest(made: Any) -> None:
    path = _manifests(made)[0]
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _empty_manifest(made: Any) -> None:
    _manifests(made)[0].write_bytes(b"")


def _no_spec(made: Any) -> None:
    _edit(made, lambda body: body["partition-specs"][0].update({"spec-id": 9}))


def _manifests(made: Any) -> list[Path]:
    return [_path(m.manifest_path) for m in made.current_snapshot().manifests(made.io)]


@pytest.mark.parametrize(
    "damage",
    [
        _garbage,
        _torn,
        _other_json,
        _no_schema,
        _no_location,
        _no_current,
        _climbs,
        _no_list,
        _cut_list,
        _no_manifest,
        _cut_manifest,
        _empty_manifest,
        _no_spec,
    ],
)
def test_damaged_metadata_is_refused_and_nothing_changed(
    one_lake: lw.Lake, theirs: SqlCatalog, name: str, damage: Callable[[Any], None]
) -> None:
    made, _ = eventful(theirs, "shop.orders")
    damage(made)
    before = _files(made)

    with unchanged(one_lake), pytest.raises(CorruptTable) as caught:
        one_lake.adopt(name, made.metadata_location)

    assert str(_path(made.location())) in str(caught.value)
    assert _files(made) == before


def test_a_table_that_was_moved_is_refused(
    one_lake: lw.Lake, theirs: SqlCatalog, name: str, tmp_path: Path
) -> None:
    """Iceberg's metadata names its files in full."""
    made, _ = eventful(theirs, "shop.orders")
    shutil.move(_path(made.location()), tmp_path / "moved")

    with unchanged(one_lake), pytest.raises(CorruptTable, match="missing"):
        one_lake.adopt(name, tmp_path / "moved")
