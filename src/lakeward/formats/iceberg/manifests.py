"""Reads and writes manifests and manifest lists.

An append adds one manifest; a removal rewrites the manifests that list a removed file;
`lakeward.formats.iceberg.merging` merges many small ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from lakeward.errors import CorruptTable
from lakeward.formats.iceberg import private
from lakeward.formats.iceberg.memory_files import output, source
from lakeward.formats.iceberg.private import Layout, is_data
from lakeward.formats.iceberg.spec import partition_tuple
from lakeward.formats.iceberg.values import to_bytes
from lakeward.model.definition import Definition
from lakeward.model.file import DataFile

FILE_PATH: Final = "file_path"
"""The key, in a file's `extra`, of its path exactly as its manifest has it."""


def layout_of(
    body: Mapping[str, Any],
    spec_id: int | None,
    *,
    read: Callable[[str], bytes],
    rewritten: Any = None,
) -> Layout:
    """Return the layout of a new manifest of a table, with the given or the default spec.

    `rewritten` is the older manifest whose entries the new one has; without it the new manifest
    lists data files. `read` returns the bytes of a manifest by its path.
    """
    schema = next(s for s in body["schemas"] if s["schema-id"] == body["current-schema-id"])
    wanted = body["default-spec-id"] if spec_id is None else spec_id
    spec = next(s for s in body["partition-specs"] if s["spec-id"] == wanted)
    if wanted != body["default-spec-id"]:
        sources = {f["source-id"] for f in spec["fields"]}
        schema = _with_sources(body["schemas"], schema, sources, rewritten, read)
    content = "data" if rewritten is None or is_data(rewritten) else "deletes"
    return Layout(orjson.dumps(schema), orjson.dumps(spec), body["format-version"], content)


def _with_sources(
    schemas: Sequence[Mapping[str, Any]],
    current: Mapping[str, Any],
    sources: set[int],
    rewritten: Any,
    read: Callable[[str], bytes],
) -> Mapping[str, Any]:
    """Return a schema that has the source columns of an older partition spec.

    The columns may have been dropped since; partition values have their types. The schema is one
    of the table's, else the one in the rewritten manifest's header, else the current one.
    """
    for schema in (current, *sorted(schemas, key=lambda s: -s["schema-id"])):
        if sources <= set(_field_ids(schema)):
            return schema
    if rewritten is None:
        return current
    path = rewritten.manifest_path
    kept = private.read_metadata(source(path, read(path))).get("schema")
    return current if kept is None else orjson.loads(kept)


def _field_ids(kind: Any) -> Iterator[int]:
    """Yield the ids of the fields of a schema or a type in the JSON form of metadata."""
    for field in kind.get("fields", ()) if isinstance(kind, Mapping) else ():
        yield field["id"]
        yield from _field_ids(field["type"])


@dataclass(frozen=True, slots=True)
class Written:
    """A manifest to be stored: its entry in the manifest list, its bytes, its live entries.

    `entries` is None if they were not decoded.
    """

    manifest: Any
    data: bytes
    entries: list[Any] | None


def written(
    layout: Layout,
    location: str,
    snapshot_id: int,
    *,
    added: Iterable[Any] = (),
    returned: Iterable[Any] = (),
    existing: Sequence[Any] = (),
    deleted: Iterable[Any] = (),
) -> Written:
    """Write a new manifest of the snapshot `snapshot_id`, for the path `location`.

    `added` are new data files; `returned` are entries of an older snapshot that are added again;
    `existing` and `deleted` are entries of older manifests that this snapshot keeps or deletes.
    """
    file = output(location)
    writer = private.manifest_writer(layout, file, snapshot_id)
    new = [private.new_entry(snapshot_id, data_file) for data_file in added]
    new += [private.returned_entry(snapshot_id, entry) for entry in returned]
    with writer:
        for entry in new:
            writer.add_entry(entry)
        for entry in existing:
            writer.existing(entry)
        for entry in deleted:
            writer.delete(entry)
    manifest = private.finished(writer.to_manifest_file(), len(file.data))
    return Written(manifest, file.data, [*new, *existing])


