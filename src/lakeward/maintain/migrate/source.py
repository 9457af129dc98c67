"""Sources of migrations: a directory of Parquet files, or a table, as files with rows."""

from __future__ import annotations

import hashlib
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import ClassVar, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from lakeward.engines.arrow.footer_types import schema_of
from lakeward.engines.arrow.partition import NULL_PARTITION
from lakeward.errors import InvalidInput, SchemaMismatch, StorageError
from lakeward.maintain.migrate.types import common, may_lose
from lakeward.model.file import LoggedFile
from lakeward.model.lineage.origin import Origin
from lakeward.model.values import is_text
from lakeward.read.counting import count_rows
from lakeward.read.scan import read_files
from lakeward.read.snapshot import TableSnapshot
from lakeward.storage.outside import MANIFEST

_ROWS: Final = 65_536
_NAMED: Final = 5
_WHOLE: Final = re.compile(r"-?(0|[1-9]\d{0,17})")
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of a source; `mark` changes when the file's content may have changed."""

    path: str
    size: int
    rows: int
    mark: str
    partition: Mapping[str, str | None]


class Source(ABC):
    """A source of rows to be migrated, read file by file.

    `rewrites` is set where a new file may have rows of a file that changed or is gone.
    """

    rewrites: ClassVar[bool] = False
    label: str
    files: Sequence[SourceFile]
    schema: pa.Schema
    partition_by: tuple[str, ...]

    @abstractmethod
    def read(self, file: SourceFile) -> Iterator[pa.Table]:
        """Yield the rows of a file, in the source's schema."""

    def origin(self) -> Origin | None:
        """Return the table of the lake that the rows come from; None if they come from files."""
        return None

    def paths(self, batch: Sequence[SourceFile]) -> list[str]:
        """Return the files or the directory that the rows of a batch come from."""
        return [f"{self.label}/{file.path}" for file in batch]

    def check_in_place(self) -> str:
        """Return the directory of files that can be migrated in place; raise if they cannot be."""
        what = f"The files of {self.label} cannot become a table of another format in place."
        raise InvalidInput(what, hint='Use mode="copy".', parameter="mode")


