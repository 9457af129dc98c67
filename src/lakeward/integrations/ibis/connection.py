"""A connection of Ibis to a lake.

It reads every table at one pinned cut, and writes in transactions. `refresh` and every write of the
connection pin a new cut. Expressions made before still read the versions of the cut at which they
were made.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from lakeward.errors import Conflict, InvalidInput, TransactionClosed, UnsupportedFeature
from lakeward.integrations.ibis.engines import engine_of
from lakeward.integrations.ibis.registered import Registered, Rows
from lakeward.lake.lake import Lake
from lakeward.lake.querying import found_table
from lakeward.lake.snapshot import LakeSnapshot
from lakeward.model.names import TableName
from lakeward.model.parameters import Params
from lakeward.read.snapshot import TableSnapshot
from lakeward.write.transaction.lifecycle import CommitResult
from lakeward.write.transaction.transaction import Transaction


def connect(
    lake: Lake,
    *,
    engine: str = "datafusion",
    at: datetime | str | int | None = None,
    spark: Any = None,
) -> LakeIbis:
    """Connect Ibis to a lake.

    Args:
        lake: The lake whose tables are read and written.
        engine: `datafusion`, `duckdb` or `pyspark`; it runs the expressions. With `pyspark`, Spark
            also writes their rows.
        at: The cut at which tables are read, as `lake.snapshot` takes it; now unless given.
        spark: With `pyspark`, a session that `lakeward.spark.session` or `configure` made; a new
            session is started unless given.

    Raises:
        MissingExtra: Ibis or the engine is not installed.
        InvalidInput: There is no such engine, or the session lacks what the lake needs.
    """
    return LakeIbis(lake, engine, at, spark)


class LakeIbis:
    """Tables of a lake as expressions of Ibis, and writes from expressions.

    All other methods are those of the backend. Close the connection, or use it in a `with` block,
    to release the pinned versions.

    Attributes:
        backend: The backend of Ibis that runs the expressions.
    """

    def __init__(
        self, lake: Lake, engine: str, at: datetime | str | int | None, spark: Any = None
    ) -> None:
        self._lake = lake
        self._engine = engine_of(lake, engine, spark)
        self.backend = self._engine.backend
        self._registered = Registered(self._engine)
        self._transaction: Transaction | None = None
        self._cut = self._pinned(at)

    def __repr__(self) -> str:
        return f"LakeIbis({self._lake.label!r}, {self.backend.name}, {dict(self.versions)})"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.backend, name)

    # Reading.

    @property
    def versions(self) -> Mapping[str, int]:
        """The version at which each table is read."""
        return self._cut.versions

    def list_tables(self, *, like: str | None = None, database: str | None = None) -> list[str]:
        """Return the names of the tables of the cut, sorted.

        Args:
            like: A regular expression that must match a part of the name.
            database: Return only the tables of this namespace, with names that leave it out.
        """
        names = sorted(self.versions)
        if database is not None:
            names = [n.removeprefix(f"{database}.") for n in names if n.startswith(f"{database}.")]
        return names if like is None else [n for n in names if re.search(like, n)]

    def table(
        self,
        name: str,
        *,
        database: str | None = None,
        version: int | None = None,
        timestamp: datetime | str | None = None,
        tag: str | None = None,
    ) -> Any:
        """Return a table as an expression, at the connection's cut or at another version.

        Args:
            name: `name` or `namespace.name`.
            database: The namespace, if it is not in the name.
            version: Read the table at this version.
            timestamp: Read the newest version that is not later than this time.
            tag: Read the version that this tag refers to.

        Raises:
            TableNotFound: There was no such table at the cut.
            VersionNotFound: The table has no such version.
        """
        full = f"{database}.{name}" if database else name
        if version is None and timestamp is None and tag is None:
            found, of_cut = self._cut.table(full), True
        else:
            place: dict[str, Any] = {"version": version, "timestamp": timestamp, "tag": tag}
            found, of_cut = self._lake.table(full).at(**place), False
        return self.backend.table(self._registered.table(found, of_cut=of_cut))

    def changes(
        self,
        name: str,
        *,
        since: int | str | datetime,
        until: int | str | datetime | None = None,
        key: str | Sequence[str] | None = None,
    ) -> Any:
        """Return the rows that a range of versions changed, as an expression.

        In addition to the table's columns, they have `_change_type`, `_commit_version`,
        `_commit_timestamp` and `_transaction_id`: see `Table.changes`.

        Args:
            name: The table.
            since: The first version of the range, as in `Table.changes`.
            until: The last version; the version of the connection's cut unless given.
            key: Columns that identify a row, as in `Table.changes`.
        """
        found = self._cut.table(name)
        last = found.version if until is None else until
        place = ("changes", found.log_head.table_id, since, last, str(key))

        def register(called: str) -> None:
            self._engine.register_changes(called, found.name, since, last, key)

        called = self._registered.name_of(place, f"{found.name}_changes", register)
        return self.backend.table(called)

    def sql(self, query: str, params: Params | None = None) -> Any:
        """Return a query as an expression; it reads tables at the connection's cut, by their names.

        Args:
            query: SELECT, WITH or VALUES, in the engine's SQL.
            params: Not supported: write the condition with Ibis, or use `lake.sql`.

        Raises:
            UnsupportedFeature: `params` were given.
            TableNotFound: The query names a table that is not in the cut.
        """
        if params:
            what = "Expressions of Ibis take no parameters in SQL."
            hint = "Add conditions with .filter(…), or use lake.sql."
            raise UnsupportedFeature(what, hint=hint)
        known = {TableName.parse(t.name): t for t in self._cut}

        def table(parts: Sequence[str]) -> tuple[str, TableSnapshot]:
            found = found_table(parts, known)
            return self._registered.table(found, of_cut=True), found

        return self._engine.sql(query, table)

    def refresh(self, *, at: datetime | str | int | None = None) -> Self:
        """Pin a new cut, at which tables are read from now on, and release the cut before.

        Expressions made before still read their old versions, whose files may be vacuumed now.
        """
        before, self._cut = self._cut, self._pinned(at)
        before.__exit__(None, None, None)
        return self

    # Writing.

    @contextmanager
    def transaction(self, *, message: str | None = None) -> Generator[Transaction]:
        """Run all writes of the connection in the `with` block as one transaction; yield it.

        Expressions are computed at the connection's cut, without what the block wrote. The end of
        the block commits and pins a new cut; an error rolls everything back.

        Args:
            message: Why; kept with the commit.
        """
        if self._transaction is not None:
            what = "The connection is in a transaction already."
            raise InvalidInput(what, hint="End that block first, or connect once more.")
        with self._lake.transaction(message=message, spark=self._engine.spark) as tx:
            self._transaction = tx
            try:
                yield tx
            finally:
                self._transaction = None
        self.refresh()

    def create_table(
        self,
        name: str,
        obj: Any = None,
        *,
        schema: Any = None,
        format: str = "delta",  # noqa: A002  the name users know
        partition_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        comment: str | None = None,
        message: str | None = None,
    ) -> Any:
        """Create a table, with the rows of an expression or of data if they are given.

        Return the new table as an expression; None in a block of `transaction`, because the table
        does not exist before the commit.

        Args:
            name: `name` or `namespace.name`.
            obj: An expression of Ibis, or data as `Transaction.append` takes it.
            schema: The columns, as for `lake.create` or as a schema of Ibis; those of `obj` unless
                given.
            format: `delta` or `iceberg`.
            partition_by: As in `lake.create`.
            properties: As in `lake.create`.
            comment: As in `lake.create`.
            message: Why; kept with the commit.

        Raises:
            AlreadyExists: The lake has a table of this name.
            InvalidInput: Neither `obj` nor `schema` is given, or an argument is wrong.
        """
        rows = self._registered.rows(obj)
        columns = schema.to_pyarrow() if hasattr(schema, "to_pyarrow") else schema

        def make(tx: Transaction) -> None:
            like = rows.data if columns is None else None
            options: dict[str, Any] = {"format": format, "partition_by": partition_by}
            tx.create(name, columns, like=like, properties=properties, comment=comment, **options)
            if rows.data is not None:
                tx.append(name, rows.data)

        inside = self._transaction is not None
        self._write(make, message)
        return None if inside else self.table(name)

    def insert(
        self,
        name: str,
        obj: Any,
        *,
        overwrite: bool = False,
        schema_mode: str | None = None,
        message: str | None = None,
    ) -> CommitResult | None:
        """Append rows to a table, or replace all of its rows.

        Args:
            name: The table.
            obj: An expression of Ibis, or data as `Transaction.append` takes it.
            overwrite: Replace all rows of the table instead of appending.
            schema_mode: As in `Transaction.append` and `Transaction.overwrite`.
            message: Why; kept with the commit.

        Returns:
            The result of the commit; None in a block of `transaction`.

        Raises:
            Conflict: The expression reads the table, which has changed since the connection's cut.
                Call `refresh`, and make the expression again.
        """
        rows = self._registered.rows(obj)

        def add(tx: Transaction) -> None:
            change = tx.overwrite if overwrite else tx.append
            change(name, rows.data, schema_mode=schema_mode)
            self._check_newest(tx, name, rows)

        return self._write(add, message)

    def upsert(
        self,
        name: str,
        obj: Any,
        *,
        on: str | Sequence[str],
        message: str | None = None,
    ) -> CommitResult | None:
        """Update the rows of a table that match a row of the data; insert the data's other rows.

        Args:
            name: The table.
            obj: An expression of Ibis, or data as `Transaction.append` takes it.
            on: The columns of the key, or a condition: see `Transaction.merge`.
            message: Why; kept with the commit.

        Returns:
            The result of the commit; None in a block of `transaction`.

        Raises:
            Conflict: The expression reads the table, which has changed since the connection's cut.
                Call `refresh`, and make the expression again.
        """
        rows = self._registered.rows(obj)

        def merge(tx: Transaction) -> None:
            tx.merge(name, rows.data, on=on)
            self._check_newest(tx, name, rows)

        return self._write(merge, message)

    def drop_table(self, name: str, *, message: str | None = None) -> CommitResult | None:
        """Drop a table; raise `TableNotFound` if there is none of this name.

        Return the result of the commit; None in a block of `transaction`.
        """
        return self._write(lambda tx: tx.drop(name), message)

    def close(self) -> None:
        """Release the pinned versions; expressions of the connection cannot be run any more."""
        self._engine.close()
        self._cut.__exit__(None, None, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # How it is done.

    def _pinned(self, at: datetime | str | int | None) -> LakeSnapshot:
        return self._lake.snapshot(at=at).__enter__()

    def _check_newest(self, tx: Transaction, name: str, rows: Rows) -> None:
        base = tx.bases.get(name)
        for table, version in rows.reads:
            if table == name and base is not None and base != version:
                tx.rollback()
                what = f"The expression reads version {version} of {name}, which is at {base} now."
                hint = "Call refresh() and make the expression again."
                raise Conflict(what, hint=hint, table=name, version=version)

    def _write(self, change: Any, message: str | None) -> CommitResult | None:
        if self._transaction is not None:
            if message is not None:
                what = "In a block of `transaction`, the message is given to `transaction`."
                raise InvalidInput(what, parameter="message")
            change(self._transaction)
            return None
        with self._lake.transaction(message=message, spark=self._engine.spark) as tx:
            change(tx)
        if tx.result is None:
            what = "The transaction was rolled back."
            raise TransactionClosed(what, transaction_id=tx.transaction_id)
        self.refresh()
        return tx.result
