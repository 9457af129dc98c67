"""Reads rows of a user's files: Parquet, CSV, JSON lines and Arrow files, by path or pattern.

Files are read part by part, in the order of their names, so that memory holds a few megabytes of
them. The extension of the file name determines the format; text files may be compressed
(`.csv.gz`).
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.ipc

from lakeward.engines.arrow.csv import csv_rows, csv_schema
from lakeward.engines.arrow.json_lines import JsonLines, check_objects
from lakeward.engines.arrow.origin import of_file, placed
from lakeward.engines.arrow.remote import RemoteFile, RemoteFiles, RowFile
from lakeward.engines.arrow.text import blocks, opened_text
from lakeward.errors import InvalidInput, LakewardError, NotFound, StorageError

FORMATS: Final = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".ipc": "arrow",
    ".feather": "arrow",
}
"""The format of files by the extensions of their names."""
_COMPRESSED: Final = (".gz", ".bz2", ".zst", ".lz4")
_SHOWN: Final = 80
_ROWS: Final = 65_536
MAGIC: Final = b"ARROW1"
_KINDS: Final = "Names end in .parquet, .csv, .tsv, .jsonl, .ndjson, .json, .arrow or .feather."

Batches: TypeAlias = Iterator[pa.Table]


def paths_of(given: str | Path | RemoteFiles) -> list[RowFile]:
    """Return the files of a path or of a pattern such as `in/*.csv`, sorted by name.

    Raises `NotFound` if there is none, and `InvalidInput` for a directory or an address.
    """
    if isinstance(given, RemoteFiles):
        return list(given)
    text = os.fspath(given)
    if "://" in text:
        what = f"{text} is neither a file of this machine nor one on an object store."
        hint = "Use a path, or s3://, az://, abfss:// or gs://; or give an Arrow dataset."
        raise InvalidInput(what, hint=hint, path=text)
    path = Path(text).expanduser()
    if path.is_dir():
        what = f"{text} is a directory."
        raise InvalidInput(what, hint=f"Name its files: {text.rstrip('/')}/*.parquet.", path=text)
    if path.exists():
        return [path]
    if not glob.has_magic(text):
        format_of(path)
        what = f"There is no file {text}."
        raise NotFound(what, hint=f"It is looked for in {Path.cwd()}.", path=text)
    found = sorted(p for p in map(Path, glob.glob(str(path), recursive=True)) if p.is_file())  # noqa: PTH207  absolute patterns too
    if not found:
        what = f"No file matches {text}."
        raise NotFound(what, hint=f"It is looked for in {Path.cwd()}.", path=text)
    return list(found)


def format_of(path: RowFile) -> str:
    """Return the format of a file: `parquet`, `csv`, `json` or `arrow`."""
    suffixes = [s.lower() for s in path.suffixes]
    if suffixes and suffixes[-1] in _COMPRESSED:
        suffixes.pop()
    found = FORMATS.get(suffixes[-1]) if suffixes else None
    if found is None:
        what = f"{str(path)!r} is not the name of a file that can be read."
        raise InvalidInput(what, hint=_KINDS, path=str(path))
    return found


def rows_of(given: str | Path | RemoteFiles, schema: pa.Schema, table: str) -> Batches:
    """Yield the rows of files; the values of text files are parsed as the types of a schema."""
    paths = paths_of(given)
    formats = [format_of(path) for path in paths]
    return _each(paths, formats, schema, table)


def file_rows(path: RowFile, schema: pa.Schema, table: str, form: str | None = None) -> Batches:
    """Yield the rows of one file, in parts."""
    read = _READERS[form or format_of(path)]
    try:
        yield from read(path, schema, table)
    except LakewardError:
        raise
    except FileNotFoundError as error:
        what = f"There is no file {path}."
        raise NotFound(what, path=str(path)) from error
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowSerializationError) as error:
        ragged = re.search(r"Expected (\d+) columns, got (\d+): ?(.*)", str(error))
        if ragged is not None:
            many = "1 column" if ragged[1] == "1" else f"{ragged[1]} columns"
            what = f"A line of {path} has {ragged[2]} fields; the first line names {many}."
            hint = f"The line is {ragged[3][:_SHOWN]!r}. Fields are separated by commas."
            raise InvalidInput(what, hint=hint, path=str(path)) from error
        what = f"{path} cannot be read as {format_of(path)}: {_reason(error)}."
        raise InvalidInput(
            what, hint="Is it complete, and named for what it is?", path=str(path)
        ) from error
    except OSError as error:
        what = f"{path} cannot be read: {error.strerror or _reason(error)}."
        raise StorageError(what, path=str(path)) from error


def file_schema(path: RowFile) -> pa.Schema:
    """Return the columns of a file; for text files, types are guessed from the first megabytes."""
    return next(file_rows(path, pa.schema([]), "", f"{format_of(path)} schema")).schema


def arrow_batches(source: Any) -> Iterator[pa.RecordBatch]:
    """Yield the batches of an opened Arrow file, of the file or the stream format."""
    if source.read(len(MAGIC)) == MAGIC:
        reader = pa.ipc.open_file(source)
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)
        if not reader.num_record_batches:
            yield from reader.schema.empty_table().to_batches(max_chunksize=1)
        return
    source.seek(0)
    yield from pa.ipc.open_stream(source)


def _each(paths: list[RowFile], formats: list[str], schema: pa.Schema, table: str) -> Batches:
    for path, form in zip(paths, formats, strict=True):
        yield from file_rows(path, schema, table, form)


def _parquet(path: RowFile, schema: pa.Schema, table: str) -> Batches:
    del schema, table  # columns bring their types
    import pyarrow.parquet as pq

    with (
        _named_or_opened(path) as source,
        pq.ParquetFile(source, coerce_int96_timestamp_unit="us") as file,
    ):
        tables = (pa.Table.from_batches([b]) for b in file.iter_batches(_ROWS))
        yield from _or_empty(of_file(tables, path), file.schema_arrow)


def _arrow(path: RowFile, schema: pa.Schema, table: str) -> Batches:
    del schema, table  # columns bring their types
    with _opened(path) as source:
        tables = (pa.Table.from_batches([batch]) for batch in arrow_batches(source))
        yield from of_file(tables, path)


def _csv(path: RowFile, schema: pa.Schema, table: str) -> Batches:
    yield from csv_rows(path, schema, table)


def _json(path: RowFile, schema: pa.Schema, table: str) -> Batches:
    lines, done = JsonLines(schema, table), 0
    with opened_text(path) as file:
        for block in blocks(file):
            if not done:
                check_lines(block, path)
            rows = lines.table(block, path=str(path), before=done)
            yield placed(rows, path, done + 1, "line")
            done += block.count(b"\n")
    if not done:
        yield schema.empty_table()


def check_lines(block: bytes, path: RowFile) -> None:
    """Raise `InvalidInput` for a JSON file that has an array instead of lines of objects."""
    if block.lstrip().startswith(b"["):
        what = f"{path} holds one JSON array; lines of objects are read."
        hint = "Write an object a line, with `jq -c '.[]'`, or give json.load(file) as rows."
        raise InvalidInput(what, hint=hint, path=str(path))


def _parquet_schema(path: RowFile, schema: pa.Schema, table: str) -> Batches:
    del schema, table
    import pyarrow.parquet as pq

    with _named_or_opened(path) as source:
        yield pq.read_schema(source).empty_table()


def _csv_schema(path: RowFile, schema: pa.Schema, table: str) -> Batches:
    del schema, table
    yield csv_schema(path).empty_table()


def _json_schema(path: RowFile, schema: pa.Schema, table: str) -> Batches:
    del schema, table
    from lakeward.engines.arrow.json_schema import json_schema

    with opened_text(path) as file:
        block = next(blocks(file), b"")
    check_lines(block, path)
    if not block.strip():
        what = f"{path} is empty, so its columns are not known."
        raise InvalidInput(what, hint="Give the columns instead.", path=str(path))
    try:
        check_objects(block)
    except ValueError as error:
        what = f"{path} cannot be read: {error}."
        hint = 'Each line is one object, such as {"id": 1}.'
        raise InvalidInput(what, hint=hint, path=str(path)) from error
    yield json_schema(block).empty_table()


def _opened(path: RowFile) -> Any:
    return path.open() if isinstance(path, RemoteFile) else pa.memory_map(str(path))


def _named_or_opened(path: RowFile) -> Any:
    """Return the path of a local file, which the library opens, or an open remote file."""
    return path.open() if isinstance(path, RemoteFile) else nullcontext(path)


def _or_empty(tables: Batches, schema: pa.Schema) -> Batches:
    """Yield the tables, or an empty one: columns of a file without rows are checked, too."""
    first = next(tables, None)
    yield schema.empty_table() if first is None else first
    yield from tables


def _reason(error: Exception) -> str:
    return str(error).strip().rstrip(".").partition("\n")[0]


_READERS: Final[dict[str, Callable[[RowFile, pa.Schema, str], Batches]]] = {
    "parquet": _parquet,
    "arrow": _arrow,
    "csv": _csv,
    "json": _json,
    "parquet schema": _parquet_schema,
    "arrow schema": _arrow,
    "csv schema": _csv_schema,
    "json schema": _json_schema,
}
