"""Ibis on PySpark: tables are views of fixed versions, and transactions write with Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from lakeward.context import context_of
from lakeward.integrations.ibis.library import library
from lakeward.lake.lake import Lake
from lakeward.read.snapshot import TableSnapshot
from lakeward.spark import read_changes, session
from lakeward.write.spark.pinned import PinnedViews, query_over


class PySpark:
    """Runs expressions in a session of Spark.

    Attributes:
        backend: The backend of Ibis.
        spark: The session that transactions write with.
    """

    def __init__(self, lake: Lake, spark: Any) -> None:
        self.spark = session(lake) if spark is None else spark
        self._lake = lake
        self._views = PinnedViews(context_of(lake), self.spark)
        self.backend = _backend_class()()
        self.backend.do_connect(self._views.session)

    def register(self, name: str, table: TableSnapshot) -> None:
        """Make a view of a table at its version, under a name."""
        self._views.show(name, table)

    def register_changes(self, name: str, table: str, since: Any, until: Any, key: Any) -> None:
        """Register a view of the rows that changed in a table between two versions."""
        frame = read_changes(
            self._lake, self._views.session, table, since=since, until=until, key=key
        )
        frame.createOrReplaceTempView(name)

    def sql(self, query: str, table: Callable[[Sequence[str]], tuple[str, TableSnapshot]]) -> Any:
        """Return a query as an expression; `table` finds the tables that it names."""
        return self.backend.sql(query_over(query, lambda parts: table(parts)[0]))

    def rows(self, expression: Any) -> Any:
        """Return the rows of an expression as a frame, which Spark computes when it is written."""
        return self.backend.frame(expression)

    def close(self) -> None:
        """Drop the views; the user's session stays open."""
        self._views.close()


@cache
def _backend_class() -> Any:
    """Return a class of Ibis' backend for PySpark that fetches results with Arrow.

    Ibis 12 fetches results with pandas, which converts integer columns with nulls to floats, so
    that large integers lose digits.
    """
    library()
    from ibis.backends.pyspark import Backend
    from ibis.formats.pyarrow import PyArrowData

    class ArrowBackend(Backend):  # type: ignore[misc]  # Ibis has no types
        def frame(self, expression: Any, **options: Any) -> Any:
            # Makes memtables and functions of the expression known to Spark.
            self._run_pre_execute_hooks(expression)
            return self.raw_sql(self.compile(expression, **options))

        def to_pyarrow(
            self, expr: Any, /, *, params: Any = None, limit: Any = None, **_: Any
        ) -> Any:
            table = expr.as_table()
            found = self.frame(table, params=params, limit=limit).toArrow()
            return expr.__pyarrow_result__(PyArrowData.convert_table(found, table.schema()))

    return ArrowBackend
