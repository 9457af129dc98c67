"""Backends of Ibis that read tables of a lake, with the engines that `lake.sql` runs on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

import pyarrow as pa

from lakeward.engines.sql.datafusion import DataFusionSession, new_context
from lakeward.engines.sql.source import Source
from lakeward.errors import InvalidInput, MissingExtra
from lakeward.model.parameters import Bound

_MANY_FILES: Final = 512
"""Of a table with more files, the log chooses those that each expression needs."""


class IbisEngine(Protocol):
    """A backend of Ibis, and how it gets to know tables."""

    backend: Any

    def register(self, name: str, source: Source) -> None:
        """Make a table known by a name that stands for it alone."""

    def columns(self, query: str) -> pa.Schema:
        """The columns of a query; Ibis 12 cannot ask the engines of today for them."""

    def close(self) -> None:
        """Release what it holds."""


def engine_of(name: Any) -> IbisEngine:
    """A new backend by its name. Raises `InvalidInput` and `MissingExtra`."""
    known: dict[str, Callable[[], IbisEngine]] = {"datafusion": _DataFusion, "duckdb": _DuckDb}
    if name not in known:
        what = f"There is no engine {name!r} for Ibis."
        raise InvalidInput(what, hint="Give engine='datafusion' or engine='duckdb'.")
    return known[name]()


def library() -> Any:
    """Ibis itself. Raises `MissingExtra`."""
    try:
        import ibis
        import pyarrow_hotfix  # noqa: F401  Ibis' backends import it
    except ImportError as error:
        what = "This needs Ibis."
        raise MissingExtra(what, hint="Run: pip install 'lakeward[ibis]'.") from error
    return ibis


class _DataFusion:
    def __init__(self) -> None:
        ibis = library()
        # As Ibis makes its own contexts.
        settings = {
            "datafusion.sql_parser.dialect": "PostgreSQL",
            "datafusion.catalog.information_schema": "true",
        }
        context = new_context(settings)
        _fit_to_datafusion()
        self._session = DataFusionSession(context)
        self.backend = ibis.datafusion.from_connection(context)

    def register(self, name: str, source: Source) -> None:
        self._session.register(name, _as_read(source))

    def columns(self, query: str) -> pa.Schema:
        return self._session.run(Bound(query, {})).schema

    def close(self) -> None:
        self._session.close()


class _DuckDb:
    def __init__(self) -> None:
        from lakeward.engines.sql import duckdb

        ibis = library()
        self._connection = duckdb.connected()
        self.backend = ibis.duckdb.from_connection(self._connection)

    def register(self, name: str, source: Source) -> None:
        from lakeward.engines.sql import duckdb

        duckdb.register(self._connection, name, _as_read(source))

    def columns(self, query: str) -> pa.Schema:
        from lakeward.engines.sql import duckdb

        return duckdb.DuckDbRunning(self._connection, Bound(query, {})).schema

    def close(self) -> None:
        self._connection.close()


def _as_read(source: Source) -> Source:
    """The files themselves where they are few; a dataset, which the log prunes, where many."""
    if source.files is not None and len(source.files.paths) > _MANY_FILES:
        return Source(source.schema, source.dataset)
    return source


def _fit_to_datafusion() -> None:
    """Give Ibis 12 the names that arguments of `datafusion.udf` have since DataFusion 52."""
    import ibis.backends.datafusion as module

    if not isinstance(module.df, _RenamedArguments):
        module.df = _RenamedArguments(module.df)


class _RenamedArguments:
    """The module `datafusion` as Ibis calls it; nobody else sees it."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    def udf(self, *args: Any, **options: Any) -> Any:
        renamed = {"input_types": "input_fields", "return_type": "return_field"}
        return self._module.udf(*args, **{renamed.get(k, k): v for k, v in options.items()})
