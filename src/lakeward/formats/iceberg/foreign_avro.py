"""Checks Avro files of other writers before they are decoded.

pyiceberg's fast decoder trusts the lengths in a file: for some broken manifests it reads beyond the
buffer and crashes the process. Here each record is read once by the slow decoder, which raises an
error instead.
"""

from __future__ import annotations

import json
from typing import Any, Final

from lakeward.formats.iceberg.avro_files import header_reader
from lakeward.formats.iceberg.extra import pyiceberg

_SYNC_BYTES: Final = 16


def check_avro(data: bytes) -> None:
    """Raise an error, of any kind, unless the bytes are a complete Avro file."""
    avro, exact = pyiceberg("avro.file"), pyiceberg("avro.decoder").StreamingBinaryDecoder
    decoder = exact(data)
    header = header_reader().read(decoder)
    if header.magic != avro.MAGIC:
        raise ValueError("the file does not begin as Avro does")  # noqa: EM101
    schema = json.loads(header.meta["avro.schema"])
    if not _items_take_bytes(schema):
        raise ValueError("a list of the schema can have any number of items")  # noqa: EM101
    conversion = pyiceberg("utils.schema_conversion").AvroSchemaConversion()
    reader = pyiceberg("avro.resolver").construct_reader(conversion.avro_to_iceberg(schema))
    codec = header.compression_codec()
    while decoder.tell() < len(data):
        count, block = decoder.read_int(), decoder.read_bytes()
        records = block if codec is None else codec.decompress(block)
        # Every record of a manifest takes at least one byte.
        if not 0 <= count <= len(records):
            raise ValueError("a block has more records than bytes")  # noqa: EM101
        inner = exact(records)
        for _ in range(count):
            reader.read(inner)
        if inner.tell() != len(records) or decoder.read(_SYNC_BYTES) != header.sync:
            raise ValueError("a block does not end where it should")  # noqa: EM101


def _items_take_bytes(schema: Any) -> bool:
    """Return whether items of every list and map take bytes; reading others might not end."""
    if isinstance(schema, list):
        return all(map(_items_take_bytes, schema))
    if not isinstance(schema, dict):
        return True
    kind = schema.get("type")
    items = schema.get("items") if kind == "array" else schema.get("values")
    if kind in ("array", "map") and not _takes_bytes(items):
        return False
    inside = [items, kind, *(f.get("type") for f in schema.get("fields", []))]
    return all(map(_items_take_bytes, inside))


def _takes_bytes(schema: Any) -> bool:
    if not isinstance(schema, dict):
        # A union takes bytes: it begins with the number of its branch.
        return schema != "null"
    match schema.get("type"):
        case "record":
            return any(_takes_bytes(f.get("type")) for f in schema.get("fields", []))
        case "fixed":
            return bool(schema.get("size"))
        case "null":
            return False
        case dict() as inner:
            return _takes_bytes(inner)
        case _:
            return True
