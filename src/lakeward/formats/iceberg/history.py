"""An existing Iceberg table as the lake's own nouns: its whole history, or what others committed.

A version of the log is a snapshot on the main branch, oldest first; before the first snapshot of a
table that the lake made there is version 0, the empty table. Two snapshots differ by the manifests
that only one of them has, so only those are read.

A data file that delete files apply to carries their names as its deletion vector: such files are
read by an engine that honours them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from lakeward.errors import CorruptTable
from lakeward.formats.iceberg.definition import NAME, definition_of, specs_of
from lakeward.formats.iceberg.document import Document
from lakeward.formats.iceberg.manifests import FILE_PATH, is_data, read_entries, read_list
from lakeward.formats.iceberg.publication import APPLICATIONS, INFO, TRANSACTION_ID, VERSION
from lakeward.formats.iceberg.spec import partition_values
from lakeward.formats.iceberg.values import from_bytes
from lakeward.model.commit import AppTransaction, Commit, CommitInfo
from lakeward.model.definition import Definition
from lakeward.model.file import LIVE, DataFile, FileStats, LoggedFile
from lakeward.model.history import ForeignActions, TableHistory

SNAPSHOT_ID = "snapshot_id"
SEQUENCE = "sequence_number"


@dataclass
class Source:
    """Where a table's metadata is read from.

    Attributes:
        read: A file's bytes by its full name.
        location: The table's directory, as data files' names begin with it.
    """

    read: Callable[[str], bytes]
    location: str
    _entries: dict[str, list[Any]] = field(default_factory=dict)

    def manifests(self, snapshot: Mapping[str, Any] | None) -> dict[str, Any]:
        """The manifests of a snapshot by their names."""
        if snapshot is None:
            return {}
        if "manifest-list" not in snapshot:
            what = f"Snapshot {snapshot['snapshot-id']} has no manifest list."
            raise CorruptTable(what, hint="Tables of the first format version may lack it.")
        place = snapshot["manifest-list"]
        return {m.manifest_path: m for m in read_list(place, self.read(place))}

    def entries(self, manifest: Any) -> list[Any]:
        """The entries of a manifest that have not ended."""
        path = manifest.manifest_path
        if path not in self._entries:
            self._entries[path] = read_entries(manifest, self.read(path))
        return self._entries[path]


def read_history(document: Document, source: Source) -> TableHistory:
    """A table's history, as far back as its snapshots go.

    Raises:
        CorruptTable: Its metadata is damaged.
        UnsupportedFeature: It asks for what the lake does not know.
    """
    chain = ancestors(document)
    first = _first_version(chain)
    history = TableHistory(
        uuid=str(document.body.get("table-uuid", "")),
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
    if not chain or (first == 0 and _is_numbered(chain[0])):
        building.empty(_created_ms(document, chain), first)
    for snapshot in chain:
        building.add(snapshot)
    return building.done()


def read_drift(
    document: Document,
    known: Document,
    source: Source,
    definition: Definition,
    *,
    version: int,
    timestamp_ms: int,
) -> list[ForeignActions]:
    """What others did to a table since the document that the log knows, oldest first.

    Args:
        document: The newest one.
        known: The one that the log's newest version stands for.
        source: Where to read.
        definition: At the log's newest version.
        version: The log's newest.
        timestamp_ms: When that was committed.
    """
    changed = definition_of(document)
    has_changed = changed != _comparable(definition)
    steps: list[dict[str, Any] | None] = [*_since(document, known)]
    if not steps and has_changed:
        steps = [None]
    previous = source.manifests(known.current)
    out: list[ForeignActions] = []
    for number, snapshot in enumerate(steps):
        current = source.manifests(snapshot or document.current)
        added, removed = _difference(source, document, changed, previous, current)
        timestamp_ms = max(timestamp_ms + 1, _moment(snapshot, document))
        version += 1
        out.append(
            ForeignActions(
                version=version,
                timestamp_ms=timestamp_ms,
                info=commit_info(snapshot, document, version),
                added=tuple(added),
                removed=tuple((f.path, vector_id(f.deletion_vector)) for f in removed),
                definition=changed if has_changed and number == 0 else None,
                app_transactions=tuple(_applications(snapshot)),
            )
        )
        previous = current
    return out


def ancestors(document: Document) -> list[dict[str, Any]]:
    """The snapshots of the main branch, oldest first."""
    known = document.all_snapshots()
    out: list[dict[str, Any]] = []
    number = None if document.current is None else document.current["snapshot-id"]
    while number in known and len(out) <= len(known):
        out.append(known[number])
        number = known[number].get("parent-snapshot-id")
    out.reverse()
    return out


def commit_info(snapshot: Mapping[str, Any] | None, document: Document, version: int) -> CommitInfo:
    """What a snapshot tells of its commit; ours tell all that the log knew."""
    if snapshot is None:
        number = str(document.location.rpartition("/")[2])
        extra = {"metadata": document.location}
        return CommitInfo(f"iceberg-{number}", "SET TABLE", adopted=True, extra=extra)
    told = snapshot.get("summary") or {}
    number = str(snapshot["snapshot-id"])
    extra = {SNAPSHOT_ID: snapshot["snapshot-id"], SEQUENCE: snapshot.get("sequence-number", 0)}
    if TRANSACTION_ID in told and told.get(VERSION) == str(version):
        body = _json(told.get(INFO))
        return CommitInfo(
            transaction_id=told[TRANSACTION_ID],
            operation=body.get("operation", "WRITE"),
            parameters=body.get("parameters", {}),
            metrics=_metrics(told),
            actor=body.get("actor", ""),
            engine=body.get("engine", ""),
            message=body.get("message"),
            members=body.get("members", 1),
            attempts=body.get("attempts", 1),
            blind=body.get("blind", False),
            data_change=told.get("operation") != "replace",
            extra=extra,
        )
    metrics = {k: v for k, v in told.items() if k.startswith(("added-", "deleted-", "removed-"))}
    return CommitInfo(
        transaction_id=f"iceberg-{number}",
        operation=str(told.get("operation", "unknown")).upper(),
        metrics=metrics,
        engine=str(told.get("engine-name", told.get("spark.app.id", ""))),
        blind=told.get("operation") == "append",
        data_change=told.get("operation") != "replace",
        adopted=True,
        extra=extra,
    )


def _metrics(told: Mapping[str, str]) -> dict[str, int]:
    """A commit's metrics, from the counts of its snapshot."""
    counts = {
        "numFiles": told.get("added-data-files", "0"),
        "numOutputRows": told.get("added-records", "0"),
        "numOutputBytes": told.get("added-files-size", "0"),
    }
    if "deleted-data-files" in told:
        counts["numRemovedFiles"] = told["deleted-data-files"]
        counts["numRemovedBytes"] = told.get("removed-files-size", "0")
    return {name: int(count) for name, count in counts.items()}


