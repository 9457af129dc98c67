"""A cache of metadata that was read or written, so that the next commit need not read it again.

Published files never change, so cached content stays valid. The least recently used item is dropped
when the cache is full; a document is dropped when the next one is derived from it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, Final

from lakeward.formats.iceberg.document import Document, parse

ROOM: Final = 64 * 2**20
"""The approximate size, in bytes, of a full cache."""
_MANIFEST: Final = 1_000
_ENTRY: Final = 4_000
_BYTES: Final = "bytes:"
"""Begins the keys of files that are cached as bytes."""


class Memory:
    """Caches documents, manifest lists and manifests by their paths."""

    def __init__(self, room: int = ROOM) -> None:
        self._room = room
        self._taken = 0
        self._known: OrderedDict[str, tuple[Any, int]] = OrderedDict()
        self._lock = Lock()

    def document(self, name: str, read: Callable[[str], bytes]) -> Document:
        """Return a document, read if it is not cached."""
        found: Document | None = self._find(name)
        if found is None:
            found = parse(name, read(name))
            self._keep(name, found, _length(found))
        return found

    def manifests(self, name: str, read: Callable[[str], list[Any]]) -> list[Any]:
        """Return the manifests of a list, read if they are not cached."""
        found: list[Any] | None = self._find(name)
        if found is None:
            found = read(name)
            self._keep(name, found, _MANIFEST * len(found))
        return found

    def entries(self, name: str, read: Callable[[str], list[Any]]) -> list[Any]:
        """Return the live entries of a manifest, read if they are not cached."""
        found: list[Any] | None = self._find(name)
        return read(name) if found is None else found

    def content(self, name: str, read: Callable[[str], bytes]) -> bytes:
        """Return the bytes of a metadata file, read if they are not cached."""
        found: bytes | None = self._find(_BYTES + name)
        return read(name) if found is None else found

    def renew(
        self,
        before: Document,
        document: Document,
        manifests: list[Any],
        entries: Mapping[str, list[Any]],
        merged: Mapping[str, bytes],
    ) -> None:
        """Replace a document by the one derived from it, with the current snapshot's manifests.

        `entries` are those of manifests that were written with the new document, by path; `merged`
        are the bytes of those that were merged from others. Manifests that are no longer listed are
        dropped.
        """
        if document.location != before.location:
            self._forget(before.location)
        if before.current is not None and before.current is not document.current:
            self._forget_list(before.current["manifest-list"], manifests)
        for name, members in entries.items():
            self._keep(name, members, _ENTRY * len(members))
        for name, data in merged.items():
            self._keep(_BYTES + name, data, len(data))
        self._keep(document.location, document, _length(document))
        if document.current is not None:
            self._keep(document.current["manifest-list"], manifests, _MANIFEST * len(manifests))

    def _find(self, name: str) -> Any:
        with self._lock:
            found = self._known.get(name)
            if found is None:
                return None
            self._known.move_to_end(name)
            return found[0]

    def _keep(self, name: str, value: Any, weight: int) -> None:
        with self._lock:
            self._drop(name)
            self._known[name] = (value, weight)
            self._taken += weight
            while self._taken > self._room:
                _, (_, least) = self._known.popitem(last=False)
                self._taken -= least

    def _forget(self, name: str) -> None:
        with self._lock:
            self._drop(name)

    def _forget_list(self, name: str, following: list[Any]) -> None:
        """Drop a manifest list, and those of its manifests that the following list has not."""
        before = self._find(name) or ()
        listed = {m.manifest_path for m in following}
        with self._lock:
            self._drop(name)
            for path in (m.manifest_path for m in before):
                if path not in listed:
                    self._drop(path)
                    self._drop(_BYTES + path)

    def _drop(self, name: str) -> None:
        found = self._known.pop(name, None)
        if found is not None:
            self._taken -= found[1]


def _length(document: Document) -> int:
    return len(document.snapshots) + len(document.snapshot_log) + 10_000
