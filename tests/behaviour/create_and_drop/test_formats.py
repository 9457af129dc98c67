"""What each table format has and has not: refused before a byte is written, with what to do."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

import lakeward as lw
from lakeward.errors import AlreadyExists, InvalidInput, MissingExtra, UnsupportedFeature
from tests.behaviour.lakes import append, ids, unchanged
from tests.behaviour.published import document
from tests.support.iceberg import stranger_arrow, stranger_catalog
from tests.support.s3 import on_disk


@pytest.mark.formats("delta")
@pytest.mark.parametrize("wanted", ["Delta", "hudi", "parquet", "iceberg2"])
def test_a_format_that_is_not_known_is_refused(
    shared_lake: lw.Lake, name: str, wanted: str
) -> None:
    with unchanged(shared_lake), pytest.raises(UnsupportedFeature) as caught:
        shared_lake.create(name, {"id": "int64"}, format=wanted)

    assert caught.value.format == wanted
    assert "'delta' or 'iceberg'" in str(caught.value.hint)


@pytest.mark.formats("iceberg")
@pytest.mark.parametrize(
    ("kind", "column"),
    [
        (pa.int8(), "x"),
        (pa.int16(), "x"),
        (pa.struct([("a", pa.int16())]), "x.a"),
        (pa.list_(pa.int8()), "x.element"),
        (pa.map_(pa.string(), pa.int8()), "x.value"),
        (pa.timestamp("ns"), "x"),
        (pa.timestamp("ns", "UTC"), "x"),
    ],
    ids=str,
)
def test_types_that_iceberg_has_not_are_refused_with_the_column(
    shared_lake: lw.Lake, name: str, kind: pa.DataType, column: str
) -> None:
    with unchanged(shared_lake), pytest.raises(UnsupportedFeature) as caught:
        shared_lake.create(name, pa.schema([("id", pa.int64()), ("x", kind)]))

    assert caught.value.column == column
    assert caught.value.hint


@pytest.mark.formats("iceberg")
@pytest.mark.parametrize("version", ["1", 1, "4", "two"])
def test_a_version_of_the_format_that_only_spark_writes_is_refused(
    shared_lake: lw.Lake, name: str, version: Any
) -> None:
    with unchanged(shared_lake), pytest.raises(UnsupportedFeature) as caught:
        shared_lake.create(name, {"id": "int64"}, properties={"format-version": version})

    assert str(version) in caught.value.what
    assert "Spark" in str(caught.value.hint)


@pytest.mark.formats("iceberg")
def test_the_version_of_the_format_that_is_usual_may_be_asked_for(
    shared_lake: lw.Lake, name: str
) -> None:
    table = shared_lake.create(name, {"id": "int64"}, properties={"format-version": "2"})

    assert document(shared_lake, name)["format-version"] == 2
    assert table.properties == {}


@pytest.mark.formats("iceberg")
@pytest.mark.parametrize(
    "properties",
    [
        {"delta.appendOnly": "true"},
        {"delta.checkpointInterval": "10"},
        {"delta.enableChangeDataFeed": "true"},
        {"delta.anything": "x"},
        {"write.target-file-size-bytes": "huge"},
        {"write.parquet.compression-codec": "lzma"},
        {"write.metadata.previous-versions-max": "many"},
        {"write.data.path": "/elsewhere"},
        {"write.metadata.path": "/elsewhere"},
        {"write.object-storage.enabled": "true"},
        {"write.format.default": "orc"},
        {"lakeward.append-only": "maybe"},
        {"lakeward.constraint.c": "id > 0"},
        {"lakeward.columns": "{}"},
        {"lakeward.name": "other"},
        {"schema.name-mapping.default": "[]"},
        {"comment": "x"},
    ],
    ids=str,
)
def test_properties_that_an_iceberg_table_cannot_keep_are_refused(
    shared_lake: lw.Lake, name: str, properties: dict[str, str]
) -> None:
    with unchanged(shared_lake), pytest.raises(InvalidInput) as caught:
        shared_lake.create(name, {"id": "int64"}, properties=properties)

    assert caught.value.property in properties
    assert caught.value.hint


@pytest.mark.formats("delta")
@pytest.mark.parametrize(
    "key", ["write.target-file-size-bytes", "write.x", "format-version", "lakeward.append-only"]
)
def test_properties_of_iceberg_are_refused_on_a_delta_table(
    shared_lake: lw.Lake, name: str, key: str
) -> None:
    with unchanged(shared_lake), pytest.raises(InvalidInput, match="for Iceberg tables") as caught:
        shared_lake.create(name, {"id": "int64"}, properties={key: "2"} | _true(key))

    assert caught.value.property == key


@pytest.mark.formats("iceberg")
@pytest.mark.parametrize("policy", ["checkpoint_interval", "change_data_feed", "nonsense"])
def test_policies_that_an_iceberg_table_has_not_are_refused(
    shared_lake: lw.Lake, name: str, policy: str
) -> None:
    with unchanged(shared_lake), pytest.raises(InvalidInput, match="iceberg") as caught:
        shared_lake.create(name, {"id": "int64"}, policy={policy: True})

    assert "target_file_size" in str(caught.value.hint)


@pytest.mark.formats("iceberg")
def test_policies_are_published_as_other_engines_read_them(shared_lake: lw.Lake, name: str) -> None:
    """pyiceberg and Spark read a size as a number, and know no codec of the name none."""
    policy = {"target_file_size": "64kb", "compression": "none", "append_only": True}
    shared_lake.create(name, {"id": "int64"}, policy=policy)
    append(shared_lake, name, {"id": [1]})

    properties = document(shared_lake, name)["properties"]
    assert properties["write.target-file-size-bytes"] == "65536"
    assert properties["write.parquet.compression-codec"] == "uncompressed"
    catalog = stranger_catalog(shared_lake)
    catalog.load_table(name).append(pa.table({"id": [2]}))
    catalog.engine.dispose()
    assert ids(shared_lake, name) == [1, 2]


@pytest.mark.formats("iceberg")
def test_a_guard_makes_no_difference_to_tables_that_are_written_through_the_catalog(
    shared_lake: lw.Lake, new_name: Callable[[], str]
) -> None:
    names = [new_name(), new_name()]
    tables = [shared_lake.create(n, {"id": "int64"}, guard=n is names[0]) for n in names]

    with shared_lake.transaction() as tx:
        for name in names:
            tx.append(name, {"id": [1]})

    assert [t.version for t in tables] == [1, 1]
    assert [t.guarded for t in tables] == [True, True]


@pytest.mark.formats("delta")
def test_a_table_of_partition_columns_alone_is_refused(shared_lake: lw.Lake, name: str) -> None:
    """Its files would hold no column."""
    with unchanged(shared_lake), pytest.raises(InvalidInput):
        shared_lake.create(name, {"id": "int64", "p": "string"}, partition_by=["p", "id"])


@pytest.mark.formats("iceberg")
def test_a_table_may_be_partitioned_by_all_columns_where_files_hold_them(
    shared_lake: lw.Lake, name: str
) -> None:
    shared_lake.create(name, {"id": "int64", "p": "string"}, partition_by=["p", "id"])
    rows = [{"id": 1, "p": "a"}, {"id": 2, "p": None}]
    append(shared_lake, name, rows)

    assert shared_lake.table(name).to_arrow().sort_by("id").to_pylist() == rows
    assert stranger_arrow(shared_lake, name).sort_by("id").to_pylist() == rows


@pytest.mark.formats("iceberg")
def test_nothing_is_made_or_staged_without_pyiceberg(
    shared_lake: lw.Lake, new_name: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    there, missing = new_name(), new_name()
    shared_lake.create(there, {"id": "int64"})
    append(shared_lake, there, {"id": [1]})
    monkeypatch.setitem(sys.modules, "pyiceberg", None)

    with unchanged(shared_lake), pytest.raises(MissingExtra, match=r"lakeward\[iceberg\]"):
        shared_lake.create(missing, {"id": "int64"})
    with unchanged(shared_lake), pytest.raises(MissingExtra):
        append(shared_lake, there, {"id": [2]})
    assert ids(shared_lake, there) == [1]


def test_iceberg_metadata_that_the_lake_does_not_know_is_not_written_over(lake: lw.Lake) -> None:
    place = on_disk(lake.warehouse) / "stranger" / "metadata"
    place.mkdir(parents=True)
    (place / "v1.metadata.json").write_text("{}")

    with unchanged(lake), pytest.raises(AlreadyExists, match="does not know"):
        lake.create("stranger", {"id": "int64"})


@pytest.mark.formats("iceberg")
def test_a_name_that_another_engine_took_in_the_catalog_is_refused_before_a_byte(
    lake: lw.Lake, tmp_path: Path
) -> None:
    catalog = stranger_catalog(lake)
    catalog.create_namespace("sales")
    schema = Schema(NestedField(1, "id", LongType()))
    catalog.create_table("sales.orders", schema, location=str(tmp_path / "elsewhere"))
    catalog.engine.dispose()

    with unchanged(lake), pytest.raises(AlreadyExists, match="catalog has"):
        lake.create("sales.orders", {"id": "int64"})


@pytest.mark.formats("iceberg")
def test_a_table_without_a_namespace_shares_its_place_in_the_catalog(lake: lw.Lake) -> None:
    """Other engines want a namespace for every table, so such a one lies in `default`."""
    lake.create("t", {"id": "int64"})
    append(lake, "t", {"id": [1]})

    assert stranger_arrow(lake, "t")["id"].to_pylist() == [1]
    with unchanged(lake), pytest.raises(AlreadyExists, match=r"default\.t"):
        lake.create("default.t", {"id": "int64"})
    assert lake.create("default.t", {"id": "int64"}, format="delta").format == "delta"


def _true(key: str) -> dict[str, str]:
    return {key: "true"} if key == "lakeward.append-only" else {}
