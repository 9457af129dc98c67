"""Writes rows as files in formats of other programs, each with its size and checksum."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from lakeward.engines.arrow.parquet import encoding_settings
from lakeward.errors import InvalidInput

_GROUP_ROWS: Final = 1 << 20
_GROUP_BYTES: Final = 128 << 20
"""The most bytes of memory that a row group takes."""
SUFFIXES: Final = {"parquet": "parquet", "csv": "csv", "jsonl": "jsonl", "arrow": "arrow"}


class ExportedFile:
    """A file to which rows are written, batch by batch."""

    def __init__(self, path: Path, format: str, schema: pa.Schema) -> None:  # noqa: A002
        self._stream = _Hashed(path)
        self._writer = _WRITERS[format](pa.PythonFile(self._stream, mode="w"), schema)
        self.rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Write the rows of a batch."""
        self._writer.write_batch(batch)
        self.rows += batch.num_rows

    @property
    def waiting_bytes(self) -> int:
        """Bytes of memory of rows that wait until their row group is large enough."""
        return self._writer.waiting_bytes if isinstance(self._writer, _Parquet) else 0

    def flush(self) -> None:
        """Write the waiting rows as a row group."""
        if isinstance(self._writer, _Parquet):
            self._writer.flush()

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
    """Raise `InvalidInput` if the format is unknown or cannot store a column."""
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
    """A file that computes the checksum of the bytes written to it."""

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
    """Writes row groups of many batches, because small row groups are slow to write and to read.

    The first row group decides which columns get a dictionary.
    """

    def __init__(self, stream: Any, schema: pa.Schema) -> None:
        self._stream = stream
        self._schema = schema
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._rows = self.waiting_bytes = 0

    def write_batch(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._rows += batch.num_rows
        self.waiting_bytes += batch.nbytes
        if self._rows >= _GROUP_ROWS or self.waiting_bytes >= _GROUP_BYTES:
            self.flush()

    def close(self) -> None:
        self.flush()
        self._opened(self._schema.empty_table()).close()

    def flush(self) -> None:
        if self._waiting:
            rows = pa.Table.from_batches(self._waiting)
            self._opened(rows).write_table(rows, self._rows)
            self._waiting, self._rows, self.waiting_bytes = [], 0, 0

    def _opened(self, rows: pa.Table) -> pq.ParquetWriter:
        if self._writer is None:
            dictionary = encoding_settings(rows)["use_dictionary"]
            self._writer = pq.ParquetWriter(self._stream, self._schema, use_dictionary=dictionary)
        return self._writer


class _JsonLines:
    """Writes each row as a line of JSON; NaN and infinities are texts, because JSON has none."""

    def __init__(self, stream: Any, schema: pa.Schema) -> None:  # noqa: ARG002  as the others
        self._stream = stream

    def write_batch(self, batch: pa.RecordBatch) -> None:
        rows = batch.to_pylist()
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if _may_be_infinite(column):
                for row in rows:
                    row[name] = _with_texts(row[name])
        lines = (orjson.dumps(row, default=_plain) for row in rows)
        self._stream.write(b"".join(line + b"\n" for line in lines))

    def close(self) -> None:
        self._stream.close()


def _may_be_infinite(column: pa.Array) -> bool:
    """Return whether a column may have NaN or an infinity, in nested values too."""
    if pa.types.is_floating(column.type) and not pa.types.is_float16(column.type):
        return pc.all(pc.is_finite(column)).as_py() is False
    return "float" in str(column.type) or "double" in str(column.type)


def _with_texts(value: Any) -> Any:
    """Return a value with texts for NaN and infinities."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {name: _with_texts(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_with_texts(one) for one in value]
    return value


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
