"""Reads Parquet files whose columns are found by field ids.

Files whose columns equal the table's are read by Arrow's own scan, many at once. Of other files the
columns are read unconverted and then converted; conditions are evaluated on the result.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs

from lakeward.engines.arrow.by_id import FileColumn, FileShape, Hints
from lakeward.engines.arrow.deletes import (
    Deletes,
    Equality,
    EqualityDeletes,
    Keys,
    without_keys,
)
from lakeward.engines.arrow.expression import to_arrow
from lakeward.engines.arrow.row_groups import POSITION, masked, parts_of
from lakeward.engines.arrow.source import Deleted, TableFiles
from lakeward.engines.arrow.values import arrow_value
from lakeward.model.definition import Definition
from lakeward.model.expressions.nodes import And, Column, Expression, conjuncts, walk, with_columns
from lakeward.model.expressions.nodes import columns as columns_of
from lakeward.model.file import LoggedFile
from lakeward.model.types import Field, stored_field_type
from lakeward.model.values import Value

_KEY: Final = "\0key "
"""The prefix of the names of temporary columns with which equality deletes are compared."""
_TOGETHER: Final = 256
"""How many files are opened before the first of them is read."""

Constants = Mapping[int, Value]
"""Values of columns that a file lacks, by field id, taken from its partition."""


@dataclass(frozen=True)
class Wanted:
    """What a scan reads of its files; the attributes are arguments of `scan`.

    `names` contains `POSITION` if positions are requested; delete files are read from `filesystem`.
    """

    definition: Definition
    names: Sequence[str]
    where: Expression | None
    hints: Hints
    deleted: Deleted
    filesystem: pa.fs.FileSystem
    equality: Equality | None = None
    among: Sequence[int] | None = None

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """The columns to read, including those of the condition."""
        used = frozenset[int]() if self.where is None else columns_of(self.where)
        schema = self.definition.schema
        return tuple(f for f in schema if f.name in self.names or f.id in used)

    @cached_property
    def deletes(self) -> EqualityDeletes:
        """The reader of equality delete files."""
        return EqualityDeletes(self.filesystem, self.definition.schema, self.hints)

    @cached_property
    def condition(self) -> Any:
        """The condition as an Arrow expression."""
        return None if self.where is None else to_arrow(self.where)


@dataclass(frozen=True, slots=True)
class _File:
    """An open file, with its columns and the equality deletes that apply to it.

    `constants` are the values of columns that the file lacks and its partition has. `is_plain`:
    Arrow's own scan can read the rows.
    """

    file: LoggedFile
    fragment: ds.ParquetFileFragment
    shape: FileShape
    constants: Constants
    equality: Deletes
    is_plain: bool

    @property
    def way(self) -> tuple[Any, ...]:
        """How the file is read; consecutive files with equal values are read together."""
        if self.is_plain:
            return (True, self.file.file.deletion_vector is not None)
        alone = self.constants or self.equality
        return (False, id(self.shape), self.file.path if alone else None)


def rows_by_id(
    source: TableFiles, files: Sequence[LoggedFile], wanted: Wanted
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of files, in the order of the files."""
    shapes = _Shapes(wanted)
    left = iter(files)
    while some := list(itertools.islice(left, _TOGETHER)):
        opened = map(shapes.opened, some, source.open(some))
        for way, run in itertools.groupby(opened, lambda f: f.way):
            read = _plain if way[0] else _projected
            yield from read(source, list(run), wanted)


class _Shapes:
    """The different schemas of a scan's files; most files have the schema of the one before."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._known: list[FileShape] = []

    def opened(self, file: LoggedFile, fragment: ds.ParquetFileFragment) -> _File:
        """Return an open file with its shape, constants and equality deletes."""
        shape = self._of(fragment.physical_schema)
        outside = self._partition(file)
        columns = [shape.column(f) for f in self._wanted.fields if f.id not in outside]
        lacking = {c.field.id for c in columns if c.source is None}
        equality: Deletes = ()
        if file.file.deletion_vector is not None and self._wanted.equality is not None:
            equality = self._wanted.equality(file)
            lacking |= {i for _, ids in equality for i in ids if shape.find(i) is None}
        constants = _constants(file, self._wanted.definition, lacking)
        is_plain = not constants and not equality and all(c.is_plain for c in columns)
        if not is_plain:
            constants |= outside
        return _File(file, fragment, shape, constants, equality, is_plain)

    def _partition(self, file: LoggedFile) -> dict[int, Value]:
        """Return the values of partition columns that the table's files do not contain."""
        definition = self._wanted.definition
        if definition.whole_files or not file.partition:
            return {}
        known = definition.schema.current_values(file.partition)
        return {own_id: value for own_id, value in known.items() if own_id > 0}

    def _of(self, physical: pa.Schema) -> FileShape:
        for shape in reversed(self._known):
            if shape.physical.equals(physical, check_metadata=True):
                return shape
        self._known.append(FileShape(physical, self._wanted.definition.schema, self._wanted.hints))
        return self._known[-1]


