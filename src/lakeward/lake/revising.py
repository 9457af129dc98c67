"""Restores tables to one cut, and undoes transactions, over the whole lake."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Literal, overload

from lakeward.context import LakeContext
from lakeward.errors import Conflict, InvalidInput, TableNotFound
from lakeward.lake.snapshot import LakeSnapshot
from lakeward.lake.transactions import Transactions
from lakeward.log import commits, heads
from lakeward.model import arguments
from lakeward.model.names import TableName, hint_for_unknown
from lakeward.read.moments import no_commit
from lakeward.read.snapshot import TableSnapshot
from lakeward.write.commit.publications import follow_all
from lakeward.write.transaction.registration import LeaseKeeper

if TYPE_CHECKING:
    from lakeward.write.history.restore import TableChange
    from lakeward.write.transaction.lifecycle import CommitResult


@dataclass(frozen=True, slots=True)
class Revision:
    """The changes that a restore or undo made, or would make.

    Attributes:
        tables: One entry for each table that changes.
        unchanged: Tables that are in the requested state already.
        skipped: Tables that are not touched, each with the reason: made later, or dropped since.
    """

    tables: tuple[TableChange, ...]
    unchanged: tuple[str, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()


class Revising:
    """The part of a lake's interface that restores tables and undoes transactions."""

    _context: LakeContext
    _keeper: LeaseKeeper
    _transactions: Transactions

    @overload
    def restore(
        self,
        *,
        at: datetime | str | int,
        tables: Sequence[str] | None = None,
        dry_run: Literal[False] = False,
        message: str | None = None,
    ) -> CommitResult: ...
    @overload
    def restore(
        self,
        *,
        at: datetime | str | int,
        tables: Sequence[str] | None = None,
        dry_run: Literal[True],
        message: str | None = None,
    ) -> Revision: ...
    def restore(
        self,
        *,
        at: datetime | str | int,
        tables: Sequence[str] | None = None,
        dry_run: bool = False,
        message: str | None = None,
    ) -> CommitResult | Revision:
        """Restore all tables, or some, to one consistent cut, in one transaction.

        Each table gets a new version with the rows, columns, properties and constraints that it
        had; no file is copied. Tables that were made after the cut, or dropped since, are not
        touched. The `value` of the result is a `Revision`, which lists the files and rows that are
        added and removed.

        Args:
            at: The cut, as `snapshot` takes it: a tag, a time or a transaction's id.
            tables: Only these tables, by the names that they have now.
            dry_run: Change nothing, and return what would be done as a `Revision`.
            message: Why; kept with the commit.

        Raises:
            VersionNotFound: Needed files were deleted; nothing was changed.
            TableNotFound: A table did not exist at that time, or does not exist now.
            Conflict: Another transaction changed one of the tables meanwhile.
        """
        self._context.database.check_writable()
        arguments.flag(dry_run, "dry_run")
        if at is None:
            what = "No cut to restore is given."
            raise InvalidInput(what, hint="Give at= a tag, a time or a transaction's id.")
        cut = LakeSnapshot(self._context, self._keeper, at)
        wanted, skipped = self._chosen(cut, tables)
        self._check_readable(wanted)
        with cut.only(t.name for _, t in wanted):
            if dry_run:
                return Revision(*_split(self._planned(wanted)), skipped)
            with self._transactions.begin(isolation="snapshot", message=message) as tx:
                done = [tx.restore(str(name), version=t.version) for name, t in wanted]
        return replace(tx.commit(), value=Revision(*_split(done), skipped))

    @overload
    def undo(
        self, transaction_id: str, *, dry_run: Literal[False] = False, message: str | None = None
    ) -> CommitResult: ...
    @overload
    def undo(
        self, transaction_id: str, *, dry_run: Literal[True], message: str | None = None
    ) -> Revision: ...
    def undo(
        self, transaction_id: str, *, dry_run: bool = False, message: str | None = None
    ) -> CommitResult | Revision:
        """Undo one transaction in all its tables, and keep later transactions.

        Rows that it added are removed and rows that it removed are restored, in one transaction. An
        undo can be undone. Inputs and application progress that the transaction recorded are kept.
        The `value` of the result is a `Revision`.

        Args:
            transaction_id: The id that history shows.
            dry_run: Change nothing, and return what would be done as a `Revision`.
            message: Why; kept with the commit.

        Raises:
            TransactionNotFound: No such transaction was committed.
            Conflict: A later transaction touched the same files, or changed the same columns or
                properties; the error names it. Nothing was changed.
            UnsupportedFeature: The transaction created a table.
            VersionNotFound: Needed files were deleted; nothing was changed.
        """
        self._context.database.check_writable()
        arguments.text(transaction_id, "transaction_id")
        arguments.flag(dry_run, "dry_run")
        follow_all(self._context)
        with self._context.database.read() as session:
            members = commits.members(session, transaction_id)
            if not members:
                raise no_commit(session, transaction_id)
            for name, table_id, _ in members:
                if heads.by_id(session, table_id) is None:
                    what = f"Transaction {transaction_id} cannot be undone: {name} was dropped."
                    raise Conflict(what, table=str(name), transaction_id=transaction_id)
            if dry_run:
                from lakeward.write.history.undo import undoing

                found = [(heads.get(session, name), version) for name, _, version in members]
                steps = [undoing(self._context, session, head, v) for head, v in found]
                return Revision(*_split(step.record() for step in steps))
        why = message or f"undo of transaction {transaction_id}"
        with self._transactions.begin(isolation="snapshot", message=why) as tx:
            done = [
                tx.take_back(str(name), version, transaction_id) for name, _, version in members
            ]
        return replace(tx.commit(), value=Revision(*_split(done)))

    def _chosen(
        self, cut: LakeSnapshot, tables: Sequence[str] | None
    ) -> tuple[list[tuple[TableName, TableSnapshot]], tuple[tuple[str, str], ...]]:
        """Return the tables to restore by their names now, and the skipped ones with the reason."""
        with self._context.database.read() as session:
            now = {h.name: h.table_id for h in heads.all_heads(session)}
        then = {t.log_head.table_id: t for t in cut}
        found = {name: then[i] for name, i in sorted(now.items()) if i in then}
        if tables is not None:
            wanted = {TableName.parse(t) for t in arguments.texts(tables, "tables")}
            for name in sorted(wanted - set(found)):
                raise _not_restored(name, cut, found)
            return [(name, t) for name, t in found.items() if name in wanted], ()
        later = [(str(n), "made later") for n in now if n not in found]
        existing = set(now.values())
        dropped = [(t.name, "dropped since") for i, t in then.items() if i not in existing]
        return list(found.items()), tuple(sorted([*later, *dropped]))

    def _check_readable(self, wanted: Sequence[tuple[TableName, TableSnapshot]]) -> None:
        """Raise `VersionNotFound` for a vacuumed version, with the oldest that can be restored."""
        from lakeward.write.history.restore import check_readable

        with self._context.database.read() as session:
            for _, target in wanted:
                check_readable(self._context, session, target.log_head, target.version)

    def _planned(self, wanted: Sequence[tuple[TableName, TableSnapshot]]) -> Iterator[TableChange]:
        from lakeward.write.history.restore import restoring

        with self._context.database.read() as session:
            for name, target in wanted:
                head = heads.get(session, name)
                yield restoring(self._context, session, head, target.version).record()


def _not_restored(
    name: TableName, cut: LakeSnapshot, found: Mapping[TableName, TableSnapshot]
) -> TableNotFound:
    """Return the error for a table that the lake does not have now, or did not have then."""
    then = {TableName.parse(t.name): t for t in cut}
    renamed = next((now for now, t in found.items() if t is then.get(name)), None)
    if renamed is not None:
        when, hint = "renamed it since", f"Its name is {renamed} now."
    elif name in then:
        when, hint = "dropped it since", "Tables that were dropped come back by lake.undrop."
    else:
        when, hint = "had no such table then", hint_for_unknown(name, then)
    what = f"Table {name} cannot be restored: the lake {when}."
    return TableNotFound(what, hint=hint, table=str(name))


def _split(
    found: Sequence[TableChange] | Iterator[TableChange],
) -> tuple[tuple[TableChange, ...], tuple[str, ...]]:
    every = list(found)
    changed = tuple(t for t in every if not t.is_empty)
    return changed, tuple(t.table for t in every if t.is_empty)
