"""The internals of pyiceberg that the lake uses exist in the installed version, as they were."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import lakeward

ICEBERG = Path(lakeward.__file__).parent / "formats/iceberg"
PRIVATE = tuple(
    ICEBERG / f"{name}.py" for name in ("private", "avro_files", "memory_files", "foreign_avro")
)
PUBLIC = {
    "exceptions",
    "catalog",
    "partitioning",
    "schema",
    "table.name_mapping",
    "view.metadata",
}
"""Modules that pyiceberg documents for users."""

NEEDED: dict[str, tuple[str, ...]] = {
    "avro.codecs.deflate:DeflateCodec.compress": ("data",),
    "avro.decoder:StreamingBinaryDecoder": ("input_stream",),
    "avro.file:AvroFile": ("input_file",),
    "avro.file:AvroFile.__enter__": ("self",),
    "avro.file:AvroFile._read_block": ("self",),
    "avro.file:AvroFileHeader.compression_codec": ("self",),
    "avro.file:AvroOutputFile.__exit__": ("self", "exctype", "excinst", "exctb"),
    "avro.file:AvroOutputFile._write_header": ("self",),
    "avro.file:AvroOutputFile.compression_codec": ("self",),
    "avro.file:AvroOutputFile.write_block": ("self", "objects"),
    "avro.file:Block": ("reader", "block_records", "block_decoder"),
    "avro.file:MAGIC": (),
    "avro.file:META_SCHEMA": (),
    "avro.file:new_decoder": ("b",),
    "avro.resolver:construct_reader": ("file_schema", "read_types"),
    "avro.resolver:construct_writer": ("file_schema",),
    "avro.resolver:resolve_reader": ("file_schema", "read_schema", "read_types", "read_enums"),
    "avro.resolver:resolve_writer": ("record_schema", "file_schema"),
    "conversions:from_bytes": ("primitive_type", "b"),
    "io:InputFile.open": ("self", "seekable"),
    "io:OutputFile.create": ("self", "overwrite"),
    "manifest:DEFAULT_READ_VERSION": (),
    "manifest:DataFileContent.DATA": (),
    "manifest:FileFormat.PARQUET": (),
    "manifest:ManifestContent.DATA": (),
    "manifest:ManifestEntryStatus.ADDED": (),
    "manifest:ManifestEntryStatus.DELETED": (),
    "manifest:DataFile.from_args": ("_table_format_version", "arguments"),
    "manifest:MANIFEST_ENTRY_SCHEMAS": (),
    "manifest:MANIFEST_LIST_FILE_SCHEMAS": (),
    "manifest:ManifestEntry.from_args": ("_table_format_version", "arguments"),
    "manifest:ManifestFile.from_args": ("_table_format_version", "arguments"),
    "manifest:ManifestListWriterV2": (
        "output_file",
        "snapshot_id",
        "parent_snapshot_id",
        "sequence_number",
        "compression",
    ),
    "manifest:ManifestListWriterV2.add_manifests": ("self", "manifest_files"),
    "manifest:ManifestWriterV2": (
        "spec",
        "schema",
        "output_file",
        "snapshot_id",
        "avro_compression",
    ),
    "manifest:ManifestWriterV2._meta": (),
    "manifest:ManifestWriterV2._with_partition": ("self", "format_version"),
    "manifest:ManifestWriterV2.add_entry": ("self", "entry"),
    "manifest:ManifestWriterV2.delete": ("self", "entry"),
    "manifest:ManifestWriterV2.existing": ("self", "entry"),
    "manifest:ManifestWriterV2.new_writer": ("self",),
    "manifest:ManifestWriterV2.to_manifest_file": ("self",),
    "manifest:PartitionFieldStats": ("iceberg_type",),
    "manifest:PartitionFieldStats.to_summary": ("self",),
    "manifest:PartitionFieldStats.update": ("self", "value"),
    "manifest:PartitionFieldSummary": ("data",),
    "manifest:UNASSIGNED_SEQ": (),
    "manifest:_inherit_from_manifest": ("entry", "manifest"),
    "table.delete_file_index:DeleteFileIndex.add_delete_file": (
        "self",
        "manifest_entry",
        "partition_key",
    ),
    "table.delete_file_index:DeleteFileIndex.for_data_file": (
        "self",
        "seq_num",
        "data_file",
        "partition_key",
    ),
    "typedef:Record": ("data",),
    "utils.schema_conversion:AvroSchemaConversion.avro_to_iceberg": ("self", "avro_schema"),
    "utils.schema_conversion:AvroSchemaConversion.iceberg_to_avro": (
        "self",
        "schema",
        "schema_name",
    ),
}


@pytest.mark.parametrize("name", NEEDED)
def test_an_internal_of_pyiceberg_has_the_parameters_that_are_given(name: str) -> None:
    module, _, path = name.partition(":")
    found: Any = import_module(f"pyiceberg.{module}")
    for part in path.split("."):
        found = getattr(found, part)
    if NEEDED[name]:
        assert tuple(inspect.signature(found).parameters)[: len(NEEDED[name])] == NEEDED[name]


def test_the_fields_of_records_are_where_they_are_set() -> None:
    schemas = import_module("pyiceberg.manifest").MANIFEST_LIST_FILE_SCHEMAS
    assert all(schema.fields[1].name == "manifest_length" for schema in schemas.values())


def test_every_internal_that_is_used_is_checked_here() -> None:
    used = re.findall(
        r'pyiceberg\("([\w.]+)"\)\.(\w+)', "\n".join(path.read_text() for path in PRIVATE)
    )
    used += [
        ("manifest", n)
        for n in re.findall(r"\bapi\.(\w+)", "\n".join(path.read_text() for path in PRIVATE))
    ]
    used += [
        ("avro.file", n)
        for n in re.findall(
            r"(?<![\".])\bavro\.(\w+)", "\n".join(path.read_text() for path in PRIVATE)
        )
    ]
    checked = {(n.partition(":")[0], n.partition(":")[2].partition(".")[0]) for n in NEEDED}
    assert {u for u in used if u[0] not in PUBLIC} <= checked


def test_no_other_module_uses_internals_of_pyiceberg() -> None:
    source = ICEBERG.parents[1]
    for path in source.rglob("*.py"):
        if path not in PRIVATE:
            used = set(re.findall(r'pyiceberg\("([\w.]+)"\)', path.read_text()))
            assert used <= PUBLIC, path
