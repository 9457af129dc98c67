"""Checks that an Iceberg table's catalog entry and metadata agree with the log.

Each check yields a finding for every violation.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from lakeward.context import LakeContext
from lakeward.errors import FileMissing, LakewardError
from lakeward.formats.iceberg import metadata
from lakeward.formats.iceberg.definition import definition_of
from lakeward.formats.iceberg.document import METADATA_DIRECTORY, Document, parse
from lakeward.formats.iceberg.history import is_another
from lakeward.formats.iceberg.listing import ManifestReader, all_files, vector_id
from lakeward.formats.iceberg.summary import SNAPSHOT_ID
from lakeward.log import catalog, commits, definitions, files, heads, retired
from lakeward.maintain.doctor.findings import CheckedTable, Finding, Severity
from lakeward.model.commit import Head
from lakeward.model.file import DataFile

ENTER: Final = "Run `lakeward doctor --fix`: it is entered again as the log knows it."
_RELOCATE: Final = "Delete nothing. Run `lakeward relocate`: it writes the metadata anew."
_LOST: Final = (
    "Restore the file from a backup of the warehouse. The rows are safe: `table.to_arrow` reads "
    "them by the log."
)


def catalog_entry(table: CheckedTable) -> Iterator[Finding]:
    """Check that the catalog has the table, with the metadata location that the log has."""
    with table.context.database.read() as session:
        head = table.head(session)
        pointer = catalog.pointer(session, head.name)
        missing = None if pointer is not None else metadata.not_entered(session, head)
    if missing is not None:
        yield table.error("catalog-missing", missing.what, ENTER)
        return
    if pointer is None or pointer == head.pointer:
        return
    if not metadata.is_of(table.context, head, pointer):
        what = f"The Iceberg catalog has another table than the log as {table.name}: {pointer}."
        mend = "Drop it from the lake and adopt the new one, or move one of them away."
        yield table.error("catalog-foreign", what, mend)
    elif head.drift == "refuse":
        what = f"Somebody else committed to {table.name}, which refuses it."
        yield table.error("foreign-commit", what, "Drop it and adopt it anew to take the commit.")
    else:
        what = f"Somebody else committed to {table.name}."
        yield table.warning("drift", what, "Nothing: the next to use the table takes it over.")


def published_document(table: CheckedTable) -> Iterator[Finding]:
    """Check that the metadata document has the newest version's snapshot and definition."""
    with table.context.database.read() as session:
        head = table.head(session)
        first = commits.first_version(session, table.table_id) or 0
        _, expected = definitions.at(session, table.table_id, head.version)
        newest = commits.newest_with(session, table.table_id, head.version, SNAPSHOT_ID)
    for _ in range(first, head.version + 1):
        table.versions += 1
        table.on_progress()
    document = _read(table, head)
    if isinstance(document, Finding):
        yield document
        return
    if document.uuid not in ("", head.uuid):
        what = f"{document.location} is the document of another table than {table.name}."
        yield table.error("metadata-wrong", what, _LOST, version=head.version)
    current = None if document.current is None else document.current["snapshot-id"]
    if current != newest:
        what = (
            f"{document.location} has the snapshot {current}; version {head.version} of "
            f"{table.name} is {newest}."
        )
        yield table.error("metadata-wrong", what, _LOST, version=head.version)
    if is_another(definition_of(document), expected):
        what = f"{document.location} defines {table.name} otherwise than the log."
        yield table.error("metadata-wrong", what, _LOST, version=head.version)
    yield from _older_snapshots(table, head, document)


def _older_snapshots(table: CheckedTable, head: Head, document: Document) -> Iterator[Finding]:
    """Check that the manifest list and the manifests of each older snapshot can be read.

    Of versions that vacuum has retired only the list must be readable.
    """
    # Not through the cache: the files may have been damaged since they were cached.
    read = metadata.reader(table.context)
    source = ManifestReader(read, table.context.storage.uri(head.location))
    retired_snapshots = _retired_snapshots(table)
    seen: set[str] = set()
    with suppress(LakewardError):
        # `listed_files` reads those of the current snapshot.
        seen.update(source.manifests(document.current))
    for number, snapshot in document.all_snapshots().items():
        if number == document.current_id:
            continue
        try:
            manifests = source.manifests(snapshot)
        except LakewardError as error:
            yield _unreadable(table, number, error)
            continue
        if number in retired_snapshots:
            continue
        for path in [p for p in manifests if p not in seen]:
            seen.add(path)
            try:
                source.entries(manifests[path])
            except LakewardError as error:
                yield _unreadable(table, number, error)
        source.forget(manifests)


