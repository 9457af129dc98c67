"""Lists the files of snapshots as the log's data files, and the difference of two snapshots.

Only manifests that one of the two snapshots does not have are read. The delete files that apply to
a data file are its deletion vector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lakeward.errors import CorruptTable, UnsupportedFeature
from lakeward.formats.iceberg.definition import specs_of
from lakeward.formats.iceberg.deletes import DELETE_FILES, DeleteIndex
from lakeward.formats.iceberg.document import Document
from lakeward.formats.iceberg.manifests import FILE_PATH, read_entries, read_list, unlisted
from lakeward.formats.iceberg.private import is_data
from lakeward.formats.iceberg.spec import partition_values
from lakeward.formats.iceberg.values import from_bytes
from lakeward.model.definition import Definition
from lakeward.model.file import DataFile, FileStats
from lakeward.model.types import Primitive, Type

Files = dict[tuple[str, str | None], DataFile]
"""Data files, by path and `vector_id` of the deletes that apply to them."""


@dataclass
class ManifestReader:
    """Reads a table's metadata.

    `read` returns a file's bytes by its full path; `location` is the table's directory.
    """

    read: Callable[[str], bytes]
    location: str
    _entries: dict[str, list[Any]] = field(default_factory=dict)

    def manifests(self, snapshot: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the manifests of a snapshot by their paths; raise `CorruptTable` if damaged."""
        if snapshot is None:
            return {}
        if "manifest-list" not in snapshot:
            # The first writers of version 1 named the manifests in the snapshot itself.
            return {p: unlisted(p, self.read(p)) for p in snapshot["manifests"]}
        place = snapshot["manifest-list"]
        return {m.manifest_path: m for m in read_list(place, self.read(place))}

    def entries(self, manifest: Any) -> list[Any]:
        """Return the live entries of a manifest."""
        path = manifest.manifest_path
        if path not in self._entries:
            self._entries[path] = read_entries(manifest, self.read(path))
        return self._entries[path]

    def forget(self, manifests: Iterable[str]) -> None:
        """Drop cached entries of manifests that no later snapshot has."""
        for path in manifests:
            self._entries.pop(path, None)


def difference(
    source: ManifestReader,
    document: Document,
    definition: Definition,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
) -> tuple[list[DataFile], list[DataFile]]:
    """Return the data files that only `after` has, and those that only `before` has.

    `before` and `after` are manifests by path. Raises `CorruptTable`, `UnsupportedFeature`.
    """
    ended = [m for p, m in before.items() if p not in after]
    begun = [m for p, m in after.items() if p not in before]
    if any(not is_data(m) for m in (*before.values(), *after.values())):
        old = all_files(source, document, definition, before.values())
        new = all_files(source, document, definition, after.values())
    else:
        old = all_files(source, document, definition, ended)
        new = all_files(source, document, definition, begun)
    added = [f for key, f in new.items() if key not in old]
    removed = [f for key, f in old.items() if key not in new]
    source.forget(m.manifest_path for m in ended)
    return added, removed


def all_files(
    source: ManifestReader, document: Document, definition: Definition, manifests: Iterable[Any]
) -> Files:
    """Return the files that manifests list, in their order, with the deletes that apply.

    Raises `UnsupportedFeature` if they list a file twice: readers return its rows twice, too.
    """
    listed = list(manifests)
    deletes = _deletes(source, document, [m for m in listed if not is_data(m)])
    specs = specs_of(document.body)
    out: Files = {}
    for manifest in listed:
        if not is_data(manifest):
            continue
        try:
            spec = specs[manifest.partition_spec_id]
        except KeyError as error:
            what = f"{document.location} has no partition spec {manifest.partition_spec_id}."
            raise CorruptTable(what, path=manifest.manifest_path) from error
        for entry in source.entries(manifest):
            file = _file(source, definition, spec, entry, deletes)
            key = file.path, vector_id(file.deletion_vector)
            if key in out:
                what = f"{document.location} lists the data file {file.path} more than once."
                hint = "Compact the table with the engine that wrote it, so that each is new."
                raise UnsupportedFeature(what, hint=hint, path=file.path)
            out[key] = file
    return out


def vector_id(vector: Mapping[str, Any] | None) -> str | None:
    """Return an id of the deletes that apply to a data file; None without deletes."""
    return None if vector is None else ",".join(d["path"] for d in vector[DELETE_FILES])


def relative(path: str, location: str) -> str:
    """Return a file's path relative to the table's directory, or in full if it is elsewhere.

    Raises `CorruptTable` for a path with `..` in it.
    """
    plain, base = schemeless(path), schemeless(location).rstrip("/")
    if ".." in plain.split("/"):
        what = f"The table at {location} lists {path!r}, which climbs out of a directory."
        raise CorruptTable(what, path=path)
    return plain.removeprefix(f"{base}/") if plain.startswith(f"{base}/") else plain


def schemeless(path: str) -> str:
    """Return a local path without `file:` before it; any other path unchanged."""
    if path.startswith("file:"):
        return "/" + path.removeprefix("file:").lstrip("/")
    return path


def _deletes(source: ManifestReader, document: Document, manifests: Iterable[Any]) -> DeleteIndex:
    """Return an index of the delete files that manifests list."""
    index = DeleteIndex(specs_of(document.body), source.location)
    for manifest in manifests:
        for entry in source.entries(manifest):
            index.add(entry)
    return index


def _file(
    source: ManifestReader,
    definition: Definition,
    spec: Mapping[str, Any],
    entry: Any,
    deletes: DeleteIndex,
) -> DataFile:
    found = entry.data_file
    if found.file_format.name != "PARQUET":
        what = f"{found.file_path} is {found.file_format.name}, not Parquet."
        raise UnsupportedFeature(what, hint="The lake reads Parquet only.", path=found.file_path)
    vector = deletes.applying(entry)
    path = relative(found.file_path, source.location)
    is_usual = f"{source.location}/{path}" == found.file_path
    values = [found.partition[i] for i in range(len(found.partition))]
    return DataFile(
        path=path,
        size=found.file_size_in_bytes,
        rows=found.record_count,
        modified_ms=0,
        partition=partition_values(spec, definition, values),
        stats=_stats(found, definition),
        deletion_vector={DELETE_FILES: vector} if vector else None,
        extra=None if is_usual else {FILE_PATH: found.file_path},
    )


def _stats(found: Any, definition: Definition) -> FileStats | None:
    indexed = {f.id: f.type for f in definition.schema.indexed}
    nulls = {i: n for i, n in (found.null_value_counts or {}).items() if i in indexed}
    lower, upper = (
        {i: from_bytes(indexed[i], data) for i, data in (bounds or {}).items() if i in indexed}
        for bounds in (found.lower_bounds, found.upper_bounds)
    )
    # Bounds ignore NaN, which is greater than all numbers, and few writers count NaN.
    counted = {i for i, n in (found.nan_value_counts or {}).items() if n == 0}
    unsure = {i for i in indexed if _is_floating(indexed[i]) and i not in counted}
    minimum = {i: bound for i, bound in lower.items() if bound is not None}
    maximum = {i: bound for i, bound in upper.items() if bound is not None and i not in unsure}
    if not nulls and not minimum and not maximum:
        return None
    return FileStats(minimum, maximum, nulls, tight=False)


def _is_floating(kind: Type) -> bool:
    return isinstance(kind, Primitive) and kind.name in ("float", "double")
