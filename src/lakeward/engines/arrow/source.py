"""Opens a table's Parquet files and reads the row groups that may have rows for a condition.

In large scans, strings that are dictionary-encoded in files are read as dictionaries and decoded
afterwards, which takes about half the time.
"""

from __future__ import annotations

import itertools
import re
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs
import pyarrow.parquet as pq

from lakeward.engines.arrow.at_once import files_at_once
from lakeward.engines.arrow.expression import to_arrow
from lakeward.engines.arrow.file_access import NO_OPTIONS, ReadOptions
from lakeward.engines.arrow.parquet import has_dictionary
from lakeward.engines.arrow.row_groups import POSITION, complete, masked, parts_of
from lakeward.engines.arrow.values import arrow_value
from lakeward.model.definition import Definition
from lakeward.model.expressions.nodes import And, Expression, columns_in, conjuncts
from lakeward.model.expressions.nodes import columns as columns_of
from lakeward.model.file import LoggedFile, is_full
from lakeward.model.schema import Schema
from lakeward.model.types import Field, Primitive, stored_field_type
from lakeward.model.values import Value

_FLOATING: Final = (Primitive("float"), Primitive("double"))
_OWN_NAME: Final = re.compile(r"-(?!c000)[0-9a-f]{4}(\.[a-z0-9]+)?\.parquet\Z")
_BATCH_ROWS: Final = 131_072
_FEW: Final = 16
"""The footers of more files than this are read in several threads."""
_LARGE: Final = 8 * 2**20
"""Files of this many bytes or more in total are scanned so long that reading a footer is cheap."""
_SMALL: Final = 2**20
"""A single file of at most this many bytes is read without a scanner."""

Deleted: TypeAlias = Callable[[LoggedFile], "array[int]"]
"""Returns the positions of a file's deleted rows, ascending, as an array of type code `Q`."""


