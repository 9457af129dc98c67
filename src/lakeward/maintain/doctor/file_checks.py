"""Whether the files that the log names are there and whole, and which others could go."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from lakeward.errors import FileMissing, LakewardError
from lakeward.formats.delta.vectors import is_of, vector_path
from lakeward.formats.iceberg.deletes import DELETE_FILES
from lakeward.formats.iceberg.document import METADATA_DIRECTORY
from lakeward.formats.iceberg.listing import schemeless
from lakeward.log import branches, files, integrity, transactions
from lakeward.log.codec import loads
from lakeward.maintain.doctor.patient import Patient
from lakeward.maintain.doctor.report import Finding
from lakeward.model.commit import Head
from lakeward.model.file import LoggedFile, is_full
from lakeward.read.deleted import Vectors

_STAGED: Final = re.compile(r"part-\d{5,}-([A-Za-z0-9_-]+)(?:\.\w+)?\.parquet")
_LOST: Final = (
    "Restore the file from a backup of the warehouse, or take it out of the table with "
    "`tx.remove_files`: its rows are lost."
)
_EXAMPLES: Final = 3


def data_files(table: Patient) -> Iterator[Finding]:
    """Every file of the newest version is there, with the size that the log knows.

    Deletion vectors of Delta files are read: a damaged one would hide or revive rows.
    """
    with table.context.database.read() as session:
        head = table.head(session)
        vectors = Vectors(table.context.storage, head)
        for file in files.at(session, table.table_id, head.version):
            table.files += 1
            table.on_progress()
            yield from _look_at(table, head, file, vectors)


def reclaimable(table: Patient) -> Iterator[Finding]:
    """Files below the table's location that no version and no open transaction needs."""
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
    if unknown:
        size = sum(size for _, size in unknown)
        names = ", ".join(path for path, _ in unknown[:_EXAMPLES])
        more = ", …" if len(unknown) > _EXAMPLES else ""
        what = (
            f"{len(unknown)} file{'' if len(unknown) == 1 else 's'} below {table.name} "
            f"({size:,} bytes) belong to no version and no open transaction: {names}{more}."
        )
        yield table.info("reclaimable", what, "They may be deleted when nobody else needs them.")


def vector_paths(descriptor: dict[str, Any]) -> list[str]:
    """The files that hold the rows deleted in place, as the table's log names files."""
    if DELETE_FILES in descriptor:
        return [schemeless(d["path"]) for d in descriptor[DELETE_FILES]]
    found = vector_path(descriptor)
    return [] if found is None else [found]


def _look_at(table: Patient, head: Head, file: LoggedFile, vectors: Vectors) -> Iterator[Finding]:
    yield from _present(table, head, file.path, file.size, file.added)
    vector = file.file.deletion_vector
    for place in vector_paths(dict(vector)) if vector is not None else ():
        yield from _present(table, head, place, None, file.added)
    if vector is None or DELETE_FILES in vector:
        return
    try:
        vectors.of(file)
    except FileMissing:
        # Reported above.
        return
    except LakewardError as error:
        what = f"The deletion vector of {file.path!r} of {table.name} is damaged: {error.what}"
        yield table.error("vector-damaged", what, _LOST, version=file.added)


def _present(
    table: Patient, head: Head, path: str, size: int | None, version: int
) -> Iterator[Finding]:
    full = path if is_full(path) else f"{head.location}/{path}"
    try:
        found = table.context.storage.size(full)
    except FileMissing:
        what = f"File {path!r} of {table.name} is missing; version {version} added it."
        yield table.error("file-missing", what, _LOST, version=version)
    except LakewardError as error:
        what = f"File {path!r} of {table.name} cannot be looked at: {error.what}"
        yield table.error("file-unreadable", what, error.hint, version=version)
    else:
        if size is not None and found != size:
            what = f"File {path!r} of {table.name} has {found} bytes; the log knows {size}."
            yield table.error("file-size", what, _LOST, version=version)


def _listed(table: Patient, location: str) -> Iterator[tuple[str, int]]:
    """Paths below the location, with sizes; what engines hide from readers is left out."""
    storage = table.context.storage
    for entry in storage.listing(location, recursive=True):
        path = entry.path[len(location) + 1 :]
        hidden = any(p.startswith(("_", ".")) and "=" not in p for p in path.split("/"))
        of_format = table.format == "iceberg" and path.startswith(f"{METADATA_DIRECTORY}/")
        if not hidden and not of_format:
            yield path, entry.size


def _is_staged(path: str, protected: set[str]) -> bool:
    """Whether an open transaction wrote the file: its id begins what follows the number."""
    found = _STAGED.fullmatch(path.rpartition("/")[2])
    if found is None:
        return is_of(path, protected)
    return any(found[1] == i or found[1].startswith(f"{i}-") for i in protected)
