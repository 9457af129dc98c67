"""The contract of a warehouse's files.

A file that was put is whole and durable when the call returns: it survives a power cut, and nobody
ever sees a part of it under its final name. A file that was created is durable once it was waited
for. Paths are relative to the warehouse's root and use `/`; `..` in a path is refused.
"""

from __future__ import annotations

import secrets
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from lakeward.errors import InvalidInput
from lakeward.model.cache import Cache
from lakeward.model.file import is_full

_CLOCKS: Final = "_lakeward"
"""The directory of files that are written to read the store's clock."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file in a listing."""

    path: str
    size: int
    modified_ms: int


class Underway(ABC):
    """A file that was written, and is durable when `wait` returns."""

    __slots__ = ()
    path: str
    size = 0
    """Bytes that a disk of this machine may still have to write."""

    def take(self) -> Sequence[int]:
        """Hand over open files that the caller syncs before `wait`; none if it syncs itself."""
        return ()

    def begin(self) -> None:  # noqa: B027  most are being written from the start
        """Start to make it durable without waiting."""

    @abstractmethod
    def wait(self) -> None:
        """Return when it is durable; raise a `LakewardError` when it cannot be made so."""

    def discard(self) -> None:  # noqa: B027  most hold nothing
        """Release open files, durable or not."""


class Pending(Underway):
    """A call given to a thread pool; a thread that waits for it before it began makes it itself."""

    __slots__ = ("_call", "_claim", "_error", "_over")

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._error: BaseException | None = None
        self._claim = threading.Lock()
        self._over = threading.Lock()
        self._over.acquire()

    def wait(self) -> None:
        """Return when the call is over, any number of times; raise what the call raised."""
        self.run()
        with self._over:
            pass
        if self._error is not None:
            raise self._error

    def run(self) -> None:
        """Make the call, unless another thread makes it or has made it."""
        if not self._claim.acquire(blocking=False):
            return
        # Drop the reference, so that a file's bytes are freed before anybody waits.
        call, self._call = self._call, _nothing
        try:
            call()
        except BaseException as error:  # noqa: BLE001  it is raised where the call is waited for
            self._error = error
        finally:
            self._over.release()


@dataclass(eq=False)
class Prepared(Underway):
    """A file that has no name yet: it is invisible before `put`, and `discard` removes it."""

    storage: Storage
    path: str
    data: bytes

    def wait(self) -> None:
        """Its bytes are durable, or `put` makes them so."""

    def put(self) -> bool:
        """Give the file its name, as `Storage.put_if_absent` does."""
        return self.storage.put_if_absent(self.path, self.data)

    def discard(self) -> None:
        """Remove a file that was not put; after `put` it does nothing."""


