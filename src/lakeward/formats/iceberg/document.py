"""A table's metadata document, and how the next document is derived from it.

A document grows with every snapshot, while a commit changes little of it. So the growing lists are
kept as JSON text: the next document copies them and appends one entry.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import orjson

from lakeward.errors import CorruptTable
from lakeward.formats.directories import METADATA_DIRECTORY as METADATA_DIRECTORY

PREVIOUS_VERSIONS: Final = "write.metadata.previous-versions-max"
_SNAPSHOTS: Final = b',"snapshots":['
_SNAPSHOT_LOG: Final = b'],"snapshot-log":['
_METADATA_LOG: Final = b'],"metadata-log":['
_END: Final = b"]}"
SNAPSHOT: Final = b'{"snapshot-id":'
_ROW_IDS_SINCE: Final = 3
"""The first format version in which every row has an id."""
_LISTS: Final = ("snapshots", "snapshot-log", "metadata-log")


_OF_VERSION_1: Final = ("schema", "partition-spec")
"""Keys of format version 1 that later versions replace by other keys."""


@dataclass(frozen=True)
class Document:
    """One published metadata document.

    Attributes:
        location: The document's full path.
        body: Everything except the growing lists.
        snapshots: All snapshots, oldest first, as JSON objects separated by commas.
        snapshot_log: The times from which on each snapshot was current, in the same form.
        metadata_log: Entries for the previous documents, each as JSON text.
        current: The current snapshot; None before the first.
        forgotten: Locations of documents that the previous document listed and this one does not.
    """

    location: str
    body: Mapping[str, Any]
    snapshots: bytes = b""
    snapshot_log: bytes = b""
    metadata_log: tuple[bytes, ...] = ()
    current: Mapping[str, Any] | None = field(default=None)
    forgotten: tuple[str, ...] = ()

    @property
    def format_version(self) -> int:
        """The version of Iceberg's specification that the table follows."""
        return int(self.body["format-version"])

    @property
    def uuid(self) -> str:
        """The table's UUID; empty for a table of format version 1 that has none."""
        return str(self.body.get("table-uuid") or "")

    @property
    def sequence_number(self) -> int:
        """The sequence number of the newest snapshot."""
        return int(self.body.get("last-sequence-number", 0))

    @property
    def next_row_id(self) -> int | None:
        """The first id that no row has; None before format version 3, whose rows have no ids."""
        return int(self.body["next-row-id"]) if self.format_version >= _ROW_IDS_SINCE else None

    @property
    def current_id(self) -> int | None:
        """The id of the current snapshot; None before the first."""
        return None if self.current is None else int(self.current["snapshot-id"])

    @property
    def updated_ms(self) -> int:
        """The time in milliseconds when the document was written, by its writer's clock."""
        return int(self.body["last-updated-ms"])

    @property
    def properties(self) -> dict[str, str]:
        """The table properties."""
        return dict(self.body.get("properties") or {})

    def encode(self) -> bytes:
        """Return the document as the bytes of its file."""
        return b"".join(
            (
                orjson.dumps(self.body)[:-1],
                _SNAPSHOTS,
                self.snapshots,
                _SNAPSHOT_LOG,
                self.snapshot_log,
                _METADATA_LOG,
                b",".join(self.metadata_log),
                _END,
            )
        )

    def after(
        self, location: str, updated_ms: int, changes: Mapping[str, Any] | None = None
    ) -> Document:
        """Return the next document, at `location` and with `changes` of keys of its body."""
        body = {**self.body, **(changes or {}), "last-updated-ms": updated_ms}
        if body["format-version"] > 1:
            body = {k: v for k, v in body.items() if k not in _OF_VERSION_1}
        return replace(self, location=location, body=body).following(self)

    def following(self, before: Document) -> Document:
        """Return this document with the metadata log of a document that follows `before`."""
        entry = {"timestamp-ms": before.updated_ms, "metadata-file": before.location}
        most = max(1, int(self.properties.get(PREVIOUS_VERSIONS, "100")))
        log = (*before.metadata_log, orjson.dumps(entry))
        gone = (orjson.loads(e).get("metadata-file") for e in log[:-most])
        return replace(
            self,
            metadata_log=log[-most:],
            forgotten=tuple(str(name) for name in gone if name),
        )

    def with_snapshot(self, snapshot: Mapping[str, Any]) -> Document:
        """Return the document with one more snapshot, which is current on the main branch."""
        number = snapshot["snapshot-id"]
        main = {**(self.body.get("refs") or {}).get("main", {"type": "branch"})}
        entry = {"timestamp-ms": snapshot["timestamp-ms"], "snapshot-id": number}
        body = {
            **self.body,
            "current-snapshot-id": number,
            "refs": {**(self.body.get("refs") or {}), "main": {**main, "snapshot-id": number}},
            "last-sequence-number": snapshot["sequence-number"],
        }
        if "first-row-id" in snapshot:
            body["next-row-id"] = snapshot["first-row-id"] + snapshot["added-rows"]
        return replace(
            self,
            body=body,
            snapshots=_longer(self.snapshots, orjson.dumps(snapshot)),
            snapshot_log=_longer(self.snapshot_log, orjson.dumps(entry)),
            current=snapshot,
        )

    def with_referred_snapshots(self) -> Document:
        """Return the document with only its current snapshot and those of branches and tags."""
        refs = (self.body.get("refs") or {}).values()
        kept = {self.current_id, *(int(ref["snapshot-id"]) for ref in refs)}
        found = [orjson.dumps(s) for n, s in self.all_snapshots().items() if n in kept]
        return replace(self, snapshots=b",".join(found))

    def all_snapshots(self) -> dict[int, dict[str, Any]]:
        """Return all snapshots by their ids, in the order of the document."""
        return {s["snapshot-id"]: s for s in orjson.loads(b"[%s]" % self.snapshots)}


