"""Rewrites the metadata of a moved Iceberg table, with all its snapshots.

No existing file changes: the new files have new names in the same directories, and are used once
the catalog points to the new document. Snapshots keep their ids. Iceberg stores full paths, so
manifests, their lists and delete files are written again; each file's records are decoded and
encoded by the file's own schema, and only the paths change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final
from uuid import uuid4

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeward.errors import CorruptTable, LakewardError, UnsupportedFeature
from lakeward.formats.iceberg.avro_files import read_records, write_records
from lakeward.formats.iceberg.document import Document, parse
from lakeward.formats.iceberg.hints import document_number
from lakeward.formats.iceberg.listing import schemeless
from lakeward.formats.iceberg.memory_files import output, source

_PLACES: Final = ("statistics", "partition-statistics")
_MANIFEST_PATH, _MANIFEST_LENGTH = 500, 501
_STATUS, _DATA_FILE, _FILE_PATH, _FORMAT, _SIZE = 0, 2, 100, 101, 104
_LOWER, _UPPER, _CONTENT, _REFERENCED = 125, 128, 134, 143
_POSITION_DELETES: Final = 1
_REMOVED: Final = 2
"""The status of an entry for a file that the snapshot does not have any more."""
_PATH_COLUMN: Final = 2147483546
_MAGIC: Final = b"PFA1"
_TAIL: Final = 12
"""The number of bytes of a Puffin file after the footer's JSON: its length, flags, magic number."""

Moved = Callable[[str], str]
Written = tuple[str, int]
"""The full path and the size of a rewritten file."""


@dataclass
class MovedTables:
    """Collects rewritten metadata; a file that several documents use is written once.

    Attributes:
        moved: Returns a file's new full path.
        read: Returns a file's bytes by its new full path.
        token: Part of the names of new files.
        files: Full paths and bytes of the files to write.
    """

    moved: Moved
    read: Callable[[str], bytes]
    token: str
    files: list[tuple[str, bytes]] = field(default_factory=list)
    _written: dict[str, Written] = field(default_factory=dict)
    _documents: dict[str, str] = field(default_factory=dict)

    def document(self, pointer: str) -> str:
        """Rewrite a document and all its metadata files; return its new path.

        Raises `CorruptTable`.
        """
        known = self._documents.get(pointer)
        if known is not None:
            return known
        name = self.moved(pointer)
        found = parse(name, self.read(name))
        number = document_number(name)
        directory = name.rpartition("/")[0]
        place = f"{directory}/{(number or 0) + 1:05d}-{uuid4()}.metadata.json"
        new = self._moved(found).after(place, found.updated_ms)
        self.files.append((place, new.encode()))
        self._documents[pointer] = place
        return place

    def in_place(self, name: str) -> bytes:
        """Return the new bytes of a document that keeps its name; rewrite its metadata files."""
        return self._moved(parse(name, self.read(name))).encode()

    def manifest_list(self, name: str) -> str:
        """Rewrite a manifest list with its manifests; return its new path; raise `CorruptTable`."""
        return self._anew(name, self._list)[0]

    def deletes(self, name: str, kind: str) -> Written:
        """Rewrite a file of position deletes; return its new path and size."""
        return self._anew(name, lambda at, data: moved_deletes(at, kind, data, self.moved))

    def _moved(self, found: Document) -> Document:
        body = dict(found.body)
        body["location"] = self.moved(body["location"])
        if "properties" in body:
            body["properties"] = {k: self.moved(v) for k, v in found.properties.items()}
        for key in _PLACES:
            if key in body:
                body[key] = [self._statistics(s) for s in body[key] or ()]
        current = found.current_id
        snapshots = [
            self._snapshot(s, is_current=s["snapshot-id"] == current)
            for s in orjson.loads(b"[%s]" % found.snapshots)
        ]
        log = [orjson.loads(text) for text in found.metadata_log]
        for entry in log:
            entry["metadata-file"] = self.moved(entry["metadata-file"])
        return replace(
            found,
            body=body,
            snapshots=b",".join(map(orjson.dumps, snapshots)),
            metadata_log=tuple(map(orjson.dumps, log)),
            current=next((s for s in snapshots if s["snapshot-id"] == current), None),
        )

    def _snapshot(self, snapshot: dict[str, Any], *, is_current: bool) -> dict[str, Any]:
        """Return a snapshot with its rewritten list; an old one that is damaged stays damaged."""
        try:
            if "manifest-list" in snapshot:
                return {**snapshot, "manifest-list": self.manifest_list(snapshot["manifest-list"])}
            names = [self._manifest(name)[0] for name in snapshot.get("manifests") or ()]
        except CorruptTable:
            if is_current:
                raise
            return {**snapshot, "manifest-list": self.moved(snapshot.get("manifest-list", ""))}
        return {**snapshot, "manifests": names}

    def _list(self, name: str, data: bytes) -> bytes:
        return moved_list(name, data, self._manifest)

    def _manifest(self, name: str) -> Written:
        return self._anew(name, lambda at, d: moved_manifest(at, d, self.moved, self.deletes))

    def _statistics(self, source: dict[str, Any]) -> dict[str, Any]:
        return {**source, "statistics-path": self.moved(source["statistics-path"])}

    def _anew(self, name: str, make: Callable[[str, bytes], bytes]) -> Written:
        old = self.moved(name)
        # Writers spell the same local path with and without a scheme.
        known = self._written.get(schemeless(old))
        if known is not None:
            return known
        directory, _, last = old.rpartition("/")
        stem, dot, suffix = last.rpartition(".")
        place = f"{directory}/{stem or last}-{self.token}{dot}{suffix if dot else ''}"
        try:
            data = make(old, self.read(old))
        except CorruptTable:
            raise
        except LakewardError as error:
            what = f"The metadata file {old} cannot be written anew: {error.what}"
            raise CorruptTable(what, hint=error.hint, path=old) from error
        self.files.append((place, data))
        self._written[schemeless(old)] = place, len(data)
        return place, len(data)


