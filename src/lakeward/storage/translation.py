"""Errors of the operating system, told as errors of the storage."""

from __future__ import annotations

from types import TracebackType

from lakeward.errors import FileMissing, StorageError


class translated:  # noqa: N801  used as a function, and as quick as one
    """Errors of the operating system leave as errors of the storage."""

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        path = self._path
        if isinstance(error, FileNotFoundError):
            what = f"The file {path} is missing."
            raise FileMissing(what, path=path) from error
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
            what = f"The file {path} could not be written or read: {reason}."
            hint = "Check permissions, free space and the disk."
            raise StorageError(what, hint=hint, path=path, errno=error.errno) from error
