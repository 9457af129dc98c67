"""Files of rows that are not on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final, TypeAlias

import pyarrow.fs

_AHEAD: Final = 4 * 2**20
"""How many bytes are fetched at once from a file that is read sequentially."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file that Arrow opens by its address, which errors show as the file's name."""

    address: str
    filesystem: pyarrow.fs.FileSystem

    def __str__(self) -> str:
        return self.address

    @property
    def suffixes(self) -> list[str]:
        """The extensions of the file name, with their dots: `.csv` and `.gz` of `a.csv.gz`."""
        return PurePosixPath(self.address).suffixes

    @property
    def suffix(self) -> str:
        """The last extension of the file name, with its dot: `.gz` of `a.csv.gz`."""
        return PurePosixPath(self.address).suffix

    def open(self) -> Any:
        """Open the file for random access."""
        return self.filesystem.open_input_file(self.address)

    def open_text(self) -> Any:
        """Open the file for sequential reading, decompressed according to its extension."""
        return self.filesystem.open_input_stream(self.address, "detect", _AHEAD)


@dataclass(frozen=True, slots=True)
class RemoteFiles:
    """Files whose rows are read one file after the other."""

    files: tuple[RemoteFile, ...]

    def __iter__(self) -> Iterator[RemoteFile]:
        return iter(self.files)


RowFile: TypeAlias = Path | RemoteFile
"""A file of rows, on this machine or elsewhere."""
