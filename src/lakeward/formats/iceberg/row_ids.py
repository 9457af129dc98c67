"""Row lineage of Iceberg tables of format version 3: row ids, and what last changed each row.

A data file's rows have consecutive ids, starting at the `first_row_id` in its manifest. Rewritten
rows keep their ids in the columns `_row_id` and `_last_updated_sequence_number`, whose field ids
the specification reserves.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

from lakeward.errors import CorruptTable, FileMissing
from lakeward.formats.iceberg.definition import FORMAT_VERSION, ROW_IDS_SINCE
from lakeward.formats.iceberg.listing import ManifestReader
from lakeward.formats.iceberg.manifests import inherit_row_ids
from lakeward.formats.iceberg.newest import document_for_read
from lakeward.formats.iceberg.private import file_row_id, is_data
from lakeward.formats.iceberg.publication import full_path
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.file import DataFile
from lakeward.model.row_ids import RowIds
from lakeward.storage.base import Storage

_ROW_ID: Final = "_row_id"
_SEQUENCE: Final = "_last_updated_sequence_number"


def row_ids(storage: Storage, head: Head, definition: Definition) -> RowIds | None:
    """Return the columns of row lineage; None for a format version without it."""
    if definition.protocol[FORMAT_VERSION] < ROW_IDS_SINCE:
        return None
    return ids_of(storage, head)


def ids_of(storage: Storage, head: Head) -> RowIds:
    """Return the columns of row lineage, with the row ids in the document that a head points to."""
    return RowIds(_ROW_ID, _SEQUENCE, _Lineage(storage, head).first)


class _Lineage:
    """The first row ids of the files of a version, read from its manifests at the first use."""

    def __init__(self, storage: Storage, head: Head) -> None:
        self._storage = storage
        self._head = head
        self._location = storage.uri(head.location)

    def first(self, file: DataFile) -> tuple[int, int] | None:
        """Return a file's first row id and its sequence number; None if it has no ids yet.

        Raises `CorruptTable` if the version's document is gone, and the newest lacks the file.
        """
        path = full_path(file, self._location)
        known, complete = self._known
        if path not in known and not complete:
            raise self._missing(str(self._head.pointer))
        return known.get(path)

    @cached_property
    def _known(self) -> tuple[dict[str, tuple[int, int]], bool]:
        """The first row ids by the paths of files, and whether all files of the version are there.

        A file keeps its ids, so the newest document is as good for files that it still has.
        """
        out: dict[str, tuple[int, int]] = {}
        if self._head.pointer is None:
            return out, True
        source = ManifestReader(self._read, self._location)
        try:
            document, complete = document_for_read(self._storage, self._head)
        except FileMissing as error:
            raise self._missing(str(self._head.pointer)) from error
        for manifest in source.manifests(document.current).values():
            if not is_data(manifest):
                continue
            for entry in inherit_row_ids(manifest, source.entries(manifest)):
                number = file_row_id(entry)
                if number is not None:
                    out[entry.data_file.file_path] = (number, entry.sequence_number or 0)
        return out, complete

    def _read(self, name: str) -> bytes:
        try:
            return self._storage.read(self._storage.path_of(name))
        except FileMissing as error:
            raise self._missing(name) from error

    def _missing(self, name: str) -> CorruptTable:
        what = f"The metadata file {name} of {self._head.name} is missing."
        return CorruptTable(what, path=name)