def vector_id(vector: Mapping[str, Any] | None) -> str | None:
    """What tells two states of one data file apart: the deletes that apply to it."""
    return None if vector is None else ",".join(vector["delete_files"])


class _Building:
    """A history in the making."""

    def __init__(self, document: Document, source: Source, history: TableHistory) -> None:
        self._document = document
        self._source = source
        self._history = history
        self._manifests: dict[str, Any] = {}
        self._live: dict[tuple[str, str | None], int] = {}
        self._definitions: dict[int | None, Definition] = {}
        self._version = history.first_version
        self._timestamp_ms = -1

    def empty(self, at_ms: int, version: int) -> None:
        """Version 0 of a table that has no snapshot there."""
        definition = self._definition(0 if self._document.snapshots else None)
        self._history.definitions.append((version, definition))
        info = CommitInfo(
            transaction_id=f"create-{self._history.uuid}",
            operation="CREATE TABLE",
            adopted=True,
        )
        self._history.commits.append(Commit(version, at_ms, info))
        self._timestamp_ms = at_ms
        self._version = version + 1

    def add(self, snapshot: Mapping[str, Any]) -> None:
        """One snapshot as the next version."""
        version = self._version
        definition = self._definition(snapshot.get("schema-id"))
        known = self._history.definitions
        if not known or known[-1][1] != definition:
            known.append((version, definition))
        manifests = self._source.manifests(snapshot)
        added, removed = _difference(
            self._source, self._document, definition, self._manifests, manifests
        )
        files = self._history.files
        for gone in removed:
            place = self._live.pop((gone.path, vector_id(gone.deletion_vector)), None)
            if place is not None:
                old = files[place]
                files[place] = LoggedFile(old.file, old.added, old.ordinal, version)
        for ordinal, file in enumerate(added):
            self._live[file.path, vector_id(file.deletion_vector)] = len(files)
            files.append(LoggedFile(file, version, ordinal, LIVE))
        self._timestamp_ms = max(self._timestamp_ms + 1, snapshot["timestamp-ms"])
        info = commit_info(snapshot, self._document, version)
        self._history.commits.append(Commit(version, self._timestamp_ms, info))
        self._history.app_transactions.extend((version, a) for a in _applications(snapshot))
        self._manifests = manifests
        self._version += 1

    def done(self) -> TableHistory:
        """The history, with the definition that holds now."""
        history = self._history
        current = definition_of(self._document)
        if history.definitions[-1][1] != current:
            version, _ = history.definitions[-1]
            newest = history.commits[-1].version
            if version == newest:
                history.definitions[-1] = (newest, current)
            else:
                history.definitions.append((newest, current))
        return TableHistory(**{**_plain(history), "version": history.commits[-1].version})

    def _definition(self, schema_id: int | None) -> Definition:
        if schema_id not in self._definitions:
            self._definitions[schema_id] = definition_of(self._document, schema_id)
        return self._definitions[schema_id]


