"""Deletion vectors of Iceberg tables, which are stored in Puffin files.

A Puffin file is a sequence of blobs, with a JSON footer that says where each begins and what it is
for. A vector's blob is framed as in a Delta file of vectors: length, magic number, Roaring bitmap
and checksum.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any, Final

import orjson

from lakeward.errors import CorruptTable, UnsupportedFeature
from lakeward.formats.delta import bitmap

if TYPE_CHECKING:
    from pyroaring import BitMap64

_MAGIC: Final = b"PFA1"
_VECTOR: Final = "deletion-vector-v1"
_LENGTH: Final = struct.Struct(">I")
_TAIL: Final = struct.Struct("<iI4s")
"""The end of a file: the size of the footer's JSON, flags, and the magic number."""


def vector(data: bytes, path: str, of: str) -> BitMap64:
    """The deleted positions of the data file `of` in the Puffin file `path`.

    Raises `CorruptTable`, and `UnsupportedFeature` for compressed ones.
    """
    from pyroaring import BitMap64

    found = BitMap64()
    for blob in _blobs(data, path):
        if blob.get("type") != _VECTOR:
            continue
        if (blob.get("properties") or {}).get("referenced-data-file") != of:
            continue
        if blob.get("compression-codec") is not None:
            what = f"A deletion vector in {path} is compressed."
            raise UnsupportedFeature(what, hint="Compact the table with Spark.", path=path)
        begin, size = int(blob["offset"]), int(blob["length"])
        found |= bitmap.decode(_framed(data[begin : begin + size], path))
    return found


def _blobs(data: bytes, path: str) -> list[dict[str, Any]]:
    try:
        size, flags, magic = _TAIL.unpack_from(data, len(data) - _TAIL.size)
        if magic != _MAGIC or data[: len(_MAGIC)] != _MAGIC:
            raise ValueError(magic)
        if flags:
            what = f"The footer of the Puffin file {path} is compressed."
            raise UnsupportedFeature(what, hint="Compact the table with Spark.", path=path)
        end = len(data) - _TAIL.size
        blobs: list[dict[str, Any]] = orjson.loads(data[end - size : end])["blobs"]
    except (struct.error, ValueError, KeyError, TypeError) as error:
        what = f"The Puffin file {path} is damaged: {error!r}."
        raise CorruptTable(what, hint="Restore the file from a backup.", path=path) from error
    return blobs


def _framed(blob: bytes, path: str) -> bytes:
    """A vector's bytes, after checking their length and checksum."""
    data = blob[_LENGTH.size : -_LENGTH.size]
    sound = len(blob) > 2 * _LENGTH.size and _LENGTH.unpack_from(blob)[0] == len(data)
    if not sound or zlib.crc32(data) != _LENGTH.unpack_from(blob, len(blob) - _LENGTH.size)[0]:
        what = f"A deletion vector in {path} does not match its checksum."
        raise CorruptTable(what, hint="Restore the file from a backup.", path=path)
    return data
