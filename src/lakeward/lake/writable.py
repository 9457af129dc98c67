"""The methods of a table that change its rows, each in a separate transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakeward.lake.transactions import Transactions
    from lakeward.model.expressions.when import Actions
    from lakeward.model.names import TableName
    from lakeward.model.parameters import Params
    from lakeward.write.transaction.lifecycle import CommitResult
    from lakeward.write.transaction.transaction import Transaction


class Writable:
    """The part of a table's interface that changes rows: each call is one transaction and version.

    A call either commits and returns, or raises and changes nothing; `value` of the result is the
    `RowChanges`. Several changes that belong together, or several tables, go into
    `lake.transaction`.
    """

    _name: TableName
    _transactions: Transactions

    def append(
        self, data: Any, *, schema_mode: str | None = None, message: str | None = None
    ) -> CommitResult:
        """Add rows and commit.

        Args:
            data: As in `Transaction.append`.
            schema_mode: As in `Transaction.append`.
            message: Why; kept with the commit.
        """
        return self._commit(
            lambda tx, name: tx.append(name, data, schema_mode=schema_mode), message
        )

    def overwrite(
        self,
        data: Any,
        *,
        where: str | None = None,
        params: Params | None = None,
        schema_mode: str | None = None,
        message: str | None = None,
    ) -> CommitResult:
        """Replace all rows, or those for which `where` is true, and commit.

        Args:
            data: As in `Transaction.append`; with `where`, all rows must satisfy it.
            where: A SQL boolean expression; all rows when None.
            params: Values for `:name`, by name, or for `?`, in order.
            schema_mode: As in `Transaction.overwrite`.
            message: Why; kept with the commit.

        Raises:
            Conflict: Another transaction changed the same rows meanwhile. Call it again.
        """
        return self._commit(
            lambda tx, name: tx.overwrite(
                name, data, where=where, params=params, schema_mode=schema_mode
            ),
            message,
        )

    def delete(
        self, *, where: str, params: Params | None = None, message: str | None = None
    ) -> CommitResult:
        """Delete the rows for which `where` is true, and commit.

        Args:
            where: A SQL boolean expression.
            params: Values for `:name`, by name, or for `?`, in order.
            message: Why; kept with the commit.

        Raises:
            Conflict: Another transaction changed the same rows meanwhile. Call it again.
        """
        return self._commit(lambda tx, name: tx.delete(name, where=where, params=params), message)

    def update(
        self,
        *,
        set: Mapping[str, str],  # noqa: A002  SQL's own word
        where: str | None = None,
        params: Params | None = None,
        message: str | None = None,
    ) -> CommitResult:
        """Set new values in rows and commit.

        Args:
            set: Columns with SQL expressions over the row's old values: `{"price": "price * 2"}`.
            where: Which rows; all rows when None.
            params: Values for `:name`, by name, or for `?`, in order.
            message: Why; kept with the commit.

        Raises:
            Conflict: Another transaction changed the same rows meanwhile. Call it again.
        """
        return self._commit(
            lambda tx, name: tx.update(name, set=set, where=where, params=params), message
        )

    def merge(
        self,
        data: Any,
        *,
        on: str | Sequence[str],
        matched: Actions = "update",
        not_matched: Actions = "insert",
        not_matched_by_source: Actions = None,
        message: str | None = None,
    ) -> CommitResult:
        """Update the rows that have a partner in the data, insert the others, and commit.

        Args:
            data: As in `Transaction.append`.
            on: The columns that make the key, or a condition: see `Transaction.merge`.
            matched: What to do with rows of the table that have a partner in the data.
            not_matched: What to do with rows of the data that have no partner in the table.
            not_matched_by_source: What to do with rows of the table that have no partner in the
                data.
            message: Why; kept with the commit.

        Raises:
            Conflict: Another transaction changed the same rows meanwhile. Call it again.
        """
        return self._commit(
            lambda tx, name: tx.merge(
                name,
                data,
                on=on,
                matched=matched,
                not_matched=not_matched,
                not_matched_by_source=not_matched_by_source,
            ),
            message,
        )

    def restore(
        self,
        *,
        version: int | None = None,
        timestamp: datetime | str | None = None,
        tag: str | None = None,
        transaction: str | None = None,
        message: str | None = None,
    ) -> CommitResult:
        """Restore the table to an earlier state, as a new version, and commit.

        Args:
            version: As in `Transaction.restore`.
            timestamp: As in `Transaction.restore`.
            tag: As in `Transaction.restore`.
            transaction: As in `Transaction.restore`.
            message: Why; kept with the commit.

        Raises:
            VersionNotFound: There is no such version, or some of its files were deleted.
            Conflict: Another transaction changed the table meanwhile. Call it again.
        """
        return self._commit(
            lambda tx, name: tx.restore(
                name, version=version, timestamp=timestamp, tag=tag, transaction=transaction
            ),
            message,
        )

    def _commit(
        self, change: Callable[[Transaction, str], Any], message: str | None
    ) -> CommitResult:
        # Not `lake.run`: data may be a reader, which cannot be read a second time.
        with self._transactions.begin(isolation="snapshot", message=message) as tx:
            done = change(tx, str(self._name))
        return replace(tx.commit(), value=done)
