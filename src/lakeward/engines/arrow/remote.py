"""Files that are not on this machine, as readers of rows take them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final, TypeAlias

import pyarrow.fs

_AHEAD: Final = 4 * 2**20
"""Bytes that are fetched at once from a file that is read in order."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file that Arrow opens by its address; errors name it by that."""

    address: str
    filesystem: pyarrow.fs.FileSystem

    def __str__(self) -> str:
        return self.address

    @property
    def suffixes(self) -> list[str]:
        """The endings of its name, as a path has them."""
        return PurePosixPath(self.address).suffixes

    @property
    def suffix(self) -> str:
        """The last ending of its name."""
        return PurePosixPath(self.address).suffix

    def open(self) -> Any:
        """The file, to read in any order."""
        return self.filesystem.open_input_file(self.address)

    def open_text(self) -> Any:
        """The file, to read in order, decompressed by the ending of its name."""
        return self.filesystem.open_input_stream(self.address, "detect", _AHEAD)


@dataclass(frozen=True, slots=True)
class RemoteFiles:
    """Files whose rows follow each other."""

    files: tuple[RemoteFile, ...]

    def __iter__(self) -> Iterator[RemoteFile]:
        return iter(self.files)


RowFile: TypeAlias = Path | RemoteFile
"""A file of rows, on this machine or elsewhere."""
