"""Restores tables to one cut, and undoes transactions, over the whole lake."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    """What a restore or undo does, or would do.

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
            tables: Only these tables.
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
        with LakeSnapshot(self._context, self._keeper, at) as cut:
            wanted, skipped = self._chosen(cut, tables)
            if dry_run:
                return Revision(*_split(self._planned(wanted)), skipped)
            with self._transactions.begin(isolation="snapshot", message=message) as tx:
                done = [tx.restore(t.name, version=t.version) for t in wanted]
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

        Rows that it added are removed and rows that it removed come back, in one transaction. An
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
    ) -> tuple[list[TableSnapshot], tuple[tuple[str, str], ...]]:
        """Return the tables to restore, and the skipped ones with the reason."""
        with self._context.database.read() as session:
            now = {h.name: h.table_id for h in heads.all_heads(session)}
        then = {t.log_head.name: t for t in cut}
        if tables is not None:
            wanted = [TableName.parse(t) for t in arguments.texts(tables, "tables")]
            for name in wanted:
                if name not in then or now.get(name) != then[name].log_head.table_id:
                    when = "had no such table then" if name not in then else "dropped it since"
                    what = f"Table {name} cannot be restored: the lake {when}."
                    hint = hint_for_unknown(name, then) if name not in then else None
                    raise TableNotFound(what, hint=hint, table=str(name))
            return [then[name] for name in sorted(set(wanted))], ()
        found = [t for n, t in sorted(then.items()) if now.get(n) == t.log_head.table_id]
        known = {t.log_head.name for t in found}
        skipped = [(str(n), "made later") for n in sorted(now) if n not in known]
        dropped = [(str(n), "dropped since") for n in sorted(then) if n not in now]
        return found, tuple(sorted([*skipped, *dropped]))

    def _planned(self, wanted: Sequence[TableSnapshot]) -> Iterator[TableChange]:
        from lakeward.write.history.restore import restoring

        with self._context.database.read() as session:
            for target in wanted:
                head = heads.get(session, target.log_head.name)
                yield restoring(self._context, session, head, target.version).record()


def _split(
    found: Sequence[TableChange] | Iterator[TableChange],
) -> tuple[tuple[TableChange, ...], tuple[str, ...]]:
    every = list(found)
    changed = tuple(t for t in every if not t.is_empty)
    return changed, tuple(t.table for t in every if t.is_empty)
