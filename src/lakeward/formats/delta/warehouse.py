"""What reading a published log asks of the files below it; any warehouse's storage will do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class Listed(Protocol):
    """A file in a listing."""

    @property
    def path(self) -> str:
        """Its name, with or without directories before it."""

    @property
    def modified_ms(self) -> int:
        """When it was written."""


class Warehouse(Protocol):
    """Files by path, below a root or absolute."""

    def read(self, path: str) -> bytes:
        """A file's bytes.

        Raises:
            FileMissing: There is no such file.
        """

    def exists(self, path: str) -> bool:
        """Whether there is a file of this name."""

    def listing(self, path: str) -> Iterable[Listed]:
        """The files in a directory, in no order; none when there is no such directory."""
