"""The contract of a warehouse's files.

When `put` returns, the file is whole and durable: it survives a power cut, and no reader ever sees
a part of it under its final name. A file that `create` wrote is durable once `Underway.wait` has
returned. Paths are relative to the warehouse's root and use `/`; `..` in a path is refused.
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
"""The directory of the files that `clock_ms` writes to read the store's clock."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file in a listing."""

    path: str
    size: int
    modified_ms: int


class Underway(ABC):
    """A file that is being written; it is durable when `wait` has returned."""

    __slots__ = ()
    path: str
    size = 0
    """Bytes that a disk of this machine may still have to write."""

    def take(self) -> Sequence[int]:
        """Hand over open handles that the caller syncs before `wait`; none if `wait` syncs them."""
        return ()

    def begin(self) -> None:  # noqa: B027  most are being written from the start
        """Start to make the file durable, without waiting."""

    @abstractmethod
    def wait(self) -> None:
        """Return when the file is durable; raise a `LakewardError` if it cannot be made durable."""

    def discard(self) -> None:  # noqa: B027  most hold nothing
        """Close open files, durable or not."""


class Pending(Underway):
    """A call given to a thread pool; a thread that waits before it has begun runs it itself."""

    __slots__ = ("_call", "_claim", "_error", "_over")

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._error: BaseException | None = None
        self._claim = threading.Lock()
        self._over = threading.Lock()
        self._over.acquire()

    def wait(self) -> None:
        """Return when the call has ended, or raise what it raised; may be called repeatedly."""
        self.run()
        with self._over:
            pass
        if self._error is not None:
            raise self._error

    def run(self) -> None:
        """Run the call, unless another thread runs it or has run it."""
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
    """A file without its final name: it is invisible before `put`, and `discard` removes it."""

    storage: Storage
    path: str
    data: bytes

    def wait(self) -> None:
        """Do nothing: the bytes are durable already, or `put` makes them so."""

    def put(self) -> bool:
        """Publish the file under its final name, as `Storage.put_if_absent` does."""
        return self.storage.put_if_absent(self.path, self.data)

    def discard(self) -> None:
        """Remove the file if it was not put; after `put` do nothing."""


class Storage(ABC):
    """The files of one warehouse.

    Failures raise a `StorageError`, a missing file its subclass `FileMissing`, and a path that this
    storage cannot reach `InvalidInput` or `UnsupportedFeature`.
    """

    root: str
    is_remote = False
    """Whether requests are slow enough that several should be made at once."""

    @abstractmethod
    def create(self, path: str, data: Any) -> Underway:
        """Begin to write a new data file from a buffer; an error leaves no part of it."""

    def create_all(self, files: Iterable[tuple[str, bytes]]) -> None:
        """Write several new files; their bytes and names are durable when the call returns."""
        for underway in [self.create(path, data) for path, data in files]:
            underway.wait()

    @abstractmethod
    def sync_names(self, paths: Iterable[str]) -> None:
        """Make the names of files written by `put_if_absent` durable."""

    def sync_files(self, paths: Iterable[str]) -> None:
        """Make the bytes and names of files that other programs wrote durable."""
        for path in paths:
            self.size(path)

    def delete_directory(self, directory: str) -> None:
        """Delete a directory and its content; a missing one is no error."""
        self.delete([f.path for f in self.listing(directory, recursive=True)])

    def prepare(self, path: str, data: bytes) -> Prepared:
        """Begin to write a file that `put` publishes later, as far as this storage can."""
        return Prepared(self, path, data)

    @abstractmethod
    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write a whole file; if a file of that name exists, change nothing and return False.

        The bytes are durable at once; the name becomes durable with `sync_names`.
        """

    @abstractmethod
    def put(self, path: str, data: bytes) -> None:
        """Write a whole file; replace a file of that name, if there is one."""

    def replace(self, path: str, data: bytes) -> None:
        """Like `put`, without fsync: after a power cut the replaced file may be back."""
        self.put(path, data)

    @abstractmethod
    def read(self, path: str) -> bytes:
        """Return the bytes of a file."""

    @abstractmethod
    def exists(self, path: str) -> bool:
        """Whether there is a file of this name."""

    @abstractmethod
    def size(self, path: str) -> int:
        """Return the size of a file in bytes."""

    @abstractmethod
    def delete(self, paths: Iterable[str]) -> None:
        """Delete files; a missing one is no error."""

    @abstractmethod
    def listing(self, path: str, *, recursive: bool = False) -> Iterator[StoredFile]:
        """Yield the files below a directory, in no order; none if there is no such directory.

        Their paths begin with the path of the directory, as it was given.
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
        """Return the metadata of files below a directory, by the names that `walk` yields."""
        wanted = set(names)
        return {n: f for n, f in self.walk(directory) if n in wanted and f is not None}

    def delete_below(self, directory: str, names: Sequence[str]) -> None:
        """Delete files by name below a directory; raise `InvalidInput` for a name outside it."""
        outside = [n for n in names if ".." in n.split("/") or is_full(n)]
        if outside:
            what = f"{outside[0]!r} is not below {directory}. Nothing was deleted."
            raise InvalidInput(what, path=outside[0])
        self.delete([f"{directory}/{name}" for name in names])

    @abstractmethod
    def make_directory(self, path: str) -> None:
        """Make a directory if it is missing, and check that files can be put into it."""

    @abstractmethod
    def directories(self, path: str) -> list[str]:
        """Return the directories directly below a directory, without hidden ones.

        Their paths begin with the path of the directory, as it was given.
        """

    @abstractmethod
    def uri(self, path: str) -> str:
        """Return the full name of a file or directory, as other engines take it."""

    @abstractmethod
    def path_of(self, name: str) -> str:
        """Return the path of a file from its full name.

        Raises `CorruptTable` if the name is not full. All schemes and notations of the full name
        give the same path.
        """

    @abstractmethod
    def locate(self, location: str) -> str:
        """Return a directory as the log stores it: relative if below the root, else in full."""

    def use_cache(self, asked: Cache | None, count: Callable[[str, int], None]) -> None:  # noqa: B027
        """Cache ranges of remote files, count hits and misses; local storage does nothing."""

    def delta_options(self) -> dict[str, str]:
        """Return the options with which delta-rs opens files here, credentials included."""
        return {}

    def iceberg_properties(self) -> dict[str, str]:
        """Return the properties with which pyiceberg opens files here, credentials included."""
        return {}

    def spark_conf(self) -> dict[str, str]:
        """Return the settings with which a Spark session opens files here, credentials included."""
        return {}

    def signer(self) -> Any:
        """Return the `Signer` of requests of clients without credentials; None without one."""
        return None

    def options_for(self, engine: str) -> dict[str, str]:
        """Return the options with which `delta`, `iceberg` or `spark` opens files here."""
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
    def arrow_filesystem(self, *, foreign: bool = False) -> tuple[pa.fs.FileSystem, str]:
        """Return a pyarrow filesystem, and the prefix for paths below the root.

        The filesystem also opens files elsewhere by their full names, as the log stores them.
        For `foreign` files, which others may replace under the same name, a cache compares their
        etags first.
        """


def _nothing() -> None:
    pass
