"""Changes of the whole lake, and consumers that follow them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from lakeward.context import LakeContext, LakeLike
from lakeward.errors import InvalidInput
from lakeward.model import arguments
from lakeward.write.commit.publications import follow_all

if TYPE_CHECKING:
    from lakeward.lake.branch import Branch
    from lakeward.read.lake_changes import LakeChange
    from lakeward.read.row_diff import Comparable, RowDiff
    from lakeward.stream.consumer import Consumer, ConsumerRecord

    Comparison: TypeAlias = str | Comparable | Branch


class Following:
    """The part of a lake's interface that returns its changes."""

    _context: LakeContext

    def changes(
        self,
        *,
        since: datetime | str | int | None = None,
        after: int | None = None,
        tables: Sequence[str] | None = None,
    ) -> Iterator[LakeChange]:
        """Yield the committed transactions of all tables, of both formats, in commit order.

        Each transaction is yielded once, with its id, actor, time and message, and for each changed
        table a reader of the changed rows: `change.tables["sales.orders"].to_arrow()`. Tables are
        named as they were at the commit, also if they were renamed or dropped later. The iterator
        ends with the newest transaction; `consumer` waits for more.

        Args:
            since: The first transaction: its id, its `position`, a time (a datetime or ISO 8601
                text) for the first transaction that is not older, or a tag for the first one after
                it. The first of the log when None.
            after: Instead of `since`: the position of the last transaction that you have processed.
            tables: Only changes of tables that have one of these names or had it at the commit, and
                only transactions that changed one of them.

        Raises:
            TransactionNotFound: `since` is no time, no tag and no committed transaction.
            TableNotFound: The lake has no such table.
        """
        from lakeward.read.lake_changes import checked_tables, lake_changes, position_before

        if since is not None and after is not None:
            what = "Give since= or after=, not both."
            raise InvalidInput(what)
        follow_all(self._context)
        with self._context.database.read() as session:
            names = checked_tables(session, tables)
        start = position_before(self._context.database, since)
        if after is not None:
            start = arguments.whole(after, "after")
        return lake_changes(self._context, start, names)

    def last_position(self) -> int:
        """Return the position of the newest commit or drop of a table; 0 if there is none.

        `lake.changes(after=lake.last_position())` has only what is committed from now on.
        """
        from lakeward.log import positions

        with self._context.database.read() as session:
            found = positions.newest(session)
        return positions.NOWHERE if found is None else found.position

    def consumer(
        self,
        name: str,
        *,
        tables: Sequence[str] | None = None,
        since: datetime | str | int | None = None,
    ) -> Consumer:
        """Open a consumer of the lake's changes, whose position the log keeps under its name.

        `for change in lake.consumer("search-index").follow(): …` See `Consumer.transaction` for
        exactly-once processing, and `Consumer.done` for effects outside the lake.

        Args:
            name: The consumer's name, the same in each run.
            tables: Only changes of these tables.
            since: Where the first run begins, as in `changes`; a later run continues where the
                previous run stopped.

        Raises:
            TableNotFound: The lake has no such table.
        """
        from lakeward.read.lake_changes import checked_tables, position_before
        from lakeward.stream.consumer import Consumer

        arguments.text(name, "name")
        with self._context.database.read() as session:
            names = checked_tables(session, tables)
        start = position_before(self._context.database, since)
        return Consumer(cast("LakeLike", self), name, names, start)

    def follow(
        self,
        *,
        since: datetime | str | int | None = None,
        after: int | None = None,
        tables: Sequence[str] | None = None,
        timeout: float | None = None,
    ) -> Iterator[LakeChange]:
        """Yield `changes`, then every new transaction as it is committed; keeps no position.

        Args:
            since: As in `changes`.
            after: As in `changes`.
            tables: As in `changes`.
            timeout: End after so many seconds without a new transaction; never when None.
        """
        from lakeward.read.lake_changes import checked_tables, position_before
        from lakeward.stream.consumer import followed

        if since is not None and after is not None:
            what = "Give since= or after=, not both."
            raise InvalidInput(what)
        limit = None if timeout is None else arguments.number(timeout, "timeout")
        with self._context.database.read() as session:
            names = checked_tables(session, tables)
        start = position_before(self._context.database, since)
        if after is not None:
            start = arguments.whole(after, "after")
        return followed(self._context, start, names, limit)

    def diff(
        self,
        a: Comparison,
        b: Comparison | None = None,
        *,
        key: str | Sequence[str] | None = None,
        sample: int = 20,
    ) -> RowDiff | dict[str, RowDiff]:
        """Compare two tables, or the tables of two branches, by their rows.

        Two tables, of any formats, are compared by column names: give names, tables, snapshots
        (`table.at(version=3)`) or tables of branches. A single branch is compared, table by table,
        with the versions it was made from; two branches by the tables that both have. For branches
        the result is a mapping by table name.

        Args:
            a: A table or a branch.
            b: The other table or branch; None to compare a branch with the versions that it was
                made from.
            key: Columns that identify a row.
            sample: How many inserted, deleted and changed rows to show at most.

        Raises:
            SchemaMismatch: The types of a column in the two tables cannot be compared.
            InvalidInput: One of the tables lacks a column of the key, or a table is compared with a
                branch.
        """
        from lakeward.lake.comparing import compared

        return compared(self._context, self._table, a, b, key=key, sample=sample)

    def _table(self, name: str) -> Any:
        table: Callable[[str], Any] = self.table  # type: ignore[attr-defined]
        return table(name)

    def consumers(self) -> list[ConsumerRecord]:
        """Return all consumers and their positions, by name."""
        from lakeward.log import consumers
        from lakeward.stream.consumer import record_of

        with self._context.database.read() as session:
            return [record_of(row) for row in consumers.every(session)]