def _retired_snapshots(table: CheckedTable) -> set[int]:
    """Return the snapshots of versions whose files vacuum may have deleted."""
    found: set[int] = set()
    with table.context.database.read() as session:
        for low, high in retired.ranges(session, table.table_id):
            for commit in commits.history(
                session, table.table_id, low=low, high=high - 1, limit=high - low
            ):
                number = (commit.info.extra or {}).get(SNAPSHOT_ID)
                if number is not None:
                    found.add(number)
    return found


def _unreadable(table: CheckedTable, snapshot: int, error: LakewardError) -> Finding:
    what = f"Snapshot {snapshot} of {table.name} cannot be read: {error.what}"
    if isinstance(error, FileMissing):
        return table.error("metadata-missing", what, _LOST)
    return table.error("metadata-unreadable", what, _LOST)


def listed_files(table: CheckedTable) -> Iterator[Finding]:
    """Check that the manifests list exactly the files of the newest version, with size and rows."""
    with table.context.database.read() as session:
        head = table.head(session)
        _, definition = definitions.at(session, table.table_id, head.version)
        live = [f.file for f in files.at(session, table.table_id, head.version)]
    document = _read(table, head)
    if isinstance(document, Finding):
        # Reported by itself.
        return
    place = metadata.place_of(table.context, head)
    source = ManifestReader(place.read, place.location)
    try:
        manifests = source.manifests(document.current)
        found = all_files(source, document, definition, manifests.values())
    except LakewardError as error:
        what = f"The manifests of {table.name} cannot be read: {error.what}"
        yield table.error("metadata-unreadable", what, _LOST, version=head.version)
        return
    expected = {(f.path, vector_id(f.deletion_vector)): f for f in live}
    for key in sorted(expected.keys() | found.keys(), key=str):
        problem = _differ(expected.get(key), found.get(key))
        if problem is not None:
            what = f"File {key[0]!r} of {table.name} {problem}."
            yield table.error("metadata-wrong", what, _LOST, version=head.version)


def unknown_tables(context: LakeContext) -> Iterator[Finding]:
    """Yield a finding for each table of the lake's catalog that is not in the lake."""
    with context.database.read() as session:
        known = {catalog.identifier(h.name) for h in heads.of_format(session, "iceberg")}
        pointers = {str(h.pointer) for h in heads.of_format(session, "iceberg")}
        entered = catalog.pointers(session)
    for name, pointer in sorted(entered.items()):
        if name not in known and pointer not in pointers:
            full_name = ".".join(name)
            what = f"The Iceberg catalog has a table {full_name}, which the lake does not know."
            mend = f"Take it in with `lakeward adopt {full_name}`, or leave it alone."
            yield Finding(Severity.INFO, "not-adopted", what, mend)


def _read(table: CheckedTable, head: Head) -> Document | Finding:
    place = str(head.pointer)
    try:
        # Do not use the cache: the file may have been damaged since it was cached.
        return parse(place, metadata.reader(table.context)(place))
    except LakewardError as error:
        if _was_moved(table, head):
            what = f"{table.name} was moved: its catalog names the metadata document {place}."
            return table.error("table-moved", what, _RELOCATE, version=head.version)
        what = f"The metadata document of {table.name} cannot be read: {error.what}"
        return table.error("metadata-unreadable", what, _LOST, version=head.version)


def _was_moved(table: CheckedTable, head: Head) -> bool:
    """Return whether the document is in the table's directory, but its location is another."""
    storage = table.context.storage
    path = f"{head.location}/{METADATA_DIRECTORY}/{str(head.pointer).rpartition('/')[2]}"
    return storage.uri(path) != head.pointer and storage.exists(path)


def _differ(expected: DataFile | None, found: DataFile | None) -> str | None:
    if found is None:
        return "is in no manifest"
    if expected is None:
        return "is in a manifest, and not in the log"
    if (expected.size, expected.rows) != (found.size, found.rows):
        return (
            f"has {found.size} bytes and {found.rows} rows by its manifest, and"
            f" {expected.size} and {expected.rows} by the log"
        )
    return None
