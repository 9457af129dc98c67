"""The kinds of files in a landing directory, and their columns before the rows are read."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

_LINES: Final = 1_000
"""The number of lines of a JSON file that are searched for undeclared keys."""
_HEADER_BYTES: Final = 1 << 20


class FileFormat(StrEnum):
    """The format of a file."""

    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"


_SUFFIXES: Final = {
    FileFormat.PARQUET: (".parquet",),
    FileFormat.CSV: (".csv", ".csv.gz"),
    FileFormat.JSON: (".json", ".jsonl", ".ndjson", ".json.gz", ".jsonl.gz", ".ndjson.gz"),
}


@dataclass(frozen=True, slots=True)
class FileKind:
    """A file format, with the options needed to read it.

    `header` says whether the first line of a CSV file has the names of the columns.
    """

    format: FileFormat = FileFormat.PARQUET
    header: bool = True
    delimiter: str = ","

    @property
    def suffixes(self) -> tuple[str, ...]:
        """The extensions of such files."""
        return _SUFFIXES[self.format]

    @property
    def is_text(self) -> bool:
        """Whether some rows of a file may not fit the declared columns, as in CSV and JSON."""
        return self.format is not FileFormat.PARQUET

    def takes(self, path: str) -> bool:
        """Return whether a file is of this kind, by its extension."""
        return path.lower().endswith(self.suffixes)

    def columns(self, path: str, data: bytes) -> pa.Schema:
        """Return the columns of a file, as far as they are known before its rows are read.

        Raise `ValueError` or an error of Arrow if the file is incomplete.
        """
        if self.format is FileFormat.PARQUET:
            # From the Parquet schema alone: Spark does not use Arrow's metadata in the file.
            return pq.ParquetFile(pa.BufferReader(data)).schema.to_arrow_schema()
        names = self._header(path, data) if self.format is FileFormat.CSV else _keys(path, data)
        return pa.schema([(n, pa.string()) for n in names])

    def _header(self, path: str, data: bytes) -> list[str]:
        if not self.header:
            return []
        with _stream(path, data) as stream:
            start = stream.read(_HEADER_BYTES).decode("utf-8-sig", errors="replace")
        names = next(csv.reader(io.StringIO(start), delimiter=self.delimiter), [])
        twice = next((n for n in names if names.count(n) > 1), None)
        if twice is not None:
            message = f"its header names {twice!r} twice"
            raise ValueError(message)
        return names


def _keys(path: str, data: bytes) -> list[str]:
    found: dict[str, None] = {}
    for line in _first_lines(path, data):
        try:
            value = orjson.loads(line)
        except orjson.JSONDecodeError:
            # Spark rejects the line, and counts it.
            continue
        if isinstance(value, dict):
            found.update(dict.fromkeys(value))
    return list(found)


def _first_lines(path: str, data: bytes) -> Iterator[bytes]:
    with _stream(path, data) as stream:
        for _, line in zip(range(_LINES), stream, strict=False):
            yield line


def _stream(path: str, data: bytes) -> io.BufferedIOBase:
    plain = io.BytesIO(data)
    return gzip.GzipFile(fileobj=plain) if path.lower().endswith(".gz") else plain
