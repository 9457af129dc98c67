"""Uses internals of pyiceberg, as only `memory_files` does besides; tests check that they exist.

Manifests and manifest lists are read and written by pyiceberg's Avro code, in memory: the bytes go
through the warehouse's storage as for all files. For every file pyiceberg resolves the schema of
its records and converts it from or to JSON, which takes longer than reading a few records; here the
result is cached per layout.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from lakeward.formats.iceberg.extra import pyiceberg

CODEC: Final = "deflate"
_SYNC_BYTES: Final = 16
_LAYOUT: Final = 3
"""The format version whose records are used in memory; it has all fields of earlier ones."""
_MANIFEST_ROW_ID: Final = 15
_FILE_ROW_ID: Final = 16
_CONTENT_SIZE: Final = 19
"""The positions of `first_row_id` in the records of manifests and data files."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A table's schema and partition spec, as JSON text, and its format version.

    `content` is `data`, or `deletes` for manifests of delete files.
    """

    schema: bytes
    spec: bytes
    format_version: int
    content: str = "data"


@dataclass(frozen=True, slots=True)
class _Shape:
    """The writer, JSON schema and header of the records of one kind of file."""

    writer: Any
    schema: str
    metadata: dict[str, str]


def manifest_writer(layout: Layout, file: Any, snapshot_id: int) -> Any:
    """Return a writer of one manifest."""
    return _manifest_class()(layout, file, snapshot_id)


def list_writer(
    format_version: int,
    file: Any,
    snapshot_id: int,
    parent_id: int | None,
    sequence: int,
    first_row_id: int | None,
) -> Any:
    """Return a writer of one manifest list."""
    return _list_class()(format_version, file, snapshot_id, parent_id, sequence, first_row_id)


def read_records(file: Any) -> tuple[list[Any], Any, dict[str, str]]:
    """Return an Avro file's records, decoded by its own schema, that schema, and its header."""
    with pyiceberg("avro.file").AvroFile(file) as reader:
        return list(reader), reader.schema, reader.header.meta


def write_records(file: Any, records: list[Any], schema: Any, header: dict[str, str]) -> None:
    """Write records with the schema and the header of another file."""
    writer = pyiceberg("avro.resolver").construct_writer(schema)
    kept = {k: v for k, v in header.items() if k != "avro.schema"} | {"avro.codec": CODEC}
    with _output_class()(file, _Shape(writer, header["avro.schema"], kept), kept) as out:
        out.write_block(records)


def read_list(file: Any) -> list[Any]:
    """Return the manifests of a list."""
    with _input_class()(file, "list") as reader:
        return list(reader)


def read_entries(file: Any, manifest: Any, *, deleted: bool) -> list[Any]:
    """Return a manifest's entries with what they inherit from it; deleted ones if `deleted`."""
    api = pyiceberg("manifest")
    with _input_class()(file, "manifest") as reader:
        return [
            api._inherit_from_manifest(entry, manifest)
            for entry in reader
            if deleted or entry.status != api.ManifestEntryStatus.DELETED
        ]


def read_metadata(file: Any) -> dict[str, str]:
    """Return the header of a manifest."""
    with _input_class()(file, "manifest") as reader:
        return dict(reader.header.meta)


def new_entry(snapshot_id: int, file: Any) -> Any:
    """Return a manifest entry for a data file that a snapshot adds."""
    api = pyiceberg("manifest")
    status = api.ManifestEntryStatus.ADDED
    return api.ManifestEntry.from_args(
        status=status, snapshot_id=snapshot_id, sequence_number=None, data_file=file
    )


def returned_entry(snapshot_id: int, entry: Any) -> Any:
    """Return a manifest entry of a file that a snapshot adds again, with its sequence number."""
    api = pyiceberg("manifest")
    return api.ManifestEntry.from_args(
        status=api.ManifestEntryStatus.ADDED,
        snapshot_id=snapshot_id,
        sequence_number=entry.sequence_number,
        data_file=entry.data_file,
    )


def new_data_file(**fields: Any) -> Any:
    """Return a manifest's record of a Parquet data file."""
    api = pyiceberg("manifest")
    return api.DataFile.from_args(
        _LAYOUT, content=api.DataFileContent.DATA, file_format=api.FileFormat.PARQUET, **fields
    )


def new_manifest(**fields: Any) -> Any:
    """Return a manifest list's record of a manifest of data files."""
    api = pyiceberg("manifest")
    return api.ManifestFile.from_args(_LAYOUT, content=api.ManifestContent.DATA, **fields)


def finished(manifest: Any, length: int) -> Any:
    """Return a new manifest's record with its length, and a field for the first id of its rows."""
    fields = list(manifest._data)
    fields[1] = length
    return type(manifest)(*fields[:_MANIFEST_ROW_ID], None)


