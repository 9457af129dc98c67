"""The tables of a transaction on Spark: each at its pinned version, or as a branch once written.

A table that is only read is shown as it was at the transaction's cut. The first statement that
writes it opens a branch, and from then on every statement of the transaction sees that. Rows that
are only added need none of the table's files on the branch; they are brought there when a later
statement looks at the table.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from lakeward.engines.spark.workspace import Workspace
from lakeward.errors import LakewardError
from lakeward.formats.net import Net
from lakeward.formats.policy import effective_policy
from lakeward.log import heads
from lakeward.model.clock import now_ms
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.evolution.alterations import Alteration
from lakeward.model.expressions.nodes import Expression
from lakeward.model.names import TableName
from lakeward.read.as_of import AsOf, at
from lakeward.read.snapshot import TableSnapshot, at_version
from lakeward.write.alter.alter import Altered
from lakeward.write.branch.base import Branch
from lakeward.write.branch.classes import branch_class
from lakeward.write.commit.new_table import new_head
from lakeward.write.plan.change import Change, Operation
from lakeward.write.spark.formats import ADAPTERS, Relation, SparkFormat
from lakeward.write.spark.validate import check_rows
from lakeward.write.stage.checks import check_deletable
from lakeward.write.transaction.member import Member
from lakeward.write.transaction.view import View

if TYPE_CHECKING:
    from lakeward.engines.spark.workspace import DataFrame


_CODECS: Final = {
    "none": "uncompressed",
    **{codec: codec for codec in ("uncompressed", "snappy", "gzip", "zstd")},
}
"""How Spark names the codecs that it always has."""


@dataclass
class _Written:
    """A table that the transaction writes."""

    member: Member  # its part of the transaction
    branch: Branch  # where statements work
    operations: list[Operation]  # what was run, for formats whose branches do not record it
    net: Net | None = None  # what it came to, once that is known
    made: Operation | None = None  # what made the table, where the transaction did
    is_entered: bool = False  # whether Spark knows it by name


class SparkTables:
    """What a transaction on Spark works with."""

    def __init__(self, view: View, spark: Any) -> None:
        self.context = view.context
        self._view = view
        self.workspace = Workspace(spark, view.transaction_id)
        self._pinned: dict[TableName, int] = {}
        self._written: dict[TableName, _Written] = {}
        self._forgotten: list[Branch] = []  # of tables that are dropped
        # settings of the session that a table's policy replaced, with the user's values
        self._overridden: dict[str, str | None] = {}
        self._formats = {
            name: kind(view.context, self.workspace) for name, kind in ADAPTERS.items()
        }

    def live(self, name: TableName) -> Relation:
        """A table as statements read it that run at once, or look at it whenever they are used."""
        member = self._record_read(name)
        written = self._written.get(name)
        if written is not None:
            self._complete(written)
            self._enter(written)
        elif self._pinned.get(name) != member.change.head.version:
            self.format(name).enter_version(member.change.head)
            self._pinned[name] = member.change.head.version
        return self.format(name).to_read(name)

    def pinned(self, name: TableName) -> Relation:
        """A table as it is now, whatever is written to it later."""
        head, written = self._record_read(name).change.head, self._written.get(name)
        branch = None if written is None else written.branch
        return self.format(name).pinned(head, branch, lambda: self.live(name))

    def snapshot(self, name: TableName) -> TableSnapshot:
        """A table at the version that the transaction sees, without its own changes."""
        head = self._record_read(name).change.head
        with self.context.database.read() as session:
            return at_version(self.context, session, head, head.version)

    def as_of(self, name: TableName, place: AsOf) -> tuple[Relation, Definition]:
        """Return a table at a point of its history, and its definition there."""
        self.look(name)
        head = self._view.members[name].change.head
        with self.context.database.read() as session:
            found = at(self.context, session, head, place)
        return self.format(name).at_version(head, found.version), found.definition

    def to_write(self, name: TableName, operation: Operation, *, reads: bool) -> str:
        """What a table is called in SQL that writes it."""
        written = self._to_change(name, operation, reads=reads)
        self._enter(written)
        return self.format(name).to_write(name).sql

    def to_append(self, name: TableName, operation: Operation) -> str:
        """What a table is called in SQL that only adds rows: names cost more than a branch does."""
        written = self._to_change(name, operation, reads=False)
        return self.format(name).to_append(written.branch, is_entered=written.is_entered)

    def is_untouched(self, name: TableName) -> bool:
        """Whether rows that are added to a table next will be the only ones on its branch."""
        self.join(name)
        used = name in self._written or name in self._pinned
        return not used and not self.format(name).begins_whole

    def added(self, name: TableName) -> DataFrame | None:
        """The rows that one statement added to a table that nothing has looked at, read back."""
        written = self._written.get(name)
        if written is None or written.branch.is_whole or len(written.operations) != 1:
            return None
        return self.format(name).added(written.branch)

    def make(
        self,
        name: TableName,
        format: str,  # noqa: A002  the name users know
        definition: Definition,
        operation: Operation,
    ) -> str:
        """Make a table that others see after the commit; the name by which it is written."""
        with self.context.database.read() as session:
            head = new_head(self.context, session, name, format, guard=True)
        member = self._view.make(head, replace(definition, created_ms=now_ms()))
        self._written[name] = self._open(name, member, whole=False)
        self._written[name].made = operation
        self._enter(self._written[name])
        return self.format(name).to_write(name).sql

    def drop(self, name: TableName) -> None:
        """Drop a table when the transaction commits, and discard its pending changes."""
        self.join(name)
        adapter, is_new = self.format(name), self.change(name).is_new
        self._view.drop(name)
        self._view.register()
        self._pinned.pop(name, None)
        written = self._written.pop(name, None)
        if written is not None:
            self._forgotten.append(written.branch)
            if written.is_entered:
                adapter.leave(written.branch)
            if is_new:
                # Another table of the same name would be in the same place.
                self._discard_forgotten()

    def knows(self, name: TableName) -> bool:
        """Whether the lake has a table of this name, or the transaction makes one."""
        if name in self._view.members:
            return True
        if name in self._view.dropped:
            return False
        with self.context.database.read() as session:
            return heads.find(session, name) is not None

    def names(self) -> list[TableName]:
        """Return the tables that the transaction sees, including those it creates."""
        return self._view.names()

    def place(self, head: Head) -> str:
        """Return a table's location."""
        return self.context.storage.uri(head.location)

    def join(self, name: TableName) -> None:
        """Make a table part of the transaction, without reading its rows."""
        self._view.member(name, reads=False)

    def look(self, name: TableName) -> None:
        """Make a table part of the transaction as one that is read; nothing is opened yet."""
        self._view.member(name, reads=True)

    def definition(self, name: TableName) -> Definition:
        """The definition of a table that was asked for before."""
        return self._view.members[name].change.definition

    def change(self, name: TableName) -> Change:
        """Return the pending change of a table that was opened before."""
        return self._view.members[name].change

    def has_new(self, name: TableName) -> bool:
        """Return whether the transaction has added files to a table."""
        written = self._written.get(name)
        if written is None:
            return False
        self.format(name).update(written.branch, is_entered=written.is_entered)
        return bool(written.branch.look().added)

    def redefine(self, name: TableName, asked: Alteration, found: Altered) -> None:
        """Change a table's definition, so that later statements see it."""
        member = self._view.members[name]
        if found.definition == member.change.definition:
            return
        written = self._written.get(name)
        if written is None and not self.format(name).begins_whole:
            # Registered only when it is read, so an alteration alone costs no Spark statement.
            member.redefine(asked, found)
            self._written[name] = self._open(name, member, whole=name in self._pinned)
            return
        if written is None:
            # Such a branch begins with the table as it is, and is altered then.
            written = self._written[name] = self._open(name, member, whole=True)
        self.format(name).update(written.branch, is_entered=written.is_entered)
        written.branch.alter(_unchecked(found.definition))
        member.redefine(asked, found)
        if written.is_entered:
            self.format(name).enter_again(written.branch)

    def format(self, name: TableName) -> SparkFormat:
        """How a table that was asked for before is worked on in Spark."""
        return self._formats[self._view.members[name].change.head.format]

    def scope(self, name: TableName, scope: Expression | None) -> None:
        """Record which rows a statement replaces or removes; None for all."""
        self._view.members[name].change.scopes.append(scope)

    def savepoint(self) -> Callable[[], None]:
        """A function that restores the present state, for an operation that is refused."""
        changes = {n: m.change for n, m in self._view.members.items()}
        looks = {n: (len(c.reads), len(c.scopes)) for n, c in changes.items()}
        asked = {n: len(w.operations) for n, w in self._written.items()}

        def forget() -> None:
            for name, member in self._view.members.items():
                reads, scopes = looks.get(name, (0, 0))
                del member.change.reads[reads:], member.change.scopes[scopes:]
            for name, written in self._written.items():
                del written.operations[asked.get(name, 0) :]

        return forget

    def finish(self) -> None:
        """Make what was done on each branch part of its table's change, with new rows validated."""
        for written in self._written.values():
            if written.net is not None:
                continue
            branch, change = written.branch, written.member.change
            branch.head = change.head
            adapter = self.format(branch.head.name)
            adapter.update(branch, is_entered=written.is_entered)
            net = adapter.net(branch)
            if net.data_change:
                if net.removed:
                    check_deletable(change)
                session = self.workspace.session
                self.workspace.set_utc()
                check_rows(session, branch, change.definition, net.added)
            written.net = net
            if not net.is_empty:
                branch.fill(change, net, written.operations)
            if written.made is not None:
                change.operations = [written.made]

    def committed(self) -> None:
        """Delete what commits do not need of the branches, and forget the tables."""
        for written in self._written.values():
            if written.net is not None:
                with suppress(LakewardError):
                    written.branch.tidy(written.net)
        self._discard_forgotten()
        self.close()

    def _discard_forgotten(self) -> None:
        for branch in self._forgotten:
            with suppress(LakewardError):
                branch.discard()
        self._forgotten.clear()

    def discard(self) -> None:
        """Delete the branches with all that was written on them, and forget the tables."""
        for written in self._written.values():
            with suppress(LakewardError):
                written.branch.discard()
        self._discard_forgotten()
        self.close()

    def close(self) -> None:
        """Forget the tables; the branches stay."""
        self._written.clear()
        self._pinned.clear()
        self.workspace.close()

    def _record_read(self, name: TableName) -> Member:
        member = self._view.member(name, reads=True)
        if None not in member.change.reads:
            member.change.reads.append(None)
        return member

    def _open(self, name: TableName, member: Member, *, whole: bool) -> _Written:
        self._view.register()
        was_pinned = self._pinned.pop(name, None) is not None
        head = member.change.head
        # Checks run on the rows as they are to be committed, whatever came before: all violations
        # are counted then, and one that is mended before is none.
        definition = _unchecked(member.change.definition)
        base = member.files() if whole and member.change.removed else None
        branch = branch_class(head.format).open(
            self.context, self._view.transaction_id, head, definition, whole=whole, base=base
        )
        out = _Written(member, branch, [])
        if was_pinned or self.format(name).begins_whole:
            # Views and frames that were made of the table meanwhile go on by its name.
            self._enter(out)
        return out

    def _enter(self, written: _Written) -> None:
        if written.is_entered:
            return
        self.format(written.branch.head.name).enter(written.branch)
        written.is_entered = True

    def _to_change(self, name: TableName, operation: Operation, *, reads: bool) -> _Written:
        """A table that something is done to, on its branch."""
        member = self._view.member(name, reads=reads)
        written = self._written.get(name)
        if written is None and self.format(name).begins_whole:
            # Its branch begins with one snapshot and cannot move to a cut that is taken later.
            member = self._view.member(name, reads=reads or not member.change.is_new)
        if written is None:
            whole = reads or name in self._pinned
            written = self._written[name] = self._open(name, member, whole=whole)
        if reads:
            self._complete(written)
        written.operations.append(operation)
        self._set_compression(name)
        return written

    def _set_compression(self, name: TableName) -> None:
        """Have Spark write files of a table with the codec of its policy, or else its own."""
        change = self._view.members[name].change
        chosen = effective_policy(change.head, change.definition).policy.compression
        codec = None if chosen is None else _CODECS.get(chosen)
        setting, conf = self.format(name).compression, self.workspace.session.conf
        if codec is not None:
            self._overridden.setdefault(setting, conf.get(setting, None))
            conf.set(setting, codec)
        elif setting in self._overridden:
            before = self._overridden.pop(setting)
            conf.unset(setting) if before is None else conf.set(setting, before)

    def _complete(self, written: _Written) -> None:
        if written.branch.is_whole:
            return
        # Joined without a look, so its base may have moved to the cut since.
        written.branch.head = written.member.change.head
        if written.member.change.is_new:
            written.branch.is_whole = True
        else:
            written.branch.complete(written.member.files())


def _unchecked(definition: Definition) -> Definition:
    """A definition without checks, of columns that require no value; parts of them may."""
    fields = tuple(replace(f, nullable=True) for f in definition.schema)
    return replace(definition, schema=replace(definition.schema, fields=fields), constraints={})
