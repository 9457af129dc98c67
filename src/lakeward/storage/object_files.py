"""Files on an object store as pyarrow reads them: through the same client as everything else.

So one set of credentials and one way of retrying serve every request, on every provider. A file's
end, which says where everything else is, is fetched as the file is opened; small files are read by
that one request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn

import pyarrow as pa
import pyarrow.fs

from lakeward.errors import FileMissing, StorageError

TAIL: Final = 64 * 1024
"""Bytes that are fetched with a file's size."""


class ObjectFile:
    """A file that is read in ranges."""

    def __init__(self, size: int, tail: Any, fetch: Callable[[int, int], Any]) -> None:
        """Begin at the start.

        Args:
            size: In bytes.
            tail: The file's last bytes, as many as there are at hand.
            fetch: Gets the bytes from a position up to another.
        """
        self._size = size
        self._tail = memoryview(tail)
        self._fetch = fetch
        self._position = 0
        self.closed = False

    def read(self, count: int = -1) -> Any:
        """The next bytes."""
        start = self._position
        end = self._size if count < 0 else min(self._size, start + count)
        if end <= start:
            return b""
        self._position = end
        held = self._size - len(self._tail)
        if start >= held:
            return pa.py_buffer(self._tail[start - held : end - held])
        return pa.py_buffer(self._fetch(start, end))

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a position."""
        base = (0, self._position, self._size)[whence]
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        """The position."""
        return self._position

    def size(self) -> int:
        """In bytes."""
        return self._size

    def close(self) -> None:
        """Let go of what was fetched."""
        self.closed = True
        self._tail = memoryview(b"")

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def writable(self) -> bool:
        """It is not."""
        return False

    def flush(self) -> None:
        """Nothing was written."""


class ObjectFiles(pa.fs.FileSystemHandler):  # type: ignore[misc]
    """A filesystem for reading alone: whatever is written goes through the storage."""

    def __init__(self, root: str, before: str, opened: Callable[[str], ObjectFile]) -> None:
        """Open files by name.

        Args:
            root: The warehouse's full name.
            before: What a path lacks to be a full name.
            opened: Opens a file by its full name.
        """
        self._root = root
        self._before = before
        self._opened = opened

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectFiles) and other._root == self._root

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    def get_type_name(self) -> str:
        """For people."""
        return "lakeward"

    def normalize_path(self, path: str) -> str:
        """Names are taken literally."""
        return path

    def get_file_info(self, paths: list[str]) -> list[pa.fs.FileInfo]:
        """What there is under each name."""
        return [self._info(p) for p in paths]

    def open_input_file(self, path: str) -> pa.PythonFile:
        """A file to read in any order."""
        return pa.PythonFile(self._open(path), mode="r")

    def open_input_stream(self, path: str) -> pa.PythonFile:
        """A file to read in order."""
        return self.open_input_file(path)

    def _open(self, path: str) -> ObjectFile:
        # pyarrow knows the errors of the operating system; what it raises from them is ours again.
        try:
            return self._opened(f"{self._before}{path}")
        except FileMissing as error:
            raise FileNotFoundError(path) from error
        except StorageError as error:
            raise OSError(error.what) from error

    def _info(self, path: str) -> pa.fs.FileInfo:
        try:
            return pa.fs.FileInfo(path, pa.fs.FileType.File, size=self._open(path).size())
        except FileNotFoundError:
            return pa.fs.FileInfo(path, pa.fs.FileType.NotFound)

    def _refused(self, *_: object, **__: object) -> NoReturn:
        message = "files of a warehouse are written by its storage alone"
        raise NotImplementedError(message)

    get_file_info_selector = _refused
    create_dir = _refused
    delete_dir = _refused
    delete_dir_contents = _refused
    delete_root_dir_contents = _refused
    delete_file = _refused
    move = _refused
    copy_file = _refused
    open_output_stream = _refused
    open_append_stream = _refused
