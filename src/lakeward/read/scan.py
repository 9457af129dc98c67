"""From a plan to rows: choosing the engine that reads these files right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakeward.engines import datafusion
from lakeward.engines.arrow import scan as arrow_scan
from lakeward.engines.arrow.by_id import Hints
from lakeward.engines.arrow.equality import Equality
from lakeward.engines.arrow.relabel import relabelled
from lakeward.engines.arrow.source import Deleted
from lakeward.errors import InvalidInput
from lakeward.formats.delta import mapping
from lakeward.formats.iceberg.definition import FORMAT_VERSION
from lakeward.model import arguments
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.expressions.nodes import Expression
from lakeward.model.file import LoggedFile, is_full
from lakeward.read.iceberg_files import DeletedRows, DocumentHints
from lakeward.storage.base import Storage


def needs_engine(definition: Definition) -> bool:
    """Whether `read_files` would get rows of the table wrong: its columns are mapped by ids."""
    return FORMAT_VERSION not in definition.protocol and mapping.needs_engine(definition)


def is_numbered(definition: Definition) -> bool:
    """Whether `read_numbered` can read the files of a table."""
    return not needs_engine(definition)


def read_files(
    storage: Storage,
    head: Head,
    definition: Definition,
    files: Sequence[LoggedFile],
    *,
    columns: Sequence[str] | None = None,
    where: Expression | None = None,
) -> pa.RecordBatchReader:
    """The rows of Delta files whose columns are not mapped by ids, and of any Iceberg files.

    Rows that are deleted in place are left out.

    Args:
        storage: Where they are.
        head: Whose they are.
        definition: Whose schema the rows get.
        files: What to read.
        columns: Names in the order wanted; all when None.
        where: Keeps rows for which it is true.
    """
    has_vectors = any(f.file.deletion_vector is not None for f in files)
    filesystem, directory = _place(storage, head)
    stored = _stored(definition, columns, where)
    rows = arrow_scan.scan(
        files,
        stored.definition,
        filesystem=filesystem,
        directory=directory,
        pre_buffer=storage.is_remote,
        columns=stored.columns,
        where=stored.where,
        deleted=_deleted(storage, head, definition) if has_vectors else None,
        hints=_hints(storage, head, definition),
        equality=_equality(storage, head, definition),
    )
    return stored.as_asked(rows)


def read_published(
    storage: Storage,
    location: str,
    version: int,
    definition: Definition,
    *,
    columns: Sequence[str] | None = None,
    where: Expression | None = None,
) -> pa.RecordBatchReader:
    """The rows of a Delta table by its own log, whose columns may be mapped by ids.

    Args:
        storage: Where it is.
        location: Its full address.
        version: Which one of its log.
        definition: At that version.
        columns: Names in the order wanted; all when None.
        where: Keeps rows for which it is true.
    """
    return datafusion.scan_delta(
        location,
        version,
        definition.schema.to_arrow(),
        columns=columns,
        where=where,
        options=storage.delta_options(),
    )


def read_numbered(
    storage: Storage,
    head: Head,
    definition: Definition,
    file: LoggedFile,
    *,
    columns: Sequence[str],
    where: Expression | None = None,
    among: Sequence[int] | None = None,
) -> pa.RecordBatchReader:
    """The live rows of one file, each with its position in it as a last column, `POSITION`.

    Positions count from 0, rows that are deleted in place too.

    Args:
        storage: Where it is.
        head: Whose it is.
        definition: Whose schema the rows get.
        file: Of a table for which `is_numbered` holds.
        columns: Names in the order wanted.
        where: Keeps rows for which it is true.
        among: Leaves out row groups with none of these positions, ascending; None for none.
    """
    has_vector = file.file.deletion_vector is not None
    filesystem, directory = _place(storage, head)
    stored = _stored(definition, columns, where)
    rows = arrow_scan.scan_numbered(
        file,
        stored.definition,
        filesystem=filesystem,
        directory=directory,
        pre_buffer=storage.is_remote,
        columns=stored.columns,
        where=stored.where,
        deleted=_deleted(storage, head, definition)(file) if has_vector else None,
        among=among,
        hints=_hints(storage, head, definition),
        equality=_equality(storage, head, definition),
    )
    return stored.as_asked(rows)


def check_columns(columns: Sequence[str] | None, definition: Definition, table: str) -> None:
    """Refuse columns that the table does not have, and one that is asked for twice.

    Raises:
        InvalidInput: A name is unknown, or given more than once.
    """
    if columns is None:
        return
    names = arguments.texts(columns, "columns")
    unknown = [c for c in names if c not in definition.schema.by_name]
    if unknown:
        what = f"Table {table} has no column {unknown[0]!r}."
        hint = f"It has {', '.join(definition.schema.names)}."
        raise InvalidInput(what, hint=hint, table=table, column=unknown[0])
    twice = next((c for c in names if names.count(c) > 1), None)
    if twice is not None:
        what = f"Column {twice!r} is asked for more than once."
        raise InvalidInput(what, table=table, column=twice)


@dataclass(frozen=True, slots=True)
class _Stored:
    """What is read, by the names that the files have, and the names that were asked for.

    Attributes:
        definition: With the names of the files.
        columns: Names in the files.
        where: On columns of the files.
        asked: The columns as the table names them; None where the names are the same.
    """

    definition: Definition
    columns: Sequence[str]
    where: Expression | None
    asked: pa.Schema | None = None

    def as_asked(self, rows: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """The rows under the names that were asked for; a column of positions keeps its name."""
        if self.asked is None:
            return rows
        added = [rows.schema.field(n) for n in range(len(self.asked), len(rows.schema))]
        return relabelled(rows, pa.schema([*self.asked, *added]))


def _stored(
    definition: Definition, columns: Sequence[str] | None, where: Expression | None
) -> _Stored:
    names = definition.schema.names if columns is None else columns
    if FORMAT_VERSION in definition.protocol or not mapping.is_mapped(definition):
        return _Stored(definition, names, where)
    plain = definition.schema.to_arrow()
    return _Stored(
        mapping.physical(definition),
        mapping.physical_columns(names, definition),
        None if where is None else mapping.physical_condition(where, definition),
        pa.schema([plain.field(n) for n in names]),
    )


def _place(storage: Storage, head: Head) -> tuple[pa.fs.FileSystem, str]:
    filesystem, root = storage.arrow_filesystem()
    return filesystem, head.location if is_full(head.location) else f"{root}/{head.location}"


def _is_iceberg(definition: Definition) -> bool:
    return FORMAT_VERSION in definition.protocol


def _hints(storage: Storage, head: Head, definition: Definition) -> Hints | None:
    """Hints for tables whose columns are found by field ids."""
    return DocumentHints(storage, head, definition) if _is_iceberg(definition) else None


def _equality(storage: Storage, head: Head, definition: Definition) -> Equality | None:
    """What tells the equality deletes of files."""
    return DeletedRows(storage, head).equality if _is_iceberg(definition) else None


def _deleted(storage: Storage, head: Head, definition: Definition) -> Deleted:
    """What tells the rows that are deleted in place."""
    if _is_iceberg(definition):
        return DeletedRows(storage, head).positions
    # Few tables have any, and the library that reads them need not be loaded for the others.
    from lakeward.read.vectors import Vectors

    return Vectors(storage, head).positions
