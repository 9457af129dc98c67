"""A commit of the log as Iceberg's files, which are written before the pointer moves.

The next metadata document is derived from the last one. Readers do not find it until the catalog
points to it, which happens in the transaction that ratifies the commit.
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from lakeward.formats.iceberg import manifests as api
from lakeward.formats.iceberg.definition import (
    CREATED,
    NAME,
    properties_json,
    schemas_of,
    specs_of,
)
from lakeward.formats.iceberg.document import METADATA_DIRECTORY, Document
from lakeward.formats.iceberg.expiry import bounded, list_name
from lakeward.formats.iceberg.hints import document_number
from lakeward.formats.iceberg.manifests import FILE_PATH
from lakeward.formats.iceberg.names import NAME_MAPPING, with_mapping
from lakeward.formats.iceberg.private import is_data
from lakeward.formats.iceberg.returning import Returning
from lakeward.formats.iceberg.schema import schema_json
from lakeward.formats.iceberg.spec import last_partition_id, spec_json
from lakeward.formats.iceberg.summary import ANCHOR, APPLICATIONS, INFO, TRANSACTION_ID, VERSION
from lakeward.model.commit import AppTransaction, Commit, Head
from lakeward.model.definition import Definition
from lakeward.model.file import DataFile


@dataclass
class Next:
    """The files of a commit.

    Attributes:
        document: The new metadata document.
        manifests: Of its current snapshot.
        entries: Of new manifests, by their paths.
        files: Full paths and bytes in the order of writing; the document is the last.
    """

    document: Document
    manifests: list[Any] = field(default_factory=list)
    entries: dict[str, list[Any]] = field(default_factory=dict)
    files: list[tuple[str, bytes]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Place:
    """A table's directory, and functions that read its metadata.

    Attributes:
        location: The directory, as other engines take it.
        read: Returns a file's bytes by its full path.
        entries: Returns a manifest's live entries.
    """

    location: str
    read: Callable[[str], bytes]
    entries: Callable[[Any], list[Any]]


def full_path(file: DataFile, location: str) -> str:
    """The full path of a data file of a table, as its manifest has it."""
    if file.extra and FILE_PATH in file.extra:
        return str(file.extra[FILE_PATH])
    return file.path if _is_full(file.path) else f"{location}/{file.path}"


def metadata_name(location: str, before: str | None = None) -> str:
    """A unique path for a document, with the number that follows the one before."""
    number = -1 if before is None else document_number(before)
    next_number = 0 if number is None else number + 1
    return f"{location}/{METADATA_DIRECTORY}/{next_number:05d}-{uuid.uuid4()}.metadata.json"


def first_files(document: Document, place: Place) -> Next:
    """The files of a new table."""
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
    """Return the files of a table's next commit, from its newest document and manifests.

    `info` are the commit's facts as plain JSON values; `sequences` has the sequence number of each
    version that added a removed file, if known; `returning` are files of an older snapshot that the
    commit adds again.
    """
    # A snapshot must not be older than the one before, whatever the clocks do.
    at_ms = max(commit.timestamp_ms, document.updated_ms)
    location = metadata_name(place.location, document.location)
    renewed = document.after(location, at_ms, _changed(document, head, commit))
    writing = _Writing(renewed, place, commit, definition, returning or Returning())
    # A commit that changes no rows gets a snapshot, too: it records the transaction.
    writing.snapshot(manifests, at_ms, info, sequences)
    out = writing.out
    out.files.append((location, out.document.encode()))
    return out


class _Writing:
    """Collects the files of one commit."""

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
        self._id = secrets.randbits(62) + 1
        self._directory = f"{place.location}/{METADATA_DIRECTORY}"
        self._stem = f"{commit.info.transaction_id}-{secrets.token_hex(2)}"

    def snapshot(
        self,
        manifests: Sequence[Any],
        at_ms: int,
        info: Mapping[str, Any],
        sequences: Mapping[int, int | None],
    ) -> None:
        """Write the changed manifests, their list, and the snapshot that names it."""
        document = self.out.document
        sequence = document.sequence_number + 1
        whole = self._returning.whole
        if whole is None:
            kept = self._without_removed([m for m in manifests if api.is_live(m)], sequences)
            kept = [*self._merged(kept), *self._added()]
        else:
            kept = list(whole)
        self.out.manifests = [api.with_sequence(m, sequence) for m in kept]
        for entries in self.out.entries.values():
            api.with_sequences(entries, sequence)
        first, after = document.next_row_id, 0
        if first is not None:
            self.out.manifests, after = api.with_row_ids(self.out.manifests, first)
        parent = document.current_id
        location = list_name(self._place.location, self._id, self._commit.info.transaction_id)
        data = api.list_bytes(
            location,
            self.out.manifests,
            snapshot_id=self._id,
            parent_id=parent,
            sequence_number=sequence,
            format_version=document.format_version,
            first_row_id=first,
        )
        self.out.files.append((location, data))
        snapshot: dict[str, Any] = {"snapshot-id": self._id}
        if parent is not None:
            snapshot["parent-snapshot-id"] = parent
        snapshot["sequence-number"] = sequence
        snapshot["timestamp-ms"] = at_ms
        snapshot["manifest-list"] = location
        snapshot["summary"] = {
            **summary(self._commit, document, info),
            **self._returning.totals,
        }
        snapshot["schema-id"] = document.body["current-schema-id"]
        if first is not None:
            snapshot |= {"first-row-id": first, "added-rows": after - first}
        self.out.document = bounded(document.with_snapshot(snapshot), at_ms)

    def _added(self) -> list[Any]:
        """Return manifests of the added files; files that come back keep their partition specs."""
        body, out = self.out.document.body, []
        paths = self._returning.paths
        named = ((full_path(f, self._place.location), f) for f in self._commit.added)
        spec = specs_of(body)[body["default-spec-id"]]
        new = [api.data_file(f, self._definition, p, spec) for p, f in named if p not in paths]
        if new:
            out.append(self._put_manifest(added=new))
        for like, entries in self._returning.entries:
            out.append(self._put_manifest(like, returned=entries))
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
        """Return manifests without removed files, and take those that were found out of `gone`.

        With `likely`, manifests are not read whose sequence numbers exclude the files.
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
            out.append(self._put_manifest(manifest, existing=stay, deleted=ended))
            for entry in ended:
                gone.pop(entry.data_file.file_path, None)
        return out

    def _merged(self, manifests: list[Any]) -> list[Any]:
        """The manifests, with small ones of older snapshots merged if there are many."""
        own = [m for m in manifests if m.added_snapshot_id == self._id]
        old = [m for m in manifests if m.added_snapshot_id != self._id]
        many = api.to_merge(old, self.out.document.body["default-spec-id"])
        if not many:
            return manifests
        entries = [e for m in many for e in api.inherit_row_ids(m, self._place.entries(m))]
        paths = {m.manifest_path for m in many}
        rest = [m for m in old if m.manifest_path not in paths]
        return [*rest, self._put_manifest(existing=entries), *own]

    def _put_manifest(self, like: Any = None, **entries: Any) -> Any:
        spec_id = None if like is None else like.partition_spec_id
        layout = api.layout_of(self.out.document.body, spec_id)
        location = f"{self._directory}/{self._stem}-m{len(self.out.files)}.avro"
        made = api.written(layout, location, self._id, **entries)
        self.out.files.append((location, made.data))
        self.out.entries[location] = made.entries
        return made.manifest


