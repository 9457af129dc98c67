"""Rows from Parquet files: only the files of a plan, only the columns and rows asked for."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.fs

from lakeward.engines.arrow.by_id import Hints
from lakeward.engines.arrow.deletes import Equality
from lakeward.engines.arrow.identified import Wanted, rows_by_id
from lakeward.engines.arrow.row_groups import POSITION
from lakeward.engines.arrow.source import Deleted, TableFiles
from lakeward.errors import FileMissing, InvalidExpression, LakewardError, StorageError
from lakeward.model.definition import Definition
from lakeward.model.expressions.nodes import Expression
from lakeward.model.file import LoggedFile

_NOT_COMPUTED: Final = ("overflow", "divide by zero", "Failed to parse", "would lose", "truncated")
"""How Arrow words its failures to compute an expression, which are no fault of a file."""
_TOGETHER: Final = 32
"""How many files with rows deleted in place are opened together."""


def scan(
    files: Sequence[LoggedFile],
    definition: Definition,
    *,
    filesystem: pa.fs.FileSystem,
    directory: str,
    columns: Sequence[str] | None = None,
    where: Expression | None = None,
    pre_buffer: bool = False,
    deleted: Deleted | None = None,
    hints: Hints | None = None,
    equality: Equality | None = None,
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
        deleted: Tells the rows that are deleted in place; None where no file has any.
        hints: Of the table's metadata, where columns are found by field ids; None for by names.
        equality: Tells the equality deletes of files; None where no file has any.
    """
    schema = definition.schema
    names = list(schema.names if columns is None else columns)
    wanted = pa.schema([schema.arrow.field(n) for n in names])
    try:
        source = TableFiles(definition, filesystem, directory, pre_buffer=pre_buffer)
        source.look(files, names, where)
        if hints is not None:
            asked = Wanted(definition, names, where, hints, deleted or _none, filesystem, equality)
            batches = rows_by_id(source, files, asked)
        elif deleted is None:
            batches = source.filtered(files, names, where)
        else:
            batches = _by_turns(source, files, names, where, deleted)
    except (FileNotFoundError, pa.ArrowException, OSError) as error:
        raise _failed(error) from error
    return _plain(wanted, batches)


def scan_numbered(
    file: LoggedFile,
    definition: Definition,
    *,
    filesystem: pa.fs.FileSystem,
    directory: str,
    columns: Sequence[str],
    where: Expression | None = None,
    pre_buffer: bool = False,
    deleted: array[int] | None = None,
    among: Sequence[int] | None = None,
    hints: Hints | None = None,
    equality: Equality | None = None,
) -> pa.RecordBatchReader:
    """The rows of a file, each with its position in it as a last column, `POSITION`.

    Args:
        file: What to read.
        definition: Whose schema the rows get.
        filesystem: Where the file is.
        directory: What its path is relative to.
        columns: Names, in the order wanted.
        where: Keeps rows for which it is true.
        pre_buffer: As for `scan`.
        deleted: Positions of rows that are deleted in place, ascending.
        among: Only row groups with one of these positions, ascending; None for all.
        hints: As for `scan`.
        equality: As for `scan`.
    """
    arrow = definition.schema.arrow
    fields = [*(arrow.field(n) for n in columns), pa.field(POSITION, pa.int64())]
    gone = array("Q") if deleted is None else deleted
    try:
        source = TableFiles(definition, filesystem, directory, pre_buffer=pre_buffer)
        source.look([file], columns, where)
        names = [*columns, POSITION]
        if hints is None:
            batches = source.masked([file], names, where, lambda _: gone, among)
        else:
            told = (lambda _: gone, filesystem, equality, among)
            batches = rows_by_id(source, [file], Wanted(definition, names, where, hints, *told))
    except (FileNotFoundError, pa.ArrowException, OSError) as error:
        raise _failed(error) from error
    return _plain(pa.schema(fields), batches)


def _none(file: LoggedFile) -> array[int]:  # noqa: ARG001  as `Deleted`
    return array("Q")


def _by_turns(
    source: TableFiles,
    files: Sequence[LoggedFile],
    names: Sequence[str],
    where: Expression | None,
    deleted: Deleted,
) -> Iterator[pa.RecordBatch]:
    """Files with rows deleted in place, and files without, each read as is best for them."""
    for is_masked, run in itertools.groupby(files, lambda f: f.file.deletion_vector is not None):
        if not is_masked:
            yield from source.filtered(list(run), names, where)
            continue
        while some := list(itertools.islice(run, _TOGETHER)):
            yield from source.masked(some, names, where, deleted)


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


def _failed(error: BaseException) -> LakewardError:
    if isinstance(error, pa.ArrowInvalid) and any(sign in str(error) for sign in _NOT_COMPUTED):
        what = f"The condition cannot be computed for a row: {error}."
        return InvalidExpression(what, hint="Use a wider type, or leave such rows out first.")
    if isinstance(error, FileNotFoundError):
        what = f"A data file of the version is missing: {error}."
        return FileMissing(what, hint="`lakeward doctor` lists what is missing.")
    what = f"A data file could not be read: {error}."
    return StorageError(what, hint="`lakeward doctor` checks the files.")


def relabelled(source: pa.RecordBatchReader, schema: pa.Schema) -> pa.RecordBatchReader:
    """The same rows with the names of a schema, whose types are alike but for the names.

    Args:
        source: The rows.
        schema: As many columns, in the same order.
    """

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in source:
            if not batch.num_columns:
                yield batch
                continue
            columns = [_relabelled(c, f.type) for c, f in zip(batch.columns, schema, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _relabelled(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if not pa.types.is_nested(kind):
        return column
    if column.offset:
        column = pa.concat_arrays([column, column.slice(0, 0)])
    count, buffers = len(column), column.buffers()
    if pa.types.is_struct(kind):
        parts = [_relabelled(column.field(n), part.type) for n, part in enumerate(kind)]
        return pa.Array.from_buffers(kind, count, buffers[:1], children=parts)
    if pa.types.is_map(kind):
        pairs = [_relabelled(column.keys, kind.key_type), _relabelled(column.items, kind.item_type)]
        entries = pa.StructArray.from_arrays(pairs, fields=[kind.key_field, kind.item_field])
        return pa.Array.from_buffers(kind, count, buffers[:2], children=[entries])
    values = _relabelled(column.values, kind.value_type)
    return pa.Array.from_buffers(kind, count, buffers[:2], children=[values])