def data_file(file: DataFile, definition: Definition, path: str, spec: Mapping[str, Any]) -> Any:
    """Return the manifest's record of a file of the log, whose full path is `path`."""
    stats = file.stats
    by_id = definition.schema.by_id
    bounds: list[dict[int, bytes]] = [{}, {}]
    counts: dict[int, int] = {}
    nulls: dict[int, int] = {}
    if stats is not None:
        nulls = {i: n for i, n in stats.nulls.items() if i in by_id}
        counts = dict.fromkeys(nulls, file.rows or 0)
        for side, values in zip(bounds, (stats.minimum, stats.maximum), strict=True):
            for i, value in values.items():
                bound = to_bytes(by_id[i].type, value) if i in by_id else None
                if bound is not None:
                    side[i] = bound
    return private.new_data_file(
        file_path=path,
        partition=partition_tuple(spec, definition, file.partition),
        record_count=file.rows,
        file_size_in_bytes=file.size,
        column_sizes=None,
        value_counts=counts,
        null_value_counts=nulls,
        nan_value_counts=_no_nan(bounds[1], definition),
        lower_bounds=bounds[0],
        upper_bounds=bounds[1],
        key_metadata=None,
        split_offsets=[4],
        equality_ids=None,
        sort_order_id=None,
    )


def _no_nan(bounded: Iterable[int], definition: Definition) -> dict[int, int] | None:
    """Return a NaN count of 0 for float columns with an upper bound: these have no NaN."""
    by_id = definition.schema.by_id
    return {i: 0 for i in bounded if str(by_id[i].type) in ("float", "double")} or None


def with_sequences(entries: Iterable[Any], sequence_number: int) -> None:
    """Set the sequence number of entries that have none, as readers would inherit it."""
    for entry in entries:
        if entry.sequence_number is None:
            entry.sequence_number = sequence_number
        if entry.file_sequence_number is None:
            entry.file_sequence_number = sequence_number


def with_sequence(manifest: Any, sequence_number: int) -> Any:
    """Set a manifest's sequence numbers to those of its snapshot, if unassigned; return it."""
    unassigned = private.unassigned()
    if manifest.sequence_number == unassigned:
        manifest.sequence_number = sequence_number
    if manifest.min_sequence_number == unassigned:
        manifest.min_sequence_number = sequence_number
    return manifest


def with_row_ids(manifests: Iterable[Any], first: int) -> tuple[list[Any], int]:
    """Return manifests with row ids assigned from `first` on, and the next free id.

    Manifests that have ids keep them; one of an older format version gets ids for all its rows.
    """
    out = []
    for manifest in manifests:
        if not is_data(manifest) or private.first_row_id(manifest) is not None:
            out.append(manifest)
            continue
        out.append(private.with_first_row_id(manifest, first))
        first += (manifest.added_rows_count or 0) + (manifest.existing_rows_count or 0)
    return out, first


def inherit_row_ids(manifest: Any, entries: list[Any]) -> list[Any]:
    """Set the row ids that a manifest's entries inherit from it; return the entries."""
    first = private.first_row_id(manifest)
    if first is not None:
        private.set_row_ids(entries, first)
    return entries


def list_bytes(
    location: str,
    manifests: Sequence[Any],
    *,
    snapshot_id: int,
    parent_id: int | None,
    sequence_number: int,
    format_version: int,
    first_row_id: int | None = None,
) -> bytes:
    """Return the bytes of a manifest list."""
    file = output(location)
    writer = private.list_writer(
        format_version, file, snapshot_id, parent_id, sequence_number, first_row_id
    )
    with writer as out:
        out.add_manifests(list(manifests))
    data: bytes = file.data
    return data


def read_list(location: str, data: bytes) -> list[Any]:
    """Return the manifests in a manifest list; raise `CorruptTable` if it is damaged."""
    try:
        return private.read_list(source(location, data))
    except Exception as error:
        raise _damaged(location, error) from error


def unlisted(location: str, data: bytes) -> Any:
    """Return the list entry of a version 1 manifest that is in no manifest list.

    Raises `CorruptTable`.
    """
    try:
        header = private.read_metadata(source(location, data))
        return private.new_manifest(
            manifest_path=location,
            manifest_length=len(data),
            partition_spec_id=int(header.get("partition-spec-id", 0)),
            sequence_number=0,
            min_sequence_number=0,
        )
    except Exception as error:
        raise _damaged(location, error) from error


def read_entries(manifest: Any, data: bytes, *, deleted: bool = False) -> list[Any]:
    """Return a manifest's entries, with what they inherit from it.

    Deleted entries are left out unless `deleted` is set. Raises `CorruptTable`.
    """
    try:
        file = source(manifest.manifest_path, data)
        return private.read_entries(file, manifest, deleted=deleted)
    except Exception as error:
        raise _damaged(manifest.manifest_path, error) from error


def is_live(manifest: Any) -> bool:
    """Return whether a manifest lists a file that is not deleted."""
    return bool((manifest.added_files_count or 0) + (manifest.existing_files_count or 0))


def _damaged(location: str, error: Exception) -> CorruptTable:
    what = f"The manifest file {location} cannot be read: {error!r}."
    return CorruptTable(what, hint="`lakeward doctor` checks the table.", path=location)
