"""Reads an existing Iceberg table into the log's types: its history, or foreign commits.

A version of the log is a state of the main branch. A table that a lake made has version 0, the
empty table, before its first snapshot. Snapshots that a lake wrote record their version numbers;
for numbers without a snapshot, because it was expired or no rows changed, empty commits are
inserted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from lakeward.errors import CorruptTable, LakewardError
from lakeward.formats.iceberg.definition import (
    BY_ID,
    CREATED,
    FORMAT_VERSION,
    NAME,
    created_of,
    definition_of,
)
from lakeward.formats.iceberg.document import Document
from lakeward.formats.iceberg.listing import ManifestReader, all_files, difference, vector_id
from lakeward.formats.iceberg.summary import (
    applications_of,
    creation_info,
    gap_info,
    settings_info,
    snapshot_info,
    version_of,
)
from lakeward.formats.iceberg.timeline import Stop, since, timeline
from lakeward.model import progress
from lakeward.model.commit import Commit, CommitInfo
from lakeward.model.definition import Definition
from lakeward.model.file import LIVE, DataFile, LoggedFile
from lakeward.model.history import ForeignActions, TableHistory
from lakeward.model.schema import Schema


def read_history(document: Document, source: ManifestReader) -> TableHistory:
    """Return a table's history, as far back as its snapshots can be read.

    If metadata of an old snapshot is missing or damaged, the history begins after it. Raises
    `CorruptTable`, `UnsupportedFeature`.
    """
    stops, begin = timeline(document), 0
    while True:
        building, place = _begun(document, source, stops[begin:]), begin
        try:
            for place in progress.counted(range(begin, len(stops)), len(stops) - begin):
                building.add(stops[place])
            return building.done()
        except CorruptTable:
            if place >= len(stops) - 1:
                raise
            begin = place + 1
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            if isinstance(error, LakewardError):
                raise
            what = f"{document.location} tells of snapshots that make no sense: {error!r}."
            raise CorruptTable(what, path=document.location) from error


def _begun(document: Document, source: ManifestReader, stops: Sequence[Stop]) -> _Building:
    """Return a history for the given states; it has a version 0 if the table began empty."""
    first = _first_version(document, stops)
    history = TableHistory(
        uuid=str(document.body.get("table-uuid") or ""),
        name=document.properties.get(NAME),
        first_version=first,
        version=first,
        definitions=[],
        commits=[],
        files=[],
        app_transactions=[],
        domains={},
    )
    building = _Building(document, source, history)
    if first == 0 and (not stops or _begins_empty(document, stops)):
        building.empty(stops)
    return building


def read_drift(
    document: Document,
    known: Document,
    source: ManifestReader,
    definition: Definition,
    *,
    version: int,
    timestamp_ms: int,
) -> list[ForeignActions]:
    """Return the foreign commits since the document `known`, oldest first.

    `known` is the document of the log's newest version; `definition`, `version` and `timestamp_ms`
    are those of that version. Raises `CorruptTable`, `UnsupportedFeature`.
    """
    previous, now = source.manifests(known.current), definition
    out: list[ForeignActions] = []
    for stop in since(document, known):
        current = source.manifests(stop.snapshot)
        changed = _continued(_definition_at(document, stop), now)
        is_new = is_another(changed, now)
        added, removed = difference(source, document, changed, previous, current)
        timestamp_ms = max(timestamp_ms + 1, stop.at_ms)
        version += 1
        out.append(
            ForeignActions(
                version=version,
                timestamp_ms=timestamp_ms,
                info=snapshot_info(stop, version),
                added=tuple(added),
                removed=tuple((f.path, vector_id(f.deletion_vector)) for f in removed),
                definition=changed if is_new else None,
                app_transactions=tuple(applications_of(stop)),
            )
        )
        previous, now = current, changed if is_new else now
    final = _continued(definition_of(document), now)
    if is_another(final, now):
        out.append(
            ForeignActions(
                version=version + 1,
                timestamp_ms=max(timestamp_ms + 1, document.updated_ms),
                info=settings_info(document),
                definition=final,
            )
        )
    return out


def read_anew(
    document: Document,
    source: ManifestReader,
    definition: Definition,
    live: Iterable[DataFile],
    *,
    version: int,
    timestamp_ms: int,
) -> list[ForeignActions]:
    """Return all foreign changes as one commit, if the log's document or its metadata is gone.

    `live` are the log's files at its newest version. The list is empty if nothing changed.
    """
    current = None if document.current is None else dict(document.current)
    stop = Stop(current, document.updated_ms)
    changed = _continued(definition_of(document), definition)
    is_new = is_another(changed, definition)
    manifests = source.manifests(document.current)
    found = all_files(source, document, changed, manifests.values())
    known = {(f.path, vector_id(f.deletion_vector)) for f in live}
    added = tuple(f for key, f in found.items() if key not in known)
    removed = tuple(sorted(known - found.keys(), key=str))
    if not (is_new or added or removed):
        return []
    return [
        ForeignActions(
            version=version + 1,
            timestamp_ms=max(timestamp_ms + 1, stop.at_ms),
            info=snapshot_info(stop, version + 1),
            added=added,
            removed=removed,
            definition=changed if is_new else None,
            app_transactions=tuple(applications_of(stop)),
        )
    ]


class _Building:
    """Collects a history state by state."""

    def __init__(self, document: Document, source: ManifestReader, history: TableHistory) -> None:
        self._document = document
        self._source = source
        self._history = history
        self._manifests: dict[str, Any] = {}
        self._live: dict[tuple[str, str | None], int] = {}
        self._version = history.first_version
        self._timestamp_ms = -1

    def empty(self, stops: Sequence[Stop]) -> None:
        """Add an empty version 0, for a table whose version 0 has no snapshot."""
        schema_id = stops[0].snapshot.get("schema-id") if stops and stops[0].snapshot else None
        at_ms = stops[0].at_ms - 1 if stops else self._document.updated_ms
        created = created_of(self._document)
        first = definition_of(self._document, schema_id)
        self._define(replace(first, created_ms=created.get("at_ms")))
        self._commit(created.get("at_ms", at_ms), creation_info(self._history.uuid, created))

    def add(self, stop: Stop) -> None:
        """Add a state as the next version, after empty commits for missing versions."""
        meant = None if stop.again else version_of(stop)
        while meant is not None and self._version < meant:
            self._commit(self._timestamp_ms + 1, gap_info(self._history.uuid, self._version))
        definition = _definition_at(self._document, stop)
        self._define(definition)
        manifests = self._source.manifests(stop.snapshot)
        added, removed = difference(
            self._source, self._document, definition, self._manifests, manifests
        )
        version, files = self._version, self._history.files
        for gone in removed:
            place = self._live.pop((gone.path, vector_id(gone.deletion_vector)), None)
            if place is not None:
                files[place] = replace(files[place], removed=version)
        for ordinal, file in enumerate(added):
            self._live[file.path, vector_id(file.deletion_vector)] = len(files)
            files.append(LoggedFile(file, version, ordinal, LIVE))
        self._history.app_transactions.extend((version, a) for a in applications_of(stop))
        self._manifests = manifests
        self._commit(stop.at_ms, snapshot_info(stop, version))

    def done(self) -> TableHistory:
        """Return the history, up to the current definition."""
        if self._define(definition_of(self._document)):
            self._commit(self._document.updated_ms, settings_info(self._document))
        return replace(self._history, version=self._version - 1)

    def _define(self, definition: Definition) -> bool:
        """Set the definition from the next version on; return whether it changed."""
        known = self._history.definitions
        if known:
            definition = _continued(definition, known[-1][1])
            if not is_another(definition, known[-1][1]):
                return False
        known.append((self._version, definition))
        return True

    def _commit(self, at_ms: int, info: CommitInfo) -> None:
        self._timestamp_ms = max(self._timestamp_ms + 1, at_ms)
        self._history.commits.append(Commit(self._version, self._timestamp_ms, info))
        self._version += 1


def _definition_at(document: Document, stop: Stop) -> Definition:
    return definition_of(
        document, None if stop.snapshot is None else stop.snapshot.get("schema-id")
    )


def _first_version(document: Document, stops: Sequence[Stop]) -> int:
    """Return the version of the first state, or 0 if an empty version 0 is before it."""
    numbers = [(i, n) for i, s in enumerate(stops) if not s.again and (n := version_of(s))]
    if numbers:
        place, number = numbers[0]
        first = max(number - place, 0)
    else:
        first = int(_begins_empty(document, stops))
    return 0 if first == 1 and _begins_empty(document, stops) else first


def _begins_empty(document: Document, stops: Sequence[Stop]) -> bool:
    """Return whether the oldest remaining snapshot is the first of a table that a lake made."""
    if CREATED not in document.properties or not stops or stops[0].snapshot is None:
        return False
    first = stops[0].snapshot
    return first.get("sequence-number", 1) == 1 and first.get("parent-snapshot-id") is None


def _continued(definition: Definition, before: Definition) -> Definition:
    """Return a definition with the choice of indexed columns of the previous one.

    A column that is not indexed stays so: files without rows in the index would count as all null.
    """
    known = before.schema.by_id
    fields = (
        replace(f, indexed=known[f.id].indexed) if f.id in known else f
        for f in definition.schema.fields
    )
    derived = {
        i: replace(d, indexed=i in before.derived and before.derived[i].indexed)
        for i, d in definition.derived.items()
    }
    return replace(
        definition,
        schema=Schema(tuple(fields), definition.schema.last_id),
        created_ms=before.created_ms,
        derived=derived,
    )


def is_another(definition: Definition, before: Definition) -> bool:
    """Return whether the definition in a metadata file differs from the one in the log."""
    return _bare(definition) != _bare(before)


def _bare(definition: Definition) -> Definition:
    """Return only the parts of a definition in which a document and the log must agree."""
    fields = (replace(f, indexed=False) for f in definition.schema.fields)
    return replace(
        definition,
        schema=Schema(tuple(fields), definition.schema.last_id),
        properties={k: v for k, v in definition.properties.items() if k != FORMAT_VERSION},
        protocol={k: v for k, v in definition.protocol.items() if k != BY_ID},
        created_ms=None,
        derived={i: replace(d, indexed=False) for i, d in definition.derived.items()},
    )
