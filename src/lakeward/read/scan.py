"""From a plan to rows: choosing the engine that reads these files right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lakeward.engines import datafusion
from lakeward.engines.arrow import scan as arrow_scan
from lakeward.engines.arrow.expression import to_arrow
from lakeward.engines.arrow.relabel import relabelled
from lakeward.engines.iceberg import ScanFile, scan_iceberg
from lakeward.errors import InvalidInput
from lakeward.formats.delta import mapping, protocol
from lakeward.formats.iceberg.definition import BY_ID, FORMAT_VERSION
from lakeward.formats.iceberg.listing import DELETE_FILES
from lakeward.formats.iceberg.publication import full_path
from lakeward.formats.iceberg.schema import schema_json
from lakeward.formats.iceberg.values import to_tuple
from lakeward.model import arguments
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.expression import Expression
from lakeward.model.file import LoggedFile, is_full
from lakeward.storage.base import Storage

if TYPE_CHECKING:
    from lakeward.read.vectors import Vectors


def needs_engine(definition: Definition) -> bool:
    """Whether `read_files` would get rows of the table wrong: its columns are mapped by ids."""
    return FORMAT_VERSION not in definition.protocol and protocol.needs_engine(definition)


def is_numbered(file: LoggedFile, definition: Definition) -> bool:
    """Whether `read_numbered` can read a file."""
    return not (needs_engine(definition) or _is_pyiceberg_s([file], definition))


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
    if _is_pyiceberg_s(files, definition):
        place = storage.uri(head.location)
        return scan_iceberg(
            str(head.pointer),
            schema_json(definition.schema, 0),
            [_scan_file(f, definition, place) for f in files],
            definition.schema.to_arrow(),
            columns=columns,
            where=None if where is None else to_arrow(where),
            filesystem=storage.scheme_filesystem,
        )
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
        deleted=_vectors(storage, head).positions if has_vectors else None,
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
        file: One for which `is_numbered` holds.
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
        deleted=_vectors(storage, head).positions(file) if has_vector else None,
        among=among,
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


def _is_pyiceberg_s(files: Sequence[LoggedFile], definition: Definition) -> bool:
    """Whether pyiceberg reads the files: columns go by their ids, or delete files apply."""
    if FORMAT_VERSION not in definition.protocol:
        return False
    by_id = bool(definition.protocol.get(BY_ID))
    return by_id or any(f.file.deletion_vector is not None for f in files)


def _place(storage: Storage, head: Head) -> tuple[pa.fs.FileSystem, str]:
    filesystem, root = storage.arrow_filesystem()
    return filesystem, head.location if is_full(head.location) else f"{root}/{head.location}"


def _vectors(storage: Storage, head: Head) -> Vectors:
    # Few tables have any, and the library that reads them need not be loaded for the others.
    from lakeward.read.vectors import Vectors

    return Vectors(storage, head)


def _scan_file(file: LoggedFile, definition: Definition, location: str) -> ScanFile:
    vector = file.file.deletion_vector or {}
    return ScanFile(
        path=full_path(file.file, location),
        size=file.size,
        partition={
            -i: to_tuple(definition.field(i).type, value)
            for i, value in file.partition.items()
            if i in definition.derived
        },
        deletes=vector.get(DELETE_FILES, ()),
    )
