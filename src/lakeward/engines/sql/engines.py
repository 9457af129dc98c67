"""The engines that run queries, by name."""

from __future__ import annotations

from typing import Any, Protocol

import pyarrow as pa

from lakeward.engines.sql.source import Source
from lakeward.errors import InvalidInput
from lakeward.model.parameters import Bound


class Planned(Protocol):
    """A query planned by an engine."""

    def reader(self) -> pa.RecordBatchReader:
        """Run the query and return its rows as a stream."""


class SqlSession(Protocol):
    """An engine session with the tables of one query."""

    def register(self, name: str, source: Source) -> None:
        """Register a table under a name."""

    def run(self, asked: Bound) -> Planned:
        """Plan a query; its rows are read only when the result is read."""

    def close(self) -> None:
        """Release connections and temporary files."""


def session_of(engine: Any) -> SqlSession:
    """Open a session of an engine; raise `InvalidInput` if it is unknown, or `MissingExtra`."""
    if engine == "datafusion":
        from lakeward.engines.sql.datafusion import DataFusionSession

        return DataFusionSession()
    if engine == "duckdb":
        from lakeward.engines.sql.duckdb import DuckDbSession

        return DuckDbSession()
    what = f"There is no engine {engine!r} for queries."
    raise InvalidInput(what, hint="Give engine='datafusion' or engine='duckdb'.")
