"""Parquet files that others wrote below a table's location, checked and added unchanged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from lakeward.context import LakeContext
from lakeward.engines.arrow.conform import completed, derived_values
from lakeward.engines.arrow.parquet import footer_stats
from lakeward.engines.arrow.partition import NULL_PARTITION, check_partition
from lakeward.errors import AlreadyExists, FileMissing, InvalidInput, SchemaMismatch, StorageError
from lakeward.formats.iceberg.names import UNNUMBERED
from lakeward.formats.registry import format_of
from lakeward.log import files
from lakeward.model.clock import now_ms
from lakeward.model.constraints import plain_checks
from lakeward.model.definition import Definition
from lakeward.model.file import DataFile, LoggedFile, is_full
from lakeward.model.generated import generated_ids
from lakeward.model.types import (
    FILE_ID,
    Field,
    ListOf,
    MapOf,
    Primitive,
    Struct,
    arrow_type,
    file_id,
    stored_field_type,
)
from lakeward.model.values import Value, to_neutral
from lakeward.read.scan import read_files
from lakeward.storage.base import Storage
from lakeward.write.plan.change import Change
from lakeward.write.stage.checks import Checks, check_writable

_FLOATS = frozenset({"float", "double"})
_ID = b"PARQUET:field_id"


def entries(context: LakeContext, change: Change, paths: Sequence[str]) -> list[DataFile]:
    """Make entries for the log of files below the table's location, each opened and checked."""
    check_writable(change)
    table_id = change.head.table_id
    _check_paths(paths, str(change.head.name))
    known = {f.path for f in change.added}
    with context.database.read() as session:
        for path in paths:
            if path in known or files.live_at_path(session, table_id, path):
                what = f"Table {change.head.name} has the file {path!r} already."
                raise AlreadyExists(what, path=path)
            known.add(path)
    found = [_entry(context.storage, change, path) for path in paths]
    check_rows(context.storage, change, found)
    return found


def entry_in_place(
    context: LakeContext, change: Change, directory: str, path: str, size: int
) -> DataFile:
    """Return the entry of a file that stays outside of the table, checked by its footer.

    Args:
        context: The lake.
        change: The pending change of the table.
        directory: A full path, below which directory names give partition values.
        path: The file's path below the directory.
        size: The file's size.
    """
    filesystem, _ = context.storage.arrow_filesystem()
    found = _read_entry(filesystem, directory, path, size, change)
    return replace(found, path=f"{directory}/{path}")


def _check_paths(paths: object, table: str) -> None:
    """Refuse paths that lead outside the table, or that spell a file in another way."""
    if isinstance(paths, str | bytes) or not isinstance(paths, Iterable):
        what = f"The paths of files for {table} must be a list."
        raise InvalidInput(what, hint="Write [path] for one file.", table=table)
    for path in paths:
        plain = isinstance(path, str) and "\0" not in path and "://" not in path
        if not plain or not all(part not in ("", ".", "..") for part in path.split("/")):
            what = f"The path {path!r} leads outside table {table}, or nowhere."
            hint = "Give a plain path below the table's location."
            raise InvalidInput(what, hint=hint, table=table, path=path)


def _entry(storage: Storage, change: Change, path: str) -> DataFile:
    filesystem, root = storage.arrow_filesystem()
    location = change.head.location
    base = location if is_full(location) else f"{root}/{location}"
    found = _read_entry(filesystem, base, path, 0, change)
    return replace(found, size=storage.size(f"{location}/{path}"))


def _read_entry(
    filesystem: pa.fs.FileSystem, base: str, path: str, size: int, change: Change
) -> DataFile:
    table = str(change.head.name)
    try:
        metadata = pq.read_metadata(f"{base}/{path}", filesystem=filesystem)
    except FileNotFoundError as error:
        what = f"There is no file {path!r} below table {table}."
        raise FileMissing(what, path=path) from error
    except (pa.ArrowException, OSError) as error:
        what = f"File {path!r} is no Parquet file: {error}."
        raise StorageError(what, path=path) from error
    definition = change.definition
    form = format_of(change.head)
    stored = form.stored(definition)
    given = metadata.schema.to_arrow_schema()
    _check_schema(given, stored, table, path)
    partition = _partition(path, definition, table)
    hidden = [i for i in definition.partition_by if i < 0]
    if hidden:
        sources = {definition.schema.by_id[definition.derived[i].source].name for i in hidden}
        columns = sorted(sources.intersection(given.names))
        rows = pq.read_table(
            f"{base}/{path}", columns=columns, filesystem=filesystem, partitioning=None
        )
        partition |= {i: _hidden_value(i, rows, definition, table, path) for i in hidden}
    # A footer does not tell of NaN, and engines disagree on where it sorts.
    floats = frozenset(
        f.id for f in definition.schema if isinstance(f.type, Primitive) and f.type.name in _FLOATS
    )
    return DataFile(
        path=path,
        size=size,
        rows=metadata.num_rows,
        modified_ms=now_ms(),
        partition=partition,
        stats=footer_stats(metadata, stored.schema, floats),
        extra=_numbering(given, stored, table, path) if form.finds_by_id(definition) else None,
    )


