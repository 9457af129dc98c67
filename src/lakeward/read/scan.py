"""Reads the rows of planned files with the engine that reads them correctly."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import pyarrow as pa

from lakeward.engines import datafusion
from lakeward.engines.arrow import scan as arrow_scan
from lakeward.engines.arrow.by_id import Hints, OwnNames
from lakeward.engines.arrow.deletes import Equality
from lakeward.engines.arrow.file_access import DEFAULT_ACCESS, FileAccess
from lakeward.engines.arrow.relabel import relabelled
from lakeward.engines.arrow.source import Deleted
from lakeward.errors import InvalidInput, UnsupportedFeature
from lakeward.formats.registry import format_of
from lakeward.model import arguments
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.expressions.nodes import Expression
from lakeward.model.file import LoggedFile, is_full
from lakeward.read.deleted import DeletedRows, DocumentHints, Vectors
from lakeward.storage.base import Storage


def read_files(
    storage: Storage,
    head: Head,
    definition: Definition,
    files: Sequence[LoggedFile],
    *,
    columns: Sequence[str] | None = None,
    where: Expression | None = None,
    numbered: bool = False,
    among: Sequence[int] | None = None,
    access: FileAccess = DEFAULT_ACCESS,
) -> pa.RecordBatchReader:
    """Return the rows of files, without deleted ones.

    Columns are in the order given; all when None. With `numbered` there is a last column,
    `POSITION`: the row's position in its file, deleted rows included. With `among`, ascending
    positions, row groups with none of these positions are left out. `access` is for data files;
    deletion vectors and delete files are always read from the storage.
    """
    has_vectors = any(f.file.deletion_vector is not None for f in files)
    own, directory = _place(storage, head)
    filesystem, is_remote = own, storage.is_remote
    if access.filesystem is not None:
        _check_below(files)
        filesystem, directory, is_remote = access.filesystem, "", access.is_remote
    names = definition.schema.names if columns is None else columns
    stored, own_names, condition = format_of(head).in_files(definition, names, where)
    rows = arrow_scan.scan(
        files,
        stored,
        filesystem=filesystem,
        directory=directory,
        is_remote=is_remote,
        options=access.options,
        deletes_in=own,
        columns=own_names,
        where=condition,
        deleted=deleted_of(storage, head) if has_vectors else None,
        hints=_hints(storage, head, stored, files),
        equality=equality_of(storage, head),
        numbered=numbered,
        among=among,
    )
    return rows if stored is definition else _renamed(rows, definition, names)


def read_published(
    storage: Storage,
    location: str,
    version: int,
    definition: Definition,
    *,
    columns: Sequence[str] | None = None,
    where: Expression | None = None,
) -> pa.RecordBatchReader:
    """Return the rows of a version of the Delta table at `location`, by its published log."""
    return datafusion.scan_delta(
        location,
        version,
        definition.schema.to_arrow(),
        columns=columns,
        where=where,
        options=storage.delta_options(),
    )


def equality_of(storage: Storage, head: Head) -> Equality | None:
    """Return the function that finds a file's equality deletes; None if the format has none."""
    return DeletedRows(storage, head).equality if format_of(head).columns_by_id else None


def deleted_of(storage: Storage, head: Head) -> Deleted:
    """Return the function that finds the deleted positions of a file."""
    found = DeletedRows if format_of(head).columns_by_id else Vectors
    return found(storage, head).positions


def check_columns(columns: Sequence[str] | None, definition: Definition, table: str) -> None:
    """Raise `InvalidInput` for a column that the table lacks or that is given twice."""
    if columns is None:
        return
    names = arguments.texts(columns, "columns")
    unknown = [c for c in names if c not in definition.schema.by_name]
    if unknown:
        what = f"Table {table} has no column {unknown[0]!r}."
        near = difflib.get_close_matches(unknown[0], definition.schema.names, 1)
        hint = f"It has {', '.join(definition.schema.names)}."
        hint = f"Did you mean {near[0]!r}? {hint}" if near else hint
        raise InvalidInput(what, hint=hint, table=table, column=unknown[0])
    twice = next((c for c in names if names.count(c) > 1), None)
    if twice is not None:
        what = f"Column {twice!r} is asked for more than once."
        raise InvalidInput(what, table=table, column=twice)


def check_names(
    storage: Storage, head: Head, definition: Definition, files: Sequence[LoggedFile]
) -> None:
    """Raise `SchemaMismatch` if names in files without field ids belong to other columns."""
    hints = _hints(storage, head, definition, files)
    if hints is not None:
        _ = hints.names


def _renamed(
    rows: pa.RecordBatchReader, definition: Definition, names: Sequence[str]
) -> pa.RecordBatchReader:
    """Return the rows with the table's column names; a column of positions keeps its name."""
    schema = definition.schema.to_arrow()
    added = [rows.schema.field(n) for n in range(len(names), len(rows.schema))]
    return relabelled(rows, pa.schema([*(schema.field(n) for n in names), *added]))


def _place(storage: Storage, head: Head) -> tuple[pa.fs.FileSystem, str]:
    filesystem, root = storage.arrow_filesystem()
    return filesystem, head.location if is_full(head.location) else f"{root}/{head.location}"


def _check_below(files: Sequence[LoggedFile]) -> None:
    """Raise `UnsupportedFeature` for a file that is not in the directory of its table."""
    outside = next((f.path for f in files if is_full(f.path)), None)
    if outside is not None:
        what = f"{outside} is not in the directory of the table, which `filesystem` is for."
        raise UnsupportedFeature(what, hint="Read the table without `filesystem`.", path=outside)


def _hints(
    storage: Storage, head: Head, definition: Definition, files: Sequence[LoggedFile]
) -> Hints | None:
    """Return hints for tables whose files identify columns by field ids; None for others."""
    form = format_of(head)
    if form.columns_by_id:
        return DocumentHints(storage, head, definition, files)
    return OwnNames(definition.schema) if form.finds_by_id(definition) else None
