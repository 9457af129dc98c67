"""Reads rows from Parquet files: the files of a plan, with the requested columns and rows."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.fs

from lakeward.engines.arrow.by_id import Hints
from lakeward.engines.arrow.deletes import Equality
from lakeward.engines.arrow.file_access import NO_OPTIONS, ReadOptions
from lakeward.engines.arrow.identified import Wanted, rows_by_id
from lakeward.engines.arrow.row_groups import POSITION
from lakeward.engines.arrow.source import Deleted, TableFiles
from lakeward.errors import FileMissing, InvalidExpression, LakewardError, StorageError
from lakeward.model.definition import Definition
from lakeward.model.expressions.nodes import Expression
from lakeward.model.file import LoggedFile

_NOT_COMPUTED: Final = ("overflow", "divide by zero", "Failed to parse", "would lose", "truncated")
"""Parts of Arrow's messages if an expression cannot be computed, which is no fault of a file."""
_TOGETHER: Final = 32
"""How many files with deletion vectors are opened together."""


def scan(
    files: Sequence[LoggedFile],
    definition: Definition,
    *,
    filesystem: pa.fs.FileSystem,
    directory: str,
    columns: Sequence[str] | None = None,
    where: Expression | None = None,
    is_remote: bool = False,
    options: ReadOptions | None = None,
    deletes_in: pa.fs.FileSystem | None = None,
    deleted: Deleted | None = None,
    hints: Hints | None = None,
    equality: Equality | None = None,
    numbered: bool = False,
    among: Sequence[int] | None = None,
) -> pa.RecordBatchReader:
    """Read the rows of files, in the order of the files.

    Args:
        files: The files to read.
        definition: The definition whose schema the rows get; columns that a file lacks are null.
        filesystem: Where the files are.
        directory: The directory to which their paths are relative; empty for the root.
        columns: Names of columns, in the order of the result; None for all.
        where: Only rows for which this condition is true.
        is_remote: Whether each request takes long, so that more is fetched at once.
        options: Options of the Parquet reader.
        deletes_in: Where equality delete files are; `filesystem` unless given.
        deleted: Returns the positions of a file's deleted rows; None if no file has any.
        hints: Hints from the table's metadata if columns are found by field ids; None if by names.
        equality: Returns the equality deletes of a file; None if no file has any.
        numbered: Add the position of each row in its file as a last column, `POSITION`.
        among: Only row groups with one of these positions, ascending; None for all.
    """
    schema = definition.schema
    names = list(schema.names if columns is None else columns)
    wanted = [schema.arrow.field(n) for n in names]
    gone = deleted or _none
    try:
        how = options or NO_OPTIONS
        source = TableFiles(definition, filesystem, directory, is_remote=is_remote, options=how)
        source.look(files, names, where)
        if numbered:
            names.append(POSITION)
            wanted.append(pa.field(POSITION, pa.int64()))
        if hints is not None:
            others = deletes_in or filesystem
            asked = Wanted(definition, names, where, hints, gone, others, equality, among)
            batches = rows_by_id(source, files, asked)
        elif numbered:
            batches = source.masked(files, names, where, gone, among)
        elif deleted is None:
            batches = source.filtered(files, names, where)
        else:
            batches = _by_turns(source, files, names, where, deleted)
    except (FileNotFoundError, pa.ArrowException, OSError) as error:
        raise failed(error) from error
    return _plain(pa.schema(wanted), batches)


def _none(file: LoggedFile) -> array[int]:  # noqa: ARG001  as `Deleted`
    return array("Q")


def _by_turns(
    source: TableFiles,
    files: Sequence[LoggedFile],
    names: Sequence[str],
    where: Expression | None,
    deleted: Deleted,
) -> Iterator[pa.RecordBatch]:
    """Yield rows of runs of files with deletion vectors, and of files without, in file order."""
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
            raise failed(error) from error

    return pa.RecordBatchReader.from_batches(plain, batches())


def failed(error: BaseException) -> LakewardError:
    """Return the error of the project for one that Arrow raises while it reads or filters."""
    if isinstance(error, pa.ArrowInvalid) and any(sign in str(error) for sign in _NOT_COMPUTED):
        what = f"The condition cannot be computed for a row: {error}."
        return InvalidExpression(what, hint="Use a wider type, or leave such rows out first.")
    if isinstance(error, FileNotFoundError):
        what = f"A data file of the version is missing: {error}."
        return FileMissing(what, hint="`lakeward doctor` lists what is missing.")
    what = f"A data file could not be read: {error}."
    return StorageError(what, hint="`lakeward doctor` checks the files.")
