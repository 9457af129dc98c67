"""Rows from Parquet files: only the files of a plan, only the columns and rows asked for.

Files hold strings that repeat as a dictionary and positions in it. Reading such a column as what it
is and spelling it out afterwards takes about half as long as reading it as strings, so that is how
large scans read it; the rows are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs
import pyarrow.parquet as pq

from lakeward.engines.arrow.encoding import has_dictionary
from lakeward.engines.arrow.expression import to_arrow
from lakeward.engines.arrow.parquet import stored_field_type
from lakeward.errors import FileMissing, InvalidExpression, LakewardError, StorageError
from lakeward.model.definition import Definition
from lakeward.model.expression import Expression
from lakeward.model.expression import columns as columns_of
from lakeward.model.file import LoggedFile, is_full
from lakeward.model.schema import Schema
from lakeward.model.types import Field
from lakeward.model.values import Value, from_neutral

_BATCH_ROWS: Final = 131_072
_NOT_COMPUTED: Final = ("overflow", "divide by zero", "Failed to parse", "would lose", "truncated")
"""How Arrow words its failures to compute an expression, which are no fault of a file."""
_LARGE: Final = 8 * 2**20
"""Bytes from which on a look into a footer costs nothing beside the scan."""


def scan(
    files: Sequence[LoggedFile],
    definition: Definition,
    *,
    filesystem: pa.fs.FileSystem,
    directory: str,
    columns: Sequence[str] | None = None,
    where: Expression | None = None,
    pre_buffer: bool = False,
) -> pa.RecordBatchReader:
    """The rows of files, in the order of the files.

    Args:
        files: What to read.
        definition: Whose schema the rows get; columns that a file lacks are null.
        filesystem: Where the files are.
        directory: What their paths are relative to.
        columns: Names, in the order wanted; all when None.
        where: Keeps rows for which it is true.
        pre_buffer: Fetch what is near each other in a file at once: for files that are far away.
    """
    schema = definition.schema
    names = list(schema.names if columns is None else columns)
    wanted = pa.schema([schema.arrow.field(n) for n in names])
    paths = [f.path if is_full(f.path) else f"{directory}/{f.path}" for f in files]
    try:
        repeating = _repeating(files, paths, filesystem, _candidates(definition, names, where))
        dataset = ds.FileSystemDataset.from_paths(
            paths,
            schema=_stored(schema, repeating),
            format=_format(repeating, pre_buffer=pre_buffer),
            filesystem=filesystem,
            partitions=[_partition(f, definition) for f in files],
        )
        scanner = dataset.scanner(
            columns={n: _spelled_out(schema, n) if n in repeating else pc.field(n) for n in names},
            filter=None if where is None else to_arrow(where),
            use_threads=True,
            batch_size=_BATCH_ROWS,
        )
        # Not `to_reader`, which keeps Python to itself while files are opened: one that is opened
        # by Python, and is missing, would never get to say so.
        batches = scanner.to_batches()
    except (FileNotFoundError, pa.ArrowException, OSError) as error:
        raise _failed(error) from error
    return _plain(wanted, batches)


def _plain(wanted: pa.Schema, source: Iterator[pa.RecordBatch]) -> pa.RecordBatchReader:
    plain = pa.schema([pa.field(f.name, f.type, f.nullable) for f in wanted])

    def batches() -> object:
        try:
            for batch in source:
                if batch.schema.equals(plain):
                    yield batch
                else:
                    yield pa.RecordBatch.from_arrays(
                        [c.cast(f.type) for c, f in zip(batch.columns, plain, strict=True)],
                        schema=plain,
                    )
        except (FileNotFoundError, pa.ArrowException, OSError) as error:
            raise _failed(error) from error

    return pa.RecordBatchReader.from_batches(plain, batches())


def _candidates(
    definition: Definition, names: Sequence[str], where: Expression | None
) -> list[str]:
    """Strings that are only passed on: row groups are skipped by bounds of plain columns alone."""
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
    """Columns that are dictionaries in the largest file, and so probably in the others."""
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


def _format(repeating: frozenset[str], *, pre_buffer: bool) -> ds.ParquetFileFormat:
    return ds.ParquetFileFormat(
        read_options=ds.ParquetReadOptions(dictionary_columns=sorted(repeating)),
        default_fragment_scan_options=ds.ParquetFragmentScanOptions(pre_buffer=pre_buffer),
    )


def _partition(file: LoggedFile, definition: Definition) -> pc.Expression:
    out = pc.scalar(True)
    for field_id, value in file.partition.items():
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
    return column == pa.scalar(from_neutral(field.type, value), stored_field_type(field))


def _failed(error: BaseException) -> LakewardError:
    if isinstance(error, pa.ArrowInvalid) and any(sign in str(error) for sign in _NOT_COMPUTED):
        what = f"The condition cannot be computed for a row: {error}."
        return InvalidExpression(what, hint="Use a wider type, or leave such rows out first.")
    if isinstance(error, FileNotFoundError):
        what = f"A data file of the version is missing: {error}."
        return FileMissing(what, hint="`lakeward doctor` lists what is missing.")
    what = f"A data file could not be read: {error}."
    return StorageError(what, hint="`lakeward doctor` checks the files.")
