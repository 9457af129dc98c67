"""Checks that the files in the log exist and are complete; yields a finding for each violation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from lakeward.errors import FileMissing, LakewardError
from lakeward.formats.delta.vectors import vector_path
from lakeward.formats.iceberg.deletes import DELETE_FILES
from lakeward.formats.iceberg.listing import schemeless
from lakeward.log import files
from lakeward.maintain.doctor.findings import CheckedTable, Finding
from lakeward.model.commit import Head
from lakeward.model.file import LoggedFile, is_full
from lakeward.read.deleted import Vectors

_LOST: Final = (
    "Restore the file from a backup of the warehouse, or take it out of the table with "
    "`tx.remove_files`: its rows are lost."
)


def data_files(table: CheckedTable) -> Iterator[Finding]:
    """Check that every file of the newest version exists and has the size in the log.

    Yield a finding for each file that does not. Deletion vectors of Delta files are read: a damaged
    one would hide or revive rows.
    """
    with table.context.database.read() as session:
        head = table.head(session)
        vectors = Vectors(table.context.storage, head)
        for file in files.at(session, table.table_id, head.version):
            table.files += 1
            table.on_progress()
            yield from _look_at(table, head, file, vectors)


def vector_paths(descriptor: dict[str, Any]) -> list[str]:
    """Return the paths of the files that hold a file's deleted rows, in the form of the log."""
    if DELETE_FILES in descriptor:
        return [schemeless(d["path"]) for d in descriptor[DELETE_FILES]]
    found = vector_path(descriptor)
    return [] if found is None else [found]


def _look_at(
    table: CheckedTable, head: Head, file: LoggedFile, vectors: Vectors
) -> Iterator[Finding]:
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
    table: CheckedTable, head: Head, path: str, size: int | None, version: int
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
