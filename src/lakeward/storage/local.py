"""A warehouse on a local disk."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lakeward.errors import CorruptTable, InvalidInput, LakewardError, UnsupportedFeature
from lakeward.model.steps import reach
from lakeward.storage.base import Prepared, Storage, StoredFile, Underway
from lakeward.storage.removal import LocalRemoval
from lakeward.storage.syncing import (
    NEW,
    TMPFILE,
    Syncing,
    parent,
    sync,
    sync_directories,
    temporary_name,
    translated,
    write_all,
    write_nameless,
    write_new,
)

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NO_TMPFILE: Final = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL)
_SMALL_BYTES: Final = 64 * 1024
"""Files up to this size are synced together, when all are written."""


class LocalStorage(LocalRemoval, Storage):
    """Files below a directory of this machine."""

    def __init__(self, root: Path) -> None:
        self._root = str(root.absolute())
        self.root = self._root
        self._anonymous = bool(TMPFILE) and Path("/proc/self/fd").exists()

    def create(self, path: str, data: Any) -> Underway:
        """Write a new data file; start to sync it if it is large, else leave that to the caller."""
        target = self._full(path)
        with translated(path):
            try:
                handle = os.open(target, NEW, 0o644)
            except FileNotFoundError:
                self._make_directory(os.path.dirname(target))
                handle = os.open(target, NEW, 0o644)
            written = _Written(path, target, handle, memoryview(data).nbytes)
            try:
                reach("stage.file-created")
                write_all(handle, data)
                reach("stage.file-written")
                if written.size > _SMALL_BYTES:
                    written.begin()
            except BaseException:
                written.discard()
                with suppress(OSError):
                    os.unlink(target)
                raise
        return written

    def create_all(self, files: Iterable[tuple[str, bytes]]) -> None:
        """Write several new files, then sync them and the directories that hold their names."""
        begun: list[tuple[str, int]] = []
        directories: list[int] = []
        try:
            for path, data in files:
                with translated(path):
                    begun.append((path, os.open(self._full(path), NEW, 0o644)))
                    reach("stage.file-created")
                    write_all(begun[-1][1], data)
                    reach("stage.file-written")
            for name in {os.path.dirname(self._full(path)) for path, _ in begun}:
                with translated(name):
                    directories.append(os.open(name, _DIRECTORY))
            with translated(begun[0][0] if begun else ""):
                Syncing([*(handle for _, handle in begun), *directories]).wait()
        except BaseException:
            with suppress(LakewardError):
                self.delete(path for path, _ in begun)
            raise
        finally:
            for handle in (*(h for _, h in begun), *directories):
                os.close(handle)

    def sync_names(self, paths: Iterable[str]) -> None:
        """Sync the directories that hold the files."""
        sync_directories({os.path.dirname(self._full(path)) for path in paths})

    def sync_files(self, paths: Iterable[str]) -> None:
        """Sync files that others wrote, and every directory between them and the root."""
        directories: set[str] = set()
        for path in paths:
            target = self._full(path)
            with translated(path):
                sync(target)
            above = os.path.dirname(target)
            while above not in directories and len(above) > len(self._root):
                directories.add(above)
                above = os.path.dirname(above)
        sync_directories(directories)

    def delete_directory(self, directory: str) -> None:
        """Delete a directory and its content."""
        with translated(directory), suppress(FileNotFoundError):
            shutil.rmtree(self._full(directory))

    def prepare(self, path: str, data: bytes) -> Prepared:
        """Write a file without a name; without O_TMPFILE, keep its bytes until `put`."""
        if not self._anonymous:
            return Prepared(self, path, data)
        return _Nameless(self, path, data, self._full(path))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write a whole file; if one of that name exists, change nothing and return False."""
        target = self._full(path)
        with translated(path):
            try:
                try:
                    self._link(target, data)
                except FileNotFoundError:
                    self._make_directory(os.path.dirname(target))
                    self._link(target, data)
            except FileExistsError:
                return False
        return True

    def put(self, path: str, data: bytes) -> None:
        """Write and sync a whole file; replace a file of that name, if there is one."""
        self._put(path, data, synced=True)

    def replace(self, path: str, data: bytes) -> None:
        """Write a whole file without fsync; replace a file of that name, if there is one."""
        self._put(path, data, synced=False)

    def read(self, path: str) -> bytes:
        """Return the bytes of a file."""
        with translated(path):
            try:
                with open(self._full(path), "rb") as source:
                    return source.read()
            except NotADirectoryError as error:
                raise FileNotFoundError(*error.args) from error

    def exists(self, path: str) -> bool:
        """Whether there is a file of this name."""
        return os.path.exists(self._full(path))

    def size(self, path: str) -> int:
        """Return the size of a file in bytes."""
        with translated(path):
            return os.stat(self._full(path)).st_size

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files; a missing one is no error."""
        for path in paths:
            with translated(path), suppress(FileNotFoundError):
                os.unlink(self._full(path))

    def listing(self, path: str, *, recursive: bool = False) -> Iterator[StoredFile]:
        """Yield the files below a directory, in no order."""
        top = self._full(path)
        stack = [top]
        while stack:
            with translated(path):
                try:
                    entries = os.scandir(stack.pop())
                except (FileNotFoundError, NotADirectoryError):
                    continue
            with translated(path), entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        if recursive:
                            stack.append(entry.path)
                        continue
                    try:
                        found = entry.stat()
                    except FileNotFoundError:
                        # Deleted since the directory was read, or a link to nothing.
                        continue
                    name = f"{path}{entry.path[len(top) :]}".lstrip("" if path else "/")
                    yield StoredFile(name, found.st_size, found.st_mtime_ns // 1_000_000)

    def make_directory(self, path: str) -> None:
        """Make a directory if it is missing, and check that it can be written."""
        target = self._full(path)
        with translated(path):
            self._make_directory(target)
            if not os.access(target, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    def directories(self, path: str) -> list[str]:
        """Return the directories directly below a directory, without hidden ones."""
        with translated(path):
            try:
                found = os.scandir(self._full(path) if path else self._root)
            except (FileNotFoundError, NotADirectoryError):
                return []
            with found as entries:
                names = [e.name for e in entries if e.is_dir(follow_symlinks=False)]
        return [f"{path}/{n}" if path else n for n in sorted(names) if not n.startswith(".")]

    def uri(self, path: str) -> str:
        """Return the absolute path of a file or directory."""
        return self._full(path) if path else self._root

    def path_of(self, name: str) -> str:
        """Return the absolute path of a file of this machine, given by a path or a `file:` URI."""
        plain = "/" + name.removeprefix("file:").lstrip("/") if name.startswith("file:") else name
        if "://" in plain:
            what = f"The file {name} lies on {plain.partition('://')[0]}://."
            hint = "The lake reads files of this machine only."
            raise UnsupportedFeature(what, hint=hint, path=name)
        if not plain.startswith("/") or ".." in plain.split("/") or "\0" in plain:
            what = f"The file {name!r} is not named in full."
            raise CorruptTable(what, path=name)
        return plain

    def locate(self, location: str) -> str:
        """Return a location as the log stores it: relative if below the root, else absolute."""
        text = location.removeprefix("file://")
        if "://" in text:
            what = f"{text.split('://')[0]}:// is out of reach of a warehouse in a directory."
            raise InvalidInput(what, hint="Give a directory.")
        path, root = Path(text).expanduser().resolve(), Path(self._root).resolve()
        inside = path.is_relative_to(root)
        return path.relative_to(root).as_posix().removeprefix(".") if inside else str(path)

    def arrow_filesystem(self, *, foreign: bool = False) -> tuple[FileSystem, str]:  # noqa: ARG002
        """Return pyarrow's local filesystem, and the root."""
        from pyarrow.fs import LocalFileSystem

        return LocalFileSystem(), self._root

    def _put(self, path: str, data: bytes, *, synced: bool) -> None:
        target = self._full(path)
        with translated(path):
            os.makedirs(os.path.dirname(target), exist_ok=True)
            temporary = temporary_name(target)
            try:
                write_new(temporary, data, synced=synced)
                os.replace(temporary, target)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary)
                raise
            if synced:
                sync(os.path.dirname(target))

    def _full(self, path: str) -> str:
        if path.startswith("/"):
            return path
        if ".." in path and ".." in path.split("/"):
            what = f"The path {path!r} climbs out of the warehouse."
            raise InvalidInput(what, hint="Use a path below the warehouse.", path=path)
        return f"{self._root}/{path}"

    def _make_directory(self, directory: str) -> None:
        missing = []
        while not os.path.isdir(directory):
            missing.append(directory)
            directory = os.path.dirname(directory)
        for new in reversed(missing):
            with suppress(FileExistsError):
                os.mkdir(new)
            sync(os.path.dirname(new))

    def _link(self, target: str, data: bytes) -> None:
        """Write and sync a nameless or hidden file, then link it: no reader sees a part of it."""
        if self._anonymous:
            try:
                handle = write_nameless(os.path.dirname(target), data)
            except OSError as error:
                if error.errno not in _NO_TMPFILE:
                    raise
                self._anonymous = False
            else:
                try:
                    os.fsync(handle)
                except BaseException:
                    os.close(handle)
                    raise
                _name(handle, target)
                return
        temporary = temporary_name(target)
        try:
            write_new(temporary, data, synced=True)
            reach("publish.written")
            os.link(temporary, target)
        finally:
            with suppress(OSError):
                os.unlink(temporary)
        reach("publish.linked")


