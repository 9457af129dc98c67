"""Reads delete files of Iceberg tables.

A position delete file lists deleted rows by their positions. An equality delete file deletes the
rows whose values in the file's key columns equal those of one of its rows; null equals null, and
NaN equals NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.parquet as pq

from lakeward.engines.arrow.by_id import FileShape, Hints, converted
from lakeward.model.file import LoggedFile
from lakeward.model.schema import Schema
from lakeward.model.types import Field

Deletes: TypeAlias = Sequence[tuple[str, tuple[int, ...]]]
"""The paths of equality delete files, each with the ids of its key fields."""
Equality: TypeAlias = Callable[[LoggedFile], Deletes]
"""Returns the equality delete files that apply to a data file."""
Keys: TypeAlias = Mapping[tuple[int, ...], list[pa.Table]]
"""Tables of deleted keys by the ids of the key fields; the names of columns are field ids."""

_KEPT: Final = 64
"""How many delete files are kept in memory: a delete file may apply to many data files."""


class EqualityDeletes:
    """Reads the equality delete files of one table."""

    def __init__(self, filesystem: pa.fs.FileSystem, schema: Schema, hints: Hints) -> None:
        self._filesystem = filesystem
        self._schema = schema
        self._hints = hints
        self._fields = {f.id: f for f in schema.walk()}
        self._read: dict[str, pa.Table] = {}

    def keys(self, deletes: Deletes) -> dict[tuple[int, ...], list[pa.Table]]:
        """Return the deleted keys of some delete files, by the ids of the key fields."""
        out: dict[tuple[int, ...], list[pa.Table]] = {}
        for path, ids in deletes:
            out.setdefault(ids, []).append(self._table(path, ids))
        return out

    def values(self, rows: pa.RecordBatch | pa.Table, shape: FileShape, number: int) -> Any:
        """Return the values of a field (by id) in the table's type; None if there is none."""
        path = shape.find(number)
        if path is None:
            return None
        found = rows.column(path[0])
        if isinstance(found, pa.ChunkedArray):
            found = found.combine_chunks()
        for name in path[1:]:
            found = pc.struct_field(found, name)
        field = self._fields.get(number)
        return found if field is None else converted(found, found.type, field.type, {})

    def field(self, number: int) -> Field | None:
        """Return the table's field of an id; None if it was dropped."""
        return self._fields.get(number)

    def _table(self, path: str, ids: tuple[int, ...]) -> pa.Table:
        if path not in self._read:
            found = pq.read_table(path, filesystem=self._filesystem, partitioning=None)
            shape = FileShape(found.schema, self._schema, self._hints)
            columns = {str(i): self.values(found, shape, i) for i in ids}
            known = {n: pa.nulls(found.num_rows) if c is None else c for n, c in columns.items()}
            while len(self._read) >= _KEPT:
                del self._read[next(iter(self._read))]
            self._read[path] = pa.table(known)
        return self._read[path]


def without_keys(rows: pa.Table, keys: pa.Table) -> pa.Table:
    """Return the rows whose values, in the columns of `keys`, are not among the keys."""
    codes = np.zeros(rows.num_rows + keys.num_rows, dtype=np.int64)
    for name in keys.column_names:
        ours = rows[name].combine_chunks()
        theirs = keys[name].combine_chunks()
        if pa.types.is_null(theirs.type):
            theirs = pa.nulls(len(theirs), ours.type)
        if ours.type != theirs.type:
            ours = ours.cast(theirs.type)
        encoded = pa.concat_arrays([ours, theirs]).dictionary_encode(null_encoding="encode")
        column = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        _, codes = np.unique(codes * (len(encoded.dictionary) + 1) + column, return_inverse=True)
    gone = np.isin(codes[: rows.num_rows], codes[rows.num_rows :])
    return rows.filter(pa.array(~gone))


def deleted_positions(filesystem: pa.fs.FileSystem, path: str, of: str) -> Any:
    """Return the positions of the data file `of` that a position delete file lists."""
    found = pq.read_table(
        path,
        columns=["pos"],
        filters=pc.field("file_path") == of,
        filesystem=filesystem,
        partitioning=None,
    )
    return found["pos"].cast(pa.uint64()).to_numpy()
