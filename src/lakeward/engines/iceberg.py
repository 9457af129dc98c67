"""pyiceberg's own scan, for Iceberg files whose rows plain Parquet reading would get wrong.

It honours delete files, and finds columns by their ids where they were renamed or widened. Which
files are read is the log's business: what others expired from a table's metadata can still be read
as long as its files are there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.errors import FileMissing, LakewardError, MissingExtra, StorageError


@dataclass(frozen=True, slots=True)
class ScanFile:
    """A file to read.

    Attributes:
        path: Its full name, as its manifest spells it.
        size: In bytes.
        partition: Its partition values by the ids of the partition fields.
        deletes: The delete files that apply to it: paths, each with its format.
    """

    path: str
    size: int
    partition: Mapping[int, Any]
    deletes: Sequence[Mapping[str, str]]


def scan_iceberg(
    metadata: str,
    stored: Mapping[str, Any],
    files: Sequence[ScanFile],
    schema: pa.Schema,
    *,
    columns: Sequence[str] | None = None,
    where: pc.Expression | None = None,
    filesystem: Callable[[str], pa.fs.FileSystem | None] | None = None,
) -> pa.RecordBatchReader:
    """The rows of an Iceberg table's files, in the order of the files.

    Args:
        metadata: A metadata document of the table.
        stored: The schema, as Iceberg's JSON has it.
        files: What to read.
        schema: What the rows are given as.
        columns: Names, in the order wanted; all when None.
        where: Keeps rows for which it is true.
        filesystem: Opens the files of a scheme; pyiceberg does where it gives None.
    """
    names = list(schema.names if columns is None else columns)
    wanted = pa.schema([schema.field(n) for n in names])
    if not files:
        return wanted.empty_table().to_reader()
    try:
        batches = _batches(metadata, stored, files, filesystem)
    except Exception as error:
        raise _failed(metadata, error) from error

    def rows() -> Iterator[pa.RecordBatch]:
        try:
            for batch in batches:
                whole = pa.Table.from_batches([batch]).select(schema.names).cast(schema)
                kept = whole if where is None else whole.filter(where)
                yield from kept.select(names).to_batches()
        except LakewardError:
            raise
        except Exception as error:
            raise _failed(metadata, error) from error

    return pa.RecordBatchReader.from_batches(wanted, rows())


def _batches(
    metadata: str,
    stored: Mapping[str, Any],
    files: Sequence[ScanFile],
    filesystem: Callable[[str], pa.fs.FileSystem | None] | None,
) -> Iterator[pa.RecordBatch]:
    try:
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.io.pyarrow import ArrowScan
        from pyiceberg.schema import Schema
        from pyiceberg.serializers import FromInputFile
    except ImportError as error:
        what = "Reading delete files or renamed columns of Iceberg tables needs pyiceberg."
        raise MissingExtra(what, hint="Run: pip install 'lakeward[iceberg]'.") from error
    io = _file_io(filesystem)
    document = FromInputFile.table_metadata(io.new_input(metadata))
    known = [s.model_dump(mode="json", by_alias=True) for s in document.schemas]
    schema = Schema.model_validate(_filled(stored, _defaults(known)))
    scan = ArrowScan(document, io, schema, AlwaysTrue())
    specs = document.specs()
    return scan.to_record_batches([_task(f, specs) for f in files])


def _file_io(filesystem: Callable[[str], pa.fs.FileSystem | None] | None) -> Any:
    """Access to files for pyiceberg, by the warehouse's own filesystem where it has one."""
    from pyiceberg.io.pyarrow import PyArrowFileIO

    io = PyArrowFileIO()
    usual = io.fs_by_scheme

    def by_scheme(scheme: str, netloc: str | None) -> Any:
        own = None if filesystem is None else filesystem(scheme)
        return usual(scheme, netloc) if own is None else own

    io.fs_by_scheme = by_scheme
    return io


def _task(file: ScanFile, specs: Mapping[int, Any]) -> Any:
    from pyiceberg.table import FileScanTask

    deletes = {_data_file(d["path"], d["format"], content="POSITION_DELETES") for d in file.deletes}
    spec_id, values = _partition(file, specs)
    data = _data_file(file.path, "PARQUET", partition=values, size=file.size)
    data.spec_id = spec_id
    return FileScanTask(data, deletes)


def _partition(file: ScanFile, specs: Mapping[int, Any]) -> tuple[int, list[Any]]:
    """A spec that a file's values fit, and the values in its order; columns may be only there."""
    for spec_id, spec in specs.items():
        ids = [f.field_id for f in spec.fields]
        if file.partition.keys() <= set(ids):
            return spec_id, [file.partition.get(i) for i in ids]
    return -1, []


def _defaults(source: Any) -> dict[int, Any]:
    """What files without a field hold for it, by the field's id; found at any depth."""
    out: dict[int, Any] = {}
    if isinstance(source, list):
        for part in source:
            out |= _defaults(part)
    elif isinstance(source, dict):
        if source.get("initial-default") is not None:
            out[source["id"]] = source["initial-default"]
        out |= _defaults(list(source.values()))
    return out


def _filled(source: Any, defaults: Mapping[int, Any]) -> Any:
    """A schema whose fields say so."""
    if isinstance(source, list):
        return [_filled(part, defaults) for part in source]
    if not isinstance(source, Mapping):
        return source
    out = {key: _filled(value, defaults) for key, value in source.items()}
    if out.get("id") in defaults:
        out["initial-default"] = defaults[out["id"]]
    return out


def _data_file(
    path: str, kind: str, *, content: str = "DATA", partition: Sequence[Any] = (), size: int = 0
) -> Any:
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    return DataFile.from_args(
        content=DataFileContent[content],
        file_path=path,
        file_format=FileFormat[kind],
        partition=Record(*partition),
        file_size_in_bytes=size,
    )


def _failed(metadata: str, error: Exception) -> LakewardError:
    if isinstance(error, LakewardError):
        return error
    if isinstance(error, FileNotFoundError):
        what = f"A data file of the version is missing: {error}."
        return FileMissing(what, hint="`lakeward doctor` lists what is missing.")
    what = f"pyiceberg could not read files of {metadata}: {error}."
    return StorageError(what, hint="`lakeward doctor` checks the files.")
