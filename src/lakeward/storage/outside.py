"""Writes an export to a directory outside of the lake, which appears complete or not at all.

On disk the files are written into a hidden directory next to the target, which is renamed at the
end. An object store cannot rename: there each file is copied from a temporary directory in pieces,
gets its final name when it is complete, and the manifest, written last, marks the export as
complete. A failed export leaves nothing behind. Of two exports to one place at once at most one
succeeds.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lakeward.errors import AlreadyExists, InvalidInput, StorageError
from lakeward.storage.paths import overlaps

if TYPE_CHECKING:
    from lakeward.storage.base import Storage
    from lakeward.storage.object_store.storage import ObjectStorage

MANIFEST: Final = "manifest.json"


class Outside(ABC):
    """The target of an export: files are written below `scratch`, then handed over by `take`."""

    label: str
    """The name of the target, as users write it."""
    scratch: Path
    """The local directory into which the export writes its files."""

    @abstractmethod
    def take(self, name: str) -> None:
        """Hand over a file that was written below `scratch` under this name."""

    @abstractmethod
    def complete(self) -> None:
        """Complete the target; the manifest was handed over before."""

    @abstractmethod
    def abandon(self) -> None:
        """Delete everything that was written."""


def outside(place: str, lake: Storage, options: Mapping[str, str] | None) -> Outside:
    """Begin to fill a target; without options, a store of the lake's kind uses those of the lake.

    Raises `AlreadyExists` if something exists there, and `InvalidInput` if it overlaps the lake.
    """
    if overlaps(place, lake.root):
        what = f"{place} lies in the lake, or has the lake in it."
        raise InvalidInput(what, hint="Choose a directory outside of the lake.", path=place)
    scheme, separator, rest = place.partition("://")
    if not separator or scheme == "file":
        return _Directory(Path(rest if separator else place))
    return _ObjectStore(place, _reached(place, lake, options or {}))


def _reached(place: str, lake: Storage, options: Mapping[str, str]) -> ObjectStorage:
    from lakeward.storage.attach import attach
    from lakeward.storage.object_store.storage import ObjectStorage

    if lake.is_remote and not options:
        found = lake.beside(place) if isinstance(lake, ObjectStorage) else None
        if found is not None:
            return found
    attached = attach(place, options, probes=False)
    if not isinstance(attached, ObjectStorage):
        what = f"{place} is no place of an object store."
        raise InvalidInput(what, hint="Give a directory, or s3://… and such.", path=place)
    return attached


class _Directory(Outside):
    def __init__(self, target: Path) -> None:
        self._target = target.expanduser().absolute()
        self.label = str(self._target)
        if self._target.exists() and (not self._target.is_dir() or any(self._target.iterdir())):
            raise _taken(self.label)
        parent = self._target.parent
        try:
            parent.mkdir(parents=True, exist_ok=True)
            self.scratch = parent / f".{self._target.name}.{secrets.token_hex(6)}.partial"
            self.scratch.mkdir()
        except OSError as error:
            raise _refused(self.label, error) from error

    def take(self, name: str) -> None:
        with (self.scratch / name).open("rb") as file:
            os.fsync(file.fileno())

    def complete(self) -> None:
        for directory, _, _ in os.walk(self.scratch):
            _sync(directory)
        try:
            self.scratch.rename(self._target)
        except OSError as error:
            self.abandon()
            if self._target.exists():
                raise _taken(self.label) from error
            raise _refused(self.label, error) from error
        _sync(str(self._target.parent))

    def abandon(self) -> None:
        shutil.rmtree(self.scratch, ignore_errors=True)


class _ObjectStore(Outside):
    def __init__(self, place: str, storage: ObjectStorage) -> None:
        self.label = place.rstrip("/")
        self._storage = storage
        self._taken: list[str] = []
        self._claim = f"_export-{secrets.token_hex(6)}.partial"
        if self._others():
            raise _taken(self.label)
        # Of two exports that each put a file and list then, one at least sees the other's.
        storage.create(self._claim, b"\n").wait()
        if self._others():
            self._release()
            raise _taken(self.label)
        self.scratch = Path(tempfile.mkdtemp(prefix="lakeward-export-"))

    def _others(self) -> bool:
        found = self._storage.listing("", recursive=True)
        return any(not file.path.endswith(self._claim) for file in found)

    def _release(self) -> None:
        with suppress(Exception):
            self._storage.delete([self._claim])

    def take(self, name: str) -> None:
        local = self.scratch / name
        self._taken.append(name)
        self._storage.copy_from(name, local)
        local.unlink()

    def complete(self) -> None:
        self._release()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def abandon(self) -> None:
        with suppress(Exception):
            # Without its files, a manifest would mark an empty export as complete.
            self._storage.delete([n for n in self._taken if n.rpartition("/")[2] == MANIFEST])
            self._storage.delete(self._taken)
        self._release()
        shutil.rmtree(self.scratch, ignore_errors=True)


def _taken(label: str) -> AlreadyExists:
    what = f"There is something at {label} already."
    return AlreadyExists(what, hint="Choose a place that does not exist yet.", path=label)


def _refused(label: str, error: OSError) -> StorageError:
    what = f"{label} cannot be written: {error.strerror or error}."
    return StorageError(what, hint="Check the path, its permissions and the space.", path=label)


def _sync(directory: str) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
