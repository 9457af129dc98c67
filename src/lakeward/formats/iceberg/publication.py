"""Makes the Iceberg metadata files of a commit, which are written before it is ratified.

The next metadata document is derived from the newest. Readers do not find it until the catalog
points to it, which happens in the transaction that ratifies the commit.
"""

from __future__ import annotations

import secrets
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lakeward.formats.iceberg import manifests as api
from lakeward.formats.iceberg import merging, unused_deletes
from lakeward.formats.iceberg.definition import NAME, schemas_of, specs_of
from lakeward.formats.iceberg.deletes import DeleteIndex
from lakeward.formats.iceberg.document import METADATA_DIRECTORY, Document
from lakeward.formats.iceberg.expiry import bounded, new_list_name
from lakeward.formats.iceberg.hints import document_number
from lakeward.formats.iceberg.manifests import FILE_PATH
from lakeward.formats.iceberg.names import with_mapping
from lakeward.formats.iceberg.private import is_data
from lakeward.formats.iceberg.redefining import redefined
from lakeward.formats.iceberg.returning import Returning
from lakeward.formats.iceberg.schema import schema_json
from lakeward.formats.iceberg.spec import spec_of_file
from lakeward.formats.iceberg.summary import (
    SNAPSHOT_ID,
    commit_summary,
)
from lakeward.model.commit import Commit, Head
from lakeward.model.definition import Definition
from lakeward.model.file import DataFile


