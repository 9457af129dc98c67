"""Files on an object store: read by pyarrow, and uploaded in the background.

pyarrow reads through the same client as everything else, so there is one set of credentials and one
retry policy. A Parquet file's footer is fetched as the file is opened, so small files need one
request. A limited number of uploads run at once; a read or delete of a file waits for its upload.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, NoReturn

import pyarrow as pa
import pyarrow.fs

from lakeward.errors import FileMissing, LakewardError, StorageError
from lakeward.storage.base import Pending

TAIL: Final = 64 * 1024
"""How many bytes of a file's end are fetched together with its size."""
_AT_ONCE: Final = 4
"""How many uploads run at once; more would only wait in memory."""


class ObjectFile:
    """A file object that fetches byte ranges."""

    def __init__(self, size: int, tail: Any, fetch: Callable[[int, int], Any]) -> None:
        """Create a file from its size, its last bytes, and a function that fetches a byte range."""
        self._size = size
        self._tail = memoryview(tail)
        self._fetch = fetch
        self._position = 0
        self.closed = False

    def read(self, count: int = -1) -> Any:
        """Return the next `count` bytes; all that remain if `count` is negative."""
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
        """Set the position, and return it."""
        base = (0, self._position, self._size)[whence]
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def size(self) -> int:
        """Return the size in bytes."""
        return self._size

    def close(self) -> None:
        """Free the fetched bytes."""
        self.closed = True
        self._tail = memoryview(b"")

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def writable(self) -> bool:
        """Return False."""
        return False

    def flush(self) -> None:
        """Do nothing: the file is only read."""


class ObjectFiles(pa.fs.FileSystemHandler):  # type: ignore[misc]
    """A read-only filesystem for pyarrow; files are written by the storage."""

    def __init__(self, root: str, opened: Callable[[str], ObjectFile]) -> None:
        """Take the warehouse's root, and a function that opens a file by its full name."""
        self._root = root
        self._opened = opened

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectFiles) and other._root == self._root

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    def get_type_name(self) -> str:
        """Return the type name that pyarrow shows."""
        return "lakeward"

    def normalize_path(self, path: str) -> str:
        """Return the path unchanged."""
        return path

    def get_file_info(self, paths: list[str]) -> list[pa.fs.FileInfo]:
        """Return for each path whether the file exists, and its size."""
        return [self._info(p) for p in paths]

    def open_input_file(self, path: str) -> pa.PythonFile:
        """Open a file for random access."""
        return pa.PythonFile(self._open(path), mode="r")

    def open_input_stream(self, path: str) -> pa.PythonFile:
        """Open a file for sequential reading."""
        return self.open_input_file(path)

    def _open(self, path: str) -> ObjectFile:
        # pyarrow passes on errors of the operating system; callers translate them back.
        try:
            return self._opened(path)
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


class Uploads:
    """The uploads that are under way, by the full name of the file."""

    def __init__(self) -> None:
        self._under_way: dict[str, Pending] = {}
        self._starting = threading.Lock()
        self._start()

    def begin(self, name: str, call: Callable[[], None]) -> Pending:
        """Begin an upload; block while as many as the limit are under way."""
        if self._pid != os.getpid():
            with self._starting:
                if self._pid != os.getpid():
                    # A forked child does not have its parent's threads.
                    self._start()
        room, under_way = self._room, self._under_way
        room.acquire()

        def upload() -> None:
            try:
                call()
            finally:
                under_way.pop(name, None)
                room.release()

        pending = under_way[name] = Pending(upload)
        self._pool.submit(pending.run)
        return pending

    def wait(self, name: str) -> None:
        """Return when no upload to this name is under way, whether it succeeded or not."""
        pending = self._under_way.get(name)
        if pending is not None:
            with suppress(LakewardError):
                pending.wait()

    def _start(self) -> None:
        self._under_way = {}
        self._room = threading.Semaphore(_AT_ONCE)
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="lakeward-upload")
        self._pid = os.getpid()
