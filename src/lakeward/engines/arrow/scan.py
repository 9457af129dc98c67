"""Rows from Parquet files: only the files of a plan, only the columns and rows asked for."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs

from lakeward.engines.arrow.parquet import stored_field_type
from lakeward.errors import FileMissing, StorageError
from lakeward.model.definition import Definition
from lakeward.model.file import LoggedFile
from lakeward.model.types import Field
from lakeward.model.values import Value, from_neutral


def scan(
    files: Sequence[LoggedFile],
    definition: Definition,
    *,
    filesystem: pa.fs.FileSystem,
    directory: str,
    columns: Sequence[str] | None = None,
    where: pc.Expression | None = None,
) -> pa.RecordBatchReader:
    """The rows of files, in the order of the files.

    Args:
        files: What to read.
        definition: Whose schema the rows get; columns that a file lacks are null.
        filesystem: Where the files are.
        directory: What their paths are relative to.
        columns: Names, in the order wanted; all when None.
        where: Keeps rows for which it is true.
    """
    schema = definition.schema
    names = list(schema.names if columns is None else columns)
    wanted = pa.schema([schema.arrow.field(n) for n in names])
    stored = pa.schema([pa.field(f.name, stored_field_type(f)) for f in schema])
    dataset = ds.FileSystemDataset.from_paths(
        [f.path if f.path.startswith("/") else f"{directory}/{f.path}" for f in files],
        schema=stored,
        format=_format(),
        filesystem=filesystem,
        partitions=[_partition(f, definition) for f in files],
    )
    try:
        scanner = dataset.scanner(columns=names, filter=where, use_threads=True, batch_size=131_072)
        reader = scanner.to_reader()
    except (FileNotFoundError, pa.ArrowException, OSError) as error:
        raise _failed(error) from error
    return _plain(wanted, reader)


def _plain(wanted: pa.Schema, reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    plain = pa.schema([pa.field(f.name, f.type, f.nullable) for f in wanted])

    def batches() -> object:
        try:
            for batch in reader:
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


def _format() -> ds.ParquetFileFormat:
    return ds.ParquetFileFormat(
        default_fragment_scan_options=ds.ParquetFragmentScanOptions(pre_buffer=False)
    )


def _partition(file: LoggedFile, definition: Definition) -> pc.Expression:
    out = pc.scalar(True)
    for field_id, value in file.partition.items():
        field = definition.schema.by_id[field_id]
        out = out & _equals(field, value)
    return out


def _equals(field: Field, value: Value) -> pc.Expression:
    column = pc.field(field.name)
    if value is None:
        return column.is_null()
    return column == pa.scalar(from_neutral(field.type, value), stored_field_type(field))


def _failed(error: BaseException) -> StorageError:
    if isinstance(error, FileNotFoundError):
        what = f"A data file of the version is missing: {error}."
        return FileMissing(what, hint="`lakeward doctor` lists what is missing.")
    what = f"A data file could not be read: {error}."
    return StorageError(what, hint="`lakeward doctor` checks the files.")
