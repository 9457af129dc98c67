"""A branch of a Delta table: any engine works on it, and one commit takes what it did.

The branch is a directory below the table with a log of its own, which names the table's files where
they lie. Everything in the directory belongs to the transaction, or to the named branch, that it is
called after, so that it can be cleaned up when that ends. Data files that the branch adds stay in
their place when it is published: only its log goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lakeward.context import LakeContext
from lakeward.errors import CorruptTable, UnsupportedFeature
from lakeward.formats.delta.branch import (
    IN_ONE_COMMIT,
    FirstCommit,
    Origin,
    branch_definition,
    check_branchable,
    first_checkpoint,
    first_commit,
    later_commit,
    main_definition,
)
from lakeward.formats.delta.checkpoint import checkpoint_path, last_checkpoint_path
from lakeward.formats.delta.history import newest_version, read_commit
from lakeward.formats.delta.net import Net, net_of
from lakeward.formats.delta.publication import commit_path
from lakeward.log import files
from lakeward.model.clock import now_ms
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.file import LoggedFile
from lakeward.model.history import ForeignActions
from lakeward.model.steps import reach
from lakeward.write.branch.change_feed import Differ, told
from lakeward.write.branch.directory import clear, needed, note
from lakeward.write.plan.change import Change, Operation

_CHANGE_FEED: Final = "delta.enableChangeDataFeed"
_MERGE: Final = "MERGE"

_AT_ONCE: Final = 10_000


@dataclass
class DeltaBranch:
    """A zero-copy working copy of one version of one Delta table.

    Attributes:
        context: The lake's.
        head: The table at the version that the branch was made from.
        definition: Of the table at that version.
        directory: Of the branch, below the table's location.
    """

    context: LakeContext
    head: Head
    definition: Definition
    directory: str

    @classmethod
    def open(
        cls,
        context: LakeContext,
        owner: str,
        head: Head,
        definition: Definition,
        base: Iterable[LoggedFile] | None,
    ) -> DeltaBranch:
        """Make a branch of a table for a transaction.

        The transaction must be registered before: from here on there are files of it.

        Args:
            context: The lake's.
            owner: The id of the transaction.
            head: The table at the version to branch from.
            definition: At that version.
            base: The files of the version. None for a branch that is only added to, which needs
                none of them; `complete` gives it them later.

        Raises:
            UnsupportedFeature: The table uses what a branch could not keep right.
        """
        check_branchable(definition, str(head.name))
        out = cls(context, head, definition, note(context, owner, head))
        out.make(owner, base or ())
        return out

    @classmethod
    def open_whole(
        cls, context: LakeContext, owner: str, head: Head, definition: Definition
    ) -> DeltaBranch:
        """The same with all files of the version: quicker, where there are very many."""
        with context.database.read() as session:
            few = files.are_at_most(session, head.table_id, head.version, IN_ONE_COMMIT)
            base = list(files.at(session, head.table_id, head.version)) if few else None
        if base is not None:
            return cls.open(context, owner, head, definition, base)
        check_branchable(definition, str(head.name))
        out = cls(context, head, definition, note(context, owner, head))
        with context.database.read() as session:
            lines = files.lines_at(session, head.table_id, head.version, _AT_ONCE)
            begun = first_checkpoint(out._origin(owner), lines)
        out._put(begun)
        return out

    @property
    def is_made(self) -> bool:
        """Whether the branch has its first version."""
        storage = self.context.storage
        return any(storage.exists(commit_path(self._place, n)) for n in (0, 1))

    def make(self, owner: str, base: Iterable[LoggedFile]) -> None:
        """Write the branch's first version into its directory, which is noted."""
        self._put(first_commit(self._origin(owner), base))

    def _origin(self, owner: str) -> Origin:
        definition = branch_definition(self.definition)
        return Origin(self.head, definition, self.root, owner, now_ms(), self.context.engine)

    def _put(self, begun: FirstCommit) -> None:
        storage, place = self.context.storage, self._place
        if begun.checkpoint is not None and begun.pointer is not None:
            storage.put(checkpoint_path(place, begun.version), begun.checkpoint)
            storage.put(last_checkpoint_path(place), begun.pointer)
        path = commit_path(place, begun.version)
        if begun.checksum is not None:
            storage.replace(path.removesuffix(".json") + ".crc", begun.checksum)
        storage.put(path, begun.commit)
        reach("branch.opened")

    @property
    def location(self) -> str:
        """Where engines find the branch: an ordinary Delta table."""
        return self.context.storage.uri(self._place)

    @property
    def version(self) -> int:
        """The newest version on the branch."""
        first = self._first_version()
        return newest_version(self.context.storage, self._place, at_least=first)

    @property
    def current(self) -> Definition:
        """What holds on the branch now."""
        definition = branch_definition(self.definition)
        for commit in self._commits():
            definition = commit.definition or definition
        return definition

    @property
    def root(self) -> str:
        """The full name of the table's own directory."""
        return self.context.storage.uri(self.head.location)

    def complete(self, base: Iterable[LoggedFile]) -> None:
        """Give a branch that was only added to the files of its base, as its next commit."""
        newest = self.version
        data = later_commit(
            self.current, base, root=self.root, now_ms=now_ms(), engine=self.context.engine
        )
        if not self.context.storage.put_if_absent(commit_path(self._place, newest + 1), data):
            what = f"Somebody writes the branch of {self.head.name} at {self.location} just now."
            raise CorruptTable(what, hint="Let one statement end before the next begins.")

    def look(self) -> Net:
        """What the branch's commits come to by now, for those who only want to know."""
        return net_of(
            self._commits(), directory=self.directory, root=self.root, base=self._base_at()
        )

    def net(self, *, evolve: bool = False, differ: Differ | None = None) -> Net:
        """What the branch's commits come to, as one commit on the table.

        The files that it adds are safe on disk when this returns. Where the table has a change feed
        and several statements changed rows, the difference of rows is written as change files.

        Args:
            evolve: Whether the branch may have changed the table's columns and properties.
            differ: The engine that finds out by which rows two small tables differ.

        Raises:
            UnsupportedFeature: The branch changed what may not change, or the change feed of its
                statements cannot be told.
            CorruptTable: Its log cannot be understood.
        """
        found = self.look()
        if found.definition is not None:
            found = replace(found, definition=self._evolved(found.definition, evolve=evolve))
        after = found.definition or self.definition
        if after.properties.get(_CHANGE_FEED) != "true":
            found = replace(found, change_files=())
        elif not found.is_told:
            found = replace(
                found,
                change_files=told(
                    self.context.storage, self.head, after, found, self.directory, differ
                ),
                is_told=True,
            )
        self.context.storage.harden(self.kept(found))
        reach("branch.netted")
        return found

    def fill(self, change: Change, found: Net) -> None:
        """Make the branch's net effect part of a change of its table.

        Scopes that the change has already are taken for all that the branch's statements looked at;
        where it has none and rows went or were merged, that is the whole table. The change is fixed
        to its base version: nothing here can run the branch's statements again.
        """
        change.added.extend(found.added)
        for file in found.removed:
            change.remove(file)
        change.change_files.extend(found.change_files)
        change.new_definition = found.definition or change.new_definition
        change.data_change = found.data_change
        change.app_transactions.extend(found.app_transactions)
        change.fixed = True
        change.operations.extend(
            Operation(s.info.operation, s.info.parameters, s.info.metrics) for s in found.statements
        )
        # A merge that only inserted has looked, too: the keys that it inserted were not there.
        looked = any(
            (s.removed or s.info.operation == _MERGE) and s.info.data_change
            for s in found.statements
        )
        if looked and not change.scopes:
            change.scopes.append(None)

    def kept(self, found: Net) -> list[str]:
        """The files of the branch's directory that its net effect needs."""
        return needed(self.head, self.directory, found.added, found.change_files)

    def tidy(self, found: Net) -> None:
        """Delete what the commit does not need: the branch's log, and files that came and went."""
        clear(self.context, self.head, self.directory, self.kept(found))

    def discard(self) -> None:
        """Delete the branch with all that was written on it."""
        clear(self.context, self.head, self.directory)

    @property
    def _place(self) -> str:
        return f"{self.head.location}/{self.directory}"

    def _first_version(self) -> int:
        """The version that the branch began with; a checkpoint makes up for those before."""
        return 0 if self.context.storage.exists(commit_path(self._place, 0)) else 1

    def _commits(self) -> Iterator[ForeignActions]:
        definition, after_ms = branch_definition(self.definition), -1
        version = self._first_version() + 1
        while True:
            found = read_commit(
                self.context.storage,
                self._place,
                version,
                definition,
                uuid=self.head.uuid,
                after_ms=after_ms,
            )
            if found is None:
                return
            yield found
            definition = found.definition or definition
            version, after_ms = version + 1, found.timestamp_ms

    def _base_at(self) -> Callable[[str], Sequence[LoggedFile]]:
        """Looks up the base's files by their paths on the branch."""
        root, known = self.root, dict[str, Sequence[LoggedFile]]()

        def look(path: str) -> Sequence[LoggedFile]:
            if path not in known:
                own = path.removeprefix(f"{root}/")
                with self.context.database.read() as session:
                    known[path] = files.at_path(session, self.head.table_id, self.head.version, own)
            return known[path]

        return look

    def _evolved(self, found: Definition, *, evolve: bool) -> Definition | None:
        if found == branch_definition(self.definition):
            return None
        name = str(self.head.name)
        if not evolve:
            what = f"A statement changed the columns or properties of table {name}."
            hint = "Only rows may change here; evolve the table first."
            raise UnsupportedFeature(what, hint=hint, table=name)
        if found.partition_by != self.definition.partition_by:
            what = f"A statement changed how table {name} is partitioned."
            raise UnsupportedFeature(what, hint="Make a new table for that.", table=name)
        check_branchable(found, name)
        return main_definition(found, self.definition)
