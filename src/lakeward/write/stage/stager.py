"""Staging: writes rows as data files that no reader sees yet.

Rows are converted to the table's schema, checked, split by partition and written to files of about
the table's target size. Memory contains at most the rows of one file per open partition, and of a
few files in all. Every file has the transaction's id in its name, and is synced before the
transaction is ratified: large files when they are written, small files together. Several threads
may stage rows of one table at the same time.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import orjson
import pyarrow as pa

from lakeward.engines.arrow.conform import completed
from lakeward.engines.arrow.input import tables_of
from lakeward.engines.arrow.parquet import ParquetOptions, encode
from lakeward.engines.arrow.partition import partition_directory, partitioned
from lakeward.engines.arrow.relabel import relabelled_rows
from lakeward.formats.delta.vectors import vector_path
from lakeward.formats.policy import settings_of
from lakeward.formats.properties import (
    COMPRESSION,
    ICEBERG_COMPRESSION,
    ICEBERG_TARGET_FILE_SIZE,
    MERGE_ON_READ,
    OUR_STATS_COLUMNS,
    STATS_COLUMNS,
    TARGET_FILE_SIZE,
    bloom_columns,
    size_bytes,
)
from lakeward.formats.registry import format_of
from lakeward.model.commit import Head
from lakeward.model.constraints import lenient_ids, loosened, plain_checks
from lakeward.model.definition import Definition, known
from lakeward.model.evolution.uses import fields_below
from lakeward.model.file import DataFile
from lakeward.model.values import Value
from lakeward.storage.base import Storage, Underway
from lakeward.storage.syncing import sync_together
from lakeward.write.plan.origins import COLUMN, Origins
from lakeward.write.stage.checks import Checks
from lakeward.write.stage.numbers import Numbers

_OF_FILES: Final = (
    *(TARGET_FILE_SIZE, ICEBERG_TARGET_FILE_SIZE),
    *(COMPRESSION, ICEBERG_COMPRESSION),
    *(MERGE_ON_READ, STATS_COLUMNS, OUR_STATS_COLUMNS),
)
_DEFAULT: Final = ParquetOptions()
_IN_PLACE_ROWS: Final = 131_072
"""The rows of a row group in tables with merge-on-read: small, so that a search reads few rows."""
_OPEN_FILES: Final = 4
"""The most rows in memory over all partitions, as a multiple of the target file size."""
_UNSYNCED_FILES: Final = 32
_UNSYNCED_BYTES: Final = 2**20
_SMALL: Final = 16
"""The first rows of a file are measured roughly if they are below 1 / `_SMALL` of its size."""


@dataclass
class Stager:
    """Writes the data files of one table for one transaction.

    Attributes:
        created: The full paths of all files written.
        below: The directory to which files are written, relative to the table.
        stem: The beginning of the file names.
        numbers: Assigns values to the table's identity columns, if it has any.
        origins: Records the origins of rows that have the column of origins.
    """

    storage: Storage
    transaction_id: str
    head: Head
    definition: Definition
    options: ParquetOptions
    below: str = ""
    stem: str = "part"
    numbers: Numbers | None = None
    origins: Origins | None = None
    created: list[str] = field(default_factory=list)
    _ordinals: Iterator[int] = field(default_factory=itertools.count)
    _underway: list[Underway] = field(default_factory=list)
    # A process that died under the same, self-chosen, id may have left files of these names.
    _token: str = field(default_factory=lambda: os.urandom(2).hex())

    def stage(
        self,
        tables: Iterable[pa.Table],
        checks: Checks | None = None,
        *,
        trusted: bool = False,
        complete: bool = False,
    ) -> list[DataFile]:
        """Check rows and write them as files; raise an error after all violations were counted.

        Args:
            tables: The rows.
            checks: The checks that the rows must satisfy; None if they were checked before.
            trusted: The rows come from the table, and keep the values of generated columns.
            complete: The rows were converted to the table's schema before, perhaps under an older
                definition.
        """
        written: list[DataFile] = []
        waiting: _Partitions = {}
        for table in tables:
            if complete and self._is_complete(table.schema):
                rows = table
            else:
                rows = completed(table, self.definition, str(self.head.name), trusted=trusted)
                if self.numbers is not None and not trusted:
                    rows = self.numbers.fill(rows)
            if checks is not None:
                checks.look_at(rows)
                if checks.violated:
                    continue
            if not self.definition.partition_by:
                self._take(waiting, {}, rows, written)
                continue
            for values, part in partitioned(rows, self.definition, str(self.head.name)):
                self._take(waiting, values, part, written)
        if self.numbers is not None:
            self.numbers.give_back()
        if checks is not None:
            checks.raise_violations()
        for rest in waiting.values():
            self._flush(rest, written)
        return written

    def stage_data(self, data: Any, checks: Checks | None = None) -> list[DataFile]:
        """Write a user's rows as files; check them by `checks`, or by the table's plain checks."""
        table = str(self.head.name)
        tables = tables_of(data, self.definition.schema.arrow, table)
        if checks is None and plain_checks(self.definition):
            checks = Checks.of(self.definition, table)
        return self.stage(tables, checks)

    def beside(self, definition: Definition, *, below: str, stem: str) -> Stager:
        """Return a stager for other files of the same transaction, which are synced with these."""
        return replace(
            self, definition=definition, below=below, stem=stem, numbers=None, origins=None
        )

    def new_path(self, values: Mapping[int, Value]) -> str:
        """Return the path of a new data file in a partition, relative to the table's location."""
        ordinal = next(self._ordinals)
        codec = "" if self.options.compression == "none" else f".{self.options.compression}"
        name = f"{self.stem}-{ordinal:05d}-{self.transaction_id}-{self._token}{codec}.parquet"
        directory = partition_directory(values, self.definition) if values else ""
        return self.below + directory + name

    def create(self, path: str, data: Any) -> None:
        """Write a file at a path relative to the table's location, to be synced later."""
        full = f"{self.head.location}/{path}"
        self._underway.append(self.storage.create(full, data))
        self.created.append(full)
        if len(self._underway) >= _UNSYNCED_FILES:
            sync_together(self.take_underway())

    @property
    def syncs_soon(self) -> bool:
        """Whether the unsynced files are small and local, so that syncing them is fast."""
        unsynced = sum([file.size for file in self._underway])
        return not self.storage.is_remote and unsynced <= _UNSYNCED_BYTES

    def discard(self, *, keep: Collection[str] = ()) -> None:
        """Delete the written files except `keep`; call it only if no commit can refer to them."""
        for file in self.take_underway():
            file.discard()
        self.storage.delete(path for path in self.created if path not in keep)

    def take_underway(self) -> list[Underway]:
        """Return the files that are not synced yet; the caller syncs or discards them."""
        taken: list[Underway] = []
        while True:
            try:
                # Other threads may add to it meanwhile.
                taken.append(self._underway.pop())
            except IndexError:
                return taken

    def _is_complete(self, given: pa.Schema) -> bool:
        own = self.definition.schema.arrow
        if self.origins is not None and given.names[-1:] == [COLUMN]:
            given = given.remove(len(given) - 1)
        return bool(given.equals(own))

    def _take(
        self,
        waiting: _Partitions,
        values: Mapping[int, Value],
        part: pa.Table,
        written: list[DataFile],
    ) -> None:
        entry = waiting.setdefault(tuple(values.items()), _Waiting(values))
        limit = self.options.target_file_size
        size = part.get_total_buffer_size()
        if entry.rows or size > limit // _SMALL:
            # A slice has the buffers of what it was cut from.
            size = part.nbytes
        rows_per_file = max(1, int(part.num_rows * limit / max(size, 1)))
        if part.num_rows <= rows_per_file:
            entry.add(part, size)
            if entry.size >= limit:
                self._flush(entry, written)
        else:
            for start in range(0, part.num_rows, rows_per_file):
                some = part.slice(start, rows_per_file)
                entry.add(some, some.nbytes)
                if entry.size >= limit:
                    self._flush(entry, written)
        # Each of them waits for less than one file's worth.
        while len(waiting) > _OPEN_FILES and _total_size(waiting) > limit * _OPEN_FILES:
            self._flush(max(waiting.values(), key=lambda w: w.size), written)

    def _flush(self, entry: _Waiting, written: list[DataFile]) -> None:
        if not entry.rows:
            return
        path = self.new_path(entry.values)
        rows = pa.concat_tables(entry.rows) if len(entry.rows) > 1 else entry.rows[0]
        if self.origins is not None and COLUMN in rows.column_names:
            self.origins.note(path, rows[COLUMN].to_numpy())
            rows = rows.drop_columns([COLUMN])
        definition = self.definition
        if _lacks(rows, definition):
            # These rows are moved to quarantine, and the others written again, before the commit.
            definition = loosened(definition)
        stored = format_of(self.head).stored(definition)
        if stored is not definition:
            rows = as_stored(rows, definition, stored)
        buffer, file = encode(rows, stored, entry.values, path, self.options)
        self.create(path, buffer)
        if self.options.stats_columns is not None:
            file = with_stats_of(file, self.definition, self.options.stats_columns)
        written.append(file)
        entry.clear()