class Storage(ABC):
    """The files of one warehouse.

    Failures are a `StorageError`, a missing file is its subclass `FileMissing`, and a path that
    this storage does not reach is `InvalidInput` or `UnsupportedFeature`.
    """

    root: str
    is_remote = False
    """Whether requests are slow enough that several should be made at once."""

    @abstractmethod
    def create(self, path: str, data: Any) -> Underway:
        """Write a new data file from a buffer; on an error nothing is left of it."""

    def create_all(self, files: Iterable[tuple[str, bytes]]) -> None:
        """Write several new files; all are durable, names too, when the call returns."""
        for underway in [self.create(path, data) for path, data in files]:
            underway.wait()

    @abstractmethod
    def sync_names(self, paths: Iterable[str]) -> None:
        """Make the names of files that were put durable."""

    def sync_files(self, paths: Iterable[str]) -> None:
        """Make files that other programs wrote durable, names too."""
        for path in paths:
            self.size(path)

    def delete_directory(self, directory: str) -> None:
        """Delete a directory and its content; a missing one is no error."""
        self.delete([f.path for f in self.listing(directory, recursive=True)])

    def prepare(self, path: str, data: bytes) -> Prepared:
        """Begin to write a file that may get its name later, as far as this storage can."""
        return Prepared(self, path, data)

    @abstractmethod
    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write a whole file, unless one of that name exists: then change nothing, return False.

        Its bytes are durable at once; its name becomes durable with `sync_names`.
        """

    @abstractmethod
    def put(self, path: str, data: bytes) -> None:
        """Write a whole file, in place of one that may exist."""

    def replace(self, path: str, data: bytes) -> None:
        """Like `put`, without fsync: after a power cut the file before may be back."""
        self.put(path, data)

    @abstractmethod
    def read(self, path: str) -> bytes:
        """A file's bytes."""

    @abstractmethod
    def exists(self, path: str) -> bool:
        """Whether there is a file of this name."""

    @abstractmethod
    def size(self, path: str) -> int:
        """A file's size in bytes."""

    @abstractmethod
    def delete(self, paths: Iterable[str]) -> None:
        """Delete files; a missing one is no error."""

    @abstractmethod
    def listing(self, path: str, *, recursive: bool = False) -> Iterator[StoredFile]:
        """The files below a directory, in no order; none when there is no such directory.

        Their paths begin with the directory's, as it was given.
        """

    def clock_ms(self) -> int:
        """Return the storage's own time: the timestamp that a file written now would get."""
        name = f"{_CLOCKS}/clock-{secrets.token_hex(8)}"
        self.put(name, b"\n")
        try:
            return next(f.modified_ms for f in self.listing(_CLOCKS) if f.path == name)
        finally:
            self.delete([name])

    def walk(self, directory: str) -> Iterator[tuple[str, StoredFile | None]]:
        """Yield the names of all files below a directory, with their metadata if that is free.

        Symbolic links are neither followed nor listed.
        """
        for found in self.listing(directory, recursive=True):
            yield found.path[len(directory) + 1 :], found

    def look_below(self, directory: str, names: Iterable[str]) -> dict[str, StoredFile]:
        """Return the metadata of files below a directory, by the names that `walk` gave."""
        wanted = set(names)
        return {n: f for n, f in self.walk(directory) if n in wanted and f is not None}

    def delete_below(self, directory: str, names: Sequence[str]) -> None:
        """Delete files by name below a directory, and never one outside of it."""
        outside = [n for n in names if ".." in n.split("/") or is_full(n)]
        if outside:
            what = f"{outside[0]!r} is not below {directory}. Nothing was deleted."
            raise InvalidInput(what, path=outside[0])
        self.delete([f"{directory}/{name}" for name in names])

    @abstractmethod
    def make_directory(self, path: str) -> None:
        """Make a directory, and check that files can be put into it."""

    @abstractmethod
    def directories(self, path: str) -> list[str]:
        """The directories directly below a directory, without hidden ones.

        Their paths begin with the directory's, as it was given.
        """

    @abstractmethod
    def uri(self, path: str) -> str:
        """The full name of a file or directory, as other engines take it."""

    @abstractmethod
    def path_of(self, name: str) -> str:
        """The path of a file from its full name, in any spelling; `CorruptTable` if not full."""

    @abstractmethod
    def locate(self, location: str) -> str:
        """A directory as the log stores it: relative if below the root, else its full name."""

    def use_cache(self, asked: Cache | None, count: Callable[[str, int], None]) -> None:  # noqa: B027
        """Keep parts of files near, where files are far away; local storage does nothing."""

    def delta_options(self) -> dict[str, str]:
        """The options by which delta-rs opens files here, credentials included."""
        return {}

    def iceberg_properties(self) -> dict[str, str]:
        """The properties by which pyiceberg opens files here, credentials included."""
        return {}

    def spark_conf(self) -> dict[str, str]:
        """The settings by which a Spark session opens files here, credentials included."""
        return {}

    def options_for(self, engine: str) -> dict[str, str]:
        """The options of `delta`, `iceberg` or `spark` to open files here."""
        known = {
            "delta": self.delta_options,
            "iceberg": self.iceberg_properties,
            "spark": self.spark_conf,
        }
        if engine not in known:
            what = f"How {engine!r} spells storage options is not known."
            raise InvalidInput(what, hint=f"Engines are {', '.join(known)}.")
        return known[engine]()

    @abstractmethod
    def arrow_filesystem(self) -> tuple[pa.fs.FileSystem, str]:
        """A pyarrow filesystem, and the prefix for paths below the root.

        Full names of files elsewhere, as the log stores them, are paths of it, too.
        """


def _nothing() -> None:
    pass
