"""Queries on DataFusion.

Tables whose files can be read as they are get to DataFusion as a directory of links to exactly the
files that the log planned, so that its own Parquet reader and its statistics for join order are
used. Other tables are Arrow datasets, which receive its filters and columns.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lakeward.engines.arrow.plain_types import plain_reader
from lakeward.engines.arrow.streams import reader_of
from lakeward.engines.sql.query import quoted
from lakeward.engines.sql.source import PlainFiles, Source
from lakeward.errors import InvalidInput, LakewardError, MissingExtra, StorageError

if TYPE_CHECKING:
    from lakeward.model.parameters import Bound

NAME: Final = "datafusion"
FILE_NUMBER: Final = "__lakeward_file"
"""A column that has the number of the file of each row, for `with_file_names`."""
_SETTINGS: Final = {
    "datafusion.execution.parquet.pushdown_filters": "false",
    "datafusion.execution.time_zone": "UTC",
}
_SHOWN: Final = 600
_PREFIX: Final = re.compile(r"^(DataFusion error: )?((?:[A-Z][A-Za-z]+ ?)+ error: )*")


def new_context(settings: Mapping[str, str] | None = None) -> Any:
    """A context of DataFusion in UTC, with more settings. Raises `MissingExtra`."""
    try:
        from datafusion import SessionConfig, SessionContext
    except ImportError as error:
        what = "lake.sql needs DataFusion."
        hint = "Run: pip install 'lakeward[datafusion]', or give engine='duckdb' (--engine duckdb)."
        raise MissingExtra(what, hint=hint) from error
    return SessionContext(SessionConfig({**_SETTINGS, **(settings or {})}))


class DataFusionSession:
    """A context of DataFusion with tables of a lake: its own for one query, or a user's."""

    def __init__(self, context: Any = None) -> None:
        self._context = new_context() if context is None else context
        self._links: list[weakref.finalize[Any, Any]] = []

    def register(self, name: str, source: Source, *, pruning: bool = True) -> None:
        """Make a table known by a name; `pruning` skips row groups by their statistics."""
        if source.files is None or not source.files.paths:
            self._context.register_dataset(name, source.dataset())
            return
        source.files.check()
        if len(source.files.paths) == 1 and not source.partitioned:
            path = source.files.paths[0]
            self._context.register_parquet(
                name, path, schema=source.schema, parquet_pruning=pruning
            )
            return
        directory = self._linked(source.files)
        partitioned = [(n, kind) for n, kind in source.partitioned.items()]
        own = pa.schema([f for f in source.schema if f.name not in source.partitioned])
        if not partitioned:
            self._context.register_parquet(name, directory, schema=own, parquet_pruning=pruning)
            return
        inner = f"{name}_files"
        self._context.register_parquet(
            inner,
            directory,
            schema=own,
            table_partition_cols=partitioned,
            parquet_pruning=pruning,
        )
        columns = ", ".join(quoted(n) for n in source.schema.names)
        view = self._context.sql(f"SELECT {columns} FROM {quoted(inner)}")  # noqa: S608  quoted
        self._context.register_view(name, view)

    def run(self, asked: Bound) -> Running:
        """Plan a query; rows are read only when the result is."""
        from datafusion import SQLOptions

        options = SQLOptions().with_allow_ddl(allow=False).with_allow_dml(allow=False)
        options = options.with_allow_statements(allow=False)
        values = {name: _scalar(value) for name, value in asked.values.items()}
        try:
            frame = self._context.sql(asked.text, options=options, param_values=values)
        except Exception as error:
            raise _refused(error) from error
        return Running(frame)

    def close(self) -> None:
        """Remove the links."""
        while self._links:
            self._links.pop()()

    def _linked(self, files: PlainFiles) -> str:
        """A directory of links to files; values of partitions are in the names of directories."""
        root = Path(tempfile.mkdtemp(prefix="lakeward-sql-", dir=_place_of_links()))
        self._links.append(weakref.finalize(self, shutil.rmtree, root, ignore_errors=True))
        parts = files.partitions or itertools.repeat(())
        for n, (path, values) in enumerate(zip(files.paths, parts, strict=False)):
            below = root.joinpath(*(f"{name}={value}" for name, value in values))
            if values:
                below.mkdir(parents=True, exist_ok=True)
            (below / f"{n:07}.parquet").symlink_to(path)
        return f"{root}/"


def with_file_names(context: Any, name: str, inner: str, source: Source, column: str) -> None:
    """A view of a table whose files are numbered, with the file of each row as a column."""
    paths = list(source.files.paths) if source.files is not None else []
    numbers = pa.array(range(len(paths)), pa.int32())
    names = pa.table({"number": numbers, "file": pa.array(paths, pa.string())})
    listed = f"{name}_files_by_number"
    context.register_record_batches(listed, [names.to_batches()])
    columns = ", ".join(f"t.{quoted(n)}" for n in source.schema.names)
    view = context.sql(
        f"SELECT {columns}, f.file AS {quoted(column)} FROM {quoted(inner)} t"  # noqa: S608  quoted
        f" JOIN {quoted(listed)} f ON t.{quoted(FILE_NUMBER)} = f.number"
    )
    context.register_view(name, view)


@cache
def _place_of_links() -> str | None:
    """A directory in memory, if this machine has one: links on a disk cost more than a query."""
    place = "/dev/shm"  # noqa: S108  links are made in a directory of our own below it
    return place if os.access(place, os.W_OK | os.X_OK) else None


class Running:
    """A planned query."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    @property
    def schema(self) -> pa.Schema:
        """Schema of the result."""
        return self._frame.schema()

    def reader(self) -> pa.RecordBatchReader:
        """Run the query and return its rows as a stream."""
        try:
            found = reader_of(self._frame)
        except Exception as error:
            raise _failed(error) from error
        return plain_reader(found, _failed)


def _scalar(value: Any) -> pa.Scalar:
    try:
        return pa.scalar(value)
    except (pa.ArrowException, OverflowError) as error:
        what = f"{str(value)[:_SHOWN]} cannot be a parameter: {error}."
        raise InvalidInput(what) from error


def _refused(error: Exception) -> LakewardError:
    if isinstance(error, LakewardError):
        return error
    what = f"DataFusion cannot plan the query: {_said(error)}."
    return InvalidInput(what, hint="lakeward show TABLE lists the columns of a table.")


def _failed(error: Exception) -> LakewardError:
    if isinstance(error, LakewardError):
        return error
    said = _said(error)
    if "ObjectStore" in said or "No such file" in said:
        return StorageError(f"A file of the query cannot be read: {said}.")
    what = f"DataFusion could not run the query: {said}."
    return InvalidInput(what)


def _said(error: Exception) -> str:
    first = str(error).strip().partition("\n")[0]
    return _PREFIX.sub("", first)[:_SHOWN].rstrip(". ")
