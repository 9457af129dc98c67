"""Estimates how many rows a file has, without reading all of it."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.ipc

from lakeward.engines.arrow.files import MAGIC
from lakeward.engines.arrow.remote import RemoteFile, RowFile

_BLOCK: Final = 4 * 2**20
_BLOCKS: Final = 16
"""How many blocks of text are read at most."""
_ENOUGH: Final = 2**20
"""How many bytes of a file suffice; compressed ones are read 64 KiB at a time."""
_CODECS: Final = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}


def estimated_rows(path: RowFile, form: str) -> tuple[int, int]:
    """Return about how many rows a file of a format has, and its size in bytes.

    The number is exact for Parquet, for text of less than 4 MiB without line breaks in values, and
    for Arrow files whose batches, except for the last one, have the same number of rows.
    """
    with path.open() if isinstance(path, RemoteFile) else pa.OSFile(str(path), "rb") as file:
        size: int = file.size()
        if form == "parquet":
            from pyarrow.parquet import read_metadata

            return read_metadata(file).num_rows, size
        if form == "arrow":
            return _rows_of_batches(file, size), size
        header = 1 if form == "csv" else 0
        return max(0, _lines(file, size, path.suffix.lower()) - header), size


def _rows_of_batches(file: Any, size: int) -> int:
    if file.read(len(MAGIC)) == MAGIC:
        found = pa.ipc.open_file(file)
        last = found.num_record_batches - 1
        if last < 0:
            return 0
        return found.get_batch(0).num_rows * last + found.get_batch(last).num_rows
    file.seek(0)
    first = next(iter(pa.ipc.open_stream(file)), None)
    return 0 if first is None else round(first.num_rows * size / file.tell())


def _lines(file: Any, size: int, suffix: str) -> int:
    codec = _CODECS.get(suffix)
    text = file if codec is None else pa.CompressedInputStream(file, codec)
    lines, last = 0, b""
    for _ in range(_BLOCKS):
        block = text.read(_BLOCK)
        lines, last = lines + block.count(b"\n"), block[-1:] or last
        if len(block) < _BLOCK:
            return lines + (last not in (b"", b"\n"))
        if file.tell() >= _ENOUGH:
            break
    return round(lines * size / file.tell())
