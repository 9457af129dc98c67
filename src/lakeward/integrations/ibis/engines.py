"""Backends of Ibis that read tables of a lake: the engines of `lake.sql`, and PySpark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeAlias

import pyarrow as pa

from lakeward.engines.sql.datafusion import DataFusionSession, new_context
from lakeward.engines.sql.pruning import Wanted
from lakeward.engines.sql.query import quoted, read_query
from lakeward.engines.sql.source import Source
from lakeward.errors import InvalidInput, UnsupportedFeature
from lakeward.integrations.ibis.batches import batches_of
from lakeward.integrations.ibis.library import library
from lakeward.lake.lake import Lake
from lakeward.model.parameters import Bound
from lakeward.read.changes_dataset import changes_dataset
from lakeward.read.snapshot import TableSnapshot
from lakeward.read.sources import source_of

_MANY_FILES: Final = 512
"""A table with more files is registered as a dataset; the log prunes its files by filters."""

Lookup: TypeAlias = Callable[[Sequence[str]], tuple[str, TableSnapshot]]
"""Finds a table by the parts of its name; returns its name in the engine, and the table."""


class IbisEngine(Protocol):
    """A backend of Ibis with which tables of a lake can be registered.

    Attributes:
        backend: The backend of Ibis.
    """

    backend: Any
    spark: Any  # the session of Spark that transactions write with; None without Spark

    def register(self, name: str, table: TableSnapshot) -> None:
        """Register a table at its version under a name that no other table has."""

    def register_changes(self, name: str, table: str, since: Any, until: Any, key: Any) -> None:
        """Register the rows that a range of a table's versions changed, under a name."""

    def sql(self, query: str, table: Lookup) -> Any:
        """Return a query as an expression; `table` finds the tables that it names."""

    def rows(self, expression: Any) -> Any:
        """Return the rows of an expression of the backend, in a form that a transaction accepts."""

    def close(self) -> None:
        """Close the engine's session or connection."""


def engine_of(lake: Lake, name: Any, spark: Any) -> IbisEngine:
    """Return a new backend for an engine's name; raise `InvalidInput` or `MissingExtra`."""
    library()
    if spark is not None and name != "pyspark":
        what = f"A session of Spark goes with engine='pyspark', not {name!r}."
        raise InvalidInput(what, parameter="spark")
    match name:
        case "datafusion":
            return _DataFusion(lake)
        case "duckdb":
            return _DuckDb(lake)
        case "pyspark":
            from lakeward.integrations.ibis.spark import PySpark

            return PySpark(lake, spark)
        case _:
            what = f"There is no engine {name!r} for Ibis."
            hint = "Give engine='datafusion', engine='duckdb' or engine='pyspark'."
            raise InvalidInput(what, hint=hint)


class _Embedded:
    """The methods that DataFusion and DuckDB, which run in this process, have in common."""

    backend: Any
    spark: Any = None

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def register(self, name: str, table: TableSnapshot) -> None:
        source = source_of(table, Wanted())
        if source.files is not None and len(source.files.paths) > _MANY_FILES:
            # A dataset, of which the log chooses files by each expression's filters.
            source = Source(source.schema, source.dataset)
        self._make_known(name, source)

    def register_changes(self, name: str, table: str, since: Any, until: Any, key: Any) -> None:
        found = self._lake.table(table)
        dataset = changes_dataset(
            lambda columns: found.changes(since=since, until=until, columns=columns, key=key),
            label=f"changes of {table}",
        )
        self._make_known(name, Source(dataset.schema, lambda: dataset))

    def sql(self, query: str, table: Lookup) -> Any:
        asked = read_query(query)
        if any(ref.travel is not None for ref in asked.tables):
            what = "Older versions are not read by SQL here."
            raise UnsupportedFeature(what, hint="Use con.table(name, version=…), or lake.sql.")
        found = [table(ref.parts) for ref in asked.tables]
        schemas = [one.schema for _, one in found]
        text, values = asked.rewritten([quoted(name) for name, _ in found], schemas)
        if values:
            what = "X'…' is not read by SQL here."
            raise UnsupportedFeature(what, hint="Give the bytes as a parameter to lake.sql.")
        # Ibis 12 cannot ask the engines of today for the columns.
        return self.backend.sql(text, schema=library().Schema.from_pyarrow(self._columns(text)))

    def rows(self, expression: Any) -> Any:
        return batches_of(self.backend, expression)

    def _make_known(self, name: str, source: Source) -> None:
        raise NotImplementedError

    def _columns(self, query: str) -> pa.Schema:
        raise NotImplementedError


class _DataFusion(_Embedded):
    def __init__(self, lake: Lake) -> None:
        super().__init__(lake)
        # The same settings as in contexts that Ibis makes.
        settings = {
            "datafusion.sql_parser.dialect": "PostgreSQL",
            "datafusion.catalog.information_schema": "true",
        }
        context = new_context(settings)
        # DataFusion keeps the lists of files, so that it reports files that are deleted later.
        context.sql("SET datafusion.runtime.list_files_cache_limit = '64M'").collect()
        _fit_to_datafusion()
        self._session = DataFusionSession(context)
        self.backend = library().datafusion.from_connection(context)

    def _make_known(self, name: str, source: Source) -> None:
        self._session.register(name, source)

    def _columns(self, query: str) -> pa.Schema:
        return self._session.run(Bound(query, {})).schema

    def close(self) -> None:
        self._session.close()


class _DuckDb(_Embedded):
    def __init__(self, lake: Lake) -> None:
        from lakeward.engines.sql import duckdb

        super().__init__(lake)
        self._connection = duckdb.connected()
        self.backend = library().duckdb.from_connection(self._connection)

    def _make_known(self, name: str, source: Source) -> None:
        from lakeward.engines.sql import duckdb

        duckdb.register(self._connection, name, source)

    def _columns(self, query: str) -> pa.Schema:
        from lakeward.engines.sql import duckdb

        return duckdb.DuckDbRunning(self._connection, Bound(query, {})).schema

    def close(self) -> None:
        self._connection.close()


def _fit_to_datafusion() -> None:
    """Patch Ibis 12 to call `datafusion.udf` with the argument names of DataFusion 52."""
    import ibis.backends.datafusion as module

    if not isinstance(module.df, _RenamedArguments):
        module.df = _RenamedArguments(module.df)


class _RenamedArguments:
    """A proxy of the module `datafusion` that renames arguments of `udf`; only Ibis uses it."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    def udf(self, *args: Any, **options: Any) -> Any:
        renamed = {"input_types": "input_fields", "return_type": "return_field"}
        return self._module.udf(*args, **{renamed.get(k, k): v for k, v in options.items()})