class ParquetSource(Source):
    """A directory of Parquet files, with or without Hive partitions."""

    def __init__(self, directory: Path) -> None:
        self.label = str(directory)
        self._root = directory
        names = _listed(directory)
        with ThreadPoolExecutor(8) as pool:
            self._schemas = dict(zip(names, pool.map(self._footer, names), strict=True))
        partitions = {name: _partition(name) for name in names}
        self.partition_by = _agreed(partitions, self.label)
        self._types = {
            key: _value_type([partitions[n][key] for n in names]) for key in self.partition_by
        }
        self.files = [self._file(name, partitions[name]) for name in names]
        own = self._merged()
        self._check_exact(own)
        left = [pa.field(k, t) for k, t in self._types.items() if k not in own.names]
        self._check_clashes(own)
        self.schema = pa.schema([*own, *left])

    def read(self, file: SourceFile) -> Iterator[pa.Table]:
        """Yield the rows; missing columns are null, partition columns have values of the path."""
        try:
            with self._opened(file) as opened:
                for batch in opened.iter_batches(_ROWS):
                    yield self._complete(pa.Table.from_batches([batch]), file)
        except (pa.ArrowException, OSError) as error:
            what = f"File {file.path} of {self.label} cannot be read: {error}."
            raise StorageError(what, path=file.path) from error

    def check_in_place(self) -> str:
        """Raise `SchemaMismatch` if a file has a column of another type; return the directory."""
        for name, (schema, _) in self._schemas.items():
            for field in schema:
                if not field.type.equals(self.schema.field(field.name).type):
                    what = (
                        f"Column {field.name} is {field.type} in {name} and"
                        f" {self.schema.field(field.name).type} in other files, which readers of"
                        " a table do not convert."
                    )
                    raise SchemaMismatch(what, hint='Use mode="copy".', path=name)
        return str(self._root)

    def _complete(self, rows: pa.Table, file: SourceFile) -> pa.Table:
        columns = []
        for field in self.schema:
            if field.name in rows.column_names:
                columns.append(rows.column(field.name).cast(field.type))
            elif field.name in self._types:
                text = file.partition.get(field.name)
                value = pa.scalar(text, pa.string()).cast(field.type)
                columns.append(pa.chunked_array([pa.repeat(value, rows.num_rows)]))
            else:
                columns.append(pa.chunked_array([pa.nulls(rows.num_rows, field.type)]))
        return pa.Table.from_arrays(columns, schema=self.schema)

    def _footer(self, name: str) -> tuple[pa.Schema, pq.FileMetaData]:
        try:
            metadata = pq.read_metadata(self._root / name)
        except (pa.ArrowException, OSError) as error:
            what = f"File {name} of {self.label} is no Parquet file: {error}."
            hint = "Move it away; files whose names begin with _ or . are left out."
            raise StorageError(what, hint=hint, path=name) from error
        schema = schema_of(metadata).remove_metadata()
        twice = next((n for n in schema.names if schema.names.count(n) > 1), None)
        if twice is not None:
            what = f"File {name} of {self.label} has more than one column {twice!r}."
            raise SchemaMismatch(what, hint="Write it again.", column=twice, path=name)
        return schema, metadata

    def _opened(self, file: SourceFile) -> pq.ParquetFile:
        return pq.ParquetFile(self._root / file.path, coerce_int96_timestamp_unit="us")

    def _file(self, name: str, partition: Mapping[str, str | None]) -> SourceFile:
        known = (self._root / name).stat()
        rows = self._schemas[name][1].num_rows
        mark = f"{known.st_size}-{known.st_mtime_ns}"
        return SourceFile(name, known.st_size, rows, mark, partition)

    def _merged(self) -> pa.Schema:
        """Return one schema for all files; raise an error that names files that disagree."""
        merged: dict[str, pa.Field] = {}
        for schema, _ in self._schemas.values():
            for field in schema:
                before = merged.get(field.name, field)
                try:
                    both = common(before.type, field.type)
                except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
                    raise _disagree(self.label, field.name, self._types_of(field.name)) from error
                merged[field.name] = pa.field(field.name, both)
        return pa.schema(list(merged.values()))

    def _check_exact(self, own: pa.Schema) -> None:
        """Raise `SchemaMismatch` if a value would change in the type that files have in common."""
        for file in self.files:
            for field in self._schemas[file.path][0]:
                wanted = own.field(field.name).type
                if not may_lose(field.type, wanted):
                    continue
                try:
                    for column in self._column(file, field.name):
                        column.cast(wanted)
                except pa.ArrowInvalid as error:
                    raise _disagree(self.label, field.name, self._types_of(field.name)) from error

    def _types_of(self, column: str) -> dict[str, list[str]]:
        """Return the files by their type of a column."""
        found: dict[str, list[str]] = {}
        for name, (schema, _) in self._schemas.items():
            if column in schema.names:
                found.setdefault(str(schema.field(column).type), []).append(name)
        return found

    def _check_clashes(self, own: pa.Schema) -> None:
        """Raise `InvalidInput` if a partition column differs from its value in the path."""
        for key in self.partition_by:
            if key not in own.names:
                continue
            for file in self.files:
                text = file.partition[key]
                for column in self._column(file, key):
                    others = _other_values(column.unique(), text)
                    if others:
                        other = sorted(str(v) for v in others)[0]
                        what = (
                            f"File {file.path} lies in {key}={text}, and its column {key} has"
                            f" {other}."
                        )
                        hint = "Move the rows to the right directory, or drop the column."
                        raise InvalidInput(what, hint=hint, path=file.path, column=key)

    def _column(self, file: SourceFile, key: str) -> Iterator[pa.ChunkedArray]:
        with self._opened(file) as opened:
            if key in opened.schema_arrow.names:
                for batch in opened.iter_batches(_ROWS, columns=[key]):
                    yield pa.Table.from_batches([batch]).column(key)


class TableSource(Source):
    """A version of a Delta or Iceberg table, which may be one of the lake itself."""

    rewrites: ClassVar[bool] = True

    def __init__(self, snapshot: TableSnapshot, label: str, *, is_own: bool = False) -> None:
        self.label = label
        self._snapshot = snapshot
        self._is_own = is_own
        self.schema = pa.schema(
            [f.remove_metadata() for f in snapshot.definition.schema.to_arrow()]
        )
        self.partition_by = tuple(snapshot.definition.partitioning)
        self._files = _by_path(snapshot.plan())
        self.files = [
            SourceFile(path, f.size, self._count(f), _table_mark(f), {})
            for path, f in self._files.items()
        ]

    def read(self, file: SourceFile) -> Iterator[pa.Table]:
        """Yield the live rows of a file."""
        snapshot = self._snapshot
        reader = read_files(
            snapshot.context.storage,
            snapshot.log_head,
            snapshot.definition,
            [self._files[file.path]],
        )
        for batch in reader:
            yield pa.Table.from_batches([batch]).cast(self.schema)

    def _count(self, file: LoggedFile) -> int:
        """Return the number of live rows; read the file if the log does not have it."""
        found = self._snapshot
        storage = found.context.storage
        return count_rows(storage, found.log_head, found.definition, None, [file])[0]

    def origin(self) -> Origin | None:
        """Return the columns of the table, if it is one of the lake."""
        return self._snapshot._lineage_origin() if self._is_own else None

    def paths(self, batch: Sequence[SourceFile]) -> list[str]:  # noqa: ARG002  one place for all
        """Return the directory of the table."""
        return [self.label]