def _plain(history: TableHistory) -> dict[str, Any]:
    return {name: getattr(history, name) for name in history.__dataclass_fields__}


def _since(document: Document, known: Document) -> list[dict[str, Any]]:
    """The snapshots of the main branch after the one that is known.

    After a rollback, or where the known one was expired, all that can be told is the difference.
    """
    chain = ancestors(document)
    since = None if known.current is None else known.current["snapshot-id"]
    ids = [s["snapshot-id"] for s in chain]
    if since is None:
        return chain
    return chain[ids.index(since) + 1 :] if since in ids else chain[-1:]


def _difference(
    source: Source,
    document: Document,
    definition: Definition,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
) -> tuple[list[DataFile], list[DataFile]]:
    """The files that one set of manifests has and the other has not: added, removed."""
    ended = [m for p, m in before.items() if p not in after]
    begun = [m for p, m in after.items() if p not in before]
    if any(not is_data(m) for m in (*ended, *begun)) or _has_deletes(after):
        old = _all_files(source, document, definition, before.values())
        new = _all_files(source, document, definition, after.values())
    else:
        old = _all_files(source, document, definition, ended)
        new = _all_files(source, document, definition, begun)
    added = [f for key, f in new.items() if key not in old]
    removed = [f for key, f in old.items() if key not in new]
    return added, removed


def _has_deletes(manifests: Mapping[str, Any]) -> bool:
    return any(not is_data(m) for m in manifests.values())


def _all_files(
    source: Source, document: Document, definition: Definition, manifests: Iterable[Any]
) -> dict[tuple[str, str | None], DataFile]:
    listed = list(manifests)
    deletes = [e for m in listed if not is_data(m) for e in source.entries(m)]
    out: dict[tuple[str, str | None], DataFile] = {}
    for manifest in listed:
        if not is_data(manifest):
            continue
        for entry in source.entries(manifest):
            file = _file(source, document, definition, manifest.partition_spec_id, entry, deletes)
            out[file.path, vector_id(file.deletion_vector)] = file
    return out