def first_row_id(manifest: Any) -> int | None:
    """Return the id of the first row in a manifest's files; None if rows have no ids yet."""
    found: int | None = manifest[_MANIFEST_ROW_ID]
    return found


def with_first_row_id(manifest: Any, number: int) -> Any:
    """Return a copy of a manifest's record whose rows get ids from `number` on."""
    return type(manifest)(*manifest._data[:_MANIFEST_ROW_ID], number)


def set_row_ids(entries: list[Any], first: int) -> None:
    """Set the first row id of data files that inherit it from their manifest."""
    for entry in entries:
        file = entry.data_file
        if file[_FILE_ROW_ID] is None:
            file[_FILE_ROW_ID] = first
            first += file.record_count


def file_row_id(entry: Any) -> int | None:
    """Return the id of the first row in an entry's file; None if its rows have no ids yet."""
    found: int | None = entry.data_file[_FILE_ROW_ID]
    return found


def with_spec(manifest: Any, entries: list[Any]) -> list[Any]:
    """Set the partition spec that a manifest's entries inherit from it; return the entries."""
    for entry in entries:
        entry.data_file.spec_id = manifest.partition_spec_id
    return entries


def content_size(file: Any) -> int:
    """Return the bytes of deletes in a delete file; a Puffin file may have several vectors."""
    known: int | None = file[_CONTENT_SIZE] if len(file) > _CONTENT_SIZE else None
    return int(file.file_size_in_bytes) if known is None else known


def is_data(manifest: Any) -> bool:
    """Return whether a manifest lists data files, not deletes."""
    return bool(manifest.content == pyiceberg("manifest").ManifestContent.DATA)


def unassigned() -> int:
    """Return the sequence number of manifests whose snapshot has no number yet."""
    return int(pyiceberg("manifest").UNASSIGNED_SEQ)


def partition_record(values: list[Any]) -> Any:
    """Return the record of partition values, given in the order of the spec's fields."""
    return pyiceberg("typedef").Record(*values)


def position_deletes() -> Any:
    """Return an empty index of position deletes, which finds those of a data file."""
    return pyiceberg("table.delete_file_index").DeleteFileIndex()


@lru_cache(maxsize=1)
def _input_class() -> Any:
    avro = pyiceberg("avro.file")
    exact = pyiceberg("avro.decoder").StreamingBinaryDecoder

    class Input(avro.AvroFile):  # type: ignore[misc, name-defined]
        block: Any

        def __init__(self, file: Any, kind: str) -> None:
            super().__init__(file)
            self._kind = kind

        def __enter__(self) -> Any:
            with self.input_file.open() as stream:
                self.decoder = avro.new_decoder(stream.read())
            self.header = header_reader().read(self.decoder)
            self.reader = _record_reader(self.header.meta["avro.schema"], self._kind)
            return self

        def _read_block(self) -> int:
            if '"double"' not in self.header.meta["avro.schema"]:
                return int(super()._read_block())
            if self.block and self.decoder.read(_SYNC_BYTES) != self.header.sync:
                message = "a block of the file does not end where it should"
                raise ValueError(message)
            records, data = self.decoder.read_int(), self.decoder.read_bytes()
            codec = self.header.compression_codec()
            # pyiceberg's fast decoder reads only 32 of the 64 bits of a double's precision.
            decoder = exact(data if codec is None else codec.decompress(data))
            self.block = avro.Block(self.reader, records, decoder)
            return int(records)

    return Input


@lru_cache(maxsize=256)
def _record_reader(schema: str, kind: str) -> Any:
    """Return the reader of records of a list or a manifest that has this Avro schema."""
    api = pyiceberg("manifest")
    if kind == "list":
        wanted = api.MANIFEST_LIST_FILE_SCHEMAS[_LAYOUT]
        types: dict[int, Any] = {-1: api.ManifestFile, 508: api.PartitionFieldSummary}
        enums: dict[int, Any] = {517: api.ManifestContent}
    else:
        wanted = api.MANIFEST_ENTRY_SCHEMAS[_LAYOUT]
        types = {-1: api.ManifestEntry, 2: api.DataFile}
        enums = {0: api.ManifestEntryStatus, 101: api.FileFormat, 134: api.DataFileContent}
    conversion = pyiceberg("utils.schema_conversion").AvroSchemaConversion()
    stored = conversion.avro_to_iceberg(json.loads(schema))
    return pyiceberg("avro.resolver").resolve_reader(stored, wanted, types, enums)


@lru_cache(maxsize=1)
def header_reader() -> Any:
    """Return the reader of the header of an Avro file."""
    avro = pyiceberg("avro.file")
    return pyiceberg("avro.resolver").construct_reader(avro.META_SCHEMA, {-1: avro.AvroFileHeader})


