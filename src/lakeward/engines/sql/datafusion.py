"""Runs queries on DataFusion.

A table whose files can be read unconverted is registered as a directory of links to exactly the
files that the log planned, so that DataFusion uses its own Parquet reader and its statistics.
Other tables are Arrow datasets, which receive DataFusion's filters and columns.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lakeward.engines.arrow.plain_types import plain_reader
from lakeward.engines.arrow.streams import reader_of
from lakeward.engines.sql.failures import failed, refused
from lakeward.engines.sql.links import Links
from lakeward.engines.sql.query import quoted
from lakeward.engines.sql.source import PlainFiles, Source
from lakeward.errors import InvalidInput, MissingExtra

if TYPE_CHECKING:
    from lakeward.model.parameters import Bound

NAME: Final = "datafusion"
FILE_NUMBER: Final = "__lakeward_file"
"""The column with the number of each row's file, for `with_file_names`."""
_SETTINGS: Final = {
    "datafusion.execution.parquet.pushdown_filters": "false",
    "datafusion.execution.time_zone": "UTC",
}
_SHOWN: Final = 600


def new_context(settings: Mapping[str, str] | None = None) -> Any:
    """Return a DataFusion context in UTC that returns the right rows of joins.

    Raises `MissingExtra` if DataFusion is not installed.
    """
    try:
        from datafusion import SessionConfig
    except ImportError as error:
        what = "lake.sql needs DataFusion."
        hint = "Run: pip install 'lakeward[datafusion]', or give engine='duckdb' (--engine duckdb)."
        raise MissingExtra(what, hint=hint) from error
    from lakeward.engines.sql.planned import PlannedContext

    return PlannedContext(SessionConfig({**_SETTINGS, **(settings or {})}))


class DataFusionSession:
    """A DataFusion context with tables of a lake: a new one for one query, or a user's."""

    def __init__(self, context: Any = None) -> None:
        self._context = new_context() if context is None else context
        self._is_shared = context is not None  # others run queries in it
        self._files: list[PlainFiles] = []
        self._links: list[weakref.finalize[Any, Any]] = []

    def register(self, name: str, source: Source, *, pruning: bool = True) -> None:
        """Register a table under a name; `pruning` skips row groups by their statistics."""
        if source.files is None or not source.files.paths:
            self._context.register_dataset(name, source.dataset())
            return
        self._register_files(name, source.files, source, pruning=pruning)
        self._files.append(source.files)
        if self._is_shared:
            # DataFusion keeps the list of a directory's files that it makes here. Without it, a
            # query would list the files itself and leave out those that are deleted by then.
            self._context.table(name).execution_plan()
        source.files.check()

    def _register_files(
        self, name: str, files: PlainFiles, source: Source, *, pruning: bool
    ) -> None:
        if len(files.paths) == 1 and not source.partitioned and not self._is_shared:
            self._context.register_parquet(
                name, files.paths[0], schema=source.schema, parquet_pruning=pruning
            )
            return
        links = Links(files)
        self._links.append(weakref.finalize(self, links.delete))
        partitioned = [(n, kind) for n, kind in source.partitioned.items()]
        own = pa.schema([f for f in source.schema if f.name not in source.partitioned])
        if not partitioned:
            self._context.register_parquet(name, links.path, schema=own, parquet_pruning=pruning)
            return
        inner = f"{name}_files"
        self._context.register_parquet(
            inner,
            links.path,
            schema=own,
            table_partition_cols=partitioned,
            parquet_pruning=pruning,
        )
        columns = ", ".join(quoted(n) for n in source.schema.names)
        view = self._context.sql(f"SELECT {columns} FROM {quoted(inner)}")  # noqa: S608  quoted
        self._context.register_view(name, view)

    def run(self, asked: Bound) -> Running:
        """Plan a query; its rows are read only when the result is read."""
        from datafusion import SQLOptions

        options = SQLOptions().with_allow_ddl(allow=False).with_allow_dml(allow=False)
        options = options.with_allow_statements(allow=False)
        values = {name: _scalar(value) for name, value in asked.values.items()}
        given = {"options": options, "param_values": values}
        try:
            frame = self._context.sql(asked.text, **given)
            names = None if self._is_shared else self._context.names(frame, asked.text, **given)
        except Exception as error:
            raise refused(error) from error
        return Running(frame, self._files, names)

    def close(self) -> None:
        """Delete the directories of links."""
        while self._links:
            self._links.pop()()


def with_file_names(context: Any, name: str, inner: str, source: Source, column: str) -> None:
    """Register a view of a table with numbered files, with the file of each row as a column.

    The view has the columns of the source, without the numbers.
    """
    paths = list(source.files.paths) if source.files is not None else []
    numbers = pa.array(range(len(paths)), pa.int32())
    names = pa.table({"number": numbers, "file": pa.array(paths, pa.string())})
    listed = f"{name}_files_by_number"
    context.register_record_batches(listed, [names.to_batches()])
    columns = ", ".join(f"t.{quoted(n)}" for n in source.schema.names if n != FILE_NUMBER)
    view = context.sql(
        f"SELECT {columns}, f.file AS {quoted(column)} FROM {quoted(inner)} t"  # noqa: S608  quoted
        f" JOIN {quoted(listed)} f ON t.{quoted(FILE_NUMBER)} = f.number"
    )
    context.register_view(name, view)


class Running:
    """A planned query; its columns have the names of the frame unless others are given."""

    def __init__(
        self, frame: Any, files: Sequence[PlainFiles], names: Sequence[str] | None = None
    ) -> None:
        self._frame = frame
        self._files = files
        self._names = names

    @property
    def schema(self) -> pa.Schema:
        """Schema of the result."""
        return self._frame.schema()

    def reader(self) -> pa.RecordBatchReader:
        """Run the query and return its rows as a stream; raise `FileMissing`.

        DataFusion lists the files when it starts, and leaves out those that are missing. A file
        that is deleted later makes the stream fail.
        """
        try:
            found = reader_of(self._frame)
        except Exception as error:
            raise failed(error) from error
        for files in self._files:
            files.check()
        return plain_reader(found, failed, self._names, restores_units=self._keeps_units())

    def _keeps_units(self) -> bool:
        """Return whether marks of columns hold: UNION puts them on the rows of all its parts."""
        is_marked = any(f.metadata for f in self._frame.schema())
        return is_marked and " Union" not in f" {self._frame.logical_plan().display_indent()}"


def _scalar(value: Any) -> pa.Scalar:
    try:
        return pa.scalar(value)
    except (pa.ArrowException, OverflowError) as error:
        what = f"{str(value)[:_SHOWN]} cannot be a parameter: {error}."
        raise InvalidInput(what) from error
