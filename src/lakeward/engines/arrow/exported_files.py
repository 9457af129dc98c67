"""Writes rows as files in formats of other programs, each with its size and checksum."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from lakeward.errors import InvalidInput

_GROUP_ROWS: Final = 1 << 20
_GROUP_BYTES: Final = 128 << 20
"""How large a row group becomes, at most, in memory."""
SUFFIXES: Final = {"parquet": "parquet", "csv": "csv", "jsonl": "jsonl", "arrow": "arrow"}


class ExportedFile:
    """A file that rows are written to, batch by batch."""

    def __init__(self, path: Path, format: str, schema: pa.Schema) -> None:  # noqa: A002
        self._stream = _Hashed(path)
        self._writer = _WRITERS[format](pa.PythonFile(self._stream, mode="w"), schema)
        self.rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows."""
        self._writer.write_batch(batch)
        self.rows += batch.num_rows

    def close(self) -> tuple[int, str]:
        """Finish the file; return its size in bytes and the SHA-256 of its content."""
        self._writer.close()
        self._stream.close()
        return self._stream.size, self._stream.digest.hexdigest()

    def abandon(self) -> None:
        """Close an incomplete file, whose content is not used."""
        with suppress(pa.ArrowException, OSError, ValueError):
            self._writer.close()
        self._stream.close()


def check_exportable(format: str, schema: pa.Schema) -> None:  # noqa: A002
    """Raise `InvalidInput` if the format is unknown or cannot hold a column."""
    if format not in SUFFIXES:
        what = f"Rows cannot be exported as {format!r}."
        raise InvalidInput(what, hint=f"Use {', '.join(SUFFIXES)}.", parameter="format")
    if format != "csv":
        return
    for field in schema:
        if pa.types.is_nested(field.type) or pa.types.is_binary(field.type):
            what = f"Column {field.name} is {field.type}, which CSV cannot hold."
            hint = "Leave it out with columns=, or export Parquet, Arrow or JSON lines."
            raise InvalidInput(what, hint=hint, column=field.name)


class _Hashed:
    """A file that computes the checksum of what is written to it."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("xb")
        self.digest = hashlib.sha256()
        self.size = 0
        self.closed = False

    def write(self, data: Any) -> int:
        self._file.write(data)
        self.digest.update(data)
        count = memoryview(data).nbytes
        self.size += count
        return count

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        self._file.flush()

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._file.close()


class _Parquet:
    """Writes row groups of many batches, because small row groups are slow to write and to read."""

    def __init__(self, stream: Any, schema: pa.Schema) -> None:
        self._writer = pq.ParquetWriter(stream, schema)
        self._waiting: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    def write_batch(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= _GROUP_ROWS or self._bytes >= _GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting), self._rows)
            self._waiting, self._rows, self._bytes = [], 0, 0


class _JsonLines:
    """Writes each row as a line of JSON."""

    def __init__(self, stream: Any, schema: pa.Schema) -> None:  # noqa: ARG002  as the others
        self._stream = stream

    def write_batch(self, batch: pa.RecordBatch) -> None:
        lines = (orjson.dumps(row, default=_plain) for row in batch.to_pylist())
        self._stream.write(b"".join(line + b"\n" for line in lines))

    def close(self) -> None:
        self._stream.close()


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal | timedelta):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value)


_WRITERS: Final[dict[str, Callable[[Any, pa.Schema], Any]]] = {
    "parquet": _Parquet,
    "csv": pa.csv.CSVWriter,
    "arrow": pa.ipc.new_file,
    "jsonl": _JsonLines,
}
