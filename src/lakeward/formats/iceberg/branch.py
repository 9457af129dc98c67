"""The metadata documents of an Iceberg branch, and what may change on one.

Files are rewritten rather than marked as deleted there, because the net effect of a branch is files
added and files removed.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import orjson

from lakeward.errors import UnsupportedFeature
from lakeward.formats.iceberg.definition import FORMAT_VERSION
from lakeward.formats.iceberg.document import METADATA_DIRECTORY, Document
from lakeward.formats.iceberg.private import first_row_id, is_data
from lakeward.formats.iceberg.publication import metadata_name, redefined
from lakeward.formats.net import Net
from lakeward.model.commit import Head
from lakeward.model.definition import Definition

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
_UNCHANGED: Final = ("schemas", "current-schema-id", "partition-specs", "default-spec-id")
"""The parts of a document that may not change on a branch."""
_MERGE_METRICS: Final = {
    "spark.merge-into.num-target-rows-inserted": "numTargetRowsInserted",
    "spark.merge-into.num-target-rows-updated": "numTargetRowsUpdated",
    "spark.merge-into.num-target-rows-deleted": "numTargetRowsDeleted",
    "spark.merge-into.num-target-rows-copied": "numTargetRowsCopied",
}


def check_branchable(definition: Definition, table: str) -> None:
    """Raise `UnsupportedFeature` for a version of the format that the lake cannot commit."""
    version = definition.protocol[FORMAT_VERSION]
    if version not in _WRITABLE:
        what = f"Table {table} has Iceberg's format version {version}."
        hint = (
            "Transactions write versions 2 and 3; write this one through Spark's catalog lakeward."
        )
        raise UnsupportedFeature(what, hint=hint, table=table)


def first_document(base: Document, place: str, *, optional: bool) -> Document:
    """A branch's first document: the table's newest snapshot alone, all new files below `place`.

    With `optional`, columns that require a value accept nulls.
    """
    current, number = base.current, base.current_id
    refs: dict[str, Any] = {}
    if number is not None:
        refs["main"] = {"type": "branch", "snapshot-id": number}
    body = {
        **(_optional(base.body) if optional else base.body),
        "properties": {**base.properties, **_settings(place)},
        "refs": refs,
        "statistics": [],
        "partition-statistics": [],
    }
    location = f"{place}/{METADATA_DIRECTORY}/00000-{uuid.uuid4()}.metadata.json"
    if current is None:
        return replace(base, location=location, body=body, snapshots=b"", snapshot_log=b"")
    entry = {"timestamp-ms": current["timestamp-ms"], "snapshot-id": number}
    return Document(location, body, orjson.dumps(current), orjson.dumps(entry), (), current)


def altered_document(
    before: Document, place: str, head: Head, definition: Definition, now_ms: int
) -> Document:
    """Return a branch's next metadata document, with another definition and the same rows."""
    changes = redefined(before, head, definition, before.properties)
    changes["properties"] = {**changes["properties"], **_settings(place)}
    return before.after(metadata_name(place, before.location), now_ms, changes)


def check_same(first: Document, newest: Document, table: str) -> None:
    """Raise `UnsupportedFeature` if a branch changed columns, partitioning or properties."""
    before, after = first.body, newest.body
    changed = [k for k in _UNCHANGED if _nonempty(after.get(k)) != _nonempty(before.get(k))]
    if changed or newest.properties != first.properties:
        what = f"A statement changed the columns, partitioning or properties of table {table}."
        raise UnsupportedFeature(
            what, hint="Only rows may change here; replace rows, not the table.", table=table
        )


def check_row_ids(
    first: Document, newest: Document, manifests: Iterable[Any], net: Net, table: str
) -> None:
    """Raise `UnsupportedFeature` if rewritten files on a branch may hold wrong row ids.

    The commit of a branch gives new rows other ids than the branch did. A rewrite on the branch
    writes the branch's ids into files, where they could equal the ids of other rows. `manifests`
    are those that the branch began with.
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
    """Whether any commit of the branch did more than move rows into other files."""
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
    """The metrics of a merge that is the branch's only commit, under the names that Delta uses.

    Spark records them in the summary of the snapshot, without those that are 0.
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
    """A part of a document without empty lists and nulls, which some engines leave out."""
    if isinstance(value, dict):
        return {k: _nonempty(v) for k, v in value.items() if v not in ([], None)}
    return [_nonempty(v) for v in value] if isinstance(value, list) else value


def _optional(body: Mapping[str, Any]) -> dict[str, Any]:
    """A document's body with a schema whose columns, but for parts of them, require no value."""
    number = body["current-schema-id"]
    schemas = [_relaxed(s) if s["schema-id"] == number else s for s in body["schemas"]]
    return {**body, "schemas": schemas}


def _relaxed(schema: Mapping[str, Any]) -> dict[str, Any]:
    # Identifier fields must be required, so a branch has none.
    kept = {k: v for k, v in schema.items() if k != "identifier-field-ids"}
    return {**kept, "fields": [{**f, "required": False} for f in schema["fields"]]}
