"""Prepares tables for an SQL engine: the files that a query needs, or a dataset of them.

An engine may read files itself if they have exactly the table's rows and columns: no deleted rows,
no renamed or widened columns, on the local disk. All other files go through Lakeward's own reader.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakeward.engines.arrow.dataset import LakeDataset, Plan
from lakeward.engines.arrow.file_access import DEFAULT_ACCESS, FileAccess
from lakeward.engines.arrow.source import is_named_as_ours
from lakeward.engines.sql.pruning import Wanted
from lakeward.engines.sql.source import Partitions, PlainFiles, Source
from lakeward.formats.registry import format_of
from lakeward.log import definitions
from lakeward.model.definition import Definition
from lakeward.model.expressions.nodes import Expression
from lakeward.model.file import LoggedFile, is_full
from lakeward.model.schema import Schema
from lakeward.model.sorting import among_first
from lakeward.model.types import Decimal, Field, Primitive, arrow_field, stored_field_type
from lakeward.model.values import Value, from_neutral
from lakeward.read.blooms import without_excluded
from lakeward.read.dataset import dataset_of
from lakeward.read.microseconds import in_microseconds
from lakeward.read.plan import file_may_match, to_prune_by
from lakeward.read.snapshot import TableSnapshot

_LOOKED_AT: Final = 256
"""At most this many footers of other writers' files are read."""
_MANY_FILES: Final = 1_000
"""To open so many small files takes a tenth of a second, and an engine does it for each query."""
_SMALL_ROWS: Final = 10_000
"""Up to this many rows a file is small: it takes about as long to open it as to read it."""
_FIELD_ID: Final = b"PARQUET:field_id"
_PATTERN: Final = re.compile(r"[*?\[\]{}]|://")
"""Characters in a path that engines interpret as a pattern or an address."""
_SAFE: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")
_IN_NAMES: Final = ("int8", "int16", "int32", "int64", "date", "string")
"""Types of partition values that can be part of a directory name."""


def source_of(
    snapshot: TableSnapshot,
    wanted: Wanted,
    plan: Plan | None = None,
    *,
    has_query: bool = True,
    access: FileAccess = DEFAULT_ACCESS,
) -> Source:
    """Return a table for an engine, without the files that a query does not need.

    Args:
        snapshot: The table.
        wanted: The condition, order and limit of the rows that the query needs.
        plan: Selects the files; by default the snapshot's own plan.
        has_query: Whether the query is known. If not, many small files are a dataset: it gets the
            filters of each query and skips files by them, and the engine would open all files.
        access: How the files are opened.
    """
    files = enough((plan or snapshot.plan)(wanted.where), wanted)

    def again(condition: Expression | None) -> list[LoggedFile]:
        prune = to_prune_by(condition, snapshot.definition)
        if prune is None:
            return files
        some = [f for f in files if file_may_match(prune, f.file)]
        if has_query:
            return some
        head, storage = snapshot.log_head, snapshot.context.storage
        return without_excluded(storage, head, snapshot.definition, some, condition)

    definition = snapshot.definition
    found: PlainFiles | str = access.reason or "there are many small files"
    if access.reason is None and (has_query or not _are_many_and_small(files)):
        found = plain_files(snapshot, files)
    plain = None if isinstance(found, str) else found
    partitioned: dict[str, pa.DataType] = {}
    if plain is not None and plain.partitions:
        types = definition.schema.to_arrow()
        partitioned = {n: types.field(n).type for n in definition.partition_names}

    def dataset() -> LakeDataset:
        return dataset_of(snapshot, again, for_sql=True, access=access)

    reason = found if isinstance(found, str) else None
    schema = in_microseconds(definition.schema)
    return Source(schema.to_arrow(), dataset, plain, partitioned, reason)


def _are_many_and_small(files: Sequence[LoggedFile]) -> bool:
    """Return whether an engine should open only the files that a filter needs."""
    rows = sum(_SMALL_ROWS if f.rows is None else f.rows for f in files)
    return len(files) >= _MANY_FILES and rows < len(files) * _SMALL_ROWS


def enough(files: list[LoggedFile], wanted: Wanted) -> list[LoggedFile]:
    """Return files that certainly contain the rows that a query needs; all without a limit."""
    if wanted.limit is None:
        return files
    if wanted.order is None:
        found, rows = [], 0
        for file in files:
            if rows >= wanted.limit:
                break
            found.append(file)
            rows += file.file.live_rows or 0
        return found
    return among_first(files, wanted.order, wanted.limit)


