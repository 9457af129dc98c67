"""Reads keys from data files: their hashes, and the rows that have given keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakeward.context import LakeContext
from lakeward.engines.arrow.key_hash import Hashes, key_hashes
from lakeward.engines.arrow.row_groups import POSITION
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.file import DataFile, LoggedFile
from lakeward.read.scan import read_files
from lakeward.write.stage.checks import matching

PATH: Final = "\0path"
_AT_ONCE: Final = 8


@dataclass(frozen=True)
class KeyReader:
    """Reads some columns of the data files of a table."""

    context: LakeContext
    head: Head
    definition: Definition
    columns: tuple[str, ...]

    def hashes(self, file: LoggedFile) -> Hashes:
        """Return the hashes of a file's keys, without deleted rows and keys with nulls."""
        found = []
        for rows in self._read(file):
            hashes, whole = key_hashes(rows.columns)
            found.append(hashes if whole.all() else hashes[whole])
        return np.concatenate(found) if found else np.empty(0, dtype=np.uint64)

    def all_hashes(self, files: Sequence[LoggedFile]) -> Iterator[tuple[str, Hashes]]:
        """Yield the path of each file and the hashes of its keys, deleted rows included."""
        whole = [replace(f, file=undeleted(f.file)) for f in files]
        if len(whole) < _AT_ONCE:
            yield from ((f.path, self.hashes(f)) for f in whole)
            return
        with ThreadPoolExecutor(_AT_ONCE if self.context.storage.is_remote else 2) as pool:
            paths = (f.path for f in whole)
            yield from zip(paths, pool.map(self.hashes, whole), strict=True)

    def rows(self, files: Iterable[LoggedFile], wanted: Hashes | None = None) -> pa.Table:
        """Return the keys whose hashes are in `wanted`, or all, with `PATH` and `POSITION`.

        Keys with nulls are left out.
        """

        def has(rows: pa.Table) -> pa.Table:
            hashes, whole = key_hashes(rows.select(self.columns).columns)
            if wanted is not None:
                whole &= np.isin(hashes, wanted)
            return rows.filter(pa.array(whole))

        return self._chosen(files, has)

    def at(self, file: LoggedFile, positions: NDArray[np.int64]) -> pa.Table:
        """Return the columns of the rows at `positions` of a file, which are ascending."""
        reader = read_files(
            self.context.storage,
            self.head,
            self.definition,
            [file],
            columns=self.columns,
            numbered=True,
            among=positions.tolist(),
        )
        rows = reader.read_all()
        there = np.isin(rows[POSITION].to_numpy(), positions)
        return rows.filter(pa.array(there)).sort_by(POSITION).drop_columns([POSITION])

    def matching(
        self, files: Iterable[LoggedFile], predicate: pc.Expression, what: str
    ) -> pa.Table:
        """Return the rows for which a predicate is true, with `PATH` and `POSITION`."""
        return self._chosen(files, lambda rows: matching(rows, predicate, what))

    def _chosen(
        self, files: Iterable[LoggedFile], choose: Callable[[pa.Table], pa.Table]
    ) -> pa.Table:
        parts = []
        for file in files:
            for rows in self._read(file, numbered=True):
                some = choose(rows)
                if some.num_rows:
                    path = pa.repeat(pa.scalar(file.path), some.num_rows)
                    parts.append(some.append_column(PATH, path))
        if parts:
            return pa.concat_tables(parts)
        schema = self.definition.schema.arrow
        fields = [schema.field(name) for name in self.columns]
        return pa.schema(
            [*fields, pa.field(POSITION, pa.int64()), pa.field(PATH, pa.string())]
        ).empty_table()

    def _read(self, file: LoggedFile, *, numbered: bool = False) -> Iterator[pa.Table]:
        reader = read_files(
            self.context.storage,
            self.head,
            self.definition,
            [file],
            columns=self.columns,
            numbered=numbered,
        )
        for batch in reader:
            yield pa.Table.from_batches([batch])


def undeleted(file: DataFile) -> DataFile:
    """Return a file without its deletion vector, so that deleted rows are read too."""
    return file if file.deletion_vector is None else replace(file, deletion_vector=None)


def logged(change_files: Iterable[DataFile], version: int) -> list[LoggedFile]:
    """Return files as those that `version` adds, in order."""
    return [LoggedFile(f, version, n) for n, f in enumerate(change_files)]
