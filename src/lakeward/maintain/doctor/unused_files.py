"""Files that could be deleted: data files that no version needs, unreachable metadata files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import orjson

from lakeward.errors import LakewardError
from lakeward.formats.delta.vectors import is_of
from lakeward.formats.iceberg import metadata
from lakeward.formats.iceberg.document import METADATA_DIRECTORY, Document, parse
from lakeward.formats.iceberg.hints import HINT, document_number
from lakeward.formats.iceberg.listing import ManifestReader, schemeless
from lakeward.formats.iceberg.memory import Memory
from lakeward.formats.iceberg.summary import transaction_of
from lakeward.formats.registry import FORMATS
from lakeward.log import branches, catalog, integrity, transactions
from lakeward.log.codec import loads
from lakeward.maintain.doctor.file_checks import vector_paths
from lakeward.maintain.doctor.findings import CheckedTable, Finding
from lakeward.model.file import is_full

_STAGED: Final = re.compile(r"part-\d{5,}-([A-Za-z0-9_-]+)(?:\.\w+)?\.parquet")
_EXAMPLES: Final = 3


def reclaimable(table: CheckedTable) -> Iterator[Finding]:
    """Yield a finding about files that no version and no open transaction needs, if any."""
    with table.context.database.read() as session:
        location = table.head(session).location
    # Listed before the log is read: a file that is staged and committed meanwhile is then known.
    listed = list(_listed(table, location))
    if not listed:
        return
    with table.context.database.read() as session:
        protected = {r.transaction_id for r in transactions.still_open(session)}
        others = tuple(f"{at}/" for at in integrity.other_locations(session, table.table_id))
        working = branches.live_directories(session, table.table_id)
        known: set[int] = set()
        elsewhere: set[int] = set()
        full = table.context.storage.uri(location)
        for path, vector in integrity.known_paths(session, table.table_id):
            for place in (path, *(vector_paths(loads(vector)) if vector else ())):
                inside = place.removeprefix(f"{full}/")
                known.add(hash(inside))
                if is_full(inside):
                    # It may be one of these files, named as it was before a move.
                    elsewhere.add(hash(inside.rpartition("/")[2]))
    unknown = [
        (path, size)
        for path, size in listed
        if hash(path) not in known
        and hash(path.rpartition("/")[2]) not in elsewhere
        and not _is_staged(path, protected)
        and path.partition("/")[0] not in working
        and not f"{location}/{path}".startswith(others)
    ]
    why = "belong to no version and no open transaction"
    yield from _found(table, "file", "below", unknown, why)


def metadata_litter(table: CheckedTable) -> Iterator[Finding]:
    """Yield a finding about metadata files that no document or open transaction uses, if any."""
    with table.context.database.read() as session:
        location = table.head(session).location
    # Listed before the log is read: what is written and ratified meanwhile is then known.
    listed = list(table.context.storage.listing(f"{location}/{METADATA_DIRECTORY}"))
    with table.context.database.read() as session:
        head = table.head(session)
        pointers = {head.pointer, catalog.pointer(session, head.name)} - {None}
        protected = {r.transaction_id for r in transactions.still_open(session)}
    try:
        reached = set(_reached(table, [str(p) for p in pointers]))
    except LakewardError:
        # What cannot be read may lead to any of the files. Other checks report what is wrong.
        return
    litter = [
        (f.path.rpartition("/")[2], f.size)
        for f in listed
        if f.path.rpartition("/")[2] not in reached and not _is_protected(table, f.path, protected)
    ]
    why = "are of no commit that was ratified, or of documents that newer ones have forgotten"
    yield from _found(table, "metadata file", "of", sorted(litter), why)


def _reached(table: CheckedTable, pointers: list[str]) -> Iterator[str]:
    """Yield the names of all files to which documents refer; raise if one cannot be read."""
    yield HINT
    read = metadata.reader(table.context)
    for pointer in pointers:
        yield _name(pointer)
        document = table.context.cache(Memory).document(pointer, read)
        yield from _named(document, ManifestReader(read, ""))


def _named(document: Document, source: ManifestReader) -> Iterator[str]:
    for text in document.metadata_log:
        yield _name(str(orjson.loads(text).get("metadata-file", "")))
    for key in ("statistics", "partition-statistics"):
        for found in document.body.get(key) or ():
            yield _name(str(found.get("statistics-path", "")))
    seen: set[str] = set()
    for snapshot in document.all_snapshots().values():
        yield _name(str(snapshot.get("manifest-list", "")))
        for path in source.manifests(snapshot):
            if path not in seen:
                seen.add(path)
                yield _name(path)


def _is_protected(table: CheckedTable, path: str, protected: set[str]) -> bool:
    """Return whether an open transaction wrote the file, or may have."""
    name = _name(path)
    if any(i in name for i in protected):
        return True
    if not protected or document_number(name) is None:
        return False
    try:
        return transaction_of(parse(path, table.context.storage.read(path)).current) in protected
    except LakewardError:
        # It may still be being written.
        return True


def _name(location: str) -> str:
    return schemeless(location).rpartition("/")[2]


def _found(
    table: CheckedTable, noun: str, where: str, files: list[tuple[str, int]], why: str
) -> Iterator[Finding]:
    """Yield one finding about all files, which are pairs of path and size, if there are any."""
    if not files:
        return
    names = ", ".join(path for path, _ in files[:_EXAMPLES])
    more = ", …" if len(files) > _EXAMPLES else ""
    what = (
        f"{len(files)} {noun}{'' if len(files) == 1 else 's'} {where} {table.name} "
        f"({sum(size for _, size in files):,} bytes) {why}: {names}{more}."
    )
    yield table.info("reclaimable", what, "They may be deleted when nobody else needs them.")


def _listed(table: CheckedTable, location: str) -> Iterator[tuple[str, int]]:
    """Yield path and size of each file below the location, without hidden files and metadata."""
    of_catalog = FORMATS[table.format].has_catalog
    metadata_directory = (f"{METADATA_DIRECTORY}/",) if of_catalog else ()
    for entry in table.context.storage.listing(location, recursive=True):
        path = entry.path[len(location) + 1 :]
        hidden = any(p.startswith(("_", ".")) and "=" not in p for p in path.split("/"))
        if not hidden and not path.startswith(metadata_directory):
            yield path, entry.size


def _is_staged(path: str, protected: set[str]) -> bool:
    """Return whether an open transaction wrote the file, by the transaction id in its name."""
    found = _STAGED.fullmatch(path.rpartition("/")[2])
    if found is None:
        return is_of(path, protected)
    return any(found[1] == i or found[1].startswith(f"{i}-") for i in protected)