def _plain(source: TableFiles, run: Sequence[_File], wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """Yield rows of files with the table's columns: all files with deleted rows, or all without."""
    files, fragments = [f.file for f in run], [f.fragment for f in run]
    names, where = wanted.names, wanted.where
    if run[0].file.file.deletion_vector is None and POSITION not in names:
        return source.filtered(files, names, where, fragments)
    deleted = partial(_positions, wanted)
    return source.masked(files, names, where, deleted, wanted.among, fragments)


def _projected(
    source: TableFiles, run: Sequence[_File], wanted: Wanted
) -> Iterator[pa.RecordBatch]:
    """Yield rows of files of one shape, with each column converted to the table's."""
    shape, constants = run[0].shape, run[0].constants
    columns = [shape.column(f) for f in wanted.fields]
    condition = _by_statistics(wanted.where, shape)
    fragments = [f.fragment for f in run]
    skipping = [condition] * len(run)
    parts = parts_of(fragments, shape.physical, skipping, threads=False, among=wanted.among)
    keys = wanted.deletes.keys(run[0].equality)
    paths = [shape.find(i) for ids in keys for i in ids]
    needed = [*(c.source for c in columns if c.source), *(path[0] for path in paths if path)]
    stored = list(dict.fromkeys(needed))
    rows = masked(
        source.stored([p.fragment for p in parts if p.spans], shape.physical, stored),
        parts,
        [
            _positions(wanted, f.file) if p.spans else array("Q")
            for f, p in zip(run, parts, strict=True)
        ],
        numbered=True,
    )
    for batch in rows:
        made = {c.field.name: _made(batch, c, constants) for c in columns}
        table = pa.table({**made, POSITION: batch.column(POSITION)})
        if keys:
            table = _undeleted(table, batch, run[0], wanted, keys)
        if wanted.condition is not None:
            table = table.filter(wanted.condition)
        yield from table.select(wanted.names).to_batches()


def _undeleted(
    table: pa.Table, batch: pa.RecordBatch, file: _File, wanted: Wanted, keys: Keys
) -> pa.Table:
    """Return the rows without those that equality deletes delete.

    `batch` has the same rows with the columns of the file.
    """
    rows = table
    for number in dict.fromkeys(i for ids in keys for i in ids):
        name = f"{_KEY}{number}"
        rows = rows.append_column(name, _key_values(batch, file, wanted, number))
    for ids, tables in keys.items():
        for found in tables:
            rows = without_keys(rows, found.rename_columns([f"{_KEY}{i}" for i in ids]))
    return rows.select(table.column_names)


def _key_values(batch: pa.RecordBatch, file: _File, wanted: Wanted, number: int) -> pa.Array:
    found = wanted.deletes.values(batch, file.shape, number)
    if found is not None:
        return found
    field = wanted.deletes.field(number)
    if field is None:
        return pa.nulls(batch.num_rows)
    value = file.constants.get(number, wanted.hints.defaults.get(number))
    return pa.repeat(arrow_value(field.type, value), len(batch))


def _positions(wanted: Wanted, file: LoggedFile) -> array[int]:
    return array("Q") if file.file.deletion_vector is None else wanted.deleted(file)


def _made(batch: pa.RecordBatch, column: FileColumn, constants: Constants) -> pa.Array:
    field = column.field
    if field.id in constants:
        return pa.repeat(arrow_value(field.type, constants[field.id]), batch.num_rows)
    return column.convert(batch.column(POSITION if column.source is None else column.source))


def _constants(
    file: LoggedFile, definition: Definition, lacking: Collection[int]
) -> dict[int, Value]:
    """Return values of columns that a file lacks and that are identity partition values of it."""
    if not lacking:
        return {}
    out: dict[int, Value] = {}
    for own_id, value in file.partition.items():
        derived = definition.derived.get(own_id)
        if own_id > 0 or derived is None or derived.transform.name != "identity":
            continue
        if derived.source in lacking and value is not None:
            out[derived.source] = value
    return out


def _by_statistics(where: Expression | None, shape: FileShape) -> pc.Expression | None:
    """Return the part of a condition that a file's statistics can decide, with the file's names.

    It uses only columns that the file has in the table's type, and no floats: statistics leave NaN
    out.
    """

    def is_usable(term: Expression) -> bool:
        return all(_is_comparable(n, shape) for n in walk(term) if isinstance(n, Column))

    def renamed(column: Column) -> Column:
        name = shape.column(column.field).source or column.field.name
        return Column(replace(column.field, name=name))

    terms = () if where is None else tuple(t for t in conjuncts(where) if is_usable(t))
    if not terms:
        return None
    whole = terms[0] if len(terms) == 1 else And(terms)
    return to_arrow(with_columns(whole, renamed))


def _is_comparable(column: Column, shape: FileShape) -> bool:
    found = shape.column(column.field)
    if column.path or found.source is None:
        return False
    kind = shape.physical.field(found.source).type
    return kind == stored_field_type(column.field) and not pa.types.is_floating(kind)
