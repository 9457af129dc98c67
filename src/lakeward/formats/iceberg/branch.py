"""The metadata documents of an Iceberg branch, and checks of what changed on a branch.

Engines write a branch in copy-on-write mode, without delete files, because a branch is committed
as added and removed data files.
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import orjson

from lakeward.errors import UnsupportedFeature
from lakeward.formats.iceberg.definition import FORMAT_VERSION, ROW_IDS_SINCE, definition_of
from lakeward.formats.iceberg.document import METADATA_DIRECTORY, Document
from lakeward.formats.iceberg.manifests import list_bytes, with_row_ids
from lakeward.formats.iceberg.names import NAME_MAPPING
from lakeward.formats.iceberg.private import first_row_id, is_data
from lakeward.formats.iceberg.publication import metadata_name
from lakeward.formats.iceberg.redefining import redefined
from lakeward.formats.net import Net
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.evolution.paths import parts_of
from lakeward.model.schema import Schema
from lakeward.model.types import Field

_WRITABLE: Final = (2, 3)
_SETTINGS: Final = {
    "write.delete.mode": "copy-on-write",
    "write.update.mode": "copy-on-write",
    "write.merge.mode": "copy-on-write",
    # Keep the table's manifests as they are, so that only new ones need to be read.
    "commit.manifest-merge.enabled": "false",
    "write.wap.enabled": "false",
    "write.metadata.delete-after-commit.enabled": "false",
}
_COLUMNS: Final = ("schemas", "current-schema-id")
_PARTITIONS: Final = ("partition-specs", "default-spec-id")
"""The parts of a document that may not change on a branch; columns may, on a named one."""
_FIRST_OWN_ID: Final = 2**40
"""The least row id of branches, beyond the ids that a table's own rows get."""
_OWN_IDS: Final = 2**61
"""The number of ids among which a branch chooses its first at random, so that no two collide."""
_MERGE_METRICS: Final = {
    "spark.merge-into.num-target-rows-inserted": "numTargetRowsInserted",
    "spark.merge-into.num-target-rows-updated": "numTargetRowsUpdated",
    "spark.merge-into.num-target-rows-deleted": "numTargetRowsDeleted",
    "spark.merge-into.num-target-rows-copied": "numTargetRowsCopied",
}


def check_branchable(definition: Definition, table: str) -> None:
    """Raise `UnsupportedFeature` for a format version that Lakeward cannot commit."""
    version = definition.protocol[FORMAT_VERSION]
    if version not in _WRITABLE:
        what = f"Table {table} has Iceberg's format version {version}."
        hint = "Upgrade it first: table.alter().set_property('format-version', '2').commit()."
        raise UnsupportedFeature(what, hint=hint, table=table)


def first_document(
    base: Document, place: str, *, optional: bool, settings: Mapping[str, str]
) -> Document:
    """Return a branch's first document: only the table's newest snapshot; new files go to `place`.

    With `optional`, no column is required, except parts of nested columns. `settings` are
    properties that only the branch has.
    """
    current, number = base.current, base.current_id
    refs: dict[str, Any] = {}
    if number is not None:
        refs["main"] = {"type": "branch", "snapshot-id": number}
    body = {
        **(_optional(base.body) if optional else base.body),
        "properties": {**base.properties, **settings, **_settings(place)},
        "refs": refs,
        "statistics": [],
        "partition-statistics": [],
    }
    location = f"{place}/{METADATA_DIRECTORY}/00000-{uuid.uuid4()}.metadata.json"
    if current is None:
        return replace(base, location=location, body=body, snapshots=b"", snapshot_log=b"")
    entry = {"timestamp-ms": current["timestamp-ms"], "snapshot-id": number}
    return Document(location, body, orjson.dumps(current), orjson.dumps(entry), (), current)


