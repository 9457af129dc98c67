"""What a warehouse promises about its files.

A file that was put is whole and safe when the call returns: it survives a power cut, and nobody
ever sees a part of it under its final name. A file that was created is so once it was waited for.
Paths are relative to the warehouse's root and use `/`; one that climbs out of the root is refused.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakeward.errors import InvalidInput
from lakeward.storage.underway import Underway


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file in a listing."""

    path: str
    size: int
    modified_ms: int


class Prepared(Underway):
    """A file that has no name yet: nobody sees it before `put`, and none is left by `discard`."""

    def __init__(self, storage: Storage, path: str, data: bytes) -> None:
        self.storage = storage
        self.path = path
        self.data = data

    def wait(self) -> None:
        """Its bytes are safe, or `put` makes them so."""

    def put(self) -> bool:
        """Give the file its name, as `Storage.put_if_absent` does."""
        return self.storage.put_if_absent(self.path, self.data)

    def discard(self) -> None:
        """Let go of what was not put; after `put` it does nothing."""


class Storage(ABC):
    """The files of one warehouse."""

    root: str
    is_remote = False
    """Whether a request takes so long that several are better made at once."""

    @abstractmethod
    def create(self, path: str, data: Any) -> Underway:
        """Write a new data file from a buffer. It is safe once what is returned was waited for.

        Raises:
            StorageError: It could not be written; nothing is left of it.
        """

    def create_all(self, files: Iterable[tuple[str, bytes]]) -> None:
        """Write several new files; all are safe, names too, when the call returns.

        Raises:
            StorageError: One could not be written.
        """
        for underway in [self.create(path, data) for path, data in files]:
            underway.wait()

    @abstractmethod
    def settle(self, paths: Iterable[str]) -> None:
        """Make the names of files that were put safe against a power cut."""

    def harden(self, paths: Iterable[str]) -> None:
        """Make files that other programs wrote safe against a power cut, names too.

        Raises:
            FileMissing: One of them is not there.
        """
        for path in paths:
            self.size(path)

    def discard(self, directory: str) -> None:
        """Delete a directory with all that is in it; one that is gone already is fine."""
        self.delete([f.path for f in self.listing(directory, recursive=True)])

    def prepare(self, path: str, data: bytes) -> Prepared:
        """Begin to write a file that may get its name later, as far as this storage can."""
        return Prepared(self, path, data)

    @abstractmethod
    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write a file whole, unless one of that name exists: then change nothing, return False.

        Its bytes are safe at once; its name becomes safe with `settle`.
        """

    @abstractmethod
    def put(self, path: str, data: bytes) -> None:
        """Write a file whole, in place of one that may exist."""

    def replace(self, path: str, data: bytes) -> None:
        """The same for a file that may be lost: after a power cut the one before may be back."""
        self.put(path, data)

    @abstractmethod
    def read(self, path: str) -> bytes:
        """A file's bytes.

        Raises:
            FileMissing: There is no such file.
        """

    @abstractmethod
    def exists(self, path: str) -> bool:
        """Whether there is a file of this name."""

    @abstractmethod
    def size(self, path: str) -> int:
        """A file's size in bytes.

        Raises:
            FileMissing: There is no such file.
        """

    @abstractmethod
    def delete(self, paths: Iterable[str]) -> None:
        """Delete files; one that is gone already is fine."""

    @abstractmethod
    def listing(self, path: str, *, recursive: bool = False) -> Iterator[StoredFile]:
        """The files below a directory, in no order; none when there is no such directory.

        Their paths begin with the directory's, as it was given.
        """

    @abstractmethod
    def make_directory(self, path: str) -> None:
        """Make sure that files can be put into a directory, as far as that can be known.

        Raises:
            StorageError: They cannot.
        """

    @abstractmethod
    def directories(self, path: str) -> list[str]:
        """The directories directly below a directory, hidden ones left out; none if it is none.

        Their paths begin with the directory's, as it was given.
        """

    @abstractmethod
    def uri(self, path: str) -> str:
        """The full name of a file or directory, as other engines take it."""

    @abstractmethod
    def own(self, name: str) -> str:
        """The path of a file that others name in full, in whichever of its spellings.

        Raises:
            UnsupportedFeature: It lies where this storage does not reach.
            CorruptTable: It is not named in full.
        """

    @abstractmethod
    def locate(self, location: str) -> str:
        """A directory as the log keeps it: below the root where it is, in full elsewhere.

        Raises:
            InvalidInput: This storage does not reach it.
        """

    def delta_options(self) -> dict[str, str]:
        """What delta-rs needs to open files here; it holds credentials."""
        return {}

    def iceberg_properties(self) -> dict[str, str]:
        """What pyiceberg needs to open files here; it holds credentials."""
        return {}

    def spark_conf(self) -> dict[str, str]:
        """What a Spark session needs to open files here; it holds credentials."""
        return {}

    def options_for(self, engine: str) -> dict[str, str]:
        """What an engine needs to open files here, in its own words; it holds credentials.

        Raises:
            InvalidInput: It is not known how the engine spells it.
        """
        known = {
            "delta": self.delta_options,
            "iceberg": self.iceberg_properties,
            "spark": self.spark_conf,
        }
        if engine not in known:
            what = f"How {engine!r} spells storage options is not known."
            raise InvalidInput(what, hint=f"Engines are {', '.join(known)}.")
        return known[engine]()

    def scheme_filesystem(self, scheme: str) -> pa.fs.FileSystem | None:  # noqa: ARG002
        """A filesystem for pyarrow whose paths are full names without their scheme.

        None where pyarrow's own will do.
        """
        return None

    @abstractmethod
    def arrow_filesystem(self) -> tuple[pa.fs.FileSystem, str]:
        """A filesystem for pyarrow, and the prefix for paths below the root.

        Full names of files elsewhere, as the log keeps them, are paths of it, too.
        """
