"""Landing directories: which files are new, and what they hold."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.fs as pafs

from lakeward.errors import InvalidInput, StorageError
from lakeward.model.inputs import InputFile

_CHUNK: Final = 4 * 2**20


class LandingDirectory:
    """A directory of Parquet files.

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
        try:
            filesystem, root = _filesystem(self.place)
            out = []
            for info in _listing(filesystem, root):
                path = info.path[len(root) :].lstrip("/")
                before = taken.get(path)
                modified = int((info.mtime_ns or 0) // 1_000_000)
                if before is None:
                    checksum = _checksum(filesystem, info.path)
                    out.append(InputFile(path, info.size, modified, checksum))
                elif (before.size, before.modified_ms) != (info.size, modified):
                    self._check_same(before, info.size, _checksum(filesystem, info.path))
        except (OSError, pa.ArrowException) as error:
            what = f"The landing directory {self.place} cannot be read: {error}."
            raise StorageError(what, hint="Check the path and permissions.") from error
        return out

    def example(self) -> str | None:
        """The whole name of some file, if there is one."""
        filesystem, root = _filesystem(self.place)
        for info in _listing(filesystem, root):
            return f"{self.place}/{info.path[len(root) :].lstrip('/')}"
        return None

    def full(self, file: InputFile) -> str:
        """A file's whole name, as Spark takes it."""
        return f"{self.place}/{file.path}"

    def _check_same(self, before: InputFile, size: int, checksum: str) -> None:
        if size == before.size and checksum == before.checksum:
            return
        what = f"{self.place}/{before.path} was taken in, and has other bytes now."
        hint = "A file that was taken in must not change: give new rows a new name."
        raise InvalidInput(what, hint=hint, path=before.path)


def _filesystem(place: str) -> tuple[pafs.FileSystem, str]:
    if "://" not in place:
        return pafs.LocalFileSystem(), place
    filesystem, root = pafs.FileSystem.from_uri(place)
    return filesystem, root


def _listing(filesystem: pafs.FileSystem, root: str) -> list[pafs.FileInfo]:
    selector = pafs.FileSelector(root, allow_not_found=True, recursive=True)
    found = [
        i
        for i in filesystem.get_file_info(selector)
        if i.type == pafs.FileType.File and not _is_hidden(i.path[len(root) :].lstrip("/"))
    ]
    return sorted(found, key=lambda i: i.path)


def _is_hidden(path: str) -> bool:
    parts = path.split("/")
    return not path.endswith(".parquet") or any(p.startswith((".", "_")) for p in parts)


def _checksum(filesystem: pafs.FileSystem, path: str) -> str:
    digest = hashlib.sha256()
    with filesystem.open_input_stream(path, compression=None) as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return f"sha256:{digest.hexdigest()}"