def numbered_document(
    document: Document, place: str, manifests: Sequence[Any]
) -> tuple[Document, bytes | None]:
    """Return a branch's first document in format version 3, and the bytes of its manifest list.

    For a table of an older format version, whose rows have no ids. The bytes belong at the
    document's `manifest-list`; they are None for a table without a snapshot. `manifests` are those
    of the document's current snapshot.
    """
    # Files that earlier branches wrote still have the ids of those branches.
    first = _FIRST_OWN_ID + secrets.randbelow(_OWN_IDS)
    body = {**document.body, FORMAT_VERSION: ROW_IDS_SINCE, "next-row-id": first}
    if document.current is None:
        return replace(document, body=body), None
    known, following = with_row_ids(manifests, first)
    number, location = _number(document.current), f"{place}/{METADATA_DIRECTORY}/ids.avro"
    data = list_bytes(
        location,
        known,
        snapshot_id=number,
        parent_id=document.current.get("parent-snapshot-id"),
        sequence_number=_number(document.current, "sequence-number"),
        format_version=ROW_IDS_SINCE,
        first_row_id=first,
    )
    current = {
        **document.current,
        "manifest-list": location,
        "first-row-id": first,
        "added-rows": following - first,
    }
    body["next-row-id"] = following
    return replace(document, body=body, snapshots=orjson.dumps(current), current=current), data


def altered_document(
    before: Document,
    place: str,
    head: Head,
    definition: Definition,
    now_ms: int,
    *,
    settings: Mapping[str, str],
) -> Document:
    """Return a branch's next metadata document, with a new definition and the same snapshot."""
    changes = redefined(before, head, definition, before.properties)
    changes["properties"] = {**changes["properties"], **settings, **_settings(place)}
    return before.after(metadata_name(place, before.location), now_ms, changes)


def check_same(first: Document, newest: Document, table: str) -> None:
    """Raise `UnsupportedFeature` if a branch changed columns, partitioning or properties."""
    if _is_changed(first, newest, (*_COLUMNS, *_PARTITIONS)) or _properties(first) != _properties(
        newest
    ):
        what = f"A statement changed the columns, partitioning or properties of table {table}."
        raise UnsupportedFeature(
            what, hint="Only rows may change here; replace rows, not the table.", table=table
        )


def evolved(
    first: Document, newest: Document, definition: Definition, table: str
) -> Definition | None:
    """Return the definition with the columns of a named branch; None if it has the same columns.

    Fields keep their ids, because the files of the branch have columns by their ids. Raises
    `UnsupportedFeature` if the branch changed more than columns, or if it uses an id that belongs
    to another column in older files.
    """
    others = [_properties(d, but=NAME_MAPPING) for d in (first, newest)]
    if _is_changed(first, newest, (*_PARTITIONS, "format-version")) or others[0] != others[1]:
        what = f"The partitioning, properties or format version of table {table} were changed."
        hint = "On a branch of an Iceberg table, rows and columns may change. Use tx.alter."
        raise UnsupportedFeature(what, hint=hint, table=table)
    if not _is_changed(first, newest, _COLUMNS):
        return None
    found = definition_of(newest).schema
    before, known = _places(definition.schema.fields), definition.schema.by_id
    for own_id, place in _places(found.fields).items():
        is_known = own_id in before
        if (is_known and before[own_id] != place) or (
            not is_known and own_id <= definition.schema.last_id
        ):
            what = f"Column {found.by_id[own_id].name} of table {table} has the id of another one."
            hint = "Drop the branch, and change columns by Iceberg's own operations."
            raise UnsupportedFeature(what, hint=hint, table=table)
    # Writers that know the table as it is go on without new columns, as after `alter`.
    fields = tuple(
        replace(f, indexed=known[f.id].indexed)
        if f.id in known
        else replace(f, optional=f.nullable)
        for f in found.fields
    )
    changed = replace(definition, schema=Schema(fields, found.last_id))
    return None if changed == definition else changed


def _places(fields: Iterable[Field], parent: int = 0) -> dict[int, int]:
    """Return by field id the id of the field around it, 0 for columns."""
    out: dict[int, int] = {}
    for field in fields:
        out[field.id] = parent
        out |= _places(parts_of(field.type), field.id)
    return out


