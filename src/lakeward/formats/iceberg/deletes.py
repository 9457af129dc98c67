"""Finds the delete files that apply to a data file, and reads deletion vectors in Puffin files.

A position delete applies to data files with the same or a lower data sequence number, and only to
those that it lists. An equality delete applies to data files with a lower sequence number: rows
that are written together with it, or later, stay. Both apply within their own partition; equality
deletes of an unpartitioned spec apply to all data files.

A Puffin file is a sequence of blobs, with a JSON footer that gives offset, length and type of each.
A vector's blob is framed as in a Delta file of vectors: length, magic number, Roaring bitmap and
checksum.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import orjson

from lakeward.errors import CorruptTable, UnsupportedFeature
from lakeward.formats.delta import bitmap
from lakeward.formats.iceberg.private import position_deletes

if TYPE_CHECKING:
    from pyroaring import BitMap64

DELETE_FILES: Final = "delete_files"
"""The key of a deletion vector: the delete files that apply, each with its path and format."""
EQUALITY_IDS: Final = "equality_ids"
"""The key, in an entry of `delete_files`, of the ids of the fields that are compared."""
_MAGIC: Final = b"PFA1"
_VECTOR: Final = "deletion-vector-v1"
_LENGTH: Final = struct.Struct(">I")
_TAIL: Final = struct.Struct("<iI4s")
"""The end of a file: the size of the footer's JSON, flags, and the magic number."""


class DeleteIndex:
    """The delete files of a snapshot; `specs` are the table's partition specs by id."""

    def __init__(self, specs: Mapping[int, Mapping[str, Any]], location: str) -> None:
        self._location = location
        self._positions = position_deletes()
        self._equality: list[tuple[int, Any, Any]] = []
        self._unpartitioned = {
            number
            for number, spec in specs.items()
            if all(f["transform"] == "void" for f in spec["fields"])
        }

    def add(self, entry: Any) -> None:
        """Add a manifest entry of a delete file; raise `UnsupportedFeature` for unknown formats."""
        found = entry.data_file
        is_equality = found.content.name == "EQUALITY_DELETES"
        formats = ("PARQUET",) if is_equality else ("PARQUET", "PUFFIN")
        if found.file_format.name not in formats:
            what = f"The table at {self._location} has deletes in {found.file_format.name}."
            hint = "The lake reads Parquet and Puffin. Compact the table with Spark."
            raise UnsupportedFeature(what, hint=hint, path=found.file_path)
        if is_equality:
            is_global = (found.spec_id or 0) in self._unpartitioned
            self._equality.append((entry.sequence_number or 0, is_global, found))
        else:
            self._positions.add_delete_file(entry, partition_key=found.partition)

    def applying(self, entry: Any) -> list[dict[str, Any]]:
        """Return path and format of the delete files that apply to a data file, sorted by path."""
        found, sequence = entry.data_file, entry.sequence_number or 0
        positions = self._positions.for_data_file(sequence, found, partition_key=found.partition)
        out = [{"path": d.file_path, "format": d.file_format.name} for d in positions]
        for number, is_global, deletes in self._equality:
            if number > sequence and (is_global or _is_same_partition(deletes, found)):
                ids = sorted(deletes.equality_ids or ())
                out.append({"path": deletes.file_path, "format": "PARQUET", EQUALITY_IDS: ids})
        return sorted(out, key=lambda d: str(d["path"]))


def _is_same_partition(deletes: Any, data: Any) -> bool:
    return _partition(deletes) == _partition(data)


def _partition(file: Any) -> tuple[Any, ...]:
    """Return a value that identifies a partition; "NaN" stands for NaN, which equals nothing."""
    values = [file.partition[i] for i in range(len(file.partition))]
    return (file.spec_id or 0, *("NaN" if v != v else v for v in values))


def puffin_vector(data: bytes, path: str, of: str) -> BitMap64:
    """Return the deleted positions of the data file `of` in the Puffin file `path`.

    Raises `CorruptTable`, and `UnsupportedFeature` for compressed vectors.
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
    """Return a vector's bytes, after checking their length and checksum."""
    data = blob[_LENGTH.size : -_LENGTH.size]
    sound = len(blob) > 2 * _LENGTH.size and _LENGTH.unpack_from(blob)[0] == len(data)
    if not sound or zlib.crc32(data) != _LENGTH.unpack_from(blob, len(blob) - _LENGTH.size)[0]:
        what = f"A deletion vector in {path} does not match its checksum."
        raise CorruptTable(what, hint="Restore the file from a backup.", path=path)
    return data
