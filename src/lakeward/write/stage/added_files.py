"""Checks Parquet files that others wrote below a table's location, to add them unchanged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from lakeward.context import LakeContext
from lakeward.engines.arrow.conform import completed, derived_values
from lakeward.engines.arrow.footer_types import schema_of
from lakeward.engines.arrow.parquet import footer_stats
from lakeward.engines.arrow.partition import NULL_PARTITION, check_partition
from lakeward.errors import (
    AlreadyExists,
    Conflict,
    FileMissing,
    InvalidInput,
    SchemaMismatch,
    StorageError,
    UnsupportedFeature,
)
from lakeward.formats.iceberg.names import UNNUMBERED
from lakeward.formats.registry import format_of
from lakeward.log import files, unrecorded
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
from lakeward.read.scan import check_names, read_files
from lakeward.storage.base import Storage
from lakeward.write.plan.change import Change
from lakeward.write.stage.checks import Checks

_FLOATS = frozenset({"float", "double"})
_ID = b"PARQUET:field_id"


def check_addable(change: Change) -> None:
    """Raise `UnsupportedFeature` if files cannot be added, because values must be generated."""
    if change.definition.identity:
        what = f"Table {change.head.name} has an identity column, and files bring values for it."
        hint = "Append the rows of the files instead: tx.append(table, paths)."
        raise UnsupportedFeature(what, hint=hint, table=str(change.head.name))


def claim(context: LakeContext, change: Change, transaction_id: str, paths: Sequence[str]) -> None:
    """Prevent vacuum from deleting files that a registered transaction is going to add.

    Raises `Conflict` if a vacuum is deleting one of them.
    """
    if change.is_new:
        return
    with context.database.write() as session:
        now = context.database.clock_ms(session)
        lost = unrecorded.claim(session, change.head.table_id, transaction_id, paths, now)
    if lost:
        path, table = min(lost), str(change.head.name)
        what = f"A vacuum is deleting file {path!r} of table {table}."
        raise Conflict(what, hint="Write the file again under another name.", path=path)


def entries(context: LakeContext, change: Change, paths: Sequence[str]) -> list[DataFile]:
    """Return entries for the log of files below the table's location, after checking each file.

    Raises `AlreadyExists` if the table has one of the files already.
    """
    table_id = change.head.table_id
    known = {f.path for f in change.added}
    with context.database.read() as session:
        for path in paths:
            if path in known or files.live_at_path(session, table_id, path):
                what = f"Table {change.head.name} has the file {path!r} already."
                raise AlreadyExists(what, path=path)
            known.add(path)
    found = [_entry(context.storage, change, path) for path in paths]
    if any(f.extra for f in found):
        check_names(context.storage, change.head, change.definition, _logged(change, found))
    check_rows(context.storage, change, found)
    return found


def entry_in_place(
    context: LakeContext, change: Change, directory: str, path: str, size: int
) -> DataFile:
    """Return the entry of a file that stays outside of the table, checked by its footer.

    Args:
        context: The lake.
        change: The pending change of the table.
        directory: The full path of a directory whose subdirectories have partition values as names.
        path: The file's path below the directory.
        size: The file's size.
    """
    filesystem, _ = context.storage.arrow_filesystem(foreign=True)
    found = _read_entry(filesystem, directory, path, size, change)
    return replace(found, path=f"{directory}/{path}")


def check_paths(paths: object, table: str) -> None:
    """Raise `InvalidInput` for paths that lead outside the table or are not normalized."""
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
    filesystem, root = storage.arrow_filesystem(foreign=True)
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
    # Readers of formats that find columns by ids do not all know INT96.
    given = schema_of(metadata, int96=not form.columns_by_id)
    _check_schema(given, stored, table, path)
    partition = _partition(path, definition, table)
    for field in stored.schema:
        if field.id in partition and field.name in given.names:
            rows = pq.read_table(
                f"{base}/{path}", columns=[field.name], filesystem=filesystem, partitioning=None
            )
            _check_values(rows.column(field.name), field, partition[field.id], table, path)
    hidden = [i for i in definition.partition_by if i < 0]
    if hidden:
        sources = {definition.schema.by_id[definition.derived[i].source].name for i in hidden}
        columns = sorted(sources.intersection(given.names))
        rows = pq.read_table(
            f"{base}/{path}", columns=columns, filesystem=filesystem, partitioning=None
        )
        partition |= {i: _hidden_value(i, rows, definition, table, path) for i in hidden}
    # A footer does not count NaN, and engines disagree on its sort order.
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
    found = (p.split("=", 1) for p in path.split("/")[:-1] if "=" in p)
    pairs = {unquote(key): value for key, value in found}
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


def _check_values(
    found: pa.ChunkedArray, field: Field, value: Value, table: str, path: str
) -> None:
    """Raise `InvalidInput` if rows have another value of a partition column than their path."""
    try:
        values = found.cast(stored_field_type(field)).unique().to_pylist()
        others = [v for v in values if to_neutral(field.type, v) != value]
    except (pa.ArrowException, ValueError, OverflowError) as error:
        what = f"The values of column {field.name} in file {path!r} are not of type {field.type}."
        raise SchemaMismatch(what, table=table, column=field.name, path=path) from error
    if others:
        what = f"File {path!r} has rows whose {field.name} is {others[0]!r}, not that of its path."
        hint = "Readers take the value from the path. Append the rows of the file instead."
        raise InvalidInput(what, hint=hint, table=table, column=field.name, path=path)


def _hidden_value(
    own_id: int, rows: pa.Table, definition: Definition, table: str, path: str
) -> Value:
    """Return the one partition value of all rows of a file, which is not in its path."""
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
    """Check rows of files; raise `ConstraintViolation` if one violates a check of the table.

    Required and generated columns are checked, too.
    """
    definition = change.definition
    required = any(not f.nullable for f in definition.schema.walk())
    generated = bool(generated_ids(definition))
    if not (plain_checks(definition) or required or generated):
        return
    table = str(change.head.name)
    checks = Checks.of(definition, table)
    for batch in read_files(storage, change.head, definition, _logged(change, found)):
        rows = completed(pa.Table.from_batches([batch]), definition, table)
        checks.look_at(rows)
    checks.raise_violations()


def _logged(change: Change, found: Sequence[DataFile]) -> list[LoggedFile]:
    return [LoggedFile(f, change.head.version + 1, n) for n, f in enumerate(found)]


def _numbering(
    given: pa.Schema, definition: Definition, table: str, path: str
) -> dict[str, Any] | None:
    """Check the field ids of a file, for a format that identifies columns by them.

    Such a format ignores positions and names of columns. So a file must have the table's ids, or
    none at all: then the result, for the file's `extra`, has the ids of its columns by names.
    """
    found = [
        known
        for field in definition.schema
        if given.get_field_index(field.name) >= 0
        for known in _ids(given.field(field.name), field, field.name)
    ]
    if all(number is None for _, _, number in found) and definition.whole_files:
        given_fields = [f for f in definition.schema if given.get_field_index(f.name) >= 0]
        return {UNNUMBERED: [_mapped(given.field(f.name), f, f.name) for f in given_fields]}
    for column, field, number in found:
        wanted = file_id(field)
        if wanted is not None and number != wanted:
            has = "no field id" if number is None else f"the field id {number}"
            what = f"Column {column} of file {path!r} has {has}; in {table} it has {wanted}."
            hint = "Readers would take it for another column. Append the rows instead."
            raise SchemaMismatch(what, hint=hint, table=table, column=column, path=path)
    return None


def _mapped(given: pa.Field, field: Field, name: str) -> dict[str, Any]:
    """Return the ids of a file's column and its parts by names, as Iceberg's name mapping."""
    parts = [_mapped(part, known, below) for below, part, known in _parts(given, field)]
    out: dict[str, Any] = {"field-id": field.id, "names": [name]}
    return {**out, "fields": parts} if parts else out


def _ids(given: pa.Field, field: Field, path: str) -> Iterator[tuple[str, Field, int | None]]:
    number = (given.metadata or {}).get(_ID)
    yield path, field, None if number is None else int(number)
    for name, part, known in _parts(given, field):
        yield from _ids(part, known, f"{path}.{name}")


def _parts(given: pa.Field, field: Field) -> Iterator[tuple[str, pa.Field, Field]]:
    """Yield name, field of the file, and field of the table, for each part of a nested column."""
    match field.type:
        case Struct(parts):
            for part in parts:
                if given.type.get_field_index(part.name) >= 0:
                    yield part.name, given.type.field(part.name), part
        case ListOf(element):
            yield "element", given.type.value_field, element
        case MapOf(key, value):
            yield "key", given.type.key_field, key
            yield "value", given.type.item_field, value
