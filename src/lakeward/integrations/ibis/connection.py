"""A connection of Ibis to a lake.

It reads every table at one pinned cut, and writes in transactions. An expression stays at the
versions that it was made of: `refresh`, and every write of the connection, move the connection to a
new cut, and expressions made before are not changed by it.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from lakeward.engines.sql.query import quoted, read_query
from lakeward.engines.sql.source import Source
from lakeward.errors import Conflict, InvalidInput, TransactionClosed, UnsupportedFeature
from lakeward.integrations.ibis.engines import engine_of, library
from lakeward.integrations.ibis.registered import Registered, Rows
from lakeward.lake.lake import Lake
from lakeward.lake.querying import found_table
from lakeward.lake.snapshot import LakeSnapshot
from lakeward.model.parameters import Params
from lakeward.read.changes_dataset import changes_dataset
from lakeward.write.transaction.lifecycle import CommitResult
from lakeward.write.transaction.transaction import Transaction


def connect(
    lake: Lake, *, engine: str = "datafusion", at: datetime | str | int | None = None
) -> LakeIbis:
    """Connect Ibis to a lake.

    Args:
        lake: Whose tables are read and written.
        engine: `datafusion` or `duckdb`; it runs the expressions.
        at: The cut at which tables are read, as `lake.snapshot` takes it; now unless given.

    Raises:
        MissingExtra: Ibis or the engine is not installed.
    """
    return LakeIbis(lake, engine, at)


class LakeIbis:
    """Tables of a lake as expressions of Ibis, and writes from expressions.

    Methods that are not here are the backend's own. Close it, or use it in a `with` block, so that
    the versions are not held any more.

    Attributes:
        backend: The backend of Ibis that runs the expressions.
    """

    def __init__(self, lake: Lake, engine: str, at: datetime | str | int | None) -> None:
        library()
        self._lake = lake
        self._engine = engine_of(engine)
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
        """The names of the tables of the cut.

        Args:
            like: A regular expression that names must match.
            database: Only the tables of this namespace, without it before their names.
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
        """A table as an expression, at the connection's cut or at another version.

        Args:
            name: `name` or `namespace.name`.
            database: The namespace, if it is not in the name.
            version: At this version of it.
            timestamp: At its newest version that is not later than this moment.
            tag: At the version that a tag names.

        Raises:
            TableNotFound: There was no such table at the cut.
            VersionNotFound: It has no such version.
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
        """The rows that a range of versions changed, as an expression.

        They have the columns `_change_type`, `_commit_version`, `_commit_timestamp` and
        `_transaction_id` more than the table: see `Table.changes`.

        Args:
            name: The table.
            since: The first version of the range, as in `Table.changes`.
            until: The last one; the version of the connection's cut unless given.
            key: Columns that tell rows apart, as in `Table.changes`.
        """
        found = self._cut.table(name)
        last = found.version if until is None else until
        table = self._lake.table(found.name)
        place = ("changes", found.log_head.table_id, since, last, str(key))

        def source() -> Source:
            dataset = changes_dataset(
                lambda columns: table.changes(since=since, until=last, columns=columns, key=key),
                label=f"changes of {name}",
            )
            return Source(dataset.schema, lambda: dataset)

        return self.backend.table(self._registered.name_of(place, f"{found.name}_changes", source))

    def sql(self, query: str, params: Params | None = None) -> Any:
        """A query as an expression; tables of the cut are known by their names.

        Args:
            query: SELECT, WITH or VALUES, in the engine's SQL.
            params: Not possible here: write the condition with Ibis, or use `lake.sql`.
        """
        if params:
            what = "Expressions of Ibis take no parameters in SQL."
            hint = "Add conditions with .filter(…), or use lake.sql."
            raise UnsupportedFeature(what, hint=hint)
        asked = read_query(query)
        known = {t.log_head.name: t.log_head for t in self._cut}
        found = [self._cut.table(str(found_table(r.parts, known).name)) for r in asked.tables]
        if any(ref.travel is not None for ref in asked.tables):
            what = "Older versions are not read by SQL here."
            raise UnsupportedFeature(what, hint="Use con.table(name, version=…), or lake.sql.")
        names = [quoted(self._registered.table(t, of_cut=True)) for t in found]
        text = asked.rewritten(names, [t.schema.names for t in found]).text
        columns = library().Schema.from_pyarrow(self._engine.columns(text))
        return self.backend.sql(text, schema=columns)

    def refresh(self, *, at: datetime | str | int | None = None) -> Self:
        """Read tables at a new cut from now on; expressions made before stay as they are.

        Files of their versions may be vacuumed now.
        """
        before, self._cut = self._cut, self._pinned(at)
        before.__exit__(None, None, None)
        return self

    # Writing.

    @contextmanager
    def transaction(self, *, message: str | None = None) -> Generator[Transaction]:
        """Make all writes of the connection in the block one transaction.

        Expressions are computed at the connection's cut, without what the block wrote. The block's
        end commits, and moves the connection to a new cut; an error rolls everything back.

        Args:
            message: Why; kept with the commit.
        """
        if self._transaction is not None:
            what = "The connection is in a transaction already."
            raise InvalidInput(what, hint="End that block first, or connect once more.")
        with self._lake.transaction(message=message) as tx:
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
        """Make a table, with the rows of an expression or of data if they are given.

        Returns the new table as an expression; None in a block of `transaction`, because nobody
        sees the table before the commit.

        Args:
            name: `name` or `namespace.name`.
            obj: An expression of Ibis, or data as `Transaction.append` takes it.
            schema: The columns, as `lake.create` or Ibis has them; those of `obj` unless given.
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
        """Add rows to a table, or replace all of its rows by them.

        Args:
            name: The table.
            obj: An expression of Ibis, or data as `Transaction.append` takes it.
            overwrite: Replace all rows.
            schema_mode: As in `Transaction.append` and `Transaction.overwrite`.
            message: Why; kept with the commit.

        Returns:
            What was committed; None in a block of `transaction`.

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
        """Update the rows of a table that have a partner in the data, and insert the others.

        Args:
            name: The table.
            obj: An expression of Ibis, or data as `Transaction.append` takes it.
            on: The columns that make the key, or a condition: see `Transaction.merge`.
            message: Why; kept with the commit.

        Returns:
            What was committed; None in a block of `transaction`.

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
        """Take a table out of the lake. Raises `TableNotFound`."""
        return self._write(lambda tx: tx.drop(name), message)

    def close(self) -> None:
        """Let the versions go; expressions of the connection cannot be run any more."""
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
        with self._lake.transaction(message=message) as tx:
            change(tx)
        if tx.result is None:
            what = "The transaction was rolled back."
            raise TransactionClosed(what, transaction_id=tx.transaction_id)
        self.refresh()
        return tx.result
