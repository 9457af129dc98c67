"""Reads facts about files that are not in the log: deleted rows, and hints of Iceberg metadata."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from lakeward.engines.arrow.by_id import Names, OwnNames
from lakeward.engines.arrow.deletes import deleted_positions
from lakeward.errors import CorruptTable, SchemaMismatch
from lakeward.formats.delta import bitmap
from lakeward.formats.iceberg.definition import has_defaults, initial_defaults
from lakeward.formats.iceberg.deletes import DELETE_FILES, EQUALITY_IDS, puffin_vector
from lakeward.formats.iceberg.document import Document
from lakeward.formats.iceberg.listing import schemeless
from lakeward.formats.iceberg.names import NAME_MAPPING, merged_mapping, parse_mapping
from lakeward.formats.iceberg.newest import document_for_read
from lakeward.formats.iceberg.publication import full_path
from lakeward.formats.iceberg.schema import initial_defaults as own_defaults
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.file import LoggedFile, is_full
from lakeward.storage.base import Storage

if TYPE_CHECKING:
    from pyroaring import BitMap64


class DocumentHints:
    """Facts about columns in an Iceberg table's metadata document, read when needed.

    The names of files without field ids are known from the log, too: a transaction reads files
    that it has added and that no document lists yet.
    """

    def __init__(
        self, storage: Storage, head: Head, definition: Definition, files: Sequence[LoggedFile] = ()
    ) -> None:
        self._storage = storage
        self._head = head
        self._pointer = head.pointer
        self._definition = definition
        self._files = files

    @cached_property
    def names(self) -> Names | None:
        """Field ids by names, for files without ids; raises `CorruptTable` if malformed.

        Raises `SchemaMismatch` if a file has a name that belongs to another column in the document.
        """
        text = None if self._document is None else self._document.properties.get(NAME_MAPPING)
        try:
            if text is not None:
                return parse_mapping(merged_mapping(text, (f.file for f in self._files)))
            own = parse_mapping(merged_mapping("[]", (f.file for f in self._files)))
            # Files of others are read by the names in the schema.
            return {**(OwnNames(self._definition.schema).names or {}), **own} if own else None
        except SchemaMismatch:
            raise
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            what = f"The property {NAME_MAPPING} in {self._pointer} is no name mapping: {error}."
            raise CorruptTable(what, path=self._pointer) from error

    @cached_property
    def defaults(self) -> Mapping[int, Any]:
        """The values of columns in files that were written before the column, by field id."""
        schema = self._definition.schema
        if not has_defaults(self._definition) or self._document is None:
            return {}
        # A transaction may have added columns that no document has yet.
        return {**initial_defaults(self._document, schema), **own_defaults(schema)}

    @cached_property
    def _document(self) -> Document | None:
        if self._pointer is None:
            return None
        return document_for_read(self._storage, self._head)[0]


class DeletedRows:
    """Deleted rows of Iceberg files, by their delete files and deletion vectors."""

    def __init__(self, storage: Storage, head: Head) -> None:
        self._storage = storage
        self._location = storage.uri(head.location)
        # A delete file may be for many data files, which follow each other in a plan.
        self._last: tuple[str, Any] = ("", None)

    def positions(self, file: LoggedFile) -> array[int]:
        """Return the deleted positions of a file, ascending.

        Raises `CorruptTable`, `FileMissing`.
        """
        vector = file.file.deletion_vector or {}
        of = full_path(file.file, self._location)
        deletes = vector.get(DELETE_FILES, ())
        found = [self._of(d, of) for d in deletes if EQUALITY_IDS not in d]
        whole = np.unique(np.concatenate([np.empty(0, np.uint64), *found]))
        return array("Q", whole.astype(np.uint64).tobytes())

    def equality(self, file: LoggedFile) -> list[tuple[str, tuple[int, ...]]]:
        """Return path and ids of the compared fields for each equality delete of a file."""
        vector = file.file.deletion_vector or {}
        return [
            (schemeless(str(d["path"])), tuple(d[EQUALITY_IDS]))
            for d in vector.get(DELETE_FILES, ())
            if EQUALITY_IDS in d
        ]

    def _of(self, deletes: Mapping[str, Any], of: str) -> Any:
        path = str(deletes["path"])
        if deletes["format"] == "PUFFIN":
            if path != self._last[0]:
                self._last = (path, self._storage.read(self._storage.path_of(path)))
            return np.array(puffin_vector(self._last[1], path, of).to_array(), np.uint64)
        filesystem, _ = self._storage.arrow_filesystem()
        return deleted_positions(filesystem, schemeless(path), of)


class Vectors:
    """Reads the deletion vectors of a Delta table's files."""

    def __init__(self, storage: Storage, head: Head) -> None:
        self._storage = storage
        self._location = head.location
        # Vectors of one commit lie in one file, and its files follow each other in a plan.
        self._last = ("", b"")

    def of(self, file: LoggedFile) -> BitMap64:
        """Return the deleted positions of a file. Raises `CorruptTable`, `FileMissing`."""
        # Few tables have vectors, and the library need not be loaded for the others.
        from pyroaring import BitMap64

        vector = file.file.deletion_vector
        return BitMap64() if vector is None else bitmap.read(vector, self._fetch)

    def positions(self, file: LoggedFile) -> array[int]:
        """Return the deleted positions of a file as an ascending array."""
        return self.of(file).to_array()

    def _fetch(self, path: str) -> bytes:
        if path != self._last[0]:
            full = path if is_full(path) else f"{self._location}/{path}"
            self._last = (path, self._storage.read(full))
        return self._last[1]