@lru_cache(maxsize=1)
def _manifest_class() -> Any:
    api = pyiceberg("manifest")

    class Writer(api.ManifestWriterV2):  # type: ignore[misc, name-defined]
        def __init__(self, layout: Layout, file: Any, snapshot_id: int) -> None:
            self._shape = _manifest_shape(layout)
            self._lists = api.ManifestContent[layout.content.upper()]
            super().__init__(
                parsed_spec(layout.spec), parsed_schema(layout.schema), file, snapshot_id, CODEC
            )

        def content(self) -> Any:
            return self._lists

        def new_writer(self) -> Any:
            return _output_class()(self._output_file, self._shape, self._shape.metadata)

    return Writer


@lru_cache(maxsize=1)
def _list_class() -> Any:
    api = pyiceberg("manifest")

    class Writer(api.ManifestListWriterV2):  # type: ignore[misc, name-defined]
        def __init__(
            self,
            version: int,
            file: Any,
            snapshot_id: int,
            parent_id: int | None,
            sequence: int,
            first_row_id: int | None,
        ) -> None:
            super().__init__(file, snapshot_id, parent_id, sequence, CODEC)
            self._shape = _list_shape(version)
            self._meta["format-version"] = str(version)
            if first_row_id is not None:
                self._meta["first-row-id"] = str(first_row_id)

        def __enter__(self) -> Any:
            self._writer = _output_class()(self._output_file, self._shape, self._meta)
            self._writer.__enter__()
            return self

    return Writer


@lru_cache(maxsize=1)
def _output_class() -> Any:
    avro = pyiceberg("avro.file")

    class Output(avro.AvroOutputFile):  # type: ignore[misc, name-defined]
        def __init__(self, file: Any, shape: _Shape, metadata: dict[str, str]) -> None:
            self.output_file = file
            self.sync_bytes = os.urandom(_SYNC_BYTES)
            self.writer = shape.writer
            self.metadata = metadata
            self._schema = shape.schema

        def _write_header(self) -> None:
            meta = {**self.metadata, "avro.schema": self._schema, "avro.codec": CODEC}
            meta.pop("write.avro.compression-codec", None)
            header = avro.AvroFileHeader(avro.MAGIC, meta, self.sync_bytes)
            _header_writer().write(self.encoder, header)

    return Output


@lru_cache(maxsize=256)
def _manifest_shape(layout: Layout) -> _Shape:
    api = pyiceberg("manifest")
    plain = api.ManifestWriterV2(
        parsed_spec(layout.spec), parsed_schema(layout.schema), None, 0, CODEC
    )
    stored, given = (plain._with_partition(v) for v in (layout.format_version, _LAYOUT))
    if layout.content != "data":
        stored, given = _with_int_ids(stored), _with_int_ids(given)
    metadata = {"format-version": str(layout.format_version), "content": layout.content}
    return _shape(stored, given, "manifest_entry", {**plain._meta, **metadata})


def _with_int_ids(schema: Any) -> Any:
    """Return a schema whose equality ids are int: pyiceberg declares long, others read int."""
    text = schema.model_dump_json()
    found = text.replace('"element-id":136,"element":"long"', '"element-id":136,"element":"int"')
    return type(schema).model_validate_json(found)


@lru_cache(maxsize=4)
def _list_shape(format_version: int) -> _Shape:
    api = pyiceberg("manifest")
    schemas = api.MANIFEST_LIST_FILE_SCHEMAS
    return _shape(schemas[format_version], schemas[_LAYOUT], "manifest_file", {})


def _shape(stored: Any, given: Any, name: str, metadata: dict[str, str]) -> _Shape:
    conversion = pyiceberg("utils.schema_conversion").AvroSchemaConversion()
    writer = pyiceberg("avro.resolver").resolve_writer(record_schema=given, file_schema=stored)
    text = json.dumps(conversion.iceberg_to_avro(stored, schema_name=name))
    return _Shape(writer, text, metadata)


@lru_cache(maxsize=1)
def _header_writer() -> Any:
    avro = pyiceberg("avro.file")
    return pyiceberg("avro.resolver").construct_writer(avro.META_SCHEMA)


@lru_cache(maxsize=256)
def parsed_schema(text: bytes) -> Any:
    """Return pyiceberg's schema of JSON text."""
    return pyiceberg("schema").Schema.model_validate_json(text)


@lru_cache(maxsize=256)
def parsed_spec(text: bytes) -> Any:
    """Return pyiceberg's partition spec of JSON text."""
    return pyiceberg("partitioning").PartitionSpec.model_validate_json(text)
