"""Reads text files as bytes, and as blocks of whole lines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa

from lakeward.engines.arrow.remote import RowFile

_BLOCK: Final = 4 * 2**20


def opened_text(path: RowFile) -> BinaryIO:
    """Open a text file as bytes, decompressed according to the extension of its name."""
    stream: BinaryIO
    if isinstance(path, Path):
        stream = pa.input_stream(str(path), compression="detect")
    else:
        stream = path.open_text()
    return stream


def blocks(file: BinaryIO, size: int = _BLOCK) -> Iterator[bytes]:
    """Yield blocks of whole lines; the last line may have no newline."""
    # `read1` returns what a pipe has, so that rows of a slow stream do not wait for a block.
    read = getattr(file, "read1", file.read)
    rest = b""
    while chunk := read(size):
        whole, newline, after = chunk.rpartition(b"\n")
        if not newline:
            rest += chunk
            continue
        yield rest + whole + newline
        rest = after
    if rest:
        yield rest