def _lacks(rows: pa.Table, definition: Definition) -> bool:
    """Return whether rows lack values in required columns that they may lack until the commit."""
    names = {definition.schema.by_id[i].name for i in lenient_ids(definition)}
    # Partition columns are not in the files of all formats.
    return any(rows.column(name).null_count for name in names.intersection(rows.column_names))


def options_of(head: Head, definition: Definition) -> ParquetOptions:
    """Return the options for a table's data files, by its properties and policies."""
    return known(definition, _options, head.format)


def _options(definition: Definition, format_name: str) -> ParquetOptions:
    return parquet_options(settings_of(definition, format_name))


def parquet_options(properties: Mapping[str, str]) -> ParquetOptions:
    """Return the options for data files that table properties set."""
    blooms = bloom_columns(properties)
    if not blooms and properties.keys().isdisjoint(_OF_FILES):
        return _DEFAULT
    codec = _either(properties, COMPRESSION, ICEBERG_COMPRESSION) or _DEFAULT.compression
    codec = codec.lower()
    in_place = properties.get(MERGE_ON_READ) == "true"
    size = _either(properties, TARGET_FILE_SIZE, ICEBERG_TARGET_FILE_SIZE)
    return ParquetOptions(
        compression="none" if codec == "uncompressed" else codec,
        target_file_size=_DEFAULT.target_file_size if size is None else size_bytes(size),
        row_group_rows=_IN_PLACE_ROWS if in_place else _DEFAULT.row_group_rows,
        stats_columns=_stats_columns(properties),
        bloom_columns=blooms,
    )


