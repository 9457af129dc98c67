"""Row lineage of Iceberg tables of format version 3: row ids, and what last changed each row.

A data file's rows have consecutive ids, starting at the `first_row_id` in its manifest. Rewritten
rows keep their ids in the columns `_row_id` and `_last_updated_sequence_number`, whose field ids
the specification reserves.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

from lakeward.errors import CorruptTable
from lakeward.formats.iceberg.definition import FORMAT_VERSION, ROW_IDS_SINCE
from lakeward.formats.iceberg.document import parse
from lakeward.formats.iceberg.listing import ManifestReader
from lakeward.formats.iceberg.manifests import inherit_row_ids
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
    return RowIds(_ROW_ID, _SEQUENCE, _Lineage(storage, head).first)


class _Lineage:
    """The first row ids of the files of a version, read from its manifests when needed."""

    def __init__(self, storage: Storage, head: Head) -> None:
        self._storage = storage
        self._head = head
        self._location = storage.uri(head.location)

    def first(self, file: DataFile) -> tuple[int, int] | None:
        """Return a file's first row id and its sequence number; None if it has no ids yet."""
        return self._known.get(full_path(file, self._location))

    @cached_property
    def _known(self) -> dict[str, tuple[int, int]]:
        pointer = self._head.pointer
        if pointer is None:
            return {}
        source = ManifestReader(self._read, self._location)
        document = parse(pointer, self._read(pointer))
        out: dict[str, tuple[int, int]] = {}
        for manifest in source.manifests(document.current).values():
            if not is_data(manifest):
                continue
            for entry in inherit_row_ids(manifest, source.entries(manifest)):
                number = file_row_id(entry)
                if number is not None:
                    out[entry.data_file.file_path] = (number, entry.sequence_number or 0)
        return out

    def _read(self, name: str) -> bytes:
        try:
            return self._storage.read(self._storage.path_of(name))
        except FileNotFoundError as error:
            what = f"The metadata file {name} of {self._head.name} is missing."
            raise CorruptTable(what, path=name) from error
