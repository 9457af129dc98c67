"""Runs queries on DuckDB, in the version that the user installed.

A table whose files can be read unconverted becomes a view over exactly the files that the log
planned. Other tables are Arrow datasets, which receive DuckDB's filters and columns.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lakeward.engines.arrow.plain_types import plain_reader, plain_type
from lakeward.engines.sql.query import quoted
from lakeward.engines.sql.source import PlainFiles, Source
from lakeward.errors import InvalidInput, LakewardError, MissingExtra, UnsupportedFeature

if TYPE_CHECKING:
    from lakeward.model.names import TableName
    from lakeward.model.parameters import Bound

NAME: Final = "duckdb"
_SHOWN: Final = 600
_TYPES: Final[Mapping[pa.DataType, str]] = {
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.date32(): "DATE",
    pa.string(): "VARCHAR",
}


def connected() -> Any:
    """Return a connection to a new database in memory; raise `MissingExtra`."""
    connection = _library().connect()
    connection.execute("SET TimeZone = 'UTC'")
    if find_spec("pytz") is None:
        with suppress(_library().Error):  # older ones have no such filters
            # A join passes the values of its smaller side to a dataset as a list. For a list of
            # timestamps DuckDB needs pytz; without the list it still passes their range.
            connection.execute("SET GLOBAL dynamic_or_filter_threshold = 0")
    return connection


def _library() -> Any:
    try:
        import duckdb
    except ImportError as error:
        what = "This needs DuckDB."
        raise MissingExtra(what, hint="Run: pip install duckdb.") from error
    return duckdb


@lru_cache(maxsize=1)
def _shared(process: int) -> Any:
    """Return the database of this process; a forked process cannot use its parent's."""
    del process
    found = connected()
    with suppress(_library().Error):  # older ones have no such cache
        # Data of files is not kept: it would fill the memory of the process.
        found.execute("SET GLOBAL enable_external_file_cache = false")
    return found


def register(
    connection: Any,
    name: str,
    source: Source,
    *,
    schema: str | None = None,
    temporary: bool = False,
) -> None:
    """Register a table as a view of a connection, or of its database unless `temporary`.

    Raises:
        UnsupportedFeature: DuckDB refuses the view.
    """
    full = quoted(name) if schema is None else quoted(schema, name)
    try:
        _register(connection, full, source, schema, temporary=temporary)
    except _library().Error as error:
        shown = name if schema is None else f"{schema}.{name}"
        what = f"Table {shown} cannot be a view of DuckDB: {_said(error)}."
        raise UnsupportedFeature(what, hint="Read it with lake.sql.", table=shown) from error


def check_names(names: Iterable[TableName]) -> None:
    """Raise `UnsupportedFeature` if two tables have the same name in DuckDB.

    DuckDB ignores the case of names, and `main` is the schema of names without a namespace.
    """
    known: dict[tuple[str, str], TableName] = {}
    for name in names:
        other = known.setdefault(((name.namespace or "main").lower(), name.name.lower()), name)
        if other is not name:
            what = (
                f"Tables {other} and {name} have the same name in DuckDB:"
                " it ignores case, and `main` is its default schema."
            )
            hint = "Read them with lake.sql, or rename one of them with lake.rename."
            raise UnsupportedFeature(what, hint=hint, table=str(name))


def _register(
    connection: Any, full: str, source: Source, schema: str | None, *, temporary: bool
) -> None:
    if schema is not None:
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)}")
    if source.files is not None and source.files.paths:
        source.files.check()
        relation = _scan(source.files, source)
    else:
        place = f"__lakeward {full}"  # quoted names are never alike for different tables
        connection.register(place, source.dataset())
        relation = quoted(place)
    columns = ", ".join(quoted(n) for n in source.schema.names)
    kind = "TEMPORARY VIEW" if temporary else "VIEW"
    connection.execute(f"CREATE {kind} {full} AS SELECT {columns} FROM {relation}")  # noqa: S608


class DuckDbSession:
    """A DuckDB connection with the tables of one query, which no other connection sees.

    All sessions are connections to one database in memory, because opening a database takes longer
    than many queries.
    """

    def __init__(self) -> None:
        _library()
        self._connection = _shared(os.getpid()).cursor()
        self._connection.execute("SET TimeZone = 'UTC'")

    def register(self, name: str, source: Source) -> None:
        """Register a table under a name."""
        register(self._connection, name, source, temporary=True)

    def run(self, asked: Bound) -> DuckDbRunning:
        """Plan a query; its rows are read only when the result is read."""
        return DuckDbRunning(self._connection, asked)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class DuckDbRunning:
    """A planned query."""

    def __init__(self, connection: Any, asked: Bound) -> None:
        self._connection = connection
        self._asked = asked
        self._relation: Any = None
        try:
            # Plan now, so that errors in the query are raised now.
            if asked.values:
                connection.execute(f"EXPLAIN {asked.text}", asked.values).fetchall()
            else:
                self._relation = connection.sql(asked.text)
        except Exception as error:
            raise _refused(error) from error

    @property
    def schema(self) -> pa.Schema:
        """Schema of the result of a query without parameters; no row is read."""
        try:
            found = self._relation.limit(0).to_arrow_table().schema
        except Exception as error:
            raise _refused(error) from error
        return pa.schema([pa.field(f.name, plain_type(f.type), f.nullable) for f in found])

    def reader(self) -> pa.RecordBatchReader:
        """Run the query and return its rows as a stream."""
        try:
            # A cursor would not know the registered datasets.
            found = self._relation
            if found is None:
                found = self._connection.execute(self._asked.text, self._asked.values or None)
            rows = found.to_arrow_reader() if hasattr(found, "to_arrow_reader") else None
            rows = rows if rows is not None else found.fetch_record_batch()
        except Exception as error:
            raise _failed(error) from error
        return plain_reader(rows, _failed)


def _scan(files: PlainFiles, source: Source) -> str:
    """Return a `read_parquet` call for files, with the partition values that the files lack."""
    if not source.partitioned:
        return f"read_parquet({_texts(files.paths)}, hive_partitioning = false)"
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for path, values in zip(files.paths, files.partitions, strict=True):
        groups.setdefault(values, []).append(path)
    parts = []
    for values, paths in groups.items():
        added = ", ".join(
            f"CAST({_text(value)} AS {_TYPES[source.partitioned[name]]}) AS {quoted(name)}"
            for name, value in values
        )
        parts.append(
            f"SELECT *, {added} FROM read_parquet({_texts(paths)}, hive_partitioning = false)"  # noqa: S608
        )
    return "(" + " UNION ALL BY NAME ".join(parts) + ")"


def _texts(values: Any) -> str:
    return "[" + ", ".join(map(_text, values)) + "]"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _refused(error: Exception) -> LakewardError:
    if isinstance(error, LakewardError):
        return error
    return InvalidInput(f"DuckDB cannot plan the query: {_said(error)}.")


def _failed(error: Exception) -> LakewardError:
    if isinstance(error, LakewardError):
        return error
    if "'pytz' failed to import" in str(error):
        what = "DuckDB needs pytz to compare timestamps with a list of values."
        return MissingExtra(what, hint="Run: pip install pytz.")
    return InvalidInput(f"DuckDB could not run the query: {_said(error)}.")


def _said(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:_SHOWN].rstrip(". ")
