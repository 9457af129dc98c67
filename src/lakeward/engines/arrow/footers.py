"""Reads the footers of Parquet files of other writers, of several files at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from lakeward.errors import CorruptTable, FileMissing, StorageError

_AT_ONCE: Final = 8
_TAIL: Final = 64 * 2**10
"""The bytes at the end of a file that are read first; few footers are longer."""
_LONGEST: Final = 64 * 2**20
"""The most bytes of a footer that are read."""
_END: Final = 8
"""Every Parquet file ends with the length of its footer and four letters."""
_LETTERS: Final = b"PAR1"


@dataclass(frozen=True, slots=True)
class Footer:
    """The footer of a file, and the size of the file in bytes."""

    size: int
    metadata: pq.FileMetaData


def look_at_footers(
    filesystem: pa.fs.FileSystem, paths: Sequence[str], look: Callable[[int, Footer], None]
) -> None:
    """Call `look` with the position and the footer of each file, in several threads.

    Raises `FileMissing`, `CorruptTable` for a file that is not Parquet, and what `look` raises, for
    the first of such files.
    """

    def one(number: int) -> None:
        look(number, read_footer(filesystem, paths[number]))

    if len(paths) < 2:
        for number in range(len(paths)):
            one(number)
        return
    with ThreadPoolExecutor(min(_AT_ONCE, len(paths))) as pool:
        for _ in pool.map(one, range(len(paths))):
            pass


def read_footer(filesystem: pa.fs.FileSystem, path: str) -> Footer:
    """Read the footer of a file; raise `FileMissing`, `CorruptTable`, `StorageError`."""
    try:
        with filesystem.open_input_file(path) as file:
            size = file.size()
            tail = _tail(file, path, size)
    except FileNotFoundError as error:
        what = f"There is no file {path!r}."
        raise FileMissing(what, path=path) from error
    except (pa.ArrowException, OSError) as error:
        what = f"File {path!r} cannot be read: {error}."
        raise StorageError(what, path=path) from error
    try:
        return Footer(size, pq.read_metadata(pa.BufferReader(tail)))
    except (pa.ArrowException, OSError) as error:
        what = f"File {path!r} has a footer that cannot be read: {error}."
        raise CorruptTable(what, path=path) from error


def _tail(file: pa.NativeFile, path: str, size: int) -> bytes:
    """Return the end of a file from its footer on."""
    wanted = min(size, _TAIL)
    tail = bytes(file.read_at(wanted, size - wanted))
    length = int.from_bytes(tail[-_END:-4], "little") + _END
    if tail[-4:] != _LETTERS or length > size:
        what = f"File {path!r} is not Parquet."
        raise CorruptTable(what, path=path)
    if length > _LONGEST:
        what = f"File {path!r} has a footer of {length} bytes; at most {_LONGEST} are read."
        raise CorruptTable(what, path=path)
    return tail if length <= wanted else bytes(file.read_at(length, size - length))
