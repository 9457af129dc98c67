"""Reads new landing files as one Spark frame; no column or type changes silently.

Spark assumes that all files have the columns of one of them. So the columns are compared first: a
column that some files lack is null for them, integers are read as the widest of their types, and a
column with two types that do not fit raises an error that names the files.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from lakeward.errors import InvalidInput, SchemaMismatch
from lakeward.pipeline.landed_text import column_notices, landed_text
from lakeward.pipeline.plan import NewFiles
from lakeward.pipeline.results import Notice
from lakeward.write.transaction.transaction import Transaction

_WIDER: Final = ("tinyint", "smallint", "int", "bigint")
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")
_NESTED: Final = ("struct<", "array<", "map<")


@dataclass(frozen=True, slots=True)
class _Alike:
    """Paths of new files with the same columns; `fields` by name in lower case, as for Spark."""

    paths: tuple[str, ...]
    fields: dict[str, Any]


def landed(tx: Transaction, found: NewFiles, table: str) -> tuple[Any, list[Notice]]:
    """Return the rows of new files, and notices of columns that are missing or not read.

    Without new files the frame is empty and has the columns of an earlier file. Raise
    `SchemaMismatch` if a column has another type than declared, or than in other files.
    """
    reader = tx.spark.read
    if not found.files:
        return _nothing(tx, found), []
    if found.kind.is_text:
        return landed_text(tx, found, table)
    paths = [found.directory.to_read(f.path) for f in found.files]
    if found.schema is not None:
        rows = reader.schema(found.schema).parquet(*paths)
        return rows, list(_compared(found, table, rows.schema.fields, _kinds(tx, found)))
    if len({s.to_string() for s in found.schemas.values()}) == 1:
        return reader.parquet(*paths), []
    kinds = _kinds(tx, found)
    columns = _together(found, table, kinds)
    whole = reader.parquet(paths[0]).schema
    for position, field in enumerate(whole.fields):
        whole.fields[position].dataType = columns[field.name.lower()].dataType
    known = {f.name.lower() for f in whole.fields}
    for name, field in columns.items():
        if name not in known:
            whole.add(field.name, field.dataType, True)
    notices = list(_compared(found, table, whole.fields, kinds))
    return reader.schema(whole).parquet(*paths), notices


def _nothing(tx: Transaction, found: NewFiles) -> Any:
    if found.schema is not None:
        return tx.spark.createDataFrame([], found.schema)
    example = found.directory.example()
    if example is None:
        what = f"The landing directory {found.directory} has no files."
        raise InvalidInput(what, hint="Give landing(...) a schema.")
    return tx.spark.read.parquet(example).limit(0)


def _kinds(tx: Transaction, found: NewFiles) -> list[_Alike]:
    """Group the new files by their columns."""
    by_columns: dict[str, list[str]] = {}
    for file in found.files:
        by_columns.setdefault(found.schemas[file.path].to_string(), []).append(file.path)
    out = []
    for paths in by_columns.values():
        schema = tx.spark.read.parquet(found.directory.to_read(paths[0])).schema
        out.append(_Alike(tuple(paths), {f.name.lower(): f for f in schema.fields}))
    return out


def _together(found: NewFiles, table: str, kinds: Sequence[_Alike]) -> dict[str, Any]:
    """Return the columns of all files, each with its widest type, by name in lower case."""
    columns: dict[str, Any] = {}
    first: dict[str, str] = {}
    for kind in kinds:
        for name, field in kind.fields.items():
            known = columns.setdefault(name, field)
            path = first.setdefault(name, kind.paths[0])
            if _holds(_spelled(known), _spelled(field)):
                continue
            if not _holds(_spelled(field), _spelled(known)):
                what = (
                    f"Column {field.name} is {_spelled(known)} in {path} and"
                    f" {_spelled(field)} in {kind.paths[0]} of {found.directory}."
                )
                raise _mismatch(what, table, field.name, kind.paths[0])
            columns[name], first[name] = field, kind.paths[0]
    return columns


def _compared(
    found: NewFiles, table: str, wanted: Sequence[Any], kinds: Sequence[_Alike]
) -> list[Notice]:
    """Return notices of columns of files that are not read, and of columns that files lack.

    Raise `SchemaMismatch` if a file's type cannot be read as the declared one.
    """
    declared = {f.name.lower(): f for f in wanted}
    extra: dict[str, None] = {}
    lacking: dict[str, None] = {}
    files: list[str] = []
    for kind in kinds:
        for name, field in kind.fields.items():
            if name not in declared:
                extra[field.name] = None
            elif not _may_read(_spelled(field), _spelled(declared[name])):
                what = (
                    f"Column {field.name} is {_spelled(field)} in {found.directory}/"
                    f"{kind.paths[0]}, and is declared as {_spelled(declared[name])}."
                )
                raise _mismatch(what, table, field.name, kind.paths[0])
        missing = [f.name for n, f in declared.items() if n not in kind.fields]
        if missing:
            lacking.update(dict.fromkeys(missing))
            files += kind.paths
    return list(column_notices(found, table, list(extra), list(lacking), files))


def _spelled(field: Any) -> str:
    return str(field.dataType.simpleString())


def _holds(wide: str, narrow: str) -> bool:
    """Return whether Spark can read values of type `narrow` as `wide` without loss."""
    if wide == narrow:
        return True
    if wide in _WIDER and narrow in _WIDER:
        return _WIDER.index(wide) >= _WIDER.index(narrow)
    if wide == "double":
        return narrow in ("float", *_WIDER[:3])
    one, other = _DECIMAL.fullmatch(wide), _DECIMAL.fullmatch(narrow)
    if one is None or other is None:
        return False
    (digits, scale), (less, same) = map(int, one.groups()), map(int, other.groups())
    return scale == same and digits >= less


def _may_read(own: str, declared: str) -> bool:
    """Return whether a file's type may be read as the declared one; if not, it is an error."""
    nested = own.startswith(_NESTED) or declared.startswith(_NESTED)
    return nested or {own, declared} == {"string", "binary"} or _holds(declared, own)


def _mismatch(what: str, table: str, column: str, path: str) -> SchemaMismatch:
    hint = "Nothing was committed. Mend the file, or take it out of the landing directory."
    return SchemaMismatch(what, hint=hint, table=table, column=column, path=path)