def _is_changed(first: Document, newest: Document, keys: Iterable[str]) -> bool:
    before, after = first.body, newest.body
    return any(_nonempty(after.get(k)) != _nonempty(before.get(k)) for k in keys)


def _properties(document: Document, but: str | None = None) -> dict[str, str]:
    return {k: v for k, v in document.properties.items() if k != but}


def check_row_ids(
    first: Document, newest: Document, manifests: Iterable[Any], net: Net, table: str
) -> None:
    """Raise `UnsupportedFeature` if rewritten files on a branch may contain wrong row ids.

    The commit of a branch assigns other ids to new rows than the branch did. A rewrite on the
    branch writes the branch's ids into files, where they could equal the ids of other rows.
    `manifests` are those of the branch's first document.
    """
    if newest.next_row_id is None or not net.removed:
        return
    numbered = all(first_row_id(m) is not None for m in manifests if is_data(m))
    begun = _number(first.current)
    new = [s for n, s in newest.all_snapshots().items() if n != begun]
    written = sum(int((s.get("summary") or {}).get("added-data-files", 0)) for s in new)
    if numbered and written == len(net.added):
        return
    what = (
        f"Rows of table {table} were added and moved to another file on one branch, or got their"
        " first ids on it; they would share ids with others."
    )
    hint = "Commit what adds rows first, and change them in the next transaction."
    raise UnsupportedFeature(what, hint=hint, table=table)


def changes_rows(first: Document, newest: Document) -> bool:
    """Return whether any commit of the branch did more than move rows into other files.

    Return True also for a branch without commits, and if its snapshots are not all known.
    """
    start, number = (_number(d.current) for d in (first, newest))
    if number == start:
        return True
    known = newest.all_snapshots()
    while number != start and number in known:
        if (known[number].get("summary") or {}).get("operation") != "replace":
            return True
        number = _number(known[number], "parent-snapshot-id")
    # If snapshots are missing before the first commit, assume that rows changed.
    return number != start


def merge_metrics(first: Document, newest: Document) -> dict[str, int]:
    """Return the metrics of a merge that is the branch's only commit, under Delta's names.

    Spark records metrics in the summary of the snapshot, unless they are 0. Return an empty dict if
    the summary has none of them.
    """
    begun = _number(first.current)
    new = [s for n, s in newest.all_snapshots().items() if n != begun]
    summary = (new[0].get("summary") or {}) if len(new) == 1 else {}
    if not any(name in summary for name in _MERGE_METRICS):
        return {}
    return {ours: int(summary.get(name, 0)) for name, ours in _MERGE_METRICS.items()}


def _settings(place: str) -> dict[str, str]:
    metadata = f"{place}/{METADATA_DIRECTORY}"
    return {**_SETTINGS, "write.data.path": f"{place}/data", "write.metadata.path": metadata}


def _number(snapshot: Mapping[str, Any] | None, key: str = "snapshot-id") -> int:
    found = (snapshot or {}).get(key)
    return 0 if found is None else int(found)


def _nonempty(value: Any) -> Any:
    """Return a part of a document without empty lists and nulls, which some engines leave out."""
    if isinstance(value, dict):
        return {k: _nonempty(v) for k, v in value.items() if v not in ([], None)}
    return [_nonempty(v) for v in value] if isinstance(value, list) else value


def _optional(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document's body whose current schema has no required top-level column."""
    number = body["current-schema-id"]
    schemas = [_relaxed(s) if s["schema-id"] == number else s for s in body["schemas"]]
    return {**body, "schemas": schemas}


def _relaxed(schema: Mapping[str, Any]) -> dict[str, Any]:
    # Identifier fields must be required, so a branch has none.
    kept = {k: v for k, v in schema.items() if k != "identifier-field-ids"}
    return {**kept, "fields": [{**f, "required": False} for f in schema["fields"]]}