def plain_files(snapshot: TableSnapshot, files: Sequence[LoggedFile]) -> PlainFiles | str:
    """Return the files that an engine can read itself, or why it cannot, as text."""
    storage, head, definition = snapshot.context.storage, snapshot.log_head, snapshot.definition
    if not files:
        return "no file is needed"
    if storage.is_remote:
        return "the files are in an object store"
    if any(f.file.deletion_vector is not None for f in files):
        return "rows of the files are deleted"
    floats = [f.id for f in definition.schema if str(f.type) in ("float", "double")]
    if any(_may_have_nan(f, floats) for f in files):
        # Bounds in the footers ignore NaN, and engines prune by them.
        return "values may be NaN"
    form, schema = format_of(head), definition.schema
    stored, _, _ = form.in_files(definition, schema.names, None)
    if stored is not definition:
        return "columns have other names in the files"
    if not all(map(_is_plain, schema)):
        return "a column has a type that engines read in another way"
    if not _was_always_so(snapshot, min(f.added for f in files)):
        return "the columns were altered after files were written"
    parts = _partitions(definition, files)
    if parts is None:
        return "a partition value cannot be the name of a directory"
    _, root = storage.arrow_filesystem()
    directory = head.location if is_full(head.location) else f"{root}/{head.location}"
    paths = [f.path if is_full(f.path) else f"{directory}/{f.path}" for f in files]
    if any(_PATTERN.search(path) for path in paths):
        return "engines take the path of a file for a pattern"
    foreign = [p for p in paths if not is_named_as_ours(p)]
    lacking = set() if definition.whole_files else set(definition.partition_names)
    by_id = form.finds_by_id(definition)
    if len(foreign) > _LOOKED_AT or not all(
        _holds(path, schema, lacking, by_id=by_id) for path in foreign
    ):
        return "files of other writers differ from the table"
    return PlainFiles(paths, parts)


def _may_have_nan(file: LoggedFile, floats: Sequence[int]) -> bool:
    stats = file.file.stats
    if not floats or file.rows == 0:
        return False
    return stats is None or any(
        i not in stats.maximum and stats.nulls.get(i) != file.rows
        for i in floats
        if i not in file.partition
    )


def _is_plain(field: Field) -> bool:
    if not isinstance(field.type, Primitive | Decimal):
        return False
    return bool(stored_field_type(field).equals(arrow_field(field).type))


def _was_always_so(snapshot: TableSnapshot, since: int) -> bool:
    """Return whether the columns and the partitioning are unchanged since a version."""
    now = [(f.id, f.name, f.type) for f in snapshot.schema]
    with snapshot.context.database.read() as session:
        history = definitions.of_table(session, snapshot.log_head.table_id)
    return all(
        [(f.id, f.name, f.type) for f in definition.schema] == now
        and definition.partition_by == snapshot.definition.partition_by
        for first, until, definition in history
        if until > since and first <= snapshot.version
    )


def _partitions(definition: Definition, files: Sequence[LoggedFile]) -> list[Partitions] | None:
    """Return the partition values of each file, which files lack, as text.

    Returns None if a value cannot be part of a path.
    """
    if definition.whole_files or not definition.partition_by:
        return []
    fields = definition.partition_fields
    if any(str(f.type) not in _IN_NAMES or not _SAFE.fullmatch(f.name) for f in fields):
        return None
    known: dict[tuple[Value, ...], Partitions] = {}
    out = []
    for file in files:
        key = tuple(file.partition.get(f.id) for f in fields)
        if key not in known:
            texts = [_spelled(f, v) for f, v in zip(fields, key, strict=True)]
            if not all(t is not None and _SAFE.fullmatch(t) for t in texts):
                return None
            known[key] = tuple((f.name, str(t)) for f, t in zip(fields, texts, strict=True))
        out.append(known[key])
    return out


def _spelled(field: Field, value: Value) -> str | None:
    if value is None:
        return None
    try:
        found = from_neutral(field.type, value)
    except OverflowError:  # a year that Python and some engines do not know
        return None
    return str(found.isoformat() if hasattr(found, "isoformat") else found)


def _holds(path: str, schema: Schema, lacking: set[str], *, by_id: bool) -> bool:
    """Return whether a foreign file has exactly the table's columns, by name, type and id."""
    try:
        found = pq.read_schema(path)
    except (OSError, pa.ArrowException):
        return False
    wanted = [f for f in schema if f.name not in lacking]
    if found.names != [f.name for f in wanted]:
        return False
    for field in wanted:
        own = found.field(field.name)
        if not own.type.equals(arrow_field(field).type):
            return False
        if by_id and (own.metadata or {}).get(_FIELD_ID) != str(field.id).encode():
            return False
    return True
