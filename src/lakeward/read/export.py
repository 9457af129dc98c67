"""Exports a version of a table, or several tables at one cut, as files that need no lake."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import quote

import orjson
import pyarrow as pa

from lakeward.context import LakeContext
from lakeward.engines.arrow.exported_files import SUFFIXES, ExportedFile, check_exportable
from lakeward.engines.arrow.grouped import rows_by_key
from lakeward.errors import InvalidInput
from lakeward.model import arguments
from lakeward.model.clock import now_ms, to_datetime
from lakeward.model.records import to_json
from lakeward.storage.outside import MANIFEST, Outside, outside

Progress = Callable[[int, int | None], None]
_OPEN: Final = 64
"""How many files, one for each partition, are open at a time."""
_WAITING_BYTES: Final = 256 << 20
"""How much memory the rows of all open files may take before they are written as row groups."""
_NULL: Final = "__HIVE_DEFAULT_PARTITION__"


class Source(Protocol):
    """The methods of a `TableSnapshot` that an export uses."""

    @property
    def context(self) -> LakeContext:
        """The lake's context."""

    @property
    def name(self) -> str:
        """The table's full name."""

    @property
    def version(self) -> int:
        """The version of the table."""

    @property
    def timestamp(self) -> datetime:
        """When the version was committed."""

    def totals(self) -> Any:
        """Return the totals: files, bytes and rows."""

    def to_reader(
        self, *, columns: Sequence[str] | None = None, where: str | None = None
    ) -> pa.RecordBatchReader:
        """Return the rows."""


@dataclass(frozen=True, slots=True)
class ExportedPart:
    """A file of an export."""

    path: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Exported:
    """An export of one table, as in its manifest.

    Attributes:
        path: The directory or object-store location of the export.
        version: The exported version.
        timestamp: When that version was committed.
        columns: Names and types of the columns.
        partition_by: Columns whose values are in directory names instead of in files.
    """

    table: str
    version: int
    timestamp: datetime
    path: str
    format: str
    columns: tuple[tuple[str, str], ...]
    partition_by: tuple[str, ...]
    rows: int
    bytes: int
    files: tuple[ExportedPart, ...]


@dataclass(frozen=True, slots=True)
class Options:
    """Options of an export."""

    format: str = "parquet"
    partition_by: tuple[str, ...] = ()
    max_rows_per_file: int | None = None
    columns: tuple[str, ...] | None = None
    where: str | None = None
    progress: Progress | None = None

    def checked(self, source: Source) -> pa.Schema:
        """Return the schema of the exported files; raise `InvalidInput` for invalid options."""
        if self.max_rows_per_file is not None:
            arguments.whole(self.max_rows_per_file, "max_rows_per_file", least=1)
        schema = source.to_reader(columns=self.columns, where="false").schema
        for place, name in enumerate(self.partition_by):
            if name in self.partition_by[:place]:
                what = f"Column {name!r} is named more than once to partition by."
                raise InvalidInput(what, parameter="partition_by")
            if name not in schema.names:
                what = f"The export of {source.name} has no column {name!r} to partition by."
                hint = f"It has {', '.join(schema.names)}."
                raise InvalidInput(what, hint=hint, parameter="partition_by")
            kind = schema.field(name).type
            if pa.types.is_nested(kind) or _is_binary(kind):
                what = f"Column {name} of {source.name} is {kind}: it cannot name directories."
                raise InvalidInput(what, parameter="partition_by")
        kept = [f for f in schema if f.name not in self.partition_by]
        if not kept:
            what = "An export must have a column that it is not partitioned by."
            raise InvalidInput(what, parameter="partition_by")
        files = pa.schema(kept)
        check_exportable(self.format, files)
        return files


def options_of(
    format: str,  # noqa: A002  the name users know
    partition_by: Sequence[str],
    max_rows_per_file: int | None,
    columns: Sequence[str] | None,
    where: str | None,
    progress: Progress | None,
) -> Options:
    """Return the options for user arguments; raise `InvalidInput` for wrong types."""
    return Options(
        arguments.text(format, "format").lower(),
        tuple(arguments.texts(partition_by, "partition_by")),
        max_rows_per_file,
        None if columns is None else tuple(arguments.texts(columns, "columns")),
        where,
        progress,
    )


def export(
    source: Source,
    path: str | Path,
    options: Options,
    storage_options: Mapping[str, str] | None = None,
) -> Exported:
    """Export one version of a table; see `TableSnapshot.export`."""
    place = arguments.place(path, "path")
    schema = options.checked(source)
    target = outside(place, source.context.storage, storage_options)
    with _filling(target):
        found = _export(source, target, "", schema, options)
        _put(target, MANIFEST, found)
        target.complete()
    return found


