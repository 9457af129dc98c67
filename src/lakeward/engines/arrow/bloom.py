"""Probes the Bloom filters of Parquet files, which Arrow writes but cannot read.

A filter is a split block Bloom filter over XXH64 hashes of plain encoded values, as the Parquet
specification defines it. For each filter only its header and one block of 32 bytes are read. A
filter that cannot be parsed excludes nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from lakeward.engines.arrow.leaves import positions_in_file
from lakeward.model.types import Field, Primitive
from lakeward.model.values import Value

_MASK: Final = 2**64 - 1
_P1: Final = 0x9E3779B185EBCA87
_P2: Final = 0xC2B2AE3D27D4EB4F
_P3: Final = 0x165667B19E3779F9
_P4: Final = 0x85EBCA77C2B2AE63
_P5: Final = 0x27D4EB2F165667C5
_SALTS: Final = (
    *(0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D),
    *(0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31),
)
_BLOCK: Final = 32
_HEADER: Final = bytes.fromhex("1c1c00001c1c00001c1c000000")
"""The header after its number of bytes: split block, XXH64, uncompressed."""
_FIRST: Final = 0x15
_WHOLE: Final = {"int8": "INT32", "int16": "INT32", "int32": "INT32", "int64": "INT64"}
_PHYSICAL: Final = {**_WHOLE, "date": "INT32", "string": "BYTE_ARRAY"}
_ID: Final = b"PARQUET:field_id"


def can_probe(field: Field) -> bool:
    """Return whether values of a column can be looked up in a Bloom filter."""
    return isinstance(field.type, Primitive) and field.type.name in _PHYSICAL


def file_may_have(
    filesystem: pa.fs.FileSystem,
    path: str,
    wanted: Mapping[Field, Sequence[Value]],
    *,
    by_id: bool,
) -> bool:
    """Return whether one row group may have, for each column, one of the wanted values.

    Args:
        filesystem: Where the file is.
        path: The file's path in the filesystem.
        wanted: Values by column; columns have their names in the file.
        by_id: Find columns by field id; a column without the id is not probed.
    """
    try:
        with filesystem.open_input_file(path) as file:
            metadata = pq.read_metadata(file)
            places = _places(metadata, list(wanted), by_id=by_id)
            for number in range(metadata.num_row_groups):
                group = metadata.row_group(number)
                if all(
                    field not in places
                    or _chunk_may_have(file, group.column(places[field]), field, values)
                    for field, values in wanted.items()
                ):
                    return True
            return metadata.num_row_groups == 0
    except (OSError, pa.ArrowException):
        # Reading the rows reports what is wrong with the file.
        return True


def xxh64(data: bytes, seed: int = 0) -> int:
    """Return the XXH64 hash of bytes."""
    length = len(data)
    place = 0
    if length >= _BLOCK:
        lanes = [seed + _P1 + _P2, seed + _P2, seed, seed - _P1]
        while place <= length - _BLOCK:
            words = struct.unpack_from("<4Q", data, place)
            lanes = [_round(lane & _MASK, word) for lane, word in zip(lanes, words, strict=True)]
            place += _BLOCK
        found = sum(_left(lane, n) for lane, n in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
        for lane in lanes:
            found = ((found ^ _round(0, lane)) * _P1 + _P4) & _MASK
    else:
        found = (seed + _P5) & _MASK
    found = (found + length) & _MASK
    while place + 8 <= length:
        (word,) = struct.unpack_from("<Q", data, place)
        found = (_left(found ^ _round(0, word), 27) * _P1 + _P4) & _MASK
        place += 8
    if place + 4 <= length:
        (half,) = struct.unpack_from("<I", data, place)
        found = (_left(found ^ (half * _P1 & _MASK), 23) * _P2 + _P3) & _MASK
        place += 4
    for byte in data[place:]:
        found = (_left(found ^ (byte * _P5 & _MASK), 11) * _P1) & _MASK
    found = ((found ^ (found >> 33)) * _P2) & _MASK
    found = ((found ^ (found >> 29)) * _P3) & _MASK
    return found ^ (found >> 32)


def _places(metadata: pq.FileMetaData, fields: Sequence[Field], *, by_id: bool) -> dict[Field, int]:
    """Return the positions in a file of those columns that can be probed in it."""
    names = positions_in_file(metadata, [field.name for field in fields])
    arrow = metadata.schema.to_arrow_schema() if by_id else None
    out = {}
    for field in fields:
        if field.name not in names:
            continue
        if arrow is not None:
            known = (arrow.field(field.name).metadata or {}).get(_ID)
            if known is None or int(known) != field.id:
                continue
        out[field] = names[field.name]
    return out


def _chunk_may_have(
    file: pa.NativeFile, chunk: pq.ColumnChunkMetaData, field: Field, values: Sequence[Value]
) -> bool:
    offset, length = chunk.bloom_filter_offset, chunk.bloom_filter_length
    name = field.type.name if isinstance(field.type, Primitive) else ""
    if not offset or not length or chunk.physical_type != _PHYSICAL.get(name):
        return True
    header = bytes(file.read_at(min(length, 64), offset))
    size, start = _number_of_bytes(header)
    if start == 0 or size % _BLOCK or header[start : start + len(_HEADER)] != _HEADER:
        return True
    first = offset + start + len(_HEADER)
    if first + size > offset + length:
        return True
    return any(_block_has(file, first, size // _BLOCK, xxh64(_plain(name, v))) for v in values)


def _block_has(file: pa.NativeFile, first: int, blocks: int, found: int) -> bool:
    place = ((found >> 32) * blocks) >> 32
    words = struct.unpack("<8I", bytes(file.read_at(_BLOCK, first + place * _BLOCK)))
    key = found & 0xFFFFFFFF
    return all(
        word >> ((key * salt & 0xFFFFFFFF) >> 27) & 1
        for word, salt in zip(words, _SALTS, strict=True)
    )


def _number_of_bytes(header: bytes) -> tuple[int, int]:
    """Return the filter's size in bytes and where that number ends; zeros if it is no header."""
    if not header or header[0] != _FIRST:
        return 0, 0
    found = shift = 0
    for place, byte in enumerate(header[1:6], 1):
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (found >> 1) ^ -(found & 1), place + 1
        shift += 7
    return 0, 0


def _plain(name: str, value: Value) -> bytes:
    """Return a value in Parquet's plain encoding."""
    if name == "string":
        return str(value).encode()
    return struct.pack("<q" if name == "int64" else "<i", value)


def _round(lane: int, word: int) -> int:
    return _left((lane + word * _P2) & _MASK, 31) * _P1 & _MASK


def _left(number: int, bits: int) -> int:
    return ((number << bits) | (number >> (64 - bits))) & _MASK
