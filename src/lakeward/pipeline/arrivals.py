"""Landing directories: which files are new, and what they hold."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from lakeward.errors import InvalidInput, StorageError
from lakeward.model.inputs import InputFile
from lakeward.storage.base import Storage, StoredFile
from lakeward.storage.local import LocalStorage
from lakeward.storage.objects import ObjectStorage
from lakeward.storage.options import resolve
from lakeward.storage.places import ObjectPlace


class LandingDirectory:
    """A directory of Parquet files, on this machine or in an object store.

    Options of an object store come from the environment, as for a warehouse.

    Args:
        base: The run's landing place: a directory or URL.
        path: Below it, or a whole path or URL.
    """

    def __init__(self, base: str | None, path: str) -> None:
        whole = path if "://" in path or Path(path).is_absolute() else f"{base or '.'}/{path}"
        self.place = whole if "://" in whole else str(Path(whole).expanduser().absolute())

    def __str__(self) -> str:
        return self.place

    def new(self, taken: Mapping[str, InputFile]) -> list[InputFile]:
        """The files that nobody took yet, by name.

        Raises:
            InvalidInput: A file that was taken has other bytes now.
            StorageError: The directory cannot be read.
        """
        storage = _storage(self.place)
        out = []
        for found in _listing(storage):
            before = taken.get(found.path)
            if before is None:
                checksum = _checksum(storage, found.path)
                out.append(InputFile(found.path, found.size, found.modified_ms, checksum))
            elif (before.size, before.modified_ms) != (found.size, found.modified_ms):
                self._check_same(before, found.size, _checksum(storage, found.path))
        return out

    def example(self) -> str | None:
        """The whole name of some file, if there is one."""
        found = next(iter(_listing(_storage(self.place))), None)
        return None if found is None else f"{self.place}/{found.path}"

    def full(self, file: InputFile) -> str:
        """A file's whole name, as Spark takes it."""
        return f"{self.place}/{file.path}"

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


def _listing(storage: Storage) -> list[StoredFile]:
    return sorted(_whole(storage), key=lambda found: found.path)


def _whole(storage: Storage) -> Iterator[StoredFile]:
    """Parquet files, but for those that are in the making."""
    try:
        for found in storage.listing("", recursive=True):
            hidden = any(part.startswith((".", "_")) for part in found.path.split("/"))
            if found.path.endswith(".parquet") and not hidden:
                yield found
    except OSError as error:
        what = f"The landing directory {storage.root} cannot be read: {error}."
        raise StorageError(what, hint="Check the path and permissions.") from error


def _checksum(storage: Storage, path: str) -> str:
    return f"sha256:{hashlib.sha256(storage.read(path)).hexdigest()}"