def export_all(
    sources: Sequence[Source],
    path: str | Path,
    options: Options,
    cut: Mapping[str, Any],
    storage_options: Mapping[str, str] | None = None,
) -> list[Exported]:
    """Export several tables at one cut, each into a directory with its name."""
    place = arguments.place(path, "path")
    if not sources:
        what = "There is no table to export."
        raise InvalidInput(what)
    schemas = [options.checked(source) for source in sources]
    target = outside(place, sources[0].context.storage, storage_options)
    out = []
    with _filling(target):
        for source, schema in zip(sources, schemas, strict=True):
            found = _export(source, target, f"{source.name}/", schema, options)
            _put(target, f"{source.name}/{MANIFEST}", found)
            out.append(found)
        versions = {e.table: e.version for e in out}
        _put(target, MANIFEST, {**cut, "format": options.format, "versions": versions})
        target.complete()
    return out


@contextmanager
def _filling(target: Outside) -> Iterator[None]:
    try:
        yield
    except BaseException:
        target.abandon()
        raise


def _put(target: Outside, name: str, content: Any) -> None:
    told = {"exported": to_datetime(now_ms()), **to_json(content)}
    data = orjson.dumps(to_json(told), option=orjson.OPT_INDENT_2)
    (target.scratch / name).parent.mkdir(parents=True, exist_ok=True)
    (target.scratch / name).write_bytes(data + b"\n")
    target.take(name)


def _export(
    source: Source, target: Outside, prefix: str, schema: pa.Schema, options: Options
) -> Exported:
    total = source.totals().rows if options.where is None else None
    writing = _Writing(target, prefix, schema, options)
    try:
        with source.to_reader(columns=options.columns, where=options.where) as reader:
            for batch in reader:
                writing.write(batch)
                if options.progress is not None:
                    options.progress(writing.rows, total)
            writing.finish()
    finally:
        writing.abandon()
    return Exported(
        source.name,
        source.version,
        source.timestamp,
        f"{target.label}/{prefix}".rstrip("/"),
        options.format,
        tuple((f.name, str(f.type)) for f in reader.schema),
        options.partition_by,
        writing.rows,
        sum(f.bytes for f in writing.done),
        tuple(writing.done),
    )


@dataclass
class _Writing:
    """Writes batches to the files of their partitions; at most `_OPEN` files are open."""

    target: Outside
    prefix: str
    schema: pa.Schema
    options: Options
    rows: int = 0
    done: list[ExportedPart] = field(default_factory=list)
    _open: dict[str, tuple[str, ExportedFile]] = field(default_factory=dict)

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows to the files of their partitions."""
        for directory, rows in self._split(batch):
            start, most = 0, self.options.max_rows_per_file
            while start < rows.num_rows:
                file = self._file(directory)
                room = rows.num_rows - start if most is None else most - file.rows
                part = rows.slice(start, room)
                file.write(part)
                self._bound_memory()
                start += part.num_rows
                if most is not None and file.rows >= most:
                    self._close(directory)
        self.rows += batch.num_rows

    def finish(self) -> None:
        """Finish all files; a table without rows gets one empty file."""
        if not self._open and not self.done:
            self._file("")
        for directory in list(self._open):
            self._close(directory)

    def abandon(self) -> None:
        """Close open files without adding them to the export."""
        for _, file in self._open.values():
            file.abandon()

    def _bound_memory(self) -> None:
        files = [file for _, file in self._open.values()]
        while sum(f.waiting_bytes for f in files) > _WAITING_BYTES:
            max(files, key=lambda f: f.waiting_bytes).flush()

    def _file(self, directory: str) -> ExportedFile:
        known = self._open.pop(directory, None)
        if known is None:
            if len(self._open) >= _OPEN:
                self._close(next(iter(self._open)))
            number = len(self.done) + len(self._open)
            suffix = SUFFIXES[self.options.format]
            name = f"{self.prefix}{directory}part-{number:05d}.{suffix}"
            path = self.target.scratch / name
            known = name, ExportedFile(path, self.options.format, self.schema)
        # Close the least recently written partition first.
        self._open[directory] = known
        return known[1]

    def _close(self, directory: str) -> None:
        name, file = self._open.pop(directory)
        size, digest = file.close()
        self.target.take(name)
        own = name.removeprefix(self.prefix)
        self.done.append(ExportedPart(own, file.rows, size, digest))

    def _split(self, batch: pa.RecordBatch) -> Iterable[tuple[str, pa.RecordBatch]]:
        """Split rows by directory; drop the columns whose values are in directory names."""
        by = list(self.options.partition_by)
        if not by:
            return [("", batch)]
        plain = batch.select(self.schema.names)
        out = []
        for values, members in rows_by_key(pa.Table.from_batches([batch.select(by)])):
            pairs = zip(by, values, strict=True)
            directory = "".join(f"{quote(k, safe=' ')}={_text(v)}/" for k, v in pairs)
            out.append((directory, plain.take(members)))
        return out


def _is_binary(kind: pa.DataType) -> bool:
    large, fixed = pa.types.is_large_binary(kind), pa.types.is_fixed_size_binary(kind)
    return bool(pa.types.is_binary(kind) or large or fixed)


def _text(value: Any) -> str:
    if value is None:
        return _NULL
    text = value.isoformat(sep=" ") if isinstance(value, datetime) else str(value)
    if text == _NULL:
        what = f"The text {_NULL} cannot name a directory: it stands for null."
        raise InvalidInput(what, hint="Partition by another column.", parameter="partition_by")
    return quote(text, safe=" ")
