"""The part of a transaction that runs SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from lakeward.engines.base import Capability, unsupported
from lakeward.errors import InvalidInput
from lakeward.model.evolution.merging import SchemaMode
from lakeward.write.plan.change import RowChanges
from lakeward.write.transaction.evolving import fit_schema
from lakeward.write.transaction.executor import Executor, Found, SqlExecutor
from lakeward.write.transaction.restoring import Restoring

_SPARK: Final = "databricks"
"""The dialect of sqlglot for statements of Spark."""


class Statements(Restoring):
    """Runs SQL statements that refer to the tables of the lake by their plain names."""

    _executor: Executor

    @property
    def spark(self) -> Any:
        """The transaction's Spark session: a copy of the given one that has the lake's tables.

        Raises:
            UnsupportedFeature: The transaction was begun without Spark.
        """
        return self._sql().session

    def name(self, name: str, *, like: Any = None, schema_mode: str | None = None) -> str:
        """Return a table's name in the Spark session, for writers that require a name.

        `frame.writeTo(tx.name("sales.orders")).append()`, with a DataFrame of the session that the
        transaction was given or of `tx.spark`. Changes under that name are committed with the
        transaction, and count as changes of the whole table. The writer must not change columns and
        properties; use `like` to add columns before it writes.

        Args:
            name: The table.
            like: The DataFrame to be written: columns that the table lacks are added to it.
            schema_mode: `merge`, for `like`; the table's policy unless given.

        Raises:
            InvalidInput: `schema_mode` is given without `like`.
            PolicyViolation: The table's policy does not allow the change.
            UnsupportedFeature: The transaction was begun without Spark.
        """
        executor = self._sql()
        if schema_mode is not None and like is None:
            what = "`schema_mode` needs the frame that is going to be written."
            raise InvalidInput(what, hint="Give it as like=frame.", parameter="like")
        with self._operation(name, reads=True) as member:
            if like is not None:
                fit_schema(self._executor, member, like, schema_mode, SchemaMode.MERGE)
            return executor.name(member)

    def sql(
        self,
        text: str,
        /,
        args: Mapping[str, Any] | Sequence[Any] | None = None,
        **values: Any,
    ) -> Any:
        """Run an SQL statement over the lake's tables, by their plain names.

        Tables are seen at the transaction's cut, with the transaction's own changes.

        Without Spark, queries run on DataFusion and return a `QueryResult` of the current rows;
        changes run as `append`, `update`, `delete`, `merge`, `alter` and `drop` do, and return
        `RowChanges`. Literals, `"names"` and `'texts'` follow standard SQL.

        On Spark, any Spark SQL statement that stays inside the transaction can run. Tables that it
        writes are changed on a private branch. Temporary views of the session that the transaction
        was given can be used, including later ones. A query returns a DataFrame that shows the
        current state of the tables, whenever it is evaluated. `table_changes('sales.orders', 3, 7)`
        in FROM has the rows of `table.changes(since=3, until=7)`; without the last version, those
        up to the version that the transaction sees. If Spark refuses a statement before running it,
        Spark's own error is raised and the transaction stays open.

        Args:
            text: SELECT, INSERT, UPDATE, DELETE, MERGE, ALTER TABLE, CREATE TABLE, with or without
                AS SELECT, DROP TABLE, TRUNCATE TABLE, SHOW, DESCRIBE or EXPLAIN of a query; on
                Spark also OPTIMIZE, EXPLAIN of changes, SET and CREATE TEMPORARY VIEW. Tables are
                created, altered and dropped when the transaction commits.
            args: Values for parameters: a mapping for `:name`, a list for `?`.
            **values: On Spark, frames, columns of frames, texts and numbers that replace `{name}`
                in the text, as in `spark.sql`.

        Raises:
            InvalidInput: The text cannot be parsed, or a parameter has no value.
            AlreadyExists: The table to create exists.
            UnsupportedFeature: The statement would or might change something outside the
                transaction, or needs Spark; the error says why.
            TableNotFound: A named table does not exist.
        """
        if Capability.RUN_SQL not in self._executor.engine.can:
            return self._embedded(text, args, values)
        executor = self._sql()
        self._lifecycle.check_open()
        statement = executor.statement(text, values)
        if statement.changes and self._is_replay():
            return executor.nothing()
        with self._lifecycle.running():
            answer = executor.run(statement, args)
        if statement.changes:
            self._note_flows(text, executor.origins)
        return answer

    def _note_flows(self, text: str, found: Found) -> None:
        """Record the sources of a statement: by its plan if it added rows, else by its text."""
        flows, members = self._lifecycle.flows, self._lifecycle.view.members
        for table, origin in found.written:
            flows.rows(str(table), members[table], origin)
        if not found.written:
            flows.statement(text, _SPARK, members, views=found.views)

    def _require(self, needed: Capability) -> None:
        if needed not in self._executor.engine.can:
            raise unsupported(self._executor.engine, needed)

    def _sql(self) -> SqlExecutor:
        self._require(Capability.RUN_SQL)
        return cast(SqlExecutor, self._executor)

    def _embedded(self, text: str, args: Any, values: Mapping[str, Any]) -> Any:
        from lakeward.engines.sql.query import DIALECT
        from lakeward.write.transaction.embedded_sql import EmbeddedSql
        from lakeward.write.transaction.seen import Seen

        self._lifecycle.check_open()
        if values:
            what = "Placeholders in braces need Spark."
            hint = "Write :name in the text and give the values as args={…}."
            raise InvalidInput(what, hint=hint)
        seen = Seen(self._lifecycle, self._operation)
        flows = self._lifecycle.flows
        before = flows.count
        answer = EmbeddedSql(self, seen).run(text, args)
        if isinstance(answer, RowChanges) and not self._is_replay():
            flows.statement(text, DIALECT, self._lifecycle.view.members, since=before)
        return answer
