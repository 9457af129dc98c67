"""Changes of one table's definition, committed in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeward.errors import InvalidInput
from lakeward.model import arguments
from lakeward.model.constraint_kinds import ForeignKey
from lakeward.model.evolution.alterations import AddRule
from lakeward.write.alter.builder import Alter

if TYPE_CHECKING:
    from lakeward.lake.transactions import Transactions
    from lakeward.model.evolution.alterations import Alteration
    from lakeward.model.names import TableName
    from lakeward.write.transaction.lifecycle import CommitResult
    from lakeward.write.transaction.transaction import Transaction


class TableAlter(Alter):
    """Collects changes of one table's definition, which `commit` makes in one transaction."""

    def __init__(self, transactions: Transactions, name: TableName, message: str | None) -> None:
        self._changes: list[tuple[Alteration, bool]] = []
        super().__init__(self._note)
        self._transactions = transactions
        self._name = str(name)
        self._message = arguments.optional_text(message, "message")

    @property
    def references(self) -> list[str]:
        """The other tables that new foreign keys refer to."""
        rules = [change.rule for change, _ in self._changes if isinstance(change, AddRule)]
        return [rule.references for rule in rules if isinstance(rule, ForeignKey)]

    def commit(self) -> CommitResult:
        """Commit all changes in one transaction; on a conflict, try again.

        Raises:
            InvalidInput: A change cannot be made; nothing was committed.
            Conflict: Every attempt conflicted with another commit to the table.
        """
        if not self._changes:
            what = "Nothing was asked for."
            raise InvalidInput(what, hint="Call add_column or another method first.")
        return self._transactions.run(
            self._alter, retry=None, on_conflict=None, isolation="snapshot", message=self._message
        )

    def _note(self, asked: Alteration, *, if_needed: bool) -> None:
        self._changes.append((asked, if_needed))

    def _alter(self, tx: Transaction) -> None:
        for change, if_needed in self._changes:
            tx.alter(self._name).apply(change, if_needed=if_needed)