def parse(location: str, data: bytes) -> Document:
    """Return the document in a metadata file, which may be gzipped; raise `CorruptTable`."""
    try:
        if location.endswith(".gz.metadata.json") or data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        own = _as_encoded(location, data)
        if own is not None:
            return own
        body = orjson.loads(data)
        number = body.get("current-snapshot-id")
        snapshots = body.get("snapshots") or []
        current = next((s for s in snapshots if s["snapshot-id"] == number), None)
        if current is None and number not in (None, -1):
            message = f"the current snapshot {number} is not there"
            raise ValueError(message)
        body["format-version"] = int(body["format-version"])
        int(body["last-updated-ms"])
        lists = {n: [orjson.dumps(m) for m in body.pop(n, None) or ()] for n in _LISTS}
        # Other writers put another key first in a snapshot.
        lists["snapshots"] = [
            orjson.dumps({"snapshot-id": s["snapshot-id"], **s}) for s in snapshots
        ]
    except (AttributeError, EOFError, KeyError, OSError, TypeError, ValueError) as error:
        what = f"{location} is no Iceberg metadata: {error!r}."
        raise CorruptTable(what, hint="Name a whole metadata file.", path=location) from error
    return Document(
        location,
        body,
        b",".join(lists["snapshots"]),
        b",".join(lists["snapshot-log"]),
        tuple(lists["metadata-log"]),
        current,
    )


def _as_encoded(location: str, data: bytes) -> Document | None:
    """Return a document that `encode` wrote, without parsing snapshots before the newest.

    Return None for a file in another form.

    JSON escapes quotes inside of strings, so no string can look like the marks between the lists.
    """
    rest, _, metadata_log = data.rpartition(_METADATA_LOG)
    rest, _, snapshot_log = rest.rpartition(_SNAPSHOT_LOG)
    body_text, _, snapshots = rest.partition(_SNAPSHOTS)
    if not body_text or not data.endswith(_END):
        return None
    try:
        body = orjson.loads(body_text + b"}")
        number = body.get("current-snapshot-id")
        current = None
        if number is not None:
            current = orjson.loads(snapshots[max(0, snapshots.rfind(SNAPSHOT)) :])
            if current["snapshot-id"] != number:
                return None
        log = orjson.loads(b"[%s]" % metadata_log.removesuffix(_END))
        entries = tuple(orjson.dumps(entry) for entry in log)
    except (KeyError, TypeError, orjson.JSONDecodeError):
        # Other writers use another order of keys.
        return None
    if any(name in body for name in _LISTS):
        return None
    return Document(location, body, snapshots, snapshot_log, entries, current)


def _longer(text: bytes, new: bytes) -> bytes:
    return b"%s,%s" % (text, new) if text else new