def summary(commit: Commit, document: Document, info: Mapping[str, Any]) -> dict[str, str]:
    """A snapshot's summary: Iceberg's own counts, and the lake's transaction."""
    added, removed = commit.added, commit.removed
    if not commit.info.data_change:
        operation = "replace"
    elif removed:
        operation = "overwrite" if added else "delete"
    else:
        operation = "append"
    counts = {
        "data-files": (len(added), len(removed)),
        "records": (sum(f.rows or 0 for f in added), sum(f.rows or 0 for f in removed)),
        "files-size": (sum(f.size for f in added), sum(f.size for f in removed)),
    }
    out = {**commit.info.properties, "operation": operation}
    for name, (plus, minus) in counts.items():
        if plus:
            out[f"added-{name}"] = str(plus)
        if minus:
            verb = "removed" if name == "files-size" else "deleted"
            out[f"{verb}-{name}"] = str(minus)
    before = {} if document.current is None else document.current.get("summary") or {}
    for name, (plus, minus) in counts.items():
        known = before.get(f"total-{name}") if document.current is not None else "0"
        if known is not None:
            out[f"total-{name}"] = str(int(known) + plus - minus)
    for name in ("total-delete-files", "total-position-deletes", "total-equality-deletes"):
        if name in before:
            out[name] = before[name]
    out[TRANSACTION_ID] = commit.info.transaction_id
    out[VERSION] = str(commit.version)
    out[INFO] = orjson.dumps(info).decode()
    if commit.info.anchor is not None:
        out[ANCHOR] = commit.info.anchor
    if commit.app_transactions:
        out[APPLICATIONS] = _applications(commit.app_transactions)
    return out


