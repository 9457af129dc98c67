"""Rows of Delta files that are deleted in place, as the scan wants to know them."""

from __future__ import annotations

from array import array

from pyroaring import BitMap64

from lakeward.formats.delta import bitmap
from lakeward.model.commit import Head
from lakeward.model.file import LoggedFile, is_full
from lakeward.storage.base import Storage


class Vectors:
    """The deletion vectors of one table's files, each read when it is asked for."""

    def __init__(self, storage: Storage, head: Head) -> None:
        self._storage = storage
        self._location = head.location
        # Vectors of one commit lie in one file, and its files follow each other in a plan.
        self._last = ("", b"")

    def of(self, file: LoggedFile) -> BitMap64:
        """The positions that are deleted; none of a file without vector.

        Raises:
            CorruptTable: The vector is not what the log says.
            FileMissing: Its file is not there.
        """
        vector = file.file.deletion_vector
        return BitMap64() if vector is None else bitmap.read(vector, self._fetch)

    def positions(self, file: LoggedFile) -> array[int]:
        """The same as numbers, ascending."""
        return self.of(file).to_array()

    def _fetch(self, path: str) -> bytes:
        if path != self._last[0]:
            full = path if is_full(path) else f"{self._location}/{path}"
            self._last = (path, self._storage.read(full))
        return self._last[1]
