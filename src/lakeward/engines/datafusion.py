"""DataFusion through delta-rs, for tables with deletion vectors or mapped columns.

`QueryBuilder` honours both; delta-rs's pyarrow readers give nulls or fail (see the facts), so they
are never used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import pyarrow as pa

from lakeward.errors import MissingExtra, StorageError, UnsupportedFeature

_EXTRA: Final = "Run: pip install 'lakeward[datafusion]'."


def scan_delta(
    uri: str,
    version: int,
    schema: pa.Schema,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    options: Mapping[str, str] | None = None,
) -> pa.RecordBatchReader:
    """The rows of a published Delta table at a version.

    Args:
        uri: The table's directory.
        version: Published already.
        schema: What the rows are given as.
        columns: Names, in the order wanted; all when None.
        where: A DataFusion boolean expression rendered from a bound tree.
        options: What delta-rs needs to open the files.
    """
    try:
        from deltalake import DeltaTable, QueryBuilder
        from deltalake.exceptions import DeltaError
    except ImportError as error:
        what = "Reading deletion vectors or mapped columns needs delta-rs."
        raise MissingExtra(what, hint=_EXTRA) from error
    names = list(schema.names if columns is None else columns)
    chosen = _listed(names)
    query = f"SELECT {chosen} FROM t"  # noqa: S608  quoted identifiers, an expression we rendered
    if where is not None:
        query += f" WHERE {where}"
    wanted = pa.schema([schema.field(n) for n in names])
    try:
        table = DeltaTable(uri, version=version, storage_options=dict(options or {}))
        result = pa.table(QueryBuilder().register("t", table).execute(query))
    except (DeltaError, OSError) as error:
        what = f"delta-rs could not read version {version} of {uri}: {_told(error, options)}."
        raise StorageError(what, hint="Read it with Spark.") from (None if options else error)
    return result.cast(wanted).to_reader()


def write_difference(
    before: str,
    after: str,
    target: str,
    columns: Sequence[str],
    *,
    options: Mapping[str, str] | None = None,
) -> None:
    """Append the rows by which two Delta tables differ to a third, each with its `_change_type`.

    Args:
        before: The table whose surplus of rows is a `delete`.
        after: The table whose surplus of rows is an `insert`.
        target: A table of the same columns and `_change_type`.
        columns: Of both.
        options: What delta-rs needs to open the files.

    Raises:
        UnsupportedFeature: delta-rs cannot compare or write such rows.
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
        told = _told(error, options)
        what = f"delta-rs cannot tell the difference of two versions of this table: {told}."
        hint = "Work on it with Spark."
        raise UnsupportedFeature(what, hint=hint) from (None if options else error)


def _told(error: Exception, options: Mapping[str, str] | None) -> str:
    """An error's own words; of one that may quote a request, without credentials."""
    if not options:
        return str(error)
    line = str(error).partition("\n")[0].partition("<?xml")[0]
    for value in sorted(options.values(), key=len, reverse=True):
        line = line.replace(value, "***") if len(value) > len("true") else line
    return line.strip()


def _listed(names: Iterable[str]) -> str:
    return ", ".join('"' + n.replace('"', '""') + '"' for n in names)