def with_stats_of(file: DataFile, definition: Definition, names: Collection[str]) -> DataFile:
    """Return a file's entry with statistics of only some columns and their nested fields."""
    if file.stats is None:
        return file
    kept = {i for f in definition.schema if f.name in names for i in fields_below(f)}
    stats = replace(
        file.stats,
        minimum={i: v for i, v in file.stats.minimum.items() if i in kept},
        maximum={i: v for i, v in file.stats.maximum.items() if i in kept},
        nulls={i: v for i, v in file.stats.nulls.items() if i in kept},
    )
    return replace(file, stats=stats)


def _stats_columns(properties: Mapping[str, str]) -> tuple[str, ...] | None:
    text = properties.get(STATS_COLUMNS)
    if text is not None:
        return tuple(part.strip().strip("`") for part in text.split(",") if part.strip())
    text = properties.get(OUR_STATS_COLUMNS)
    return None if text is None else tuple(orjson.loads(text))


def stored_paths(file: DataFile) -> list[str]:
    """Return the paths of a data file and of the file with its deletion vector, if any."""
    vector = file.deletion_vector
    place = vector_path(vector) if vector else None
    return [file.path] if place is None else [file.path, place]


@dataclass
class _Waiting:
    """Rows of one partition that are not written yet."""

    values: Mapping[int, Value]
    rows: list[pa.Table] = field(default_factory=list)
    size: int = 0

    def add(self, part: pa.Table, size: int) -> None:
        if part.num_rows:
            self.rows.append(part)
            self.size += size

    def clear(self) -> None:
        self.rows = []
        self.size = 0


_Partitions: TypeAlias = dict[tuple[tuple[int, Value], ...], _Waiting]


def _total_size(waiting: _Partitions) -> int:
    return sum(entry.size for entry in waiting.values())


def as_stored(rows: pa.Table, definition: Definition, stored: Definition) -> pa.Table:
    """Return rows under the column names and types that files use."""
    names = {f.name: stored.schema.by_id[f.id].name for f in definition.schema}
    fields = [stored.schema.arrow.field(names[n]) for n in rows.column_names]
    return relabelled_rows(rows, pa.schema(fields))


def _either(properties: Mapping[str, str], *names: str) -> str | None:
    """Return the value of the first of `names` that is set; None if none is."""
    return next((properties[n] for n in names if n in properties), None)
