"""Metadata files of an Iceberg table that nothing leads to: what failed commits left behind."""

from __future__ import annotations

from collections.abc import Iterator

import orjson

from lakeward.errors import LakewardError
from lakeward.formats.iceberg import metadata
from lakeward.formats.iceberg.document import METADATA_DIRECTORY, Document, parse
from lakeward.formats.iceberg.listing import ManifestReader, schemeless
from lakeward.formats.iceberg.memory import Memory
from lakeward.formats.iceberg.newest import HINT, document_number
from lakeward.formats.iceberg.summary import transaction_of
from lakeward.log import catalog, transactions
from lakeward.maintain.doctor.patient import Patient
from lakeward.maintain.doctor.report import Finding

_EXAMPLES = 3


def metadata_litter(table: Patient) -> Iterator[Finding]:
    """Metadata files that no document leads to and no open transaction may still need."""
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
    if litter:
        size = sum(size for _, size in litter)
        names = ", ".join(name for name, _ in sorted(litter)[:_EXAMPLES])
        more = ", …" if len(litter) > _EXAMPLES else ""
        what = (
            f"{len(litter)} metadata file{'' if len(litter) == 1 else 's'} of {table.name} "
            f"({size:,} bytes) are of no commit that was ratified, or of documents that newer ones "
            f"have forgotten: {names}{more}."
        )
        yield table.info("reclaimable", what, "They may be deleted when nobody else needs them.")


def _reached(table: Patient, pointers: list[str]) -> Iterator[str]:
    """The names of all files that documents lead to.

    Raises:
        LakewardError: A document or a list of manifests cannot be read.
    """
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


def _is_protected(table: Patient, path: str, protected: set[str]) -> bool:
    """Whether an open transaction wrote the file."""
    name = _name(path)
    if any(i in name for i in protected):
        return True
    if not protected or document_number(name) is None:
        return False
    try:
        return transaction_of(parse(path, table.context.storage.read(path)).current) in protected
    except LakewardError:
        # It may be in the making.
        return True


def _name(location: str) -> str:
    return schemeless(location).rpartition("/")[2]