def _file(
    source: Source,
    document: Document,
    definition: Definition,
    spec_id: int,
    entry: Any,
    deletes: Iterable[Any],
) -> DataFile:
    found = entry.data_file
    if str(found.file_format.value).upper() != "PARQUET":
        what = f"{found.file_path} is {found.file_format}, not Parquet."
        raise CorruptTable(what, hint="The lake reads Parquet only.", path=found.file_path)
    spec = specs_of(document.body)[spec_id]
    applied = sorted(d.data_file.file_path for d in deletes if _applies(d, entry))
    path = relative(found.file_path, source.location)
    return DataFile(
        path=path,
        size=found.file_size_in_bytes,
        rows=found.record_count,
        modified_ms=0,
        partition=partition_values(spec, definition, list(_values(found.partition))),
        stats=_stats(found, definition),
        deletion_vector={"delete_files": applied} if applied else None,
        extra=None
        if f"{source.location}/{path}" == found.file_path
        else {FILE_PATH: found.file_path},
    )


def relative(path: str, location: str) -> str:
    """A file's name below the table's directory, or in full where it lies elsewhere."""
    plain, base = _schemeless(path), _schemeless(location).rstrip("/")
    return plain.removeprefix(f"{base}/") if plain.startswith(f"{base}/") else plain


def _schemeless(path: str) -> str:
    if path.startswith("file:"):
        return "/" + path.removeprefix("file:").lstrip("/")
    return path


def _applies(delete: Any, entry: Any) -> bool:
    """Whether a delete file may apply to a data file, by what both say of themselves."""
    found, target = delete.data_file, entry.data_file
    equality = str(found.content.name) == "EQUALITY_DELETES"
    newer = (delete.sequence_number or 0) - (entry.sequence_number or 0)
    if newer < 0 or (equality and newer == 0):
        return False
    named = (found.lower_bounds or {}).get(2147483546), (found.upper_bounds or {}).get(2147483546)
    if not equality and named[0] is not None and named[0] == named[1]:
        return bool(named[0].decode() == target.file_path)
    return bool(list(_values(found.partition)) == list(_values(target.partition)))


def _values(record: Any) -> Iterable[Any]:
    return [record[i] for i in range(len(record))]


def _stats(found: Any, definition: Definition) -> FileStats | None:
    fields = definition.schema.by_id
    indexed = {f.id for f in definition.schema.indexed}
    nulls = {i: n for i, n in (found.null_value_counts or {}).items() if i in indexed}
    sides: list[dict[int, Any]] = [{}, {}]
    for side, bounds in zip(sides, (found.lower_bounds, found.upper_bounds), strict=True):
        for i, data in (bounds or {}).items():
            value = from_bytes(fields[i].type, data) if i in indexed else None
            if value is not None:
                side[i] = value
    both = sides[0].keys() & sides[1].keys()
    if not nulls and not both:
        return None
    return FileStats(
        {i: sides[0][i] for i in both}, {i: sides[1][i] for i in both}, nulls, tight=False
    )


def _applications(snapshot: Mapping[str, Any] | None) -> list[AppTransaction]:
    told = (snapshot or {}).get("summary") or {}
    return [AppTransaction(*a) for a in _json(told.get(APPLICATIONS), [])]


def _json(text: str | None, default: Any = None) -> Any:
    if text is None:
        return {} if default is None else default
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return {} if default is None else default


def _first_version(chain: list[dict[str, Any]]) -> int:
    """The version of the first snapshot, or 0 where an empty table comes before it."""
    if not chain or not _is_numbered(chain[0]):
        return 0
    number = int(chain[0]["summary"][VERSION])
    return 0 if number == 1 else number


def _is_numbered(snapshot: Mapping[str, Any]) -> bool:
    return str((snapshot.get("summary") or {}).get(VERSION, "")).isdigit()


def _created_ms(document: Document, chain: list[dict[str, Any]]) -> int:
    if not chain:
        return document.updated_ms
    return int(chain[0]["timestamp-ms"]) - 1


def _moment(snapshot: Mapping[str, Any] | None, document: Document) -> int:
    return document.updated_ms if snapshot is None else int(snapshot["timestamp-ms"])


def _comparable(definition: Definition) -> Definition:
    """A definition as a document would give it back."""
    return replace(definition, created_ms=None)
