"""Deletion vectors: the positions of a file's deleted rows, as bytes.

A vector is a magic number and a 64-bit Roaring bitmap in its portable form. An older form has
another magic number, a count, and 32-bit bitmaps, each after its length, in either byte order; it
is read and never written. A vector is stored in the log itself (storage type `i`) or in a file (`u`
and `p`): one byte for the version, then each vector between its length and its checksum.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lakeward.errors import CorruptTable
from lakeward.formats.delta.vectors import decoded, named, vector_path

if TYPE_CHECKING:
    import uuid

    from pyroaring import BitMap64

_MAGIC: Final = 1681511377
_OLDER_MAGIC: Final = 1681511376
_VERSION: Final = 1
_LENGTH: Final = struct.Struct(">i")
_CHECKSUM: Final = struct.Struct(">I")
_WORD: Final = struct.Struct("<i")


def bitmap(positions: pa.Array | pa.ChunkedArray) -> BitMap64:
    """Return the set of the given row positions, which are non-negative and in any order."""
    from pyroaring import BitMap64

    if isinstance(positions, pa.ChunkedArray):
        positions = positions.combine_chunks()
    numbers = positions.cast(pa.uint64())
    if not len(numbers):
        return BitMap64()
    buffer = numbers.buffers()[1].slice(numbers.offset * 8, len(numbers) * 8)
    return BitMap64(memoryview(buffer).cast("B").cast("Q"))


def encode(found: BitMap64) -> bytes:
    """Return a vector's bytes."""
    found.run_optimize()
    return _WORD.pack(_MAGIC) + found.serialize()


def decode(data: bytes) -> BitMap64:
    """Return the set of positions in a vector's bytes; raise `CorruptTable` if it is malformed."""
    from pyroaring import BitMap64

    older = next((o for o in "<>" if data[:4] == struct.pack(f"{o}i", _OLDER_MAGIC)), None)
    if older is None and data[: _WORD.size] != _WORD.pack(_MAGIC):
        what = "A deletion vector does not begin as one of a known format."
        raise CorruptTable(what, hint="Read the table with the engine that wrote it.")
    try:
        if older is not None:
            return _older(data, older)
        return BitMap64.deserialize(data[_WORD.size :])
    except (ValueError, struct.error) as error:
        what = f"A deletion vector cannot be understood: {error}."
        raise CorruptTable(what, hint="`lakeward doctor` looks at the table's files.") from error


def _older(data: bytes, order: str) -> BitMap64:
    """Decode the older form, in byte order `order`: one 32-bit bitmap for each 2**32 positions."""
    from pyroaring import BitMap, BitMap64

    word = struct.Struct(f"{order}i")
    (count,), place = word.unpack_from(data, 4), 8
    found = BitMap64()
    for number in range(count):
        (size,) = word.unpack_from(data, place)
        place += word.size
        if size < 0 or place + size > len(data):
            message = "it is cut off"
            raise ValueError(message)
        part = BitMap.deserialize(data[place : place + size])
        found |= BitMap64(position + (number << 32) for position in part)
        place += size
    return found


def read(vector: Mapping[str, Any], fetch: Callable[[str], bytes]) -> BitMap64:
    """Return the positions of the rows that are deleted according to a descriptor.

    `fetch` reads a file by its path in the table's log. Raises `CorruptTable` if the vector does
    not match its descriptor.
    """
    try:
        size, count = int(vector["sizeInBytes"]), int(vector["cardinality"])
        path = vector_path(vector)
        inline = decoded(str(vector["pathOrInlineDv"]))[:size] if path is None else b""
    except (KeyError, ValueError, OverflowError) as error:
        what = f"The deletion vector {dict(vector)} cannot be understood."
        raise CorruptTable(what, hint="Read the table with the engine that wrote it.") from error
    data = inline if path is None else _cut(fetch(path), vector.get("offset") or 1, size, path)
    found = decode(data)
    if len(found) != count:
        place = "in the log" if path is None else f"in {path}"
        what = f"The deletion vector {place} has {len(found)} rows; its descriptor says {count}."
        raise CorruptTable(what, hint="`lakeward doctor` looks at the table's files.")
    return found


def vector_bytes(name: uuid.UUID, found: Iterable[BitMap64]) -> tuple[bytes, list[dict[str, Any]]]:
    """Return the bytes of one file for several non-empty vectors, and the descriptor of each.

    `name` becomes the file's name by `lakeward.formats.delta.vectors.file_name`.
    """
    out, descriptors = bytearray([_VERSION]), []
    for each in found:
        data = encode(each)
        descriptors.append(
            {
                "storageType": "u",
                "pathOrInlineDv": named(name),
                "offset": len(out),
                "sizeInBytes": len(data),
                "cardinality": len(each),
            }
        )
        out += _LENGTH.pack(len(data)) + data + _CHECKSUM.pack(zlib.crc32(data))
    return bytes(out), descriptors


def _cut(source: bytes, offset: int, size: int, path: str) -> bytes:
    """Return one vector of a file, after checking its length and checksum."""
    begin = offset + _LENGTH.size
    end = begin + size
    if not source or source[0] != _VERSION or len(source) < end + _CHECKSUM.size:
        what = f"The file {path} of deletion vectors is of another format, or cut off."
        raise CorruptTable(what, hint="Restore the file from a backup.", path=path)
    data = source[begin:end]
    checksum = _CHECKSUM.unpack_from(source, end)[0]
    if _LENGTH.unpack_from(source, offset)[0] != size or zlib.crc32(data) != checksum:
        what = f"The deletion vector at {offset} of {path} does not match its checksum."
        raise CorruptTable(what, hint="Restore the file from a backup.", path=path)
    return data