def _by_path(files: Iterable[LoggedFile]) -> dict[str, LoggedFile]:
    """Return the files by paths; a file that is listed again, with all its rows, has a number."""
    found: dict[str, LoggedFile] = {}
    for file in files:
        path, times = file.path, 1
        while path in found:
            times += 1
            path = f"{file.path} ({times})"
        found[path] = file
    return found


def _table_mark(file: LoggedFile) -> str:
    text = f"{file.path} {file.size} {sorted((file.file.deletion_vector or {}).items())!r}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _listed(directory: Path) -> list[str]:
    """Return the paths of the data files below a directory, sorted."""
    if not directory.is_dir():
        what = f"There is no directory {directory}."
        raise InvalidInput(what, hint="Give a directory of Parquet files, or a table.")
    root = directory.resolve()
    # An export of a lake describes its files in it.
    manifest = directory / MANIFEST
    found: dict[Path, str] = {}
    for place, directories, names in os.walk(directory):
        directories[:] = sorted(d for d in directories if "=" in d or not _is_hidden(d))
        kept = sorted(n for n in names if not _is_hidden(n))
        for name in (*directories, *kept):
            _check_text(name, directory)
        for name in directories:
            path = Path(place, name)
            if path.is_symlink():
                _inside(path, root)
                what = f"{path} is a link to a directory, whose files may be listed twice."
                raise InvalidInput(what, hint="Remove the link.", path=str(path))
        for name in kept:
            path = Path(place, name)
            if path == manifest:
                continue
            target = _inside(path, root)
            if target in found:
                what = f"{path} and {found[target]} are one file, whose rows would come twice."
                raise InvalidInput(what, hint="Remove the link.", path=str(path))
            found[target] = path.relative_to(directory).as_posix()
    if not found:
        what = f"The directory {directory} has no data files."
        raise InvalidInput(what, hint="Give a directory of Parquet files.", path=str(directory))
    return list(found.values())


def _check_text(name: str, directory: Path) -> None:
    """Raise `InvalidInput` for a name that no log can have."""
    if not is_text(name):
        what = f"The name {name!r} below {str(directory)!r} is not UTF-8."
        raise InvalidInput(what, hint="Rename it.", path=ascii(name))


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "_"))


def _inside(path: Path, root: Path) -> Path:
    """Return what a path leads to; raise `InvalidInput` if that is outside of `root`."""
    target = path.resolve()
    if not target.is_relative_to(root):
        what = f"The path {path} leads outside of {root}."
        raise InvalidInput(what, hint="Replace the link by what it names.", path=str(path))
    return target


def _other_values(column: pa.ChunkedArray, text: str | None) -> list[object]:
    """Return the values of a column that differ from the value in a path."""
    try:
        value = pa.scalar(text, pa.string()).cast(column.type).as_py()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        value = text
    return [v for v in column.to_pylist() if v != value and (v is None or str(v) != text)]


def _partition(path: str) -> dict[str, str | None]:
    out: dict[str, str | None] = {}
    for part in path.split("/")[:-1]:
        key, sign, value = part.partition("=")
        if not sign:
            continue
        if key in out:
            what = f"The path {path} gives two values for {key}."
            raise InvalidInput(what, hint="Move the file.", path=path, column=key)
        text = unquote(value)
        out[unquote(key)] = None if text == NULL_PARTITION else text
    return out


def _agreed(partitions: Mapping[str, Mapping[str, str | None]], label: str) -> tuple[str, ...]:
    """Return the partition keys of all paths, in order; raise `InvalidInput` if they differ."""
    orders: dict[tuple[str, ...], list[str]] = {}
    for path, values in partitions.items():
        orders.setdefault(tuple(values), []).append(path)
    if len(orders) == 1:
        return next(iter(orders))
    shown = "; ".join(
        f"{'/'.join(keys) or 'none'} ({', '.join(paths[:_NAMED])})"
        for keys, paths in orders.items()
    )
    what = f"The files of {label} are partitioned in different ways: {shown}."
    raise InvalidInput(what, hint="Migrate each part by itself, or move the files.")


def _value_type(values: Sequence[str | None]) -> pa.DataType:
    known = [v for v in values if v is not None]
    if known and all(_WHOLE.fullmatch(v) for v in known):
        return pa.int64()
    if known and all(_is_date(v) for v in known):
        return pa.date32()
    return pa.string()


def _is_date(text: str) -> bool:
    try:
        return bool(_DATE.fullmatch(text) and date.fromisoformat(text))
    except ValueError:
        return False


def _disagree(label: str, column: str, types: Mapping[str, Sequence[str]]) -> SchemaMismatch:
    shown = "; ".join(
        f"{kind} in {', '.join(names[:_NAMED])}"
        + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
        for kind, names in types.items()
    )
    what = f"Files of {label} disagree about column {column}: {shown}."
    hint = "Migrate them apart, or write the ones that differ again."
    return SchemaMismatch(what, hint=hint, column=column, files=dict(types))
