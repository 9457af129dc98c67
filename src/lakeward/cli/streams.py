"""The standard streams of the program: an error of standard output names it.

A stream that was closed (`>&-`) is opened again: otherwise the next file that is opened, such as
the database, would become that stream.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any, Final, TextIO

_OUTPUT: Final = "standard output"


def prepare_streams() -> None:
    """Replace closed streams, and standard output by one whose errors name it."""
    if sys.stdin is None:
        sys.stdin = _nowhere(os.O_RDONLY, "r")
    if sys.stdout is None:
        # What can only be read: writing fails, as it does into the closed stream.
        sys.stdout = _nowhere(os.O_RDONLY, "w")
    if sys.stderr is None:
        sys.stderr = _nowhere(os.O_WRONLY, "w")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout = _named(sys.stdout)
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr.reconfigure(errors="backslashreplace")


def forget_output() -> None:
    """Discard what is not written yet, so that Python does not report it when it ends."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        return


class _Output(io.FileIO):
    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            error.filename = _OUTPUT
            raise


def _nowhere(flags: int, mode: str) -> TextIO:
    number = os.open(os.devnull, flags)
    stream: Any = open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
    return stream


def _named(stream: io.TextIOWrapper) -> TextIO:
    stream.flush()
    raw = _Output(stream.fileno(), "w", closefd=False)
    return io.TextIOWrapper(
        raw if stream.write_through else io.BufferedWriter(raw),
        encoding=stream.encoding,
        # A terminal that lacks a character shows its code instead.
        errors="backslashreplace",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
