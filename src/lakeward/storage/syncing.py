"""Syncs several files at once by Linux's asynchronous I/O, without threads of Lakeward.

A disk syncs several files in little more than the time of one, if all are requested at once. Python
threads would have to wait for the interpreter first. Where the kernel or a sandbox offers no
asynchronous I/O, files are synced one after the other.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import secrets
import sys
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Any, Final

from lakeward.errors import FileMissing, StorageError
from lakeward.storage.base import Underway

NEW: Final = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
"""Flags that open a file which must not exist yet."""
TMPFILE: Final = getattr(os, "O_TMPFILE", 0)
_AT_ONCE: Final = 64
"""How many requests one ring accepts at a time."""
_FSYNC: Final = 2
_CALLS: Final = {"x86_64": (206, 207, 208, 209), "aarch64": (0, 1, 4, 2)}
"""Numbers of io_setup, io_destroy, io_getevents and io_submit."""


class translated:  # noqa: N801  used as a function, and as quick as one
    """Context manager that raises a `StorageError` in place of an `OSError`."""

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            return
        path = self._path
        if isinstance(error, FileNotFoundError):
            what = f"The file {path} is missing."
            raise FileMissing(what, path=path) from error
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
            what = f"The file {path} could not be written or read: {reason}."
            hint = "Check permissions, free space and the disk."
            raise StorageError(what, hint=hint, path=path, errno=error.errno) from error


class Syncing:
    """Open files that are being synced; they must stay open until `wait` has returned."""

    __slots__ = ("_handles", "_pid", "_ring")

    def __init__(self, handles: Sequence[int]) -> None:
        self._handles = tuple(handles)
        self._pid = os.getpid()
        # With more files than that, the time of the requests no longer matters.
        self._ring = _ring() if len(handles) <= _AT_ONCE else None
        if self._ring is not None and not self._ring.begin(handles):
            _IDLE.append(self._ring)
            self._ring = None

    def wait(self) -> None:
        """Return when all files are synced; raise an `OSError` if one could not be."""
        handles, self._handles = self._handles, ()
        ring, self._ring = self._ring, None
        if ring is None or self._pid != os.getpid():
            # A forked child gets no answers to its parent's requests.
            for handle in handles:
                os.fsync(handle)
        elif handles:
            failed = ring.end(len(handles))
            _IDLE.append(ring)
            if failed:
                raise OSError(failed, os.strerror(failed))


def sync_together(files: Sequence[Underway]) -> None:
    """Sync the handles of files, all at once, then wait for each file."""
    handles = [handle for file in files for handle in file.take()]
    try:
        if handles:
            with translated(files[0].path):
                Syncing(handles).wait()
    finally:
        for file in files:
            file.wait()


def sync_in_turn(files: Sequence[Underway]) -> None:
    """Sync files, one after the other: faster than asynchronous I/O on busy processors."""
    try:
        for file in files:
            for handle in file.take():
                with translated(file.path):
                    os.fsync(handle)
    finally:
        for file in files:
            file.wait()


def temporary_name(target: str) -> str:
    """Return a hidden name in the directory of a file."""
    place = PurePosixPath(target)
    return str(place.with_name(f".{place.name}.{secrets.token_hex(4)}.tmp"))


def write_new(path: str, data: bytes, *, synced: bool) -> None:
    """Write a new file, with or without fsync."""
    handle = os.open(path, NEW, 0o644)
    try:
        write_all(handle, data)
        if synced:
            os.fsync(handle)
    finally:
        os.close(handle)


def write_all(handle: int, data: Any) -> None:
    """Write all bytes of a buffer to an open file."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def write_nameless(directory: str, data: bytes) -> int:
    """Write a file that has no name; return the handle that keeps it alive."""
    handle = os.open(directory, TMPFILE | os.O_WRONLY, 0o644)
    try:
        write_all(handle, data)
    except BaseException:
        os.close(handle)
        raise
    return handle


def parent(path: str) -> str:
    """Return the directory of a full path; faster than `os.path.dirname`."""
    return path.rpartition("/")[0] or "/"


def sync_directories(paths: Iterable[str]) -> None:
    """Sync directories, one after the other."""
    for path in paths:
        with translated(path):
            sync(path)


