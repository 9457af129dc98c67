"""The tables of a transaction on Spark: each at its pinned version, or as a branch once written.

A table that is only read is seen at the transaction's cut. The first statement that writes it opens
a branch, and from then on every statement of the transaction sees the branch. A branch to which
rows are only added begins without the table's files; these are added when a later statement reads
the table.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lakeward.engines.spark.workspace import Workspace
from lakeward.errors import LakewardError
from lakeward.formats.net import Net
from lakeward.formats.policy import effective_policy
from lakeward.log import heads
from lakeward.model.clock import now_ms
from lakeward.model.commit import Head
from lakeward.model.constraints import is_tolerant
from lakeward.model.definition import Definition
from lakeward.model.evolution.alterations import Alteration
from lakeward.model.expressions.nodes import Expression
from lakeward.model.names import TableName
from lakeward.model.policy.policy import Policy
from lakeward.read.as_of import AsOf, at
from lakeward.read.snapshot import TableSnapshot, at_version
from lakeward.write.alter.alter import Altered
from lakeward.write.branch.base import Branch
from lakeward.write.branch.classes import branch_class
from lakeward.write.commit import conflict
from lakeward.write.commit.new_table import new_head
from lakeward.write.plan.change import Change, Operation
from lakeward.write.spark.file_settings import SessionSettings
from lakeward.write.spark.formats import ADAPTERS, Relation, SparkFormat
from lakeward.write.spark.validate import check_rows
from lakeward.write.stage.checks import check_deletable
from lakeward.write.transaction.member import Member
from lakeward.write.transaction.view import View

if TYPE_CHECKING:
    from lakeward.engines.spark.workspace import DataFrame


@dataclass
class _Written:
    """A table that the transaction writes."""

    member: Member  # the table in the transaction
    branch: Branch  # the branch that statements read and write
    operations: list[Operation]  # statements run, for formats whose branches do not record them
    net: Net | None = None  # the net effect of the branch, once it is computed
    made: Operation | None = None  # the operation that created the table, in this transaction
    is_entered: bool = False  # whether the branch is registered in the session


class SparkTables:
    """The tables that the statements of a transaction on Spark read and write."""

    def __init__(self, view: View, spark: Any) -> None:
        self.context = view.context
        self._view = view
        self.workspace = Workspace(spark, view.transaction_id)
        self._pinned: dict[TableName, int] = {}
        self._written: dict[TableName, _Written] = {}
        self._forgotten: list[Branch] = []  # branches of dropped tables
        self._settings = SessionSettings(self.workspace)
        self._formats = {
            name: kind(view.context, self.workspace) for name, kind in ADAPTERS.items()
        }

    def live(self, name: TableName) -> Relation:
        """Return a table for statements that run now, or that read its current rows at each use."""
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
        """Return a table with its current rows, which later writes do not change."""
        head, written = self._record_read(name).change.head, self._written.get(name)
        branch = None if written is None else written.branch
        return self.format(name).pinned(head, branch, lambda: self.live(name))

    def snapshot(self, name: TableName) -> TableSnapshot:
        """Return a table at the version that the transaction sees, without its own changes."""
        head = self._record_read(name).change.head
        with self.context.database.read() as session:
            return at_version(self.context, session, head, head.version)

    def as_of(self, name: TableName, place: AsOf) -> tuple[Relation, Definition]:
        """Return a table as of a version, time or tag, and the definition that it had then."""
        self.look(name)
        self._view.audit_read(self._view.members[name])
        head = self._view.members[name].change.head
        with self.context.database.read() as session:
            found = at(self.context, session, head, place)
        definition = found.definition
        return self.format(name).at_version(head, found.version, definition), definition

    def to_write(self, name: TableName, operation: Operation, *, reads: bool) -> str:
        """Return the name of a table for SQL that writes it; open its branch if needed.

        `reads` is whether the statement also reads the table's rows.
        """
        written = self._to_change(name, operation, reads=reads)
        self._enter(written)
        return self.format(name).to_write(name).sql

    def to_append(self, name: TableName, operation: Operation) -> str:
        """Return the name or path of a table for SQL that only inserts rows; open its branch.

        The branch is not registered under a name for this, which would take longer than to open it.
        """
        written = self._to_change(name, operation, reads=False)
        return self.format(name).to_append(written.branch, is_entered=written.is_entered)

    def is_untouched(self, name: TableName) -> bool:
        """Return whether rows that are appended next will be the only rows on a table's branch."""
        self.join(name)
        used = name in self._written or name in self._pinned
        return not used and not self.format(name).begins_whole

    def added(self, name: TableName) -> DataFrame | None:
        """Return a frame of the rows that one append wrote, if the branch has no other rows."""
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
        """Create a table that others see after the commit; return its name for SQL that writes."""
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
        """Return whether the lake has a table of this name, or the transaction creates one."""
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
        """Make a table part of the transaction, as a table that is read; open nothing yet."""
        self._view.member(name, reads=True)

    def definition(self, name: TableName) -> Definition:
        """Return the current definition of a table that is part of the transaction."""
        return self._view.members[name].change.definition

    def change(self, name: TableName) -> Change:
        """Return the pending change of a table that is part of the transaction."""
        return self._view.members[name].change

    def has_new(self, name: TableName) -> bool:
        """Return whether the transaction has added files to a table."""
        written = self._written.get(name)
        if written is None:
            return False
        self.format(name).update(written.branch, is_entered=written.is_entered)
        return bool(written.branch.look().added)

    def redefine(self, name: TableName, asked: Alteration, found: Altered) -> None:
        """Set the definition that results from an alteration, for all later statements."""
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
        adapter, definition = self.format(name), _unchecked(found.definition)
        adapter.update(written.branch, is_entered=written.is_entered)
        written.branch.settings = adapter.branch_settings(self._policy(name), definition)
        written.branch.alter(definition)
        member.redefine(asked, found)
        if written.is_entered:
            self.format(name).enter_again(written.branch)

    def format(self, name: TableName) -> SparkFormat:
        """Return the adapter for the format of a table that is part of the transaction."""
        return self._formats[self._view.members[name].change.head.format]

    def scope(self, name: TableName, scope: Expression | None) -> None:
        """Record the condition of the rows that a statement replaces or removes; None for all."""
        self._view.members[name].change.scopes.append(scope)

    def savepoint(self) -> Callable[[], None]:
        """Return a function that restores the recorded reads, scopes and operations of now.

        It is called when an operation is refused.
        """
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
        """Validate the rows that Spark wrote to each branch, and add them to the table's change."""
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
            if net.removed and is_tolerant(change.definition):
                change.origins = written.member.stager.origins = branch.origins(change)
            if written.made is not None:
                change.operations = [written.made]

    def committed(self) -> None:
        """Delete files of the branches that the commit does not need, and close the session."""
        for written in self._written.values():
            if written.net is not None:
                with suppress(LakewardError):
                    written.branch.tidy(written.member.change)
        self._discard_forgotten()
        self.close()

    def _discard_forgotten(self) -> None:
        for branch in self._forgotten:
            with suppress(LakewardError):
                branch.discard()
        self._forgotten.clear()

    def discard(self) -> None:
        """Delete the branches with all files written on them, and close the session."""
        for written in self._written.values():
            with suppress(LakewardError):
                written.branch.discard()
        self._discard_forgotten()
        self.close()

    def close(self) -> None:
        """Close the session, and keep the branches."""
        self._written.clear()
        self._pinned.clear()
        self.workspace.close()

    def _record_read(self, name: TableName) -> Member:
        member = self._view.member(name, reads=True)
        self._view.audit_read(member)
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
            self.context,
            self._view.transaction_id,
            head,
            definition,
            whole=whole,
            base=base,
            settings=self.format(name).branch_settings(self._policy(name), definition),
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
        """Return a table to be written; open its branch if needed, and set its session settings."""
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
        self._settings.use(self.format(name).session_settings(self._policy(name), member))
        return written

    def _policy(self, name: TableName) -> Policy:
        change = self._view.members[name].change
        return effective_policy(change.head, change.definition).policy

    def _complete(self, written: _Written) -> None:
        if written.branch.is_whole:
            return
        branch, change = written.branch, written.member.change
        if change.is_new:
            branch.is_whole = True
            return
        # Joined without a look, so its base may have moved to the cut since. The branch has the
        # definition from before: rows that are rewritten under it would lose columns.
        with self.context.database.read() as session:
            conflict.check_same_definition(session, change, branch.head)
        branch.head = change.head
        branch.complete(written.member.files())


def _unchecked(definition: Definition) -> Definition:
    """Return a definition without checks, whose top-level columns are all nullable."""
    fields = tuple(replace(f, nullable=True) for f in definition.schema)
    return replace(definition, schema=replace(definition.schema, fields=fields), constraints={})