class TableFiles:
    """Opens and reads the files of a table."""

    def __init__(
        self,
        definition: Definition,
        filesystem: pa.fs.FileSystem,
        directory: str,
        *,
        is_remote: bool,
        options: ReadOptions,
    ) -> None:
        self._definition = definition
        self._filesystem = filesystem
        self._directory = directory
        self._is_remote = is_remote
        self._options = options
        self._repeating: frozenset[str] = frozenset()
        self._files_at_once = 1

    def look(
        self, files: Sequence[LoggedFile], names: Sequence[str], where: Expression | None
    ) -> None:
        """Choose the columns that are read as dictionaries, and how many files at a time."""
        candidates = _candidates(self._definition, names, where)
        paths = list(map(self._path, files))
        self._repeating = _repeating(files, paths, self._filesystem, candidates)
        self._files_at_once = files_at_once(files, self._definition.schema, names)

    def filtered(
        self,
        files: Sequence[LoggedFile],
        names: Sequence[str],
        where: Expression | None,
        opened: Sequence[ds.ParquetFileFragment] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Read rows for which the condition is true, of files without deleted rows."""
        if len(files) == 1 and where is None and opened is None:
            rows = self._small(files[0], names)
            if rows is not None:
                yield from rows.to_batches()
                return
        fragments = self._fragments(files) if opened is None else opened
        if where is None:
            yield from self._batches(fragments, names, None)
            return
        trusted = Trusted(where)
        skipping = self._skipping(files, fragments, trusted)
        for terms, run in itertools.groupby(zip(skipping, fragments, strict=True), lambda p: p[0]):
            these = [fragment for _, fragment in run]
            if trusted.is_all(terms):
                yield from self._batches(these, names, to_arrow(where))
                continue
            part = trusted.joined(terms)
            some = None if part is None else to_arrow(part)
            yield from self._kept(
                self._batches(these, self._read(names, where), some), names, where
            )

    def masked(
        self,
        files: Sequence[LoggedFile],
        names: Sequence[str],
        where: Expression | None,
        deleted: Deleted,
        among: Sequence[int] | None = None,
        opened: Sequence[ds.ParquetFileFragment] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Read files that have deletion vectors or position deletes, without the deleted rows."""
        fragments = self._fragments(files) if opened is None else opened
        conditions: list[pc.Expression | None] = [None] * len(files)
        if where is not None:
            trusted = Trusted(where)
            some = [trusted.joined(t) for t in self._skipping(files, fragments, trusted)]
            conditions = [None if s is None else to_arrow(s) for s in some]
        threads = self._is_remote
        parts = parts_of(fragments, self._stored, conditions, threads=threads, among=among)
        these = [p.fragment for p in parts if p.spans]
        rows = masked(
            self._batches(these, self._read(names, where), None),
            parts,
            [deleted(f) if p.spans else array("Q") for f, p in zip(files, parts, strict=True)],
            numbered=POSITION in names,
        )
        yield from self._kept(rows, names, where)

    def open(self, files: Sequence[LoggedFile]) -> list[ds.ParquetFileFragment]:
        """Open files and read their footers; return fragments, with which their rows are read."""
        if self._definition.whole_files:
            form = self._format
            found = [form.make_fragment(self._path(f), self._filesystem) for f in files]
        else:
            found = self._fragments(files)
        complete(found, threads=True)
        return found

    def stored(
        self,
        opened: Sequence[ds.ParquetFileFragment],
        schema: pa.Schema,
        names: Sequence[str],
    ) -> Iterator[pa.RecordBatch]:
        """Read columns of all rows of opened files, which all have this schema, unconverted."""
        return self._scanned(opened, schema, {n: pc.field(n) for n in names}, None)

    def _small(self, file: LoggedFile, names: Sequence[str]) -> pa.Table | None:
        """Read a small local file without a scanner, which takes longer than reading its rows.

        Returns None if a scanner is needed: the file is not small, its columns have other types
        than those of the table, or it has partition values, which a file may lack or contradict; or
        the reader has options.
        """
        if file.size > _SMALL or self._is_remote or file.partition or not names:
            return None
        if any("." in n for n in names) or self._options != NO_OPTIONS:
            return None
        wanted = self._stored
        try:
            with pq.ParquetFile(self._path(file), filesystem=self._filesystem) as opened:
                stored = opened.schema_arrow
                if opened.metadata.num_rows > _BATCH_ROWS or not all(
                    len(stored.get_all_field_indices(n)) == 1
                    and stored.field(n).type.equals(wanted.field(n).type)
                    for n in names
                ):
                    return None
                return opened.read(names, use_threads=False).select(names)
        except (OSError, pa.ArrowException):
            # The scanner's error names the file.
            return None

    def _fragments(self, files: Sequence[LoggedFile]) -> list[ds.ParquetFileFragment]:
        form, place = self._format, self._filesystem
        return [
            form.make_fragment(
                self._path(f), place, partition_expression=_partition(f, self._definition)
            )
            for f in files
        ]

    def _skipping(
        self,
        files: Sequence[LoggedFile],
        fragments: Sequence[ds.ParquetFileFragment],
        trusted: Trusted,
    ) -> list[tuple[int, ...]]:
        """Return for each file the terms of the condition by which row groups may be skipped."""
        stored = self._stored
        expected = {n: stored.field(n).type for n in trusted.columns}
        pairs = list(zip(files, fragments, strict=True))
        theirs = [fragment for file, fragment in pairs if not is_named_as_ours(file.path)]
        if theirs:
            complete(theirs, threads=self._is_remote or len(theirs) > _FEW)
        odd = {id(fragment): _odd(fragment.physical_schema, expected) for fragment in theirs}
        return [trusted.terms(file, odd.get(id(f), frozenset())) for file, f in pairs]

    def _read(self, names: Sequence[str], where: Expression | None) -> list[str]:
        """Return the columns to read: those that are requested, and those of the condition."""
        used = frozenset[int]() if where is None else columns_of(where)
        needed = [n for n in names if n != POSITION]
        needed += [f.name for f in self._definition.schema if f.id in used]
        return list(dict.fromkeys(needed))

    @staticmethod
    def _kept(
        batches: Iterator[pa.RecordBatch], names: Sequence[str], where: Expression | None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows for which a condition is true, with the requested columns."""
        condition = None if where is None else to_arrow(where)
        for batch in batches:
            kept = pa.Table.from_batches([batch])
            if condition is not None:
                kept = kept.filter(condition)
            yield from kept.select(names).to_batches()

    def _batches(
        self,
        fragments: Sequence[ds.ParquetFileFragment],
        names: Sequence[str],
        where: pc.Expression | None,
    ) -> Iterator[pa.RecordBatch]:
        schema, repeating = self._definition.schema, self._repeating
        columns = {n: _spelled_out(schema, n) if n in repeating else pc.field(n) for n in names}
        return self._scanned(fragments, self._stored, columns, where)

    def _scanned(
        self,
        fragments: Sequence[ds.ParquetFileFragment],
        schema: pa.Schema,
        columns: Mapping[str, pc.Expression],
        where: pc.Expression | None,
    ) -> Iterator[pa.RecordBatch]:
        """Read fragments in order, a limited number at a time."""
        for start in range(0, len(fragments), self._files_at_once):
            some = list(fragments[start : start + self._files_at_once])
            dataset = ds.FileSystemDataset(some, schema, self._format, self._filesystem)
            scanner = dataset.scanner(
                columns=columns,
                filter=where,
                use_threads=self._options.use_threads,
                batch_size=self._options.batch_size or _BATCH_ROWS,
            )
            # Not `to_reader`, which keeps Python to itself while files are opened: one that is
            # opened by Python, and is missing, would never get to say so.
            yield from scanner.to_batches()

    def _path(self, file: LoggedFile) -> str:
        if is_full(file.path) or not self._directory:
            return file.path
        return f"{self._directory}/{file.path}"

    @property
    def _stored(self) -> pa.Schema:
        return _stored(self._definition.schema, self._repeating)

    @property
    def _format(self) -> ds.ParquetFileFormat:
        return self._options.format(sorted(self._repeating), is_remote=self._is_remote)


class Trusted:
    """A condition, split into terms, and which of them may be used to skip row groups of a file.

    Arrow assumes that the bounds in a Parquet footer cover all values, and compares them as the
    types that the file was written with. Both can be wrong:

    - Most writers leave NaN out of the bounds. So if a column of a file may have a NaN, no row
      group may be skipped by a condition on that column, not even on NaN: Arrow replaces the column
      by a constant where both bounds are equal. The log has a maximum of a float column only where
      the column has no NaN.
    - A file may store a column as another type than the table's: delta-rs writes strings as
      views, others timestamps without their zone. Arrow converts the values, and cannot compare the
      bounds.
    """

    def __init__(self, where: Expression) -> None:
        self._terms = conjuncts(where)
        self._floats = [
            frozenset(c.leaf.id for c in columns_in(term) if c.type in _FLOATING)
            for term in self._terms
        ]
        self._names = [frozenset(c.field.name for c in columns_in(term)) for term in self._terms]
        self.columns = frozenset[str]().union(*self._names)

    def terms(self, file: LoggedFile, odd: frozenset[str] = frozenset()) -> tuple[int, ...]:
        """Return the indexes of usable terms; `odd` are columns of other types than the table's."""
        return tuple(
            n
            for n, floats in enumerate(self._floats)
            if all(_is_bounded(file, i) for i in floats) and not odd & self._names[n]
        )

    def is_all(self, terms: tuple[int, ...]) -> bool:
        """Return whether the terms are the whole condition."""
        return len(terms) == len(self._terms)

    def joined(self, terms: tuple[int, ...]) -> Expression | None:
        """Return the terms as one condition; None if there are none."""
        found = tuple(self._terms[n] for n in terms)
        return And(found) if len(found) > 1 else next(iter(found), None)


def is_named_as_ours(path: str) -> bool:
    """Return whether a file's name has Lakeward's form, so that its types are those of the log.

    If another writer uses that form, a condition on a column of another type fails; no row is lost.
    """
    return _OWN_NAME.search(path) is not None


def _is_bounded(file: LoggedFile, field_id: int) -> bool:
    stats = file.file.stats
    return field_id in file.partition or (stats is not None and field_id in stats.maximum)


def _candidates(
    definition: Definition, names: Sequence[str], where: Expression | None
) -> list[str]:
    """Return string columns without a condition: dictionaries have no bounds to skip row groups."""
    used = set(definition.partition_by)
    if where is not None:
        used |= columns_of(where)
    fields = [definition.schema.by_name[n] for n in names]
    # A dot in a name would make it a path.
    return [
        f.name for f in fields if str(f.type) == "string" and f.id not in used and "." not in f.name
    ]


def _repeating(
    files: Sequence[LoggedFile],
    paths: Sequence[str],
    filesystem: pa.fs.FileSystem,
    candidates: Sequence[str],
) -> frozenset[str]:
    """Return columns that are dictionary-encoded in the largest file, so probably in all."""
    if not candidates or sum(f.size for f in files) < _LARGE:
        return frozenset()
    largest = max(range(len(files)), key=lambda i: files[i].size)
    footer = pq.read_metadata(paths[largest], filesystem=filesystem)
    if not footer.num_row_groups:
        return frozenset()
    group = footer.row_group(0)
    chunks = {c.path_in_schema: c for c in map(group.column, range(group.num_columns))}
    return frozenset(n for n in candidates if n in chunks and has_dictionary(chunks[n]))


def _stored(schema: Schema, repeating: frozenset[str]) -> pa.Schema:
    types = {f.name: stored_field_type(f) for f in schema}
    types |= {n: pa.dictionary(pa.int32(), types[n]) for n in repeating}
    return pa.schema(list(types.items()))


def _spelled_out(schema: Schema, name: str) -> pc.Expression:
    return pc.field(name).cast(stored_field_type(schema.by_name[name]))


def _odd(physical: pa.Schema, expected: Mapping[str, pa.DataType]) -> frozenset[str]:
    """Return the columns that a file stores as another type than the expected one."""
    return frozenset(
        name
        for name, kind in expected.items()
        if physical.get_field_index(name) >= 0 and not physical.field(name).type.equals(kind)
    )


def _partition(file: LoggedFile, definition: Definition) -> pc.Expression:
    out = pc.scalar(True)
    for field_id, value in definition.schema.current_values(file.partition).items():
        derived = definition.derived.get(field_id)
        if field_id > 0:
            out = out & _equals(definition.schema.by_id[field_id], value)
        elif derived is not None and derived.transform.name == "identity":
            # Files that came from elsewhere may lack the column itself.
            out = out & _equals(definition.schema.by_id[derived.source], value)
    return out


def _equals(field: Field, value: Value) -> pc.Expression:
    column = pc.field(field.name)
    if value is None:
        return column.is_null()
    return column == arrow_value(field.type, value).cast(stored_field_type(field))