def sync(path: str) -> None:
    """Sync a file or directory."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class _Request(ctypes.Structure):
    """Linux's `struct iocb`."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("key", ctypes.c_uint64),
        ("opcode", ctypes.c_uint16),
        ("priority", ctypes.c_int16),
        ("handle", ctypes.c_uint32),
        ("buffer", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
        ("offset", ctypes.c_int64),
        ("reserved", ctypes.c_uint64),
        ("flags", ctypes.c_uint32),
        ("event_handle", ctypes.c_uint32),
    )


class _Answer(ctypes.Structure):
    """Linux's `struct io_event`."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("request", ctypes.c_uint64),
        ("result", ctypes.c_int64),
        ("result2", ctypes.c_int64),
    )


class _Kernel:
    """The four system calls of asynchronous I/O; a failure raises an `OSError`."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self._setup, self._destroy, self._getevents, self._submit = map(ctypes.c_long, numbers)
        # Only `getevents` waits; for the others it is not worth to release the interpreter's lock.
        self._at_once = ctypes.PyDLL(None, use_errno=True).syscall
        self._waiting = ctypes.CDLL(None, use_errno=True).syscall
        self._at_once.restype = self._waiting.restype = ctypes.c_long

    def setup(self) -> ctypes.c_ulong:
        context = ctypes.c_ulong(0)
        if self._at_once(self._setup, ctypes.c_long(_AT_ONCE), ctypes.byref(context)):
            raise _error()
        return context

    def destroy(self, context: ctypes.c_ulong) -> None:
        self._waiting(self._destroy, context)

    def submit(self, context: ctypes.c_ulong, count: int, requests: ctypes.Array[Any]) -> int:
        taken: int = self._at_once(self._submit, context, ctypes.c_long(count), requests)
        if taken < 0:
            raise _error()
        return taken

    def answers(
        self, context: ctypes.c_ulong, count: int, answers: ctypes.Array[_Answer]
    ) -> Sequence[_Answer]:
        wanted = ctypes.c_long(count)
        found: int = self._waiting(self._getevents, context, wanted, wanted, answers, None)
        if found < 0:
            raise _error()
        return answers[:found]


class _Ring:
    """A context of asynchronous I/O, used by one `Syncing` at a time."""

    def __init__(self, kernel: _Kernel) -> None:
        self.pid = os.getpid()
        self._kernel = kernel
        self._context = kernel.setup()
        self._requests = (_Request * _AT_ONCE)()
        self._pointers = (_Pointer * _AT_ONCE)(*map(ctypes.pointer, self._requests))
        self._answers = (_Answer * _AT_ONCE)()
        for request in self._requests:
            request.opcode = _FSYNC

    def begin(self, handles: Sequence[int]) -> bool:
        """Request a sync of all handles; return False, with no request pending, if that failed."""
        for request, handle in zip(self._requests, handles, strict=False):
            request.handle = handle
        try:
            taken = self._kernel.submit(self._context, len(handles), self._pointers)
        except OSError:
            return False
        if taken < len(handles):
            self.end(taken)
            return False
        return True

    def end(self, count: int) -> int:
        """Wait for `count` requests to complete; return the error number of a failed one, or 0."""
        failed = 0
        while count:
            try:
                found = self._kernel.answers(self._context, count, self._answers)
            except InterruptedError:
                continue
            count -= len(found)
            failed = next((-a.result for a in found if a.result < 0), failed)
        return failed

    def __del__(self) -> None:
        if self.pid == os.getpid() and hasattr(self, "_context"):
            self._kernel.destroy(self._context)


_Pointer = ctypes.POINTER(_Request)
_IDLE: deque[_Ring] = deque()


def _ring() -> _Ring | None:
    """Return an idle context, or a new one; None if the kernel gives none."""
    if KERNEL is None:
        return None
    with suppress(IndexError):
        while (ring := _IDLE.pop()).pid != os.getpid():
            # A parent's contexts do not work in a forked child.
            pass
        return ring
    with suppress(OSError):
        return _Ring(KERNEL)
    return None


def _error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number or errno.EIO, os.strerror(number or errno.EIO))


def _kernel() -> _Kernel | None:
    numbers = _CALLS.get(platform.machine())
    return _Kernel(numbers) if sys.platform == "linux" and numbers and sys.maxsize > 2**32 else None


KERNEL: _Kernel | None = _kernel()
"""The system calls; None where files are synced one after the other."""
