"""Warehouses of lakes that are open read-only: every change of a file is refused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from lakeward.errors import ReadOnlyLake
from lakeward.storage.local import LocalStorage


class Unwritable:
    """Methods that raise `ReadOnlyLake` in place of those that change files."""

    root: str

    def create(self, path: str, data: Any) -> NoReturn:  # noqa: ARG002
        """Raise an error: this storage is read-only."""
        self._refuse(path)

    def create_all(self, files: Iterable[tuple[str, bytes]]) -> None:
        """Raise an error if there is a file to write: this storage is read-only."""
        for path, _ in files:
            self._refuse(path)

    def delete_directory(self, directory: str) -> None:
        """Raise an error: this storage is read-only."""
        self._refuse(directory)

    def prepare(self, path: str, data: bytes) -> NoReturn:  # noqa: ARG002
        """Raise an error: this storage is read-only."""
        self._refuse(path)

    def put_if_absent(self, path: str, data: bytes) -> bool:  # noqa: ARG002
        """Raise an error: this storage is read-only."""
        self._refuse(path)

    def put(self, path: str, data: bytes) -> None:  # noqa: ARG002
        """Raise an error: this storage is read-only."""
        self._refuse(path)

    def replace(self, path: str, data: bytes) -> None:  # noqa: ARG002
        """Raise an error: this storage is read-only."""
        self._refuse(path)

    def delete(self, paths: Iterable[str]) -> None:
        """Raise an error if there is a file to delete: this storage is read-only."""
        for path in paths:
            self._refuse(path)

    def delete_below(self, directory: str, names: Sequence[str]) -> None:  # noqa: ARG002
        """Raise an error: this storage is read-only."""
        self._refuse(directory)

    def make_directory(self, path: str) -> None:
        """Raise an error: this storage is read-only."""
        self._refuse(path)

    def _refuse(self, path: str) -> NoReturn:
        what = f"The warehouse {self.root} is open read-only, so {path} was not changed."
        raise ReadOnlyLake(what, hint="Open the lake as a user who may write.", path=path)


class ReadOnlyLocalStorage(Unwritable, LocalStorage):
    """Files below a directory of this machine, which are only read."""
