"""A branch of a Delta table: a directory with a separate log that refers to the table's files.

Engines open it as an ordinary Delta table. When the branch is published, only its log is deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa

from lakeward.errors import CorruptTable, UnsupportedFeature
from lakeward.formats.delta.branch import (
    IN_ONE_COMMIT,
    FirstCommit,
    Origin,
    altering_commit,
    branch_definition,
    check_branchable,
    first_checkpoint,
    first_commit,
    later_commit,
    main_definition,
    with_settings,
)
from lakeward.formats.delta.changes import difference
from lakeward.formats.delta.checkpoint import checkpoint_path, last_checkpoint_path
from lakeward.formats.delta.history import newest_version, read_commit, read_history
from lakeward.formats.delta.identity import as_domain, marks_of, published
from lakeward.formats.delta.net import moved_all, net_of
from lakeward.formats.delta.publication import commit_path
from lakeward.formats.delta.row_tracking import check_moved_ids, is_enabled, row_ids
from lakeward.formats.net import Net
from lakeward.log import domains, files
from lakeward.model.clock import now_ms
from lakeward.model.constraints import is_tolerant
from lakeward.model.definition import Definition
from lakeward.model.expressions.nodes import Expression
from lakeward.model.file import DataFile, LoggedFile
from lakeward.model.history import ForeignActions
from lakeward.model.steps import reach
from lakeward.read.scan import read_published
from lakeward.write.branch.base import Branch, Differ, NewRows
from lakeward.write.branch.numbers import settle_ranges, take_ranges
from lakeward.write.branch.origins import find_origins
from lakeward.write.branch.own_ids import BranchIds
from lakeward.write.plan.change import Change
from lakeward.write.plan.origins import Origins

_CHANGE_FEED: Final = "delta.enableChangeDataFeed"
_LINES_AT_ONCE: Final = 10_000


@dataclass
class DeltaBranch(Branch):
    """A working copy of one version of one Delta table."""

    _owner: str = field(default="", init=False)
    _began: Definition | None = field(default=None, init=False)
    # The definitions that Lakeward's commits set on the branch, by version.
    _given: dict[int, Definition] = field(default_factory=dict, init=False)
    # The marks of identity columns in the branch's first commit; None if not read yet.
    _begun: dict[int, int] | None = field(default=None, init=False)
    # Row ids that only the branch has, if the table has none and origins of rows are needed.
    _own_ids: BranchIds | None = field(default=None, init=False)

    @classmethod
    def check(cls, definition: Definition, table: str) -> None:
        """Raise `UnsupportedFeature` if a table uses features that a branch cannot preserve."""
        check_branchable(definition, table)

    def _write_first(self, owner: str, base: Iterable[LoggedFile] | None) -> None:
        self._owner = owner
        if is_tolerant(self.definition) and not is_enabled(self.definition):
            self._own_ids = BranchIds()
        if base is not None or not self.is_whole:
            listed = self._numbered(base or ())
            self._put(first_commit(self._with_ids(self._first_origin(owner)), listed))
        else:
            self.make(owner)

    def make(self, owner: str) -> None:
        """Write the first version with all files of the base version; many go into a checkpoint."""
        table_id, version = self.head.table_id, self.head.version
        origin = self._first_origin(owner)
        with self.context.database.read() as session:
            few = files.are_at_most(session, table_id, version, IN_ONE_COMMIT)
            if few or self._own_ids is not None:
                base = self._numbered(files.at(session, table_id, version))
                begun = first_commit(self._with_ids(origin), base)
            else:
                lines = files.lines_at(session, table_id, version, _LINES_AT_ONCE)
                begun = first_checkpoint(origin, lines)
        self._put(begun)

    @property
    def is_made(self) -> bool:
        """Whether the branch has its first version."""
        storage = self.context.storage
        return any(storage.exists(commit_path(self._place, n)) for n in (0, 1))

    @property
    def version(self) -> int:
        """The newest version of the branch's log."""
        first = self._first_version()
        return newest_version(self.context.storage, self._place, at_least=first)

    @property
    def current(self) -> Definition:
        """The current definition on the branch."""
        definition = self._first_definition()
        for commit in self._commits():
            definition = commit.definition or definition
        return definition

    def complete(self, base: Iterable[LoggedFile]) -> None:
        """Add the files of the base version to a branch without them, by a commit of its log."""
        newest, listed = self.version, self._numbered(base)
        data = later_commit(
            self.current,
            listed,
            root=self.root,
            now_ms=now_ms(),
            engine=self.context.engine,
            domains={} if self._own_ids is None else self._own_ids.domain,
        )
        self._put_next(newest + 1, data)
        self.is_whole = True

    def alter(self, definition: Definition) -> None:
        """Set another definition on the branch, by a commit of its log."""
        self._began = self._began or self.definition
        version, self.definition = self.version + 1, definition
        self._put_next(version, altering_commit(self._origin(self._owner, self._marks())))
        self._given[version] = self._as_branch(definition)

    def read(self, columns: Sequence[str] | None, where: Expression | None) -> pa.Table:
        """Return the current rows of the branch."""
        return read_published(
            self.context.storage,
            self.location,
            self.version,
            self.current,
            columns=columns,
            where=where,
        ).read_all()

    def new_rows(self, new: Sequence[DataFile]) -> NewRows:
        """Write a log of only the new files, for their column mapping and deletion vectors."""
        storage, place = self.context.storage, f"{self._place}/_check"
        # With the branch's definition: Spark would not look for nulls in a required column.
        task, tables = difference(self.head, self.definition, (), new, root=self.root, place=place)
        storage.put(commit_path(task.after, 0), dict(tables)[task.after])
        return NewRows("delta", [storage.uri(task.after)])

    def look(self) -> Net:
        """Return the net effect of the branch's commits so far."""
        return net_of(
            self._commits(), directory=self.directory, root=self.root, base=self._base_at()
        )

    def net(self, *, evolve: bool = False, differ: Differ | None = None) -> Net:
        """Return the net effect of the branch's commits, after syncing its files to disk."""
        net = self.look()
        if net.moves_new:
            check_moved_ids(self.definition, str(self.head.name))
        if net.definition is not None:
            net = replace(net, definition=self._evolved(net.definition, evolve=evolve))
        if self.definition.identity:
            self._settle(self._marks())
        after = net.definition or self.definition
        if after.properties.get(_CHANGE_FEED) != "true":
            net = replace(net, change_files=())
        elif not net.has_feed:
            net = replace(net, change_files=self._compare(after, net, differ), has_feed=True)
        self.context.storage.sync_files(self.kept(net))
        reach("branch.netted")
        return net

    def discard(self) -> None:
        """Delete the branch, and release the identity values that were reserved for it."""
        super().discard()
        if self.name is None and self._begun is not None and self.definition.identity:
            self._settle(self._begun)

    def _settle(self, ended: Mapping[int, int]) -> None:
        settle_ranges(
            self.context,
            self.head,
            self.definition,
            begun=self._first_marks(),
            ended=ended,
            give_back=self.name is None,
        )

    def _first_origin(self, owner: str) -> Origin:
        self._begun = take_ranges(self.context, self.head, self.definition)
        return self._origin(owner, self._begun)

    def origins(self, change: Change) -> Origins | None:
        """Return the origins of rows, found by the row ids of the table or of the branch."""
        own, storage = self._own_ids, self.context.storage
        if own is not None:
            earlier = range(self._first_version() + 1, self.version)
            return find_origins(storage, change, own.row_ids(), earlier)
        ids = row_ids(change.definition)
        return None if ids is None else find_origins(storage, change, ids)

    def _numbered(self, base: Iterable[LoggedFile]) -> list[LoggedFile]:
        return list(base) if self._own_ids is None else self._own_ids.assign(base)

    def _with_ids(self, origin: Origin) -> Origin:
        """Return an origin whose domain metadata has the highest row id of the branch, if any."""
        if self._own_ids is None:
            return origin
        return replace(origin, domains={**origin.domains, **self._own_ids.domain})

    def _as_branch(self, definition: Definition) -> Definition:
        """Return the branch's definition for a definition of the table."""
        found = branch_definition(definition)
        if self.settings:
            found = with_settings(found, self.settings)
        return found if self._own_ids is None else self._own_ids.within(found)

    def _origin(self, owner: str, marks: Mapping[int, int]) -> Origin:
        definition, engine = self._as_branch(self.definition), self.context.engine
        with self.context.database.read() as session:
            named = domains.at(session, self.head.table_id, self.head.version)
        found = {**dict(published(named)), **as_domain(marks)}
        return Origin(self.head, definition, self.root, owner, now_ms(), engine, found)

    def _first_marks(self) -> dict[int, int]:
        """Return the marks of identity columns in the branch's first commit."""
        if self._begun is None:
            first = read_history(self.context.storage, self._place).commits[0]
            self._begun = marks_of(first.domains)
        return self._begun

    def _marks(self) -> dict[int, int]:
        """Return the current marks of identity columns on the branch."""
        marks = dict(self._first_marks()) if self.definition.identity else {}
        for commit in self._commits() if self.definition.identity else ():
            marks |= marks_of(commit.domains)
        return marks

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

    def _put_next(self, version: int, data: bytes) -> None:
        if not self.context.storage.put_if_absent(commit_path(self._place, version), data):
            what = f"Another statement writes the branch of {self.head.name} at {self.location}."
            raise CorruptTable(what, hint="Wait until one statement ends before the next begins.")

    def _first_definition(self) -> Definition:
        return self._as_branch(self._began or self.definition)

    def _first_version(self) -> int:
        """Return the first version of the branch's log: 1 if it begins with a checkpoint, or 0."""
        return 0 if self.context.storage.exists(commit_path(self._place, 0)) else 1

    def _commits(self) -> Iterator[ForeignActions]:
        definition, after_ms = self._first_definition(), -1
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
            if version in self._given:
                # As given, with the ids of its fields.
                found = replace(found, definition=self._given[version])
            yield found
            definition = found.definition or definition
            version, after_ms = version + 1, found.timestamp_ms

    def _base_at(self) -> Callable[[str], Sequence[LoggedFile]]:
        """Return a function that finds files of the base version by their paths on the branch."""
        root, known = self.root, dict[str, Sequence[LoggedFile]]()

        def look(path: str) -> Sequence[LoggedFile]:
            if path not in known:
                own = path.removeprefix(f"{root}/")
                with self.context.database.read() as session:
                    known[path] = files.at_path(session, self.head.table_id, self.head.version, own)
            return known[path]

        return look

    def _evolved(self, found: Definition, *, evolve: bool) -> Definition | None:
        if found == self._as_branch(self.definition):
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

    def _compare(self, after: Definition, net: Net, differ: Differ | None) -> tuple[DataFile, ...]:
        """Write and return change files with the rows by which removed and added files differ."""
        if not net.added and not net.removed:
            return ()
        name, storage = str(self.head.name), self.context.storage
        if differ is None:
            what = f"Several statements changed table {name}, which has a change feed."
            hint = "Commit each by itself, or give the engine that tells their difference."
            raise UnsupportedFeature(what, hint=hint, table=name)
        task, tables = difference(
            self.head, after, net.removed, net.added, root=self.root, place=self._place
        )
        for place, data in tables:
            storage.put(commit_path(place, 0), data)
        differ(
            replace(
                task,
                before=storage.uri(task.before),
                after=storage.uri(task.after),
                target=storage.uri(task.target),
            )
        )
        written = read_history(storage, task.target)
        inside = task.target.removeprefix(f"{self.head.location}/")
        live = [f.file for f in written.files if f.added > 0]
        return moved_all([DataFile(f.path, f.size, None, 0, f.partition) for f in live], inside)