@dataclass
class Next:
    """The metadata files of a commit.

    Attributes:
        document: The new metadata document.
        manifests: The manifests of the document's current snapshot.
        entries: The entries of each new manifest that lists added files or was rewritten, by path.
        merged: The bytes of new manifests that were merged from others, by path.
        files: Full paths and bytes of the files in the order of writing; the document is the last.
    """

    document: Document
    manifests: list[Any] = field(default_factory=list)
    entries: dict[str, list[Any]] = field(default_factory=dict)
    merged: dict[str, bytes] = field(default_factory=dict)
    files: list[tuple[str, bytes]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Place:
    """A table's directory, and functions that read its metadata.

    Attributes:
        location: The full address of the directory.
        read: Returns a file's bytes by its full path.
        entries: Returns a manifest's live entries.
    """

    location: str
    read: Callable[[str], bytes]
    entries: Callable[[Any], list[Any]]


def full_path(file: DataFile, location: str) -> str:
    """Return the full path of a table's data file, as its manifest has it."""
    if file.extra and FILE_PATH in file.extra:
        return str(file.extra[FILE_PATH])
    return file.path if _is_full(file.path) else f"{location}/{file.path}"


def metadata_name(location: str, before: str | None = None) -> str:
    """Return a unique path for a document, with the number after that of the document `before`."""
    number = -1 if before is None else document_number(before)
    next_number = 0 if number is None else number + 1
    return f"{location}/{METADATA_DIRECTORY}/{next_number:05d}-{uuid.uuid4()}.metadata.json"


def first_files(document: Document, place: Place) -> Next:
    """Return the metadata files of a new table."""
    named = Document(metadata_name(place.location), document.body)
    return Next(named, files=[(named.location, named.encode())])


def following(
    document: Document,
    manifests: Sequence[Any],
    place: Place,
    head: Head,
    commit: Commit,
    definition: Definition,
    *,
    info: Mapping[str, Any],
    sequences: Mapping[int, int | None],
    returning: Returning | None = None,
) -> Next:
    """Return the metadata files of a table's next commit, from its newest document and manifests.

    `info` are the commit's facts as plain JSON values; `sequences` has the sequence number of each
    version that added a removed file, if known; `returning` are files of an older snapshot that the
    commit adds again.
    """
    # A snapshot must not be older than the one before, whatever the clocks do.
    at_ms = max(commit.timestamp_ms, document.updated_ms)
    location = metadata_name(place.location, document.location)
    renewed = document.after(location, at_ms, _changed(document, head, commit))
    writing = _Writing(renewed, place, commit, definition, returning or Returning())
    if document.format_version == 1:
        manifests = writing.numbered(manifests)
    # A commit that changes no rows gets a snapshot, too: it records the transaction.
    writing.snapshot(manifests, at_ms, info, sequences)
    out = writing.out
    out.files.append((location, out.document.encode()))
    return out


class _Writing:
    """Collects the metadata files of one commit."""

    def __init__(
        self,
        document: Document,
        place: Place,
        commit: Commit,
        definition: Definition,
        returning: Returning,
    ) -> None:
        self.out = Next(document)
        self._place = place
        self._commit = commit
        self._definition = definition
        self._returning = returning
        chosen = (commit.info.extra or {}).get(SNAPSHOT_ID)
        self._unused: list[Any] = []
        self._id = secrets.randbits(62) + 1 if chosen is None else int(chosen)
        self._directory = f"{place.location}/{METADATA_DIRECTORY}"
        by = commit.info.transaction_id
        self._stem = f"{by}-{secrets.token_hex(4)}"
        self._list = new_list_name(place.location, self._id, by, chosen=chosen is not None)

    def snapshot(
        self,
        manifests: Sequence[Any],
        at_ms: int,
        info: Mapping[str, Any],
        sequences: Mapping[int, int | None],
    ) -> None:
        """Add the changed manifests, the manifest list, and the snapshot that refers to it."""
        document = self.out.document
        sequence = document.sequence_number + 1
        whole = self._returning.whole
        if whole is None:
            kept = self._without_removed([m for m in manifests if api.is_live(m)], sequences)
            kept = [*self._merged(kept), *self._added()]
            if self._commit.removed:
                kept = self._without_unused_deletes(kept)
        else:
            kept = list(whole)
        self.out.manifests = [api.with_sequence(m, sequence) for m in kept]
        for entries in self.out.entries.values():
            api.with_sequences(entries, sequence)
        first, after = document.next_row_id, 0
        if first is not None:
            self.out.manifests, after = api.with_row_ids(self.out.manifests, first)
        parent = document.current_id
        data = api.list_bytes(
            self._list,
            self.out.manifests,
            snapshot_id=self._id,
            parent_id=parent,
            sequence_number=sequence,
            format_version=document.format_version,
            first_row_id=first,
        )
        self.out.files.append((self._list, data))
        snapshot: dict[str, Any] = {"snapshot-id": self._id}
        if parent is not None:
            snapshot["parent-snapshot-id"] = parent
        snapshot["sequence-number"] = sequence
        snapshot["timestamp-ms"] = at_ms
        snapshot["manifest-list"] = self._list
        counts = commit_summary(self._commit, document, info)
        if self._unused:
            size = counts.get("total-files-size")
            counts |= unused_deletes.counts(counts, size, self._unused)
        snapshot["summary"] = {**counts, **self._returning.totals}
        snapshot["schema-id"] = document.body["current-schema-id"]
        if first is not None:
            snapshot |= {"first-row-id": first, "added-rows": after - first}
        self.out.document = bounded(document.with_snapshot(snapshot), at_ms)

    def numbered(self, manifests: Sequence[Any]) -> list[Any]:
        """Rewrite manifests of version 1 with sequence numbers and all counts; return them."""
        out = []
        for manifest in manifests:
            entries = self._place.entries(manifest)
            api.with_sequences(entries, 0)
            if entries:
                out.append(self._rewritten(manifest, existing=entries))
        return out

    def _added(self) -> list[Any]:
        """Add and return manifests of the added files, one for each partition spec."""
        body, out = self.out.document.body, []
        paths = self._returning.paths
        specs = specs_of(body)
        new: dict[int, list[Any]] = defaultdict(list)
        for file in self._commit.added:
            path = full_path(file, self._place.location)
            if path not in paths:
                number = spec_of_file(specs, body["default-spec-id"], file.partition)
                data = api.data_file(file, self._definition, path, specs[number])
                new[number].append(data)
        for number, files in new.items():
            out.append(self._put_manifest(number, added=files))
        for like, entries in self._returning.entries:
            spec_id = like.partition_spec_id
            out.append(self._put_manifest(spec_id, returned=entries))
        return out

    def _without_removed(
        self, manifests: Sequence[Any], sequences: Mapping[int, int | None]
    ) -> list[Any]:
        gone = {
            full_path(f.file, self._place.location): sequences.get(f.added)
            for f in self._commit.removed
        }
        out = self._without(manifests, gone, likely=True)
        if gone:
            # A restore beside delete files uses manifests again that are older than its version.
            out = self._without(out, gone, likely=False)
        if gone:
            message = f"no manifest lists {next(iter(gone))}"
            raise AssertionError(message)
        return out

    def _without(
        self, manifests: Sequence[Any], gone: dict[str, int | None], *, likely: bool
    ) -> list[Any]:
        """Return manifests without the files in `gone`; remove from `gone` the files found.

        With `likely`, manifests whose sequence numbers exclude the files are not read.
        """
        out: list[Any] = []
        for manifest in manifests:
            is_excluded = likely and not _may_hold(manifest, gone.values())
            if not gone or not is_data(manifest) or is_excluded:
                out.append(manifest)
                continue
            entries = api.inherit_row_ids(manifest, self._place.entries(manifest))
            ended = [e for e in entries if e.data_file.file_path in gone]
            if not ended:
                out.append(manifest)
                continue
            stay = [e for e in entries if e.data_file.file_path not in gone]
            out.append(self._rewritten(manifest, existing=stay, deleted=ended))
            for entry in ended:
                gone.pop(entry.data_file.file_path, None)
        return out

    def _without_unused_deletes(self, manifests: list[Any]) -> list[Any]:
        """Return manifests without delete files that only applied to removed data files."""
        paths = unused_deletes.candidates(self._commit.removed)
        if not paths:
            return manifests
        index = DeleteIndex(specs_of(self.out.document.body), self._place.location)
        gone = unused_deletes.unused(manifests, paths, self._entries, index)
        out: list[Any] = []
        for manifest in manifests:
            entries = [] if is_data(manifest) else self._entries(manifest)
            ended = [e for e in entries if e.data_file.file_path in gone]
            if not ended:
                out.append(manifest)
                continue
            stay = [e for e in entries if e.data_file.file_path not in gone]
            self._unused += [e.data_file for e in ended]
            out.append(self._rewritten(manifest, existing=stay, deleted=ended))
        return out

    def _entries(self, manifest: Any) -> list[Any]:
        """Return the live entries of a manifest, which may be one of this commit."""
        path = manifest.manifest_path
        if path in self.out.merged:
            return api.read_entries(manifest, self.out.merged[path])
        known = self.out.entries.get(path)
        return self._place.entries(manifest) if known is None else known

    def _merged(self, manifests: list[Any]) -> list[Any]:
        """Return the manifests; if many small ones are of older snapshots, merge these into one."""
        own = [m for m in manifests if m.added_snapshot_id == self._id]
        old = [m for m in manifests if m.added_snapshot_id != self._id]
        many = merging.to_merge(old, self.out.document.body["default-spec-id"])
        if not many:
            return manifests
        made = merging.merged(
            many,
            self._new_location(),
            self._id,
            self.out.document.body,
            read=self._place.read,
            entries=self._place.entries,
        )
        # Their bytes suffice to merge them again.
        self.out.merged[made.manifest.manifest_path] = made.data
        paths = {m.manifest_path for m in many}
        rest = [m for m in old if m.manifest_path not in paths]
        return [*rest, self._put(replace(made, entries=None)), *own]

    def _rewritten(self, manifest: Any, **entries: Any) -> Any:
        """Write a manifest again with other entries, of the same spec and content."""
        return self._put_manifest(manifest.partition_spec_id, manifest, **entries)

    def _put_manifest(self, spec_id: int | None = None, old: Any = None, **entries: Any) -> Any:
        layout = api.layout_of(
            self.out.document.body, spec_id, rewritten=old, read=self._place.read
        )
        return self._put(api.written(layout, self._new_location(), self._id, **entries))

    def _new_location(self) -> str:
        return f"{self._directory}/{self._stem}-m{len(self.out.files)}.avro"

    def _put(self, made: api.Written) -> Any:
        location = made.manifest.manifest_path
        self.out.files.append((location, made.data))
        if made.entries is not None:
            self.out.entries[location] = made.entries
        return made.manifest


def _changed(document: Document, head: Head, commit: Commit) -> dict[str, Any]:
    """Return the keys of the document's body that a commit changes, with their new values."""
    body = document.body
    known = schemas_of(body)
    current = body.get("current-schema-id", 0)
    before = document.properties
    new = commit.definition
    schema = known[current] if new is None else schema_json(new.schema, current)
    # A table that was adopted learns its name with the first commit.
    properties = {**with_mapping(before, schema, commit.added), NAME: str(head.name)}
    if commit.definition is None:
        return {} if properties == before else {"properties": properties}
    return redefined(document, head, commit.definition, properties)


def _may_hold(manifest: Any, sequences: Any) -> bool:
    """Return whether a manifest may list a file that was added with one of `sequences`.

    A sequence number that is None is not known.
    """
    low, high = manifest.min_sequence_number, manifest.sequence_number
    return any(s is None or low <= s <= high for s in sequences)


def _is_full(path: str) -> bool:
    return path.startswith(("/", "file:")) or "://" in path
