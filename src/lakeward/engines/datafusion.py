"""Reads and compares Delta tables with DataFusion through delta-rs, mostly for branches.

`QueryBuilder` applies deletion vectors and mapped columns; delta-rs's pyarrow readers return nulls
or fail, so they are never used. DataFusion reads and skips files; Lakeward's own evaluator decides
which rows match a condition, because the two disagree on NULL in a list and on NaN.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds

from lakeward.engines.arrow.expression import to_arrow
from lakeward.engines.arrow.file_access import DEFAULT_ACCESS, FileAccess
from lakeward.engines.arrow.plain_types import plain_reader
from lakeward.errors import InvalidInput, MissingExtra, StorageError, UnsupportedFeature
from lakeward.model.expressions.nodes import (
    And,
    Column,
    Compare,
    Expression,
    Literal,
    columns_in,
    conjuncts,
)
from lakeward.model.expressions.render import to_sql
from lakeward.model.types import Primitive

_EXTRA: Final = "Run: pip install 'lakeward[datafusion]'."


def scan_delta(
    uri: str,
    version: int,
    schema: pa.Schema,
    *,
    columns: Sequence[str] | None = None,
    where: Expression | None = None,
    options: Mapping[str, str] | None = None,
) -> pa.RecordBatchReader:
    """Read the rows of a published Delta table at a version with delta-rs and its `options`."""
    try:
        from deltalake import DeltaTable, QueryBuilder
        from deltalake.exceptions import DeltaError
    except ImportError as error:
        what = "Reading branches needs delta-rs."
        raise MissingExtra(what, hint=_EXTRA) from error
    names = list(schema.names if columns is None else columns)
    used = set() if where is None else {c.field.name for c in columns_in(where)}
    read = [*names, *(n for n in schema.names if n in used and n not in names)]
    query = f"SELECT {_listed(read)} FROM t"  # noqa: S608  quoted identifiers
    skipping = None if where is None else _skipping(where)
    if skipping is not None:
        query += f" WHERE {to_sql(skipping)}"
    wanted = pa.schema([schema.field(n) for n in read])
    try:
        table = DeltaTable(uri, version=version, storage_options=dict(options or {}))
        result = pa.table(QueryBuilder().register("t", table).execute(query))
    except (DeltaError, OSError) as error:
        text = _without_secrets(error, options)
        what = f"delta-rs could not read version {version} of {uri}: {text}."
        raise StorageError(what, hint="Read it with Spark.") from (None if options else error)
    rows = result.cast(wanted)
    kept = rows if where is None else rows.filter(to_arrow(where))
    return kept.select(names).to_reader()


def delta_table_at(
    uri: str,
    *,
    version: int | None,
    timestamp: datetime | str | None,
    options: Mapping[str, str] | None = None,
) -> Any:
    """Open a foreign Delta table with delta-rs, at a version or a time.

    Raises:
        MissingExtra: delta-rs is not installed.
        StorageError: The table cannot be read, or has no such version.
    """
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError
    except ImportError as error:
        what = "Reading a Delta table at a path needs delta-rs."
        raise MissingExtra(what, hint=_EXTRA) from error
    try:
        found = DeltaTable(uri, version=version, storage_options=dict(options or {}))
        if timestamp is not None:
            moment = timestamp if isinstance(timestamp, str) else timestamp.isoformat()
            found.load_as_version(moment)
    except (DeltaError, OSError, ValueError) as error:
        what = f"The Delta table at {uri} cannot be read: {_without_secrets(error, options)}."
        raise StorageError(what, path=uri) from error
    return found


def scan_delta_at(
    uri: str,
    *,
    version: int | None,
    timestamp: datetime | str | None,
    columns: Sequence[str] | None,
    options: Mapping[str, str] | None = None,
    access: FileAccess = DEFAULT_ACCESS,
) -> pa.RecordBatchReader:
    """Read the rows of a foreign Delta table, with some columns; raise as `delta_table_at` does.

    With a filesystem of its own, `access` is for data files, and `options` are for the log only.

    Raises:
        UnsupportedFeature: The table has deletion vectors or mapped columns, and a filesystem.
    """
    table = delta_table_at(uri, version=version, timestamp=timestamp, options=options)
    from deltalake import QueryBuilder

    known = [f.name for f in table.schema().fields]
    names = known if columns is None else list(columns)
    unknown = [n for n in names if n not in known]
    if unknown:
        what = f"The Delta table at {uri} has no column {unknown[0]!r}."
        raise InvalidInput(what, hint=f"It has {', '.join(known)}.", column=unknown[0])
    if access.filesystem is not None:
        rows = _read_by(access, table, names, uri)
    else:
        query = f"SELECT {_listed(names)} FROM t"  # noqa: S608  quoted identifiers
        rows = pa.RecordBatchReader.from_stream(QueryBuilder().register("t", table).execute(query))
    return plain_reader(rows, lambda error: StorageError(_without_secrets(error, options)))


def write_difference(
    before: str,
    after: str,
    target: str,
    columns: Sequence[str],
    *,
    options: Mapping[str, str] | None = None,
) -> None:
    """Append the rows by which two Delta tables differ to a third, each with its `_change_type`.

    Surplus rows of `before` are a `delete`, those of `after` an `insert`. Raises
    `UnsupportedFeature` for tables that delta-rs cannot compare or write.
    """
    try:
        from deltalake import DeltaTable, QueryBuilder, write_deltalake
        from deltalake.exceptions import DeltaError
    except ImportError as error:
        what = "Telling the difference of two versions needs delta-rs."
        raise MissingExtra(what, hint=_EXTRA) from error
    chosen = _listed(columns)
    kinds = (("delete", "b", "a"), ("insert", "a", "b"))
    query = " UNION ALL ".join(
        f"SELECT {chosen}, '{kind}' AS _change_type FROM"  # noqa: S608  quoted identifiers
        f" (SELECT {chosen} FROM {more} EXCEPT ALL SELECT {chosen} FROM {less})"
        for kind, more, less in kinds
    )
    try:
        known = dict(options or {})
        tables = QueryBuilder()
        for name, place in (("b", before), ("a", after)):
            tables = tables.register(name, DeltaTable(place, storage_options=known))
        rows = pa.table(tables.execute(query))
        write_deltalake(target, rows, mode="append", storage_options=known)
    except (DeltaError, OSError, ValueError, pa.ArrowException) as error:
        text = _without_secrets(error, options)
        what = f"delta-rs cannot tell the difference of two versions of this table: {text}."
        hint = "Work on it with Spark."
        raise UnsupportedFeature(what, hint=hint) from (None if options else error)


def _read_by(
    access: FileAccess, table: Any, names: Sequence[str], uri: str
) -> pa.RecordBatchReader:
    """Read the files of a Delta table by a filesystem of the user's."""
    protocol, mapped = table.protocol(), "delta.columnMapping.mode"
    needed = set(protocol.reader_features or ()) & {"deletionVectors", "columnMapping"}
    if needed or table.metadata().configuration.get(mapped, "none") != "none":
        what = f"The Delta table at {uri} has deletion vectors or mapped columns."
        hint = "Read it without `filesystem`, or take it into the lake with lake.adopt."
        raise UnsupportedFeature(what, hint=hint, path=uri)
    scanner = table.to_pyarrow_dataset(
        filesystem=access.filesystem,
        parquet_read_options=ds.ParquetReadOptions(coerce_int96_timestamp_unit="us"),
    ).scanner(
        columns=list(names),
        batch_size=access.options.batch_size or 131_072,
        use_threads=access.options.use_threads,
        fragment_scan_options=access.options.of_fragments(is_remote=access.is_remote),
    )
    return scanner.to_reader()


def _skipping(where: Expression) -> Expression | None:
    """Return the terms that DataFusion and Lakeward evaluate alike, for skipping files."""
    terms = tuple(term for term in conjuncts(where) if _is_plain(term))
    return And(terms) if len(terms) > 1 else next(iter(terms), None)


def _is_plain(term: Expression) -> bool:
    match term:
        case Compare("=" | "<" | "<=" | ">" | ">=", Column(_, ()) as column, Literal(value)):
            return value is not None and column.type in _PLAIN
        case _:
            return False


_PLAIN: Final = tuple(map(Primitive, ("int8", "int16", "int32", "int64", "string", "date")))


def _without_secrets(error: Exception, options: Mapping[str, str] | None) -> str:
    """Return the text of an error, without credentials if it may quote a request."""
    if not options:
        return str(error)
    line = str(error).partition("\n")[0].partition("<?xml")[0]
    for value in sorted(options.values(), key=len, reverse=True):
        line = line.replace(value, "***") if len(value) > len("true") else line
    return line.strip()


def _listed(names: Iterable[str]) -> str:
    return ", ".join('"' + n.replace('"', '""') + '"' for n in names)
