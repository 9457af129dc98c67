"""Manifests, manifest lists and delete files, rewritten after their table was moved.

Iceberg stores full paths, so all of these are written again. Records are decoded and encoded by the
schema of their own file, and only the paths in them change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeward.errors import CorruptTable, UnsupportedFeature
from lakeward.formats.iceberg.private import output, read_records, source, write_records

_MANIFEST_PATH, _MANIFEST_LENGTH = 500, 501
_DATA_FILE, _FILE_PATH, _FORMAT, _SIZE = 2, 100, 101, 104
_LOWER, _UPPER, _CONTENT, _REFERENCED = 125, 128, 134, 143
_POSITION_DELETES: Final = 1
_PATH_COLUMN: Final = 2147483546
_MAGIC: Final = b"PFA1"
_TAIL: Final = 12
"""Bytes of a Puffin file after its footer's text: its length, flags and the magic word."""

Moved = Callable[[str], str]
Written = tuple[str, int]
"""The name and the size of a file that was written anew."""


def moved_list(name: str, data: bytes, manifest: Callable[[str], Written]) -> bytes:
    """A manifest list with the paths and sizes of rewritten manifests."""

    def change(record: Any, at: dict[int, int]) -> None:
        record[at[_MANIFEST_PATH]], record[at[_MANIFEST_LENGTH]] = manifest(
            record[at[_MANIFEST_PATH]]
        )

    return _changed(name, data, change)


def moved_manifest(
    name: str, data: bytes, moved: Moved, deletes: Callable[[str, str], Written]
) -> bytes:
    """A manifest with the new paths of its files.

    `deletes` rewrites a file of position deletes, given its path and format.
    """

    def change(record: Any, at: dict[int, int]) -> None:
        file, inner = record[at[_DATA_FILE]], at
        if _CONTENT in inner and file[inner[_CONTENT]] == _POSITION_DELETES:
            kind = str(file[inner[_FORMAT]]).upper()
            file[inner[_FILE_PATH]], file[inner[_SIZE]] = deletes(file[inner[_FILE_PATH]], kind)
            _bounds(file, inner, moved)
        else:
            file[inner[_FILE_PATH]] = moved(file[inner[_FILE_PATH]])
        if _REFERENCED in inner and file[inner[_REFERENCED]] is not None:
            file[inner[_REFERENCED]] = moved(file[inner[_REFERENCED]])

    return _changed(name, data, change)


def moved_deletes(name: str, kind: str, data: bytes, moved: Moved) -> bytes:
    """A file of position deletes with the new paths of data files. Raises `UnsupportedFeature`."""
    if kind == "PARQUET":
        return _moved_parquet(data, moved)
    if kind == "PUFFIN":
        return _moved_puffin(name, data, moved)
    what = f"The position deletes {name} are a file of the format {kind}."
    hint = "Move the lake back, and compact the table with Spark first."
    raise UnsupportedFeature(what, hint=hint, path=name)


def _moved_parquet(data: bytes, moved: Moved) -> bytes:
    table = pq.read_table(pa.BufferReader(data))
    place = table.schema.get_field_index("file_path")
    paths = table.column(place).combine_chunks().dictionary_encode()
    names = pa.array([moved(p) for p in paths.dictionary.to_pylist()], pa.string())
    column = pc.take(names, paths.indices)
    field = table.schema.field(place).with_type(pa.string())
    out = pa.BufferOutputStream()
    pq.write_table(table.set_column(place, field, column), out)
    return bytes(out.getvalue())


def _moved_puffin(name: str, data: bytes, moved: Moved) -> bytes:
    """The file with a new footer, which names the data file of each blob."""
    length = int.from_bytes(data[-_TAIL : -_TAIL + 4], "little")
    start = len(data) - _TAIL - length
    compressed = data[-8] & 1
    if not data.endswith(_MAGIC) or compressed or data[start - 4 : start] != _MAGIC:
        what = f"The deletion vectors {name} have a footer that cannot be understood."
        raise UnsupportedFeature(what, hint="Compact the table with Spark first.", path=name)
    footer = orjson.loads(data[start:-_TAIL])
    for blob in footer["blobs"]:
        known = blob.get("properties", {})
        if "referenced-data-file" in known:
            known["referenced-data-file"] = moved(known["referenced-data-file"])
    text = orjson.dumps(footer)
    return data[:start] + text + len(text).to_bytes(4, "little") + data[-8:]


def _bounds(file: Any, at: dict[int, int], moved: Moved) -> None:
    """Bounds of the column of paths: moved where they name one file, else left out."""
    if _LOWER not in at or _UPPER not in at:
        return
    if file[at[_LOWER]] is None or file[at[_UPPER]] is None:
        return
    lower, upper = dict(file[at[_LOWER]]), dict(file[at[_UPPER]])
    low, high = lower.pop(_PATH_COLUMN, None), upper.pop(_PATH_COLUMN, None)
    if low is not None and low == high:
        lower[_PATH_COLUMN] = upper[_PATH_COLUMN] = moved(low.decode()).encode()
    file[at[_LOWER]], file[at[_UPPER]] = lower, upper


def _changed(name: str, data: bytes, change: Callable[[Any, dict[int, int]], None]) -> bytes:
    """An Avro file after `change` was called with each record and its fields' positions by id."""
    try:
        records, schema, header = read_records(source(name, data))
    except Exception as error:
        what = f"The manifest file {name} cannot be read: {error!r}."
        raise CorruptTable(what, hint="`lakeward doctor` checks the table.", path=name) from error
    at = {f.field_id: i for i, f in enumerate(schema.fields)}
    if _DATA_FILE in at:
        inner = schema.fields[at[_DATA_FILE]].field_type.fields
        at |= {f.field_id: i for i, f in enumerate(inner) if f.field_id >= _FILE_PATH}
    for record in records:
        change(record, at)
    out = output(name)
    write_records(out, records, schema, header)
    written: bytes = out.data
    return written
