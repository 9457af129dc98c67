"""The metadata of an Iceberg table, rewritten after it was moved, with all its snapshots.

No existing file changes: the new files have new names beside the old ones, and are used once the
catalog points to the new document. Snapshots keep their ids.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final
from uuid import uuid4

import orjson

from lakeward.errors import CorruptTable, LakewardError
from lakeward.formats.iceberg.document import Document, parse
from lakeward.formats.iceberg.moved_files import (
    Moved,
    Written,
    moved_deletes,
    moved_list,
    moved_manifest,
)
from lakeward.formats.iceberg.newest import document_number

_PLACES: Final = ("statistics", "partition-statistics")


@dataclass
class MovedTables:
    """Rewritten metadata; a file that several documents use is written once.

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
        """Rewrite a document and all that it uses; returns its new path. Raises `CorruptTable`."""
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
        """The bytes of a document that keeps its name; all that it uses is rewritten."""
        return self._moved(parse(name, self.read(name))).encode()

    def deletes(self, name: str, kind: str) -> Written:
        """Rewrite a file of position deletes; returns its new path and size."""
        return self._anew(name, lambda at, data: moved_deletes(at, kind, data, self.moved))

    def _moved(self, found: Document) -> Document:
        body = dict(found.body)
        body["location"] = self.moved(body["location"])
        if "properties" in body:
            body["properties"] = {k: self.moved(v) for k, v in found.properties.items()}
        for key in _PLACES:
            if key in body:
                body[key] = [self._statistics(s) for s in body[key] or ()]
        current = None if found.current is None else found.current["snapshot-id"]
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
        """A snapshot with its rewritten list; an old one that was damaged stays so."""
        try:
            if "manifest-list" in snapshot:
                place = self._anew(snapshot["manifest-list"], self._list)[0]
                return {**snapshot, "manifest-list": place}
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
        known = self._written.get(name)
        if known is not None:
            return known
        old = self.moved(name)
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
        self._written[name] = place, len(data)
        return self._written[name]