def moved_list(name: str, data: bytes, manifest: Callable[[str], Written]) -> bytes:
    """Return a manifest list's bytes, with the paths and sizes of rewritten manifests."""

    def change(record: Any, at: dict[int, int]) -> None:
        record[at[_MANIFEST_PATH]], record[at[_MANIFEST_LENGTH]] = manifest(
            record[at[_MANIFEST_PATH]]
        )

    return _changed(name, data, change)


def moved_manifest(
    name: str, data: bytes, moved: Moved, deletes: Callable[[str, str], Written]
) -> bytes:
    """Return a manifest's bytes, with the new paths of its files.

    `deletes` rewrites a file of position deletes, given its path and format.
    """

    def change(record: Any, at: dict[int, int]) -> None:
        file, inner = record[at[_DATA_FILE]], at
        if _CONTENT in inner and file[inner[_CONTENT]] == _POSITION_DELETES:
            kind, path = str(file[inner[_FORMAT]]).upper(), file[inner[_FILE_PATH]]
            try:
                file[inner[_FILE_PATH]], file[inner[_SIZE]] = deletes(path, kind)
            except CorruptTable:
                # A vacuum may have deleted a file that was removed.
                if record[at[_STATUS]] != _REMOVED:
                    raise
                file[inner[_FILE_PATH]] = moved(path)
            _bounds(file, inner, moved)
        else:
            file[inner[_FILE_PATH]] = moved(file[inner[_FILE_PATH]])
        if _REFERENCED in inner and file[inner[_REFERENCED]] is not None:
            file[inner[_REFERENCED]] = moved(file[inner[_REFERENCED]])

    return _changed(name, data, change)


def moved_deletes(name: str, kind: str, data: bytes, moved: Moved) -> bytes:
    """Return a file of position deletes with the new paths of data files.

    Raises `UnsupportedFeature` for formats other than Parquet and Puffin, and `CorruptTable`.
    """
    try:
        if kind == "PARQUET":
            return _moved_parquet(data, moved)
        if kind == "PUFFIN":
            return _moved_puffin(name, data, moved)
    except LakewardError:
        raise
    except (pa.ArrowException, OSError, ValueError, LookupError) as error:
        what = f"The position deletes {name} cannot be read: {error}."
        raise CorruptTable(what, path=name) from error
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
    """Return a Puffin file with a new footer, which has the path of each blob's data file."""
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
    """Move the bounds of a delete file's path column; remove them if it has several paths."""
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
    """Return an Avro file's bytes after `change` has modified each record.

    `change` takes a record and the positions of its fields by id.
    """
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
