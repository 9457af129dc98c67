"""A branch of a Delta table: a directory with a log of its own, which names the table's files.

Engines open it as an ordinary Delta table. When it is published only its log is deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
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
)
from lakeward.formats.delta.changes import difference
from lakeward.formats.delta.checkpoint import checkpoint_path, last_checkpoint_path
from lakeward.formats.delta.history import newest_version, read_commit, read_history
from lakeward.formats.delta.net import moved_all, net_of
from lakeward.formats.delta.publication import commit_path
from lakeward.formats.delta.row_tracking import check_moved_ids
from lakeward.formats.net import Net
from lakeward.log import domains, files
from lakeward.model.clock import now_ms
from lakeward.model.definition import Definition
from lakeward.model.expressions.nodes import Expression
from lakeward.model.file import DataFile, LoggedFile
from lakeward.model.history import ForeignActions
from lakeward.model.steps import reach
from lakeward.read.scan import read_published
from lakeward.write.branch.base import Branch, Differ, NewRows

_CHANGE_FEED: Final = "delta.enableChangeDataFeed"
_LINES_AT_ONCE: Final = 10_000


@dataclass
class DeltaBranch(Branch):
    """A working copy of one version of one Delta table."""

    _owner: str = field(default="", init=False)
    _began: Definition | None = field(default=None, init=False)
    # The definitions that Lakeward's own commits gave the branch, by version.
    _given: dict[int, Definition] = field(default_factory=dict, init=False)

    @classmethod
    def check(cls, definition: Definition, table: str) -> None:
        """Raise UnsupportedFeature for a table whose features a branch cannot preserve."""
        check_branchable(definition, table)

    def _write_first(self, owner: str, base: Iterable[LoggedFile] | None) -> None:
        self._owner = owner
        if base is not None or not self.is_whole:
            self._put(first_commit(self._origin(owner), base or ()))
        else:
            self.make(owner)

    def make(self, owner: str) -> None:
        """Write the first version with all files of the base; many go into a checkpoint."""
        table_id, version = self.head.table_id, self.head.version
        origin = self._origin(owner)
        with self.context.database.read() as session:
            if files.are_at_most(session, table_id, version, IN_ONE_COMMIT):
                base = list(files.at(session, table_id, version))
                begun = first_commit(origin, base)
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
        """The definition on the branch now."""
        definition = self._first_definition()
        for commit in self._commits():
            definition = commit.definition or definition
        return definition

    def complete(self, base: Iterable[LoggedFile]) -> None:
        """Add the base's files to a branch that was opened without them, as its next commit."""
        newest = self.version
        data = later_commit(
            self.current, base, root=self.root, now_ms=now_ms(), engine=self.context.engine
        )
        self._put_next(newest + 1, data)
        self.is_whole = True

    def alter(self, definition: Definition) -> None:
        """Give the branch another definition, by a commit of its log."""
        self._began = self._began or self.definition
        version, self.definition = self.version + 1, definition
        self._put_next(version, altering_commit(self._origin(self._owner)))
        self._given[version] = branch_definition(definition)

    def read(self, columns: Sequence[str] | None, where: Expression | None) -> pa.Table:
        """The rows on the branch now."""
        return read_published(
            self.context.storage,
            self.location,
            self.version,
            self.current,
            columns=columns,
            where=where,
        ).read_all()

    def new_rows(self, new: Sequence[DataFile]) -> NewRows:
        """A log of the new files alone, which maps columns and applies deletion vectors."""
        storage, place = self.context.storage, f"{self._place}/_check"
        # With the branch's definition: Spark would not look for nulls in a required column.
        task, tables = difference(self.head, self.definition, (), new, root=self.root, place=place)
        storage.put(commit_path(task.after, 0), dict(tables)[task.after])
        return NewRows("delta", [storage.uri(task.after)])

    def look(self) -> Net:
        """The net effect of the branch's commits so far."""
        return net_of(
            self._commits(), directory=self.directory, root=self.root, base=self._base_at()
        )

    def net(self, *, evolve: bool = False, differ: Differ | None = None) -> Net:
        """The net effect of the branch's commits; the files that it adds are synced to disk."""
        net = self.look()
        if net.moves_new:
            check_moved_ids(self.definition, str(self.head.name))
        if net.definition is not None:
            net = replace(net, definition=self._evolved(net.definition, evolve=evolve))
        after = net.definition or self.definition
        if after.properties.get(_CHANGE_FEED) != "true":
            net = replace(net, change_files=())
        elif not net.has_feed:
            net = replace(net, change_files=self._compare(after, net, differ), has_feed=True)
        self.context.storage.sync_files(self.kept(net))
        reach("branch.netted")
        return net

    def _origin(self, owner: str) -> Origin:
        definition, engine = branch_definition(self.definition), self.context.engine
        with self.context.database.read() as session:
            named = domains.at(session, self.head.table_id, self.head.version)
        return Origin(self.head, definition, self.root, owner, now_ms(), engine, named)

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
        return branch_definition(self._began or self.definition)

    def _first_version(self) -> int:
        """The version that the branch began with: 1 where a checkpoint stands for version 0."""
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
        """A function that looks up the base's files by their paths on the branch."""
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

    def _compare(self, after: Definition, net: Net, differ: Differ | None) -> tuple[DataFile, ...]:
        """Change files with the rows by which base and branch differ, over the touched files."""
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
