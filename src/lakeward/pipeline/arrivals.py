"""Landing directories: the new files, the files of other kinds, and the columns of new files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from lakeward.engines.spark.paths import exact
from lakeward.errors import InvalidInput, NotFound, StorageError
from lakeward.model.inputs import InputFile
from lakeward.pipeline.file_kinds import FileKind
from lakeward.storage.base import Storage, StoredFile
from lakeward.storage.local import LocalStorage
from lakeward.storage.object_store.options import resolve
from lakeward.storage.object_store.places import ObjectPlace
from lakeward.storage.object_store.storage import ObjectStorage


@dataclass(frozen=True, slots=True)
class Arrivals:
    """New files of a landing directory, their columns by path, and the names of other files."""

    new: tuple[InputFile, ...] = ()
    schemas: Mapping[str, pa.Schema] | None = None
    not_taken: tuple[str, ...] = ()
    is_missing: bool = False


class LandingDirectory:
    """A directory of files of one kind: `path` relative to `base`, or a full path or URL.

    Options of an object store come from the environment, as for a warehouse.
    """

    def __init__(
        self,
        base: str | None,
        path: str,
        *,
        missing_ok: bool = False,
        kind: FileKind | None = None,
    ) -> None:
        whole = path if "://" in path or Path(path).is_absolute() else f"{base or '.'}/{path}"
        self.place = whole if "://" in whole else str(Path(whole).expanduser().absolute())
        self._missing_ok = missing_ok
        self.kind = kind or FileKind()

    def __str__(self) -> str:
        return self.place

    def look(self, taken: Mapping[str, InputFile]) -> Arrivals:
        """List the files that no earlier run has read.

        Raise `NotFound` if the directory does not exist; `InvalidInput` if a file that was read
        before has changed, or a new file is incomplete.
        """
        storage = _storage(self.place)
        found = sorted(_visible(storage), key=lambda entry: entry.path)
        if not found and not self._exists(storage):
            if self._missing_ok:
                return Arrivals(is_missing=True)
            raise self._missing()
        new, schemas, not_taken = [], {}, []
        for entry in found:
            before = taken.get(entry.path)
            if not self.kind.takes(entry.path):
                not_taken.append(entry.path)
            elif before is None:
                data = storage.read(entry.path)
                schemas[entry.path] = self._columns(entry.path, data)
                new.append(InputFile(entry.path, entry.size, entry.modified_ms, _checksum(data)))
            elif (before.size, before.modified_ms) != (entry.size, entry.modified_ms):
                self._check_same(before, entry.size, _checksum(storage.read(entry.path)))
        return Arrivals(tuple(new), schemas, tuple(not_taken))

    def example(self) -> str | None:
        """Return the full path of one file of the directory's kind for Spark's readers, or None."""
        paths = sorted(e.path for e in _visible(_storage(self.place)) if self.kind.takes(e.path))
        return self.to_read(paths[0]) if paths else None

    def full(self, file: InputFile) -> str:
        """Return a file's full path or URL."""
        return f"{self.place}/{file.path}"

    def to_read(self, path: str) -> str:
        """Return the full path or URL of one file of the directory, for Spark's readers."""
        return exact(f"{self.place}/{path}")

    def _exists(self, storage: Storage) -> bool:
        """Return whether the directory exists; in an object store: whether it has any file."""
        if isinstance(storage, LocalStorage):
            return Path(self.place).is_dir()
        return next(iter(storage.listing("", recursive=True)), None) is not None

    def _missing(self) -> NotFound:
        what = f"The landing directory {self.place} does not exist."
        if "://" in self.place:
            what = f"Nothing lies in {self.place}, which shall be a landing directory."
        hint = (
            "Check the path and --landing. Where the directory is made with the first delivery,"
            " declare landing(..., missing_ok=True)."
        )
        return NotFound(what, hint=hint, path=self.place)

    def _columns(self, path: str, data: bytes) -> pa.Schema:
        try:
            return self.kind.columns(path, data)
        except (pa.ArrowException, OSError, EOFError, ValueError) as error:
            called = {"parquet": "Parquet", "csv": "CSV", "json": "JSON"}[self.kind.format.value]
            what = f"{self.place}/{path} is no whole {called} file: {error}"
            hint = "Give a file its name when it is whole; names that begin with . or _ wait."
            raise InvalidInput(what, hint=hint, path=path) from error

    def _check_same(self, before: InputFile, size: int, checksum: str) -> None:
        if size == before.size and checksum == before.checksum:
            return
        what = f"{self.place}/{before.path} was taken in, and has other bytes now."
        hint = "A file that was taken in must not change: give new rows a new name."
        raise InvalidInput(what, hint=hint, path=before.path)


def _storage(place: str) -> Storage:
    if "://" not in place:
        return LocalStorage(Path(place))
    root = ObjectPlace.parse(place)
    return ObjectStorage(root, resolve(root.provider, {}, os.environ))


def _visible(storage: Storage) -> Iterator[StoredFile]:
    """Yield all files but those whose path has a name with a leading `.` or `_` (unfinished)."""
    try:
        for found in storage.listing("", recursive=True):
            if not any(part.startswith((".", "_")) for part in found.path.split("/")):
                yield found
    except OSError as error:
        what = f"The landing directory {storage.root} cannot be read: {error}."
        raise StorageError(what, hint="Check the path and permissions.") from error


def _checksum(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
