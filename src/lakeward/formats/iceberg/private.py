"""Uses internals of pyiceberg, as only `avro_files` and `memory_files` do besides.

Tests check that the internals exist. Manifests and manifest lists are read and written by
pyiceberg's Avro code, in memory: the bytes go through the warehouse's storage as for all files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from lakeward.formats.iceberg.avro_files import (
    CODEC,
    LAYOUT,
    Shape,
    input_class,
    output_class,
    shape_of,
)
from lakeward.formats.iceberg.extra import pyiceberg

COMPLETE: Final = "lakeward.complete"
"""The key in the header of manifests whose entries inherit nothing and are not new."""
_MANIFEST_ROW_ID: Final = 15
_FILE_ROW_ID: Final = 16
_CONTENT_SIZE: Final = 19
"""The positions of `first_row_id` in the records of manifests and data files."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A table's schema and partition spec, as JSON text, and its format version.

    `content` is `data`, or `deletes` for manifests of delete files. `is_complete` says that the
    entries of the manifest inherit nothing from it.
    """

    schema: bytes
    spec: bytes
    format_version: int
    content: str = "data"
    is_complete: bool = False


def complete(layout: Layout) -> Layout:
    """Return the layout of a manifest with complete entries."""
    return replace(layout, is_complete=True)


def is_complete(entry: Any, format_version: int) -> bool:
    """Return whether an entry has all numbers that it could inherit from its manifest."""
    numbers = [entry.snapshot_id, entry.sequence_number, entry.file_sequence_number]
    if format_version >= LAYOUT:
        numbers.append(file_row_id(entry))
    return None not in numbers


def load_writers() -> None:
    """Load what writing metadata needs of pyiceberg, which takes hundreds of milliseconds once."""
    for loaded in (input_class, output_class, _manifest_class, _list_class):
        loaded()


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


def read_list(file: Any) -> list[Any]:
    """Return the manifests of a list."""
    with input_class()(file, "list") as reader:
        return list(reader)


def read_entries(file: Any, manifest: Any, *, deleted: bool) -> list[Any]:
    """Return a manifest's entries with what they inherit from it; deleted ones if `deleted`."""
    api = pyiceberg("manifest")
    with input_class()(file, "manifest") as reader:
        return [
            api._inherit_from_manifest(entry, manifest)
            for entry in reader
            if deleted or entry.status != api.ManifestEntryStatus.DELETED
        ]


def read_metadata(file: Any) -> dict[str, str]:
    """Return the header of a manifest."""
    with input_class()(file, "manifest") as reader:
        return dict(reader.header.meta)


def read_header(file: Any) -> tuple[dict[str, str], bytes, int]:
    """Return the header of a manifest, the bytes after each of its blocks, and its own length."""
    with input_class()(file, "manifest") as reader:
        return dict(reader.header.meta), bytes(reader.header.sync), reader.decoder.tell()


def joined_summaries(spec: bytes, schema: bytes, lists: Sequence[Sequence[Any]]) -> list[Any]:
    """Return what the partition summaries of several manifests say together."""
    stats, read = pyiceberg("manifest").PartitionFieldStats, pyiceberg("conversions").from_bytes
    fields = parsed_spec(spec).partition_type(parsed_schema(schema)).fields
    out = [stats(field.field_type) for field in fields]
    for number, (field, joined) in enumerate(zip(fields, out, strict=True)):
        for one in (summaries[number] for summaries in lists):
            joined._contains_null |= bool(one.contains_null)
            joined._contains_nan |= bool(one.contains_nan)
            for bound in (one.lower_bound, one.upper_bound):
                if bound is not None:
                    joined.update(read(field.field_type, bound))
    return [joined.to_summary() for joined in out]


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
        LAYOUT, content=api.DataFileContent.DATA, file_format=api.FileFormat.PARQUET, **fields
    )


def new_manifest(**fields: Any) -> Any:
    """Return a manifest list's record of a manifest of data files."""
    api = pyiceberg("manifest")
    return api.ManifestFile.from_args(LAYOUT, content=api.ManifestContent.DATA, **fields)


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
            return output_class()(self._output_file, self._shape, self._shape.metadata)

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
            self._writer = output_class()(self._output_file, self._shape, self._meta)
            self._writer.__enter__()
            return self

    return Writer


@lru_cache(maxsize=256)
def _manifest_shape(layout: Layout) -> Shape:
    api = pyiceberg("manifest")
    plain = api.ManifestWriterV2(
        parsed_spec(layout.spec), parsed_schema(layout.schema), None, 0, CODEC
    )
    stored, given = (plain._with_partition(v) for v in (layout.format_version, LAYOUT))
    if layout.content != "data":
        stored, given = _with_int_ids(stored), _with_int_ids(given)
    metadata = {"format-version": str(layout.format_version), "content": layout.content}
    if layout.is_complete:
        metadata[COMPLETE] = "true"
    return shape_of(stored, given, "manifest_entry", {**plain._meta, **metadata})


def _with_int_ids(schema: Any) -> Any:
    """Return a schema whose equality ids are int: pyiceberg declares long, others read int."""
    text = schema.model_dump_json()
    found = text.replace('"element-id":136,"element":"long"', '"element-id":136,"element":"int"')
    return type(schema).model_validate_json(found)


@lru_cache(maxsize=4)
def _list_shape(format_version: int) -> Shape:
    api = pyiceberg("manifest")
    schemas = api.MANIFEST_LIST_FILE_SCHEMAS
    return shape_of(schemas[format_version], schemas[LAYOUT], "manifest_file", {})


@lru_cache(maxsize=256)
def parsed_schema(text: bytes) -> Any:
    """Return pyiceberg's schema of JSON text."""
    return pyiceberg("schema").Schema.model_validate_json(text)


@lru_cache(maxsize=256)
def parsed_spec(text: bytes) -> Any:
    """Return pyiceberg's partition spec of JSON text."""
    return pyiceberg("partitioning").PartitionSpec.model_validate_json(text)
