"""Decides which snapshots a metadata document lists, so that it does not grow with history.

The log has all versions. For other engines a document lists the newest snapshots, all snapshots up
to an age, and those that branches and tags refer to. Manifest lists of snapshots that are no longer
listed stay until vacuum retires their versions, so Lakeward can still restore them.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import orjson

from lakeward.errors import InvalidInput
from lakeward.formats.iceberg.document import METADATA_DIRECTORY, SNAPSHOT, Document
from lakeward.formats.properties import SNAPSHOT_AGE, SNAPSHOTS
from lakeward.model.commit import CommitInfo
from lakeward.model.duration import to_milliseconds

DELETE_DOCUMENTS: Final = "write.metadata.delete-after-commit.enabled"
LIST: Final = "manifest_list"
"""The key, in `extra` of a commit, of its manifest list's name, if not of the usual form."""
_SUFFIX: Final = ".avro"
_KEPT: Final = 100
_SLACK: Final = 4
"""A document is shortened if its snapshots exceed the limit by more than `limit // _SLACK`."""
_STATISTICS: Final = ("statistics", "partition-statistics")


def limits(properties: Mapping[str, str]) -> tuple[int, int]:
    """Return how many snapshots a document lists at least, and up to which age it lists all."""
    text = properties.get(SNAPSHOTS, str(_KEPT))
    if not text.isdigit() or int(text) < 1:
        what = f"Property {SNAPSHOTS} is {text!r}."
        raise InvalidInput(what, hint="Use a whole number from 1 on.", property=SNAPSHOTS)
    return int(text), to_milliseconds(properties.get(SNAPSHOT_AGE, "0s"), SNAPSHOT_AGE)


def bounded(document: Document, at_ms: int, *, slack: bool = True) -> Document:
    """Return the document without snapshots that it need not list."""
    most, age_ms = limits(document.properties)
    if document.snapshots.count(SNAPSHOT) <= most + (most // _SLACK if slack else 0):
        return document
    known = orjson.loads(b"[%s]" % document.snapshots)
    refs = (document.body.get("refs") or {}).values()
    named = {int(ref["snapshot-id"]) for ref in refs} | {document.current_id}
    last = len(known) - most
    stay = [
        s
        for n, s in enumerate(known)
        if n >= last or s["snapshot-id"] in named or int(s["timestamp-ms"]) > at_ms - age_ms
    ]
    ids = {s["snapshot-id"] for s in stay}
    body = dict(document.body)
    for key in _STATISTICS:
        if body.get(key):
            body[key] = [found for found in body[key] if found.get("snapshot-id") in ids]
    return replace(
        document,
        body=body,
        snapshots=joined(stay),
        snapshot_log=joined(_since_missing(orjson.loads(b"[%s]" % document.snapshot_log), ids)),
    )


def joined(items: Iterable[Mapping[str, Any]]) -> bytes:
    """Return the items of a list as JSON text, separated by commas."""
    return b",".join(orjson.dumps(item) for item in items)


def list_name(location: str, snapshot_id: int, info: CommitInfo) -> str:
    """Return the path of the manifest list of a snapshot that Lakeward wrote."""
    name = (info.extra or {}).get(LIST) or _usual(snapshot_id, info.transaction_id)
    return f"{location}/{METADATA_DIRECTORY}/{name}"


def new_list_name(location: str, snapshot_id: int, transaction_id: str, *, chosen: bool) -> str:
    """Return the path of a new manifest list; unique if a client has `chosen` the snapshot's id.

    A client that got no response sends its commit again with the same ids. The first attempt may
    have written a list of other manifests, and may still be running.
    """
    name = _usual(snapshot_id, transaction_id)
    if chosen:
        name = f"{name.removesuffix(_SUFFIX)}.{secrets.token_hex(4)}{_SUFFIX}"
    return f"{location}/{METADATA_DIRECTORY}/{name}"


def list_extra(snapshot: Mapping[str, Any], transaction_id: str) -> dict[str, str]:
    """Return the entries of a commit's `extra` by which `list_name` finds the manifest list."""
    name = str(snapshot.get("manifest-list", "")).rpartition("/")[2]
    usual = _usual(snapshot["snapshot-id"], transaction_id)
    return {LIST: name} if name and name != usual else {}


def _usual(snapshot_id: int, transaction_id: str) -> str:
    return f"snap-{snapshot_id}-{transaction_id}{_SUFFIX}"


def _since_missing(log: list[dict[str, Any]], ids: set[int]) -> list[dict[str, Any]]:
    """Return the snapshot log after its last entry whose snapshot is no longer listed."""
    missing = [n for n, entry in enumerate(log) if entry["snapshot-id"] not in ids]
    return log[missing[-1] + 1 :] if missing else log