def _applications(source: Sequence[AppTransaction]) -> str:
    return orjson.dumps([[a.app_id, a.version, a.updated_ms] for a in source]).decode()


def _changed(document: Document, head: Head, commit: Commit) -> dict[str, Any]:
    """The keys of the document's body that a commit changes."""
    body = document.body
    known = schemas_of(body)
    current = body["current-schema-id"]
    before = document.properties
    # A table that was adopted learns its name with the first commit.
    properties = {**with_mapping(before, known[current], commit.added), NAME: str(head.name)}
    if commit.definition is None:
        return {} if properties == before else {"properties": properties}
    return redefined(document, head, commit.definition, properties)


def redefined(
    document: Document, head: Head, definition: Definition, properties: Mapping[str, str]
) -> dict[str, Any]:
    """Return the keys of a document's body that a new definition changes.

    Keeps those of the document's `properties` that are not part of a definition.
    """
    body = document.body
    known = schemas_of(body)
    current = body["current-schema-id"]
    new = _with_initial(schema_json(definition.schema, current), known.values())
    kept = {key: properties[key] for key in (CREATED, NAME_MAPPING) if key in properties}
    out: dict[str, Any] = {"properties": {**properties_json(head, definition), **kept}}
    if new != {k: v for k, v in known[current].items() if k in new}:
        number = max(known) + 1
        kept_keys = _identifiers(known[current], definition)
        out["schemas"] = [*known.values(), {**new, "schema-id": number, **kept_keys}]
        out["current-schema-id"] = number
        out["last-column-id"] = max(definition.schema.last_id, body["last-column-id"])
    return out | _changed_spec(body, definition)


def _identifiers(schema: Mapping[str, Any], definition: Definition) -> dict[str, Any]:
    """The key of a schema that another engine declared, as far as its columns are there."""
    known = definition.schema.by_id
    found = [i for i in schema.get("identifier-field-ids") or () if i in known]
    return {"identifier-field-ids": found} if found else {}


def _changed_spec(body: Mapping[str, Any], definition: Definition) -> dict[str, Any]:
    """The keys of a document's body that another partitioning changes."""
    specs = specs_of(body)
    new = spec_json(definition, 0)["fields"]
    if new == _plain_fields(specs[body["default-spec-id"]]):
        return {}
    known = next((i for i, s in specs.items() if _plain_fields(s) == new), None)
    number = max(specs) + 1 if known is None else known
    listed = list(specs.values())
    if known is None:
        listed.append({"spec-id": number, "fields": new})
    newest = max(last_partition_id(definition), body.get("last-partition-id", 0))
    return {"partition-specs": listed, "default-spec-id": number, "last-partition-id": newest}


def _plain_fields(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    names = ("source-id", "field-id", "transform", "name")
    return [{name: field[name] for name in names} for field in spec["fields"]]


def _with_initial(schema: dict[str, Any], before: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a schema whose columns keep their initial defaults for older files.

    A column that comes back takes its default from the older schemas that had it.
    """
    key = "initial-default"
    every = (f for known in before for f in known["fields"])
    values = {f["id"]: f[key] for f in every if f.get(key) is not None}
    fields = [{**f, key: values[f["id"]]} if f["id"] in values else f for f in schema["fields"]]
    return {**schema, "fields": fields}


def _may_hold(manifest: Any, sequences: Any) -> bool:
    """Whether a manifest may list a file that was added with one of these sequence numbers."""
    low, high = manifest.min_sequence_number, manifest.sequence_number
    return any(s is None or low <= s <= high for s in sequences)


def _is_full(path: str) -> bool:
    return path.startswith(("/", "file:")) or "://" in path
