"""Reads and writes Avro files with internals of pyiceberg; tests check that they exist.

For every file pyiceberg resolves the schema of its records and converts it from or to JSON, which
takes longer than reading a few records; here the result is cached per schema.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from lakeward.formats.iceberg.extra import pyiceberg

CODEC: Final = "deflate"
LAYOUT: Final = 3
"""The format version whose records are used in memory; it has all fields of earlier ones."""
_SYNC_BYTES: Final = 16
_BLOCK: Final = 256
"""How many records of a file are compressed together."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The writer, JSON schema and header of the records of one kind of file."""

    writer: Any
    schema: str
    metadata: dict[str, str]


def read_records(file: Any) -> tuple[list[Any], Any, dict[str, str]]:
    """Return an Avro file's records, decoded by its own schema, that schema, and its header."""
    with pyiceberg("avro.file").AvroFile(file) as reader:
        return list(reader), reader.schema, reader.header.meta


def write_records(file: Any, records: list[Any], schema: Any, header: dict[str, str]) -> None:
    """Write records with the schema and the header of another file."""
    writer = pyiceberg("avro.resolver").construct_writer(schema)
    kept = {k: v for k, v in header.items() if k != "avro.schema"} | {"avro.codec": CODEC}
    with output_class()(file, Shape(writer, header["avro.schema"], kept), kept) as out:
        out.write_block(records)


@lru_cache(maxsize=1)
def input_class() -> Any:
    """Return the class that reads an Avro file of manifests (`list`) or entries (`manifest`)."""
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
        wanted = api.MANIFEST_LIST_FILE_SCHEMAS[LAYOUT]
        types: dict[int, Any] = {-1: api.ManifestFile, 508: api.PartitionFieldSummary}
        enums: dict[int, Any] = {517: api.ManifestContent}
    else:
        wanted = api.MANIFEST_ENTRY_SCHEMAS[LAYOUT]
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
def output_class() -> Any:
    """Return the class that writes an Avro file of a shape."""
    avro = pyiceberg("avro.file")
    codec = pyiceberg("avro.codecs.deflate").DeflateCodec

    class Output(avro.AvroOutputFile):  # type: ignore[misc, name-defined]
        def __init__(self, file: Any, shape: Shape, metadata: dict[str, str]) -> None:
            self.output_file = file
            self.sync_bytes = os.urandom(_SYNC_BYTES)
            self.writer = shape.writer
            self.metadata = metadata
            self._schema = shape.schema
            self._waiting: list[Any] = []

        def write_block(self, objects: list[Any]) -> None:
            # pyiceberg compresses every entry by itself, which takes longer than encoding it.
            self._waiting += objects
            if len(self._waiting) >= _BLOCK:
                self._flush()

        def compression_codec(self) -> Any:
            # pyiceberg would load its whole table module to find the same.
            return codec

        def _flush(self) -> None:
            if self._waiting:
                super().write_block(self._waiting)
                self._waiting = []

        def __exit__(self, kind: object, error: object, trace: object) -> None:
            if error is None:
                self._flush()
            super().__exit__(kind, error, trace)

        def _write_header(self) -> None:
            meta = {**self.metadata, "avro.schema": self._schema, "avro.codec": CODEC}
            meta.pop("write.avro.compression-codec", None)
            header = avro.AvroFileHeader(avro.MAGIC, meta, self.sync_bytes)
            _header_writer().write(self.encoder, header)

    return Output


def shape_of(stored: Any, given: Any, name: str, metadata: dict[str, str]) -> Shape:
    """Return how records of the schema `given` are written to files of the schema `stored`."""
    conversion = pyiceberg("utils.schema_conversion").AvroSchemaConversion()
    writer = pyiceberg("avro.resolver").resolve_writer(record_schema=given, file_schema=stored)
    text = json.dumps(conversion.iceberg_to_avro(stored, schema_name=name))
    return Shape(writer, text, metadata)


@lru_cache(maxsize=1)
def _header_writer() -> Any:
    avro = pyiceberg("avro.file")
    return pyiceberg("avro.resolver").construct_writer(avro.META_SCHEMA)
