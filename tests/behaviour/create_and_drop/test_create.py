"""New tables: what they are made of, and what they say of themselves."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.errors import AlreadyExists, ConstraintViolation, InvalidInput, TableNotFound
from tests.behaviour.lakes import append, ids, log_files, unchanged
from tests.behaviour.published import document
from tests.support.s3 import on_disk


def test_a_new_table_is_empty_at_version_zero(
    shared_lake: lw.Lake, table_format: str, name: str
) -> None:
    table = shared_lake.create(name, {"id": "int64", "note": "string"})

    assert table.name == name
    assert table.version == 0
    assert table.format == table_format
    assert table.guarded
    assert table.schema == pa.schema([("id", pa.int64()), ("note", pa.string())])
    assert table.to_arrow().num_rows == 0
    assert table.to_arrow().schema == table.schema.to_arrow()
    assert table.files() == []
    assert [v.operation for v in table.history()] == ["CREATE TABLE"]


def test_a_table_is_of_the_delta_format_unless_said_otherwise(tmp_path: Path) -> None:
    with lw.open(tmp_path) as lake:
        assert lake.create("t", {"id": "int64"}).format == "delta"


@pytest.mark.formats("delta")
def test_a_new_table_is_published_at_once(shared_lake: lw.Lake, name: str) -> None:
    table = shared_lake.create(name, {"id": "int64"})

    assert on_disk(table.location).is_relative_to(on_disk(shared_lake.warehouse))
    assert [p.name for p in log_files(shared_lake, name)] == ["00000000000000000000.json"]


@pytest.mark.formats("iceberg")
def test_a_new_iceberg_table_is_in_the_catalog_at_once(shared_lake: lw.Lake, name: str) -> None:
    table = shared_lake.create(name, {"id": "int64"})

    found = document(shared_lake, name)
    assert found["location"] == table.location
    assert found["table-uuid"] == table.uuid
    assert (found["format-version"], found["snapshots"]) == (2, [])
    assert table.location.startswith(shared_lake.warehouse)


def test_a_table_keeps_all_that_it_was_made_with(
    shared_lake: lw.Lake, table_format: str, name: str
) -> None:
    codec, setting = {
        "delta": ("delta.parquet.compression.codec", "delta.checkpointInterval"),
        "iceberg": ("write.parquet.compression-codec", "commit.retry.num-retries"),
    }[table_format]
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False, metadata={"comment": "the key"}),
            pa.field("day", pa.date32()),
            pa.field("amount", pa.decimal128(10, 2)),
        ]
    )
    shared_lake.create(
        name,
        schema,
        partition_by=["day"],
        properties={"owner": "me", setting: "7"},
        policy={"compression": "zstd"},
        constraints={"positive": "amount > 0"},
        comment="orders",
    )
    table = shared_lake.table(name)

    assert table.schema.field("id").comment == "the key"
    assert not table.schema.field("id").nullable
    assert table.schema == schema
    assert table.partition_by == ["day"]
    assert table.constraints == {"positive": "amount > 0"}
    assert table.properties["owner"] == "me"
    assert table.properties[setting] == "7"
    assert table.properties[codec] == "zstd"
    assert table.definition.comment == "orders"


@pytest.mark.one_pair
@pytest.mark.parametrize(
    "schema",
    [
        {"id": "int64", "note": "string"},
        {"id": pa.int64(), "note": pa.large_string()},
        pa.schema([("id", pa.int64()), ("note", pa.string_view())]),
        [pa.field("id", pa.int64()), pa.field("note", pa.string())],
        [("id", pa.int64()), ("note", pa.dictionary(pa.int8(), pa.string()))],
    ],
    ids=["names", "types", "schema", "fields", "pairs"],
)
def test_a_schema_can_be_given_in_any_usual_form(
    shared_lake: lw.Lake, name: str, schema: object
) -> None:
    table = shared_lake.create(name, schema)

    assert table.schema == pa.schema([("id", pa.int64()), ("note", pa.string())])


def test_texts_of_a_mapping_have_the_clauses_of_columns(lake: lw.Lake, name: str) -> None:
    table = lake.create(
        name,
        {
            "id": "int64 not null",
            "a note": "string comment 'as it came'",
            "price": "decimal(10,2) default 1.5",
        },
    )
    table.append([{"id": 1, "a note": "x"}])

    assert not table.schema.field("id").nullable
    assert table.schema.field("a note").comment == "as it came"
    assert table.to_arrow().to_pylist() == [{"id": 1, "a note": "x", "price": Decimal("1.50")}]
    with pytest.raises(InvalidInput, match="'b' has no place there"):
        lake.create("other", {"id": "int64 b"})
    with pytest.raises(ConstraintViolation):
        table.append([{"id": None, "a note": "x"}])


def test_the_schema_of_one_table_makes_another(shared_lake: lw.Lake, name: str) -> None:
    first = shared_lake.create(name, {"id": "int64", "day": "date"})

    second = shared_lake.create(f"{name}_copy", first.schema)

    assert second.schema == first.schema
    assert second.uuid != first.uuid


def test_tables_are_listed_by_name(lake: lw.Lake) -> None:
    for name in ("b", "a.z", "a.b", "a"):
        lake.create(name, {"id": "int64"})

    assert [t.name for t in lake.tables()] == ["a", "b", "a.b", "a.z"]


def test_a_table_in_a_namespace_lies_in_its_directory(lake: lw.Lake) -> None:
    table = lake.create("sales.orders", {"id": "int64"})

    assert on_disk(table.location) == on_disk(lake.warehouse) / "sales" / "orders"


def test_a_table_and_a_namespace_of_the_same_name_do_not_mix(lake: lw.Lake) -> None:
    lake.create("sales", {"id": "int64"})
    lake.create("sales.orders", {"id": "int64"})
    append(lake, "sales", [{"id": 1}])
    append(lake, "sales.orders", [{"id": 2}])

    assert ids(lake, "sales") == [1]
    assert ids(lake, "sales.orders") == [2]


def test_a_name_is_taken_once(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, {"id": "int64"})

    with unchanged(shared_lake), pytest.raises(AlreadyExists) as caught:
        shared_lake.create(name, {"other": "string"})
    assert caught.value.table == name


def test_a_table_that_the_lake_does_not_know_is_not_written_over(lake: lw.Lake) -> None:
    log = on_disk(lake.warehouse) / "stranger" / "_delta_log"
    log.mkdir(parents=True)
    (log / "00000000000000000000.json").write_text("{}")

    with unchanged(lake), pytest.raises(AlreadyExists, match="does not know") as caught:
        lake.create("stranger", {"id": "int64"})
    assert caught.value.hint == "Adopt it, or choose another name."


def test_names_may_use_letters_of_any_script(shared_lake: lw.Lake, new_name: object) -> None:
    shared_lake.create("größe.日本-1_x", {"id": "int64"})
    append(shared_lake, "größe.日本-1_x", [{"id": 1}])

    assert ids(shared_lake, "größe.日本-1_x") == [1]
    shared_lake.drop("größe.日本-1_x")


def test_the_same_names_in_other_case_are_other_tables(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, {"id": "int64"})

    with pytest.raises(TableNotFound):
        shared_lake.table(name.upper())
