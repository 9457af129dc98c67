"""The net effect of several commits on a working copy, as one commit on the table itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakeward.model.commit import AppTransaction
from lakeward.model.definition import Definition
from lakeward.model.file import DataFile, LoggedFile
from lakeward.model.history import ForeignActions


@dataclass(frozen=True, slots=True)
class Net:
    """One commit with the combined effect of several commits of a copy.

    Attributes:
        added: Added files, with their paths for the table's log.
        removed: Removed files of the base.
        change_files: Change files, if the only statement that changed rows wrote them.
        definition: The copy's last definition, if it changed.
        app_transactions: The newest transaction number of each application.
        moves_new: Whether a statement rewrote rows that an earlier one had added.
        domains: Domain metadata to set; None removes a domain.
        statements: Commits of the copy, in order; empty for formats that do not record them.
        data_change: False if rows were only rewritten into other files.
        looks: Whether a statement read rows of the table to decide what to change.
        has_feed: Whether `change_files`, or without them the added and removed files, give readers
            of the change feed the right rows. If not, an engine must compare rows.
        merged: Metrics of a merge that was the copy's only commit, if its engine recorded them.
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
    domains: Mapping[str, str | None] = field(default_factory=dict)
    moves_new: bool = False
    merged: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether the commit would change nothing."""
        files = self.added or self.removed
        return not (files or self.definition or self.app_transactions or self.domains)

    @property
    def may_delete(self) -> bool:
        """Whether a statement may have deleted or replaced rows of the base, not only moved them.

        A statement that changes rows of the base reads them.
        """
        return bool(self.removed) and self.looks
