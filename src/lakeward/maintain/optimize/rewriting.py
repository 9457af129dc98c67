"""Rewrites the rows of groups of files, in a layout, as files of about the target size.

The rows do not change. If the number of rows written for a group differs from that in the log, an
error is raised and nothing is committed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Final, TypeVar

import pyarrow as pa

from lakeward.engines.arrow.clustering import (
    Buckets,
    Curve,
    Lexical,
    Order,
    file_groups,
    sample_of,
    sorted_rows,
)
from lakeward.engines.arrow.packing import packed
from lakeward.engines.arrow.parquet import columns_of
from lakeward.engines.arrow.row_groups import POSITION
from lakeward.engines.arrow.whole_files import whole_file
from lakeward.errors import CorruptTable, StorageError
from lakeward.formats.registry import format_of
from lakeward.maintain.optimize.choice import Group
from lakeward.model.definition import Definition
from lakeward.model.file import DataFile, LoggedFile, is_full
from lakeward.model.layout import Layout, LayoutKind
from lakeward.model.steps import reach
from lakeward.model.types import Primitive
from lakeward.read.ahead import in_order
from lakeward.read.scan import read_files
from lakeward.write.plan.change import Move
from lakeward.write.rows.row_ids import KeptIds, unhidden
from lakeward.write.stage.stager import Stager, as_stored

T = TypeVar("T")
R = TypeVar("R")
_THREADS: Final = 2
"""The most groups that are packed at a time, and files of a clustered group written at a time."""
_CLUSTERED_ROWS: Final = 131_072
"""The most rows of a row group of clustered files; small, because readers can skip row groups."""
_FLOATS: Final = (Primitive("float"), Primitive("double"))
_WHOLE_BYTES: Final = 2 * 2**20
"""The most bytes of a file that is read with one request."""
_PIECE_BYTES: Final = 2 * _WHOLE_BYTES
_PIECE_FILES: Final = 32
"""The most small files that are read as one table, with at most `_PIECE_BYTES` bytes in all."""
_IN_MEMORY: Final = 4
"""The assumed size of rows in memory, as a multiple of their size on disk."""


@dataclass(frozen=True)
class Rewriter:
    """Rewrites groups of files of one table; rows keep their ids."""

    stager: Stager
    layout: Layout
    target: int

    @cached_property
    def _ids(self) -> KeptIds:
        return KeptIds.of(self.stager.storage, self.stager.head, self.stager.definition)

    def moves(self, groups: Sequence[Group]) -> list[Move]:
        """Rewrite groups of files, several at a time; return the old and new files of each."""
        reach("move.read")
        one = self._pack if self.layout.kind is LayoutKind.PACK else self._cluster
        return list(_each(one, groups))

    def _pack(self, group: Group) -> Move:
        return self._moved(group, self._write(group, self._packable(group.files)))

    def _packable(self, files: Sequence[LoggedFile]) -> Iterator[pa.Table]:
        """Yield rows under the column names of files; read files whole if all of them are small."""
        plain = not self._ids.names and all(f.file.deletion_vector is None for f in files)
        if not plain or max(f.size for f in files) > _WHOLE_BYTES:
            return self._as_stored(files)
        return in_order(
            _pieces(files), self._whole, lambda piece: _IN_MEMORY * sum(f.size for f in piece)
        )

    def _whole(self, files: Sequence[LoggedFile]) -> Iterator[pa.Table]:
        """Yield the rows of small files as one table; convert those with other columns."""
        found: list[pa.Table] = []
        for file in files:
            rows = self._one_whole(file)
            found += self._as_stored([file]) if rows is None else [rows]
        if found:
            yield pa.concat_tables(found)

    def _one_whole(self, file: LoggedFile) -> pa.Table | None:
        stager, schema = self.stager, columns_of(self._stored).schema
        by_id = format_of(stager.head).finds_by_id(stager.definition)
        try:
            return whole_file(stager.storage.read(self._place(file)), schema, by_id=by_id)
        except (StorageError, OSError, pa.ArrowException):
            # The ordinary way reports what is wrong with the file.
            return None

    def _place(self, file: LoggedFile) -> str:
        stager = self.stager
        if is_full(file.path):
            return stager.storage.path_of(file.path)
        return f"{stager.head.location}/{file.path}"

    def _as_stored(self, files: Sequence[LoggedFile]) -> Iterator[pa.Table]:
        """Yield rows under the column names that files use."""
        own, stored = self._ids.definition, self._stored
        for batch in self._rows(files):
            rows = pa.Table.from_batches([batch])
            yield rows if stored is own else as_stored(rows, own, stored)

    @cached_property
    def _stored(self) -> Definition:
        return format_of(self.stager.head).stored(self._ids.definition)

    def _cluster(self, group: Group) -> Move:
        columns = list(self.layout.columns)
        count = sum(f.file.logged_rows for f in group.files)
        keys = self._rows(group.files, columns)
        with keys:
            sample = sample_of(keys, count, keys.schema)
        order = self._order(sample)
        files = -(-group.bytes // self.target)
        with closing(Buckets.of(order, sample, group.bytes * _IN_MEMORY, files)) as buckets:
            with self._rows(group.files) as reader:
                buckets.deal(pa.Table.from_batches([b]) for b in reader)
            held = sum(buckets.size(n) for n in range(buckets.count))
            runs = file_groups(buckets, group.bytes / max(held, 1), self.target)
            write = partial(self._write_run, group, buckets)
            written = [file for files in _each(write, runs) for file in files]
        return self._moved(group, written)

    def _write_run(self, group: Group, buckets: Buckets, numbers: Iterable[int]) -> list[DataFile]:
        rows = sorted_rows(buckets, numbers)
        if self._stored is not self._ids.definition:
            own = self._ids.definition
            rows = (as_stored(table, own, self._stored) for table in rows)
        return self._write(group, rows)

    def _order(self, sample: pa.Table) -> Order:
        if self.layout.kind is LayoutKind.SORT:
            return Lexical(sample)
        return Curve(sample, is_hilbert=self.layout.kind is LayoutKind.HILBERT)

    def _rows(
        self, files: Sequence[LoggedFile], columns: Sequence[str] | None = None
    ) -> pa.RecordBatchReader:
        """Read rows of files; without `columns`, all columns of the files."""
        definition = self.stager.definition
        left_out = () if definition.whole_files else definition.partition_by
        stored = [f.name for f in definition.schema if f.id not in left_out]
        names = stored if columns is None else columns
        if columns is None and self._ids.names:
            return self._with_ids(files, names)
        return read_files(self.stager.storage, self.stager.head, definition, files, columns=names)

    def _with_ids(self, files: Sequence[LoggedFile], names: Sequence[str]) -> pa.RecordBatchReader:
        """Read rows of files with the hidden columns of row ids."""
        ids, stager = self._ids, self.stager
        wanted = [*names, *ids.names]

        def batches() -> Iterator[pa.RecordBatch]:
            for file in files:
                with read_files(
                    stager.storage,
                    stager.head,
                    ids.definition,
                    [file],
                    columns=wanted,
                    numbered=True,
                ) as reader:
                    for batch in reader:
                        rows = pa.Table.from_batches([batch])
                        places = rows[POSITION].to_numpy()
                        rows = ids.filled(rows.drop_columns([POSITION]), file, places)
                        yield from rows.combine_chunks().to_batches()

        schema = pa.schema([ids.definition.schema.to_arrow().field(n) for n in wanted])
        return pa.RecordBatchReader.from_batches(schema, batches())

    def _write(self, group: Group, rows: Iterable[pa.Table]) -> list[DataFile]:
        stager, stored = self.stager, self._stored
        options = stager.options
        if self.layout.kind is not LayoutKind.PACK:
            options = replace(options, row_group_rows=min(options.row_group_rows, _CLUSTERED_ROWS))
        out = []
        unordered = _unordered(group.files, stored)
        for file in packed(
            rows, stored, group.partition, options, size=self.target, unordered=unordered
        ):
            path = stager.new_path(group.partition)
            stager.create(path, file.data)
            reach("move.written")
            out.append(unhidden(replace(file.file, path=path)))
        return out

    def _moved(self, group: Group, written: Sequence[DataFile]) -> Move:
        known = [f.file.live_rows for f in group.files]
        if None not in known and not self._has_equality_deletes(group):
            before, after = sum(n or 0 for n in known), sum(f.rows or 0 for f in written)
            if before != after:
                name = str(self.stager.head.name)
                what = f"Files of {name} have {after} rows, and its log says {before}."
                hint = "Nothing was rewritten. `lakeward doctor` checks the files."
                raise CorruptTable(what, hint=hint, table=name, file=group.files[0].path)
        return Move(tuple(group.files), tuple(written))

    def _has_equality_deletes(self, group: Group) -> bool:
        """Return whether a group may have equality deletes, whose rows the log does not count."""
        if not format_of(self.stager.head).columns_by_id:
            return False
        return any(f.file.deletion_vector is not None for f in group.files)


def _unordered(files: Sequence[LoggedFile], definition: Definition) -> list[str]:
    """Return the float columns that may contain NaN: a file without an upper bound may."""
    return [
        field.name
        for field in definition.schema
        if field.type in _FLOATS
        and field.id not in definition.partition_by
        and any(_may_have_nan(f, field.id) for f in files)
    ]


def _may_have_nan(file: LoggedFile, field_id: int) -> bool:
    stats = file.file.stats
    if stats is None:
        return True
    return field_id not in stats.maximum and stats.nulls.get(field_id) != file.rows


def _pieces(files: Sequence[LoggedFile]) -> Iterator[list[LoggedFile]]:
    """Yield lists of files to be read together, in the order of the files."""
    piece: list[LoggedFile] = []
    size = 0
    for file in files:
        if piece and (len(piece) == _PIECE_FILES or size + file.size > _PIECE_BYTES):
            yield piece
            piece, size = [], 0
        piece.append(file)
        size += file.size
    if piece:
        yield piece


def _each(do: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
    """Call a function for each item, several at a time; yield the results in order."""
    threads = min(len(items), os.cpu_count() or 1, _THREADS)
    if threads < 2:
        yield from map(do, items)
        return
    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(do, items)
