"""The contract of branches, which each format implements.

A branch is a zero-copy working copy of one version of one table, in a directory below the table.
Any engine works on it, and one commit of the table takes the net result. The directory belongs to
one transaction or named branch. Data files that the commit adds stay in it; the rest is deleted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self, TypeAlias

import pyarrow as pa

from lakeward.context import LakeContext
from lakeward.formats.delta.changes import Difference
from lakeward.formats.net import Net
from lakeward.log.database import Session
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.expressions.nodes import Expression
from lakeward.model.file import DataFile, LoggedFile
from lakeward.model.schema import Schema
from lakeward.write.branch.directory import clear, needed, note
from lakeward.write.plan.change import Change, Operation
from lakeward.write.stage.evolutions import check_evolved

Differ: TypeAlias = Callable[[Difference], None]
"""Writes the rows by which two small tables differ to a third one: an engine's part."""


@dataclass(frozen=True, slots=True)
class NewRows:
    """How Spark reads the rows of some files.

    Attributes:
        source: The Spark data source.
        addresses: The addresses that it loads.
        by_id: The columns to find by field id; None if the source finds them itself.
    """

    source: str
    addresses: list[str]
    by_id: Schema | None = None


@dataclass
class Branch(ABC):
    """A working copy of one table.

    Attributes:
        context: Of the lake.
        head: The table at the version that the branch was made from.
        definition: Of the table at that version.
        directory: Of the branch, below the table's location.
        name: Of the named branch that it is part of; None for a branch of a transaction.
        is_whole: Whether the branch has the base's files; rows can be added without them.
        document: The branch's metadata document, for formats that engines open by one; the
            executor of a transaction keeps it up to date. None where engines open
            `location`.
    """

    context: LakeContext
    head: Head
    definition: Definition
    directory: str
    name: str | None = None
    is_whole: bool = True
    document: str | None = None

    @classmethod
    def open(
        cls,
        context: LakeContext,
        owner: str,
        head: Head,
        definition: Definition,
        *,
        whole: bool = True,
        base: Iterable[LoggedFile] | None = None,
    ) -> Self:
        """Make a branch for the transaction `owner`, which must be registered before.

        With `whole` it gets the base's files: those of the version in the log, or `base`. Without,
        `complete` may add them later. Raises `UnsupportedFeature` if the table cannot have
        branches.
        """
        cls.check(definition, str(head.name))
        out = cls(context, head, definition, note(context, owner, head), is_whole=whole)
        out._write_first(owner, base)
        return out

    @classmethod
    @abstractmethod
    def check(cls, definition: Definition, table: str) -> None:
        """Raise UnsupportedFeature for a table that cannot have branches."""

    @abstractmethod
    def _write_first(self, owner: str, base: Iterable[LoggedFile] | None) -> None:
        """Write the first version of a transaction's branch."""

    def begin(self, session: Session) -> None:  # noqa: B027  Delta needs nothing
        """Do what a named branch needs while the table's head is locked; `make` does the rest."""

    @property
    @abstractmethod
    def is_made(self) -> bool:
        """Whether engines can open the branch."""

    @abstractmethod
    def make(self, owner: str) -> None:
        """Write the first version of a named branch."""

    @property
    def location(self) -> str:
        """Full address of the branch's directory."""
        return self.context.storage.uri(self._place)

    @property
    def root(self) -> str:
        """Full address of the table's own directory."""
        return self.context.storage.uri(self.head.location)

    @property
    def catalog(self) -> str | None:
        """The catalog by which engines open a named branch; None where they open `location`."""
        return None

    @property
    def newest_document(self) -> str | None:
        """The newest metadata document; None where engines open `location`."""
        return self.document

    @property
    @abstractmethod
    def version(self) -> int:
        """The newest version on the branch, by the branch's own count."""

    @property
    def current(self) -> Definition:
        """The definition on the branch now."""
        return self.definition

    def complete(self, base: Iterable[LoggedFile]) -> None:  # noqa: B027  Iceberg is whole
        """Add the base's files to a branch that was opened without them."""

    @abstractmethod
    def alter(self, definition: Definition) -> None:
        """Give a transaction's branch another definition, which its existing files fit.

        Formats that engines open by a metadata document start from `document`, and replace it.
        """

    @abstractmethod
    def read(self, columns: Sequence[str] | None, where: Expression | None) -> pa.Table:
        """The rows on the branch now."""

    @abstractmethod
    def new_rows(self, new: Sequence[DataFile]) -> NewRows:
        """Return how Spark reads the rows of new files alone, under the branch's definition."""

    @abstractmethod
    def look(self) -> Net:
        """The net effect of the branch's commits so far."""

    @abstractmethod
    def net(self, *, evolve: bool = False, differ: Differ | None = None) -> Net:
        """The net effect of the branch's commits; the files that it adds are synced to disk.

        If the table has a change feed and several statements changed rows, `differ` compares rows
        and writes change files. With `evolve` the branch may have changed columns and properties.
        Raises `CorruptTable`, and `UnsupportedFeature` for changes that are not allowed or without
        a `differ`.
        """

    def fill(self, change: Change, net: Net, operations: Sequence[Operation] = ()) -> None:
        """Add the branch's net effect to a change of its table.

        If the change has scopes already, they cover all rows that the branch's statements read; if
        it has none and a statement read rows, the scope is the whole table. The change is fixed to
        its base version, because the branch's statements cannot be run again. Raises
        `PolicyViolation` if the policy does not allow the branch's changes. `operations` are the
        statements that ran, for formats whose commits do not record them.
        """
        change.added.extend(net.added)
        for file in net.removed:
            change.remove(file)
        change.change_files.extend(net.change_files)
        if net.definition is not None:
            check_evolved(change.head, change.definition, net.definition)
            change.new_definition = replace(net.definition, rules=change.definition.rules)
        change.data_change = net.data_change
        change.app_transactions.extend(net.app_transactions)
        change.domains.update(net.domains)
        change.fixed = True
        if net.looks and not change.scopes:
            change.scopes.append(None)
        recorded = [
            Operation(s.info.operation, s.info.parameters, s.info.metrics) for s in net.statements
        ]
        change.operations.extend(recorded or operations)

    def kept(self, net: Net) -> list[str]:
        """The files of the branch's directory that its net effect needs."""
        return needed(self.head, self.directory, net.added, net.change_files)

    def tidy(self, net: Net) -> None:
        """Delete what the commit does not need: the branch's metadata and files removed again."""
        clear(self.context, self.head, self.directory, self.kept(net))

    def discard(self) -> None:
        """Delete the branch and all files written on it."""
        clear(self.context, self.head, self.directory)

    @property
    def _place(self) -> str:
        return f"{self.head.location}/{self.directory}"
