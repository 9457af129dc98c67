"""The contract of branches, which each format implements.

A branch is a zero-copy working copy of one version of one table, in a directory below the table's.
Any engine can write it, and one commit of the table applies the net effect. The directory belongs
to one transaction or named branch. Data files that the commit adds stay in the directory; its other
files are deleted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from lakeward.write.plan.origins import Origins
from lakeward.write.stage.checks import check_deletable
from lakeward.write.stage.evolutions import check_evolved
from lakeward.write.stage.stager import options_of, with_stats_of

Differ: TypeAlias = Callable[[Difference], None]
"""A function of an engine that writes the rows by which two small tables differ to a third."""


@dataclass(frozen=True, slots=True)
class NewRows:
    """The arguments with which Spark reads the rows of some files.

    Attributes:
        source: The Spark data source.
        addresses: The addresses that the source loads; patterns if it takes them for such.
        by_id: The columns to match by field id; None if the source matches columns itself.
    """

    source: str
    addresses: list[str]
    by_id: Schema | None = None


@dataclass
class Branch(ABC):
    """A working copy of one table.

    Attributes:
        context: The context of the lake.
        head: The head of the table at the base version, from which the branch was made.
        definition: The table's definition at the base version.
        directory: The directory of the branch, relative to the table's location.
        name: The name of the named branch that it is part of; None for a branch of a transaction.
        is_whole: Whether the branch contains the files of the base version; rows can be added
            without them.
        settings: Properties that only the branch has, for the engine that writes the branch.
        document: The address of the branch's newest metadata document, for formats that engines
            open by a document; the executor of a transaction updates it. None if engines open
            `location`.
    """

    context: LakeContext
    head: Head
    definition: Definition
    directory: str
    name: str | None = None
    is_whole: bool = True
    document: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)

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
        settings: Mapping[str, str] | None = None,
    ) -> Self:
        """Make a branch for the transaction `owner`, which must be registered before.

        With `whole`, the branch contains the files of the base version: `base`, or those in the log
        if it is None. Otherwise `complete` may add them later. Raise `UnsupportedFeature` if the
        table cannot have branches.
        """
        cls.check(definition, str(head.name))
        out = cls(context, head, definition, note(context, owner, head), is_whole=whole)
        out.settings = settings or {}
        out._write_first(owner, base)
        return out

    @classmethod
    @abstractmethod
    def check(cls, definition: Definition, table: str) -> None:
        """Raise `UnsupportedFeature` if a table cannot have branches."""

    @abstractmethod
    def _write_first(self, owner: str, base: Iterable[LoggedFile] | None) -> None:
        """Write the first version of a transaction's branch."""

    def begin(self, session: Session) -> None:  # noqa: B027  Delta needs nothing
        """Do the part of making a named branch that needs the lock of the table's head.

        `make` does the rest.
        """

    @property
    @abstractmethod
    def is_made(self) -> bool:
        """Whether the branch has its first version, so that engines can open it."""

    @abstractmethod
    def make(self, owner: str) -> None:
        """Write the first version of a named branch."""

    @property
    def location(self) -> str:
        """The full address of the branch's directory."""
        return self.context.storage.uri(self._place)

    @property
    def root(self) -> str:
        """The full address of the table's directory."""
        return self.context.storage.uri(self.head.location)

    @property
    def catalog(self) -> str | None:
        """The catalog in which engines find a named branch; None if they open `location`."""
        return None

    @property
    def newest_document(self) -> str | None:
        """The address of the newest metadata document; None if engines open `location`."""
        return self.document

    @property
    @abstractmethod
    def version(self) -> int:
        """The number of the branch's newest version, which is no version of the table."""

    @property
    def current(self) -> Definition:
        """The current definition on the branch."""
        return self.definition

    def complete(self, base: Iterable[LoggedFile]) -> None:  # noqa: B027  Iceberg is whole
        """Add the files of the base version to a branch that was opened without them."""

    @abstractmethod
    def alter(self, definition: Definition) -> None:
        """Set another definition on a transaction's branch; its existing files must fit it.

        For formats that engines open by a metadata document, derive a new document from `document`
        and replace that.
        """

    @abstractmethod
    def read(self, columns: Sequence[str] | None, where: Expression | None) -> pa.Table:
        """Return the current rows of the branch."""

    @abstractmethod
    def new_rows(self, new: Sequence[DataFile]) -> NewRows:
        """Return how Spark reads only the rows of new files, under the branch's definition."""

    @abstractmethod
    def look(self) -> Net:
        """Return the net effect of the branch's commits so far."""

    @abstractmethod
    def net(self, *, evolve: bool = False, differ: Differ | None = None) -> Net:
        """Return the net effect of the branch's commits, after syncing its added files to disk.

        If the table has a change feed and several statements changed rows, `differ` compares rows
        and writes change files. With `evolve`, the branch may have changed columns and properties.
        Raise `CorruptTable`, or `UnsupportedFeature` if a change is not allowed or `differ` is
        needed and None.
        """

    def fill(self, change: Change, net: Net, operations: Sequence[Operation] = ()) -> None:
        """Add the branch's net effect to a change of its table.

        If the change has scopes already, they cover all rows that the branch's statements read; if
        it has none and a statement read rows, the scope is the whole table. The change is fixed to
        its base version, because the branch's statements cannot be run again. Raises
        `PolicyViolation` if the policy does not allow the branch's changes of the definition, and
        `UnsupportedFeature` if the table is append-only and rows were deleted. `operations` are
        the statements that ran, for formats whose commits do not record them.
        """
        if net.may_delete:
            check_deletable(change)
        options = options_of(change.head, change.definition)
        if options.stats_columns is None:
            change.added.extend(net.added)
        else:
            names = options.stats_columns
            change.added.extend(with_stats_of(f, change.definition, names) for f in net.added)
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

    def origins(self, change: Change) -> Origins | None:  # noqa: ARG002  where rows have ids
        """Return the origins of the rows of a change to which the branch's effect was added.

        Return None if they are not known: then no changed row can be restored.
        """
        return None

    def kept(self, done: Net | Change) -> list[str]:
        """Return the paths of files in the branch's directory that a net effect or change needs."""
        return needed(self.head, self.directory, done.added, done.change_files)

    def tidy(self, done: Net | Change) -> None:
        """Delete files that what was committed does not need.

        They are the branch's metadata, removed files, and files whose rows were moved elsewhere.
        """
        clear(self.context, self.head, self.directory, self.kept(done))

    def discard(self) -> None:
        """Delete the branch and all files written on it."""
        clear(self.context, self.head, self.directory)

    @property
    def _place(self) -> str:
        return f"{self.head.location}/{self.directory}"