class _Written(Underway):
    """A new data file whose bytes and name are not synced yet."""

    __slots__ = ("_handles", "_syncing", "_target", "path", "size")

    def __init__(self, path: str, target: str, handle: int, size: int) -> None:
        self.path = path
        self.size = size
        self._target = target
        self._handles = [handle]
        self._syncing: Syncing | None = None

    def take(self) -> Sequence[int]:
        """Return the handles of the file and its directory; none if they are being synced."""
        if self._syncing is not None:
            return ()
        with translated(self.path):
            self._handles.append(os.open(parent(self._target), _DIRECTORY))
        return self._handles

    def begin(self) -> None:
        """Start to sync the file and its directory."""
        self._syncing = Syncing(self.take())

    def wait(self) -> None:
        """Return when what `begin` started is synced; close the handles, also those taken."""
        syncing, self._syncing = self._syncing, None
        try:
            if syncing is not None:
                with translated(self.path):
                    syncing.wait()
        finally:
            self.discard()

    def discard(self) -> None:
        """Close open files, synced or not."""
        while self._handles:
            os.close(self._handles.pop())

    def __del__(self) -> None:
        # A transaction that was never ended must not keep its files open.
        self.discard()


class _Nameless(Prepared):
    """A file without a name (O_TMPFILE); `put` links it, and syncs it first unless it was taken."""

    def __init__(self, storage: LocalStorage, path: str, data: bytes, target: str) -> None:
        super().__init__(storage, path, data)
        self._target = target
        self._handle: int | None = None
        self._failed: OSError | None = None
        self._is_safe = False
        try:
            self._handle = write_nameless(parent(target), data)
        except OSError as error:
            self._failed = error

    def take(self) -> Sequence[int]:
        """Return the handle of the file, if it could be written; the caller syncs it."""
        self._is_safe = True
        return () if self._handle is None else (self._handle,)

    def put(self) -> bool:
        """Link the file under its final name; return False if a file of that name exists."""
        with translated(self.path):
            if self._failed is not None and self._failed.errno not in (*_NO_TMPFILE, errno.ENOENT):
                raise self._failed
            if self._handle is None:
                # No O_TMPFILE here, or the directory is still to be made.
                return self.storage.put_if_absent(self.path, self.data)
            if not self._is_safe:
                os.fsync(self._handle)
            handle, self._handle = self._handle, None
            try:
                _name(handle, self._target)
            except FileExistsError:
                return False
        return True

    def discard(self) -> None:
        """Close the file, which deletes it."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def _name(handle: int, target: str) -> None:
    """Link a nameless file, unless the name is taken, and close its handle."""
    try:
        reach("publish.written")
        # With src_dir_fd, Python calls linkat and follows /proc's link.
        os.link(f"/proc/self/fd/{handle}", target, src_dir_fd=handle, follow_symlinks=True)
    finally:
        os.close(handle)
    reach("publish.linked")
