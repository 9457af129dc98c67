"""pyiceberg's Avro readers and writers, with what depends on the table alone found out once.

For every file pyiceberg resolves the schema of its records, and spells it as JSON or takes it from
there, which takes longer than a few records. All that is the same for manifests of one layout.
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


@dataclass(frozen=True, slots=True)
class Layout:
    """How a table's files are listed: its schema and partition spec, as JSON text."""

    schema: bytes
    spec: bytes
    format_version: int


@dataclass(frozen=True, slots=True)
class _Shape:
    """Of the records of one kind of file."""

    writer: Any
    schema: str
    metadata: dict[str, str]


def manifest_writer(layout: Layout, file: Any, snapshot_id: int) -> Any:
    """A writer of one manifest."""
    return _manifest_class()(layout, file, snapshot_id)


def list_writer(
    format_version: int, file: Any, snapshot_id: int, parent_id: int | None, sequence: int
) -> Any:
    """A writer of one manifest list."""
    return _list_class()(format_version, file, snapshot_id, parent_id, sequence)


def copy_writer(file: Any, schema: Any, header: dict[str, str]) -> Any:
    """A writer of a file with the schema and the header of another one."""
    writer = pyiceberg("avro.resolver").construct_writer(schema)
    kept = {k: v for k, v in header.items() if k != "avro.schema"} | {"avro.codec": CODEC}
    return _output_class()(file, _Shape(writer, header["avro.schema"], kept), kept)


def read_list(file: Any) -> list[Any]:
    """The manifests of a list."""
    with _input_class()(file, "list") as reader:
        return list(reader)


def read_manifest(file: Any) -> list[Any]:
    """The entries of a manifest, as they are spelled there."""
    with _input_class()(file, "manifest") as reader:
        return list(reader)


def read_metadata(file: Any) -> dict[str, str]:
    """What the header of a manifest says of it."""
    with _input_class()(file, "manifest") as reader:
        return dict(reader.header.meta)


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
            self.header = _header_reader().read(self.decoder)
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
    """The reader of records that a file spells with this schema."""
    api = pyiceberg("manifest")
    version = api.DEFAULT_READ_VERSION
    if kind == "list":
        wanted = api.MANIFEST_LIST_FILE_SCHEMAS[version]
        types: dict[int, Any] = {-1: api.ManifestFile, 508: api.PartitionFieldSummary}
        enums: dict[int, Any] = {517: api.ManifestContent}
    else:
        wanted = api.MANIFEST_ENTRY_SCHEMAS[version]
        types = {-1: api.ManifestEntry, 2: api.DataFile}
        enums = {0: api.ManifestEntryStatus, 101: api.FileFormat, 134: api.DataFileContent}
    conversion = pyiceberg("utils.schema_conversion").AvroSchemaConversion()
    stored = conversion.avro_to_iceberg(json.loads(schema))
    return pyiceberg("avro.resolver").resolve_reader(stored, wanted, types, enums)


@lru_cache(maxsize=1)
def _header_reader() -> Any:
    avro = pyiceberg("avro.file")
    return pyiceberg("avro.resolver").construct_reader(avro.META_SCHEMA, {-1: avro.AvroFileHeader})


@lru_cache(maxsize=1)
def _manifest_class() -> Any:
    api = pyiceberg("manifest")

    class Writer(api.ManifestWriterV2):  # type: ignore[misc, name-defined]
        def __init__(self, layout: Layout, file: Any, snapshot_id: int) -> None:
            self._shape = _manifest_shape(layout)
            super().__init__(
                parsed_spec(layout.spec), parsed_schema(layout.schema), file, snapshot_id, CODEC
            )

        def new_writer(self) -> Any:
            return _output_class()(self._output_file, self._shape, self._shape.metadata)

    return Writer


@lru_cache(maxsize=1)
def _list_class() -> Any:
    api = pyiceberg("manifest")

    class Writer(api.ManifestListWriterV2):  # type: ignore[misc, name-defined]
        def __init__(
            self, version: int, file: Any, snapshot_id: int, parent_id: int | None, sequence: int
        ) -> None:
            super().__init__(file, snapshot_id, parent_id, sequence, CODEC)
            self._shape = _list_shape(version)

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
            self._spelled = shape.schema

        def _write_header(self) -> None:
            meta = {**self.metadata, "avro.schema": self._spelled, "avro.codec": CODEC}
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
    return _shape(
        plain._with_partition(layout.format_version),
        plain._with_partition(api.DEFAULT_READ_VERSION),
        "manifest_entry",
        plain._meta,
    )


@lru_cache(maxsize=4)
def _list_shape(format_version: int) -> _Shape:
    api = pyiceberg("manifest")
    schemas = api.MANIFEST_LIST_FILE_SCHEMAS
    return _shape(schemas[format_version], schemas[api.DEFAULT_READ_VERSION], "manifest_file", {})


def _shape(stored: Any, given: Any, name: str, metadata: dict[str, str]) -> _Shape:
    conversion = pyiceberg("utils.schema_conversion").AvroSchemaConversion()
    writer = pyiceberg("avro.resolver").resolve_writer(record_schema=given, file_schema=stored)
    spelled = json.dumps(conversion.iceberg_to_avro(stored, schema_name=name))
    return _Shape(writer, spelled, metadata)


@lru_cache(maxsize=1)
def _header_writer() -> Any:
    avro = pyiceberg("avro.file")
    return pyiceberg("avro.resolver").construct_writer(avro.META_SCHEMA)


@lru_cache(maxsize=256)
def parsed_schema(text: bytes) -> Any:
    """Pyiceberg's schema of JSON text."""
    return pyiceberg("schema").Schema.model_validate_json(text)


@lru_cache(maxsize=256)
def parsed_spec(text: bytes) -> Any:
    """Pyiceberg's partition spec of JSON text."""
    return pyiceberg("partitioning").PartitionSpec.model_validate_json(text)