def _check_schema(given: pa.Schema, definition: Definition, table: str, path: str) -> None:
    for field in definition.schema:
        if field.id in definition.partition_by:
            continue
        position = given.get_field_index(field.name)
        if position < 0:
            if field.nullable:
                continue
            what = f"File {path!r} lacks column {field.name!r}, which {table} requires."
            raise SchemaMismatch(what, table=table, column=field.name)
        expected = stored_field_type(field)
        if not given.field(position).type.equals(expected):
            found = given.field(position).type
            what = f"Column {field.name} of {table} is {expected}; file {path!r} has {found}."
            raise SchemaMismatch(what, table=table, column=field.name)
    extra = [n for n in given.names if n not in definition.schema.by_name]
    if extra:
        what = f"File {path!r} has column {extra[0]!r}, which {table} does not have."
        hint = "Its columns have other names in files than users see. Append the rows instead."
        is_mapped = any(FILE_ID in f.metadata for f in definition.schema)
        raise SchemaMismatch(what, hint=hint if is_mapped else "", table=table, column=extra[0])


def _partition(path: str, definition: Definition, table: str) -> dict[int, Value]:
    if not definition.partition_by:
        return {}
    pairs = dict(p.split("=", 1) for p in path.split("/")[:-1] if "=" in p)
    out: dict[int, Value] = {}
    for field in definition.partition_fields:
        if field.id < 0:
            continue
        if field.name not in pairs:
            what = f"The path {path!r} does not tell the value of {field.name}."
            hint = f"Put files of {table} into directories such as {field.name}=value/."
            raise InvalidInput(what, hint=hint, path=path, column=field.name)
        out[field.id] = _value(field, unquote(pairs[field.name]), path)
        check_partition(field, out[field.id], table)
    return out


def _hidden_value(
    own_id: int, rows: pa.Table, definition: Definition, table: str, path: str
) -> Value:
    """The one partition value that all rows of a file have; its directory does not say it."""
    field = definition.field(own_id)
    source = definition.schema.by_id[definition.derived[own_id].source]
    if source.name not in rows.column_names:
        column = pa.nulls(rows.num_rows, arrow_type(source.type))
    else:
        column = rows.column(source.name).cast(arrow_type(source.type))
    sources = pa.table({source.name: column})
    values = derived_values(sources, definition.derived[own_id], definition, table).unique()
    if len(values) > 1:
        some = ", ".join(str(v) for v in values.slice(0, 3).to_pylist())
        what = f"File {path!r} has rows of several partitions: {field.name} is {some}."
        raise InvalidInput(what, hint="Give a file for each.", path=path, column=source.name)
    found = to_neutral(field.type, values[0].as_py()) if len(values) else None
    check_partition(field, found, table)
    return found


def _value(field: Field, text: str, path: str) -> Value:
    if text == NULL_PARTITION:
        return None
    try:
        return to_neutral(field.type, pa.scalar(text).cast(stored_field_type(field)).as_py())
    except (pa.ArrowException, ValueError) as error:
        what = f"The path {path!r} gives {text!r} for {field.name}, which is no {field.type}."
        raise InvalidInput(what, path=path, column=field.name) from error


def check_rows(storage: Storage, change: Change, found: Sequence[DataFile]) -> None:
    """Check the rows of files: required and generated columns, and the table's checks."""
    definition = change.definition
    required = any(not f.nullable for f in definition.schema.walk())
    generated = bool(generated_ids(definition))
    if not (plain_checks(definition) or required or generated):
        return
    table = str(change.head.name)
    checks = Checks.of(definition, table)
    new = [LoggedFile(f, change.head.version + 1, n) for n, f in enumerate(found)]
    for batch in read_files(storage, change.head, definition, new):
        rows = completed(pa.Table.from_batches([batch]), definition, table)
        checks.look_at(rows)
    checks.raise_violations()


def _numbering(
    given: pa.Schema, definition: Definition, table: str, path: str
) -> dict[str, bool] | None:
    """Check the field ids of a file for a format that finds columns by them.

    Such a format takes a column by its id, wherever it stands and whatever its name. So a file has
    the table's own ids, or none at all, which is noted: then the names count.
    """
    found = [
        known
        for field in definition.schema
        if given.get_field_index(field.name) >= 0
        for known in _ids(given.field(field.name), field, field.name)
    ]
    if all(number is None for _, _, number in found) and definition.whole_files:
        return {UNNUMBERED: True}
    for column, field, number in found:
        wanted = file_id(field)
        if wanted is not None and number != wanted:
            has = "no field id" if number is None else f"the field id {number}"
            what = f"Column {column} of file {path!r} has {has}; in {table} it has {wanted}."
            hint = "Readers would take it for another column. Append the rows instead."
            raise SchemaMismatch(what, hint=hint, table=table, column=column, path=path)
    return None


def _ids(given: pa.Field, field: Field, path: str) -> Iterator[tuple[str, Field, int | None]]:
    number = (given.metadata or {}).get(_ID)
    yield path, field, None if number is None else int(number)
    match field.type:
        case Struct(parts):
            for part in parts:
                if given.type.get_field_index(part.name) >= 0:
                    yield from _ids(given.type.field(part.name), part, f"{path}.{part.name}")
        case ListOf(element):
            yield from _ids(given.type.value_field, element, f"{path}.element")
        case MapOf(key, value):
            yield from _ids(given.type.key_field, key, f"{path}.key")
            yield from _ids(given.type.item_field, value, f"{path}.value")
