"""The net effect of several commits on a working copy, as one commit on the table itself."""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.model.commit import AppTransaction
from lakeward.model.definition import Definition
from lakeward.model.file import DataFile, LoggedFile
from lakeward.model.history import ForeignActions


@dataclass(frozen=True, slots=True)
class Net:
    """One commit that does what several did.

    Attributes:
        added: Files as the table's log names them.
        removed: Files of the base.
        change_files: Rows that changed, where the only statement that changed rows wrote them.
        definition: Of the copy at its end, where it changed.
        app_transactions: Newest number of each application.
        statements: Commits of the copy, in order; empty for formats that do not record them.
        data_change: False where rows only moved to other files.
        looks: Whether a statement looked at rows of the table to decide what to change.
        has_feed: Whether readers of the change feed get the right rows from `change_files`, or,
            without these, from the files added and removed. If not, an engine must compare rows.
    """

    added: tuple[DataFile, ...] = ()
    removed: tuple[LoggedFile, ...] = ()
    change_files: tuple[DataFile, ...] = ()
    definition: Definition | None = None
    app_transactions: tuple[AppTransaction, ...] = ()
    statements: tuple[ForeignActions, ...] = ()
    data_change: bool = True
    looks: bool = False
    has_feed: bool = True

    @property
    def is_empty(self) -> bool:
        """Whether the commit would change nothing."""
        return not (self.added or self.removed or self.definition or self.app_transactions)
