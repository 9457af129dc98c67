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
from typing import TYPE_CHECKING, Any

from lakeward.engines.spark.changes import write_difference
from lakeward.engines.spark.quoting import identifier
from lakeward.engines.spark.workspace import NAMESPACE, Workspace
from lakeward.errors import LakewardError
from lakeward.formats.delta.changes import Difference
from lakeward.formats.delta.publication import commit_path
from lakeward.formats.net import Net
from lakeward.log import heads
from lakeward.model.clock import now_ms
from lakeward.model.definition import Definition
from lakeward.model.expressions.nodes import Expression
from lakeward.model.names import TableName
from lakeward.write.branch.base import Branch
from lakeward.write.branch.classes import branch_class
from lakeward.write.commit import iceberg
from lakeward.write.commit.new_table import new_head
from lakeward.write.commit.publish import publish_backlog
from lakeward.write.plan.change import Operation
from lakeward.write.spark.validate import check_rows
from lakeward.write.stage.writable import check_deletable
from lakeward.write.transaction.member import Member
from lakeward.write.transaction.view import View

if TYPE_CHECKING:
    from lakeward.engines.spark.workspace import DataFrame


@dataclass
class _Written:
    """A table that the transaction writes.

    Attributes:
        member: Its part of the transaction.
        branch: Where statements work.
        operations: What was asked for, of formats whose branches do not tell.
        net: What it came to, once that is known.
        made: What made the table, where the transaction did.
        is_entered: Whether Spark knows it by name.
    """

    member: Member
    branch: Branch
    operations: list[Operation]
    net: Net | None = None
    made: Operation | None = None
    is_entered: bool = True


@dataclass(frozen=True, slots=True)
class Relation:
    """A table in a statement that reads it.

    Attributes:
        sql: What stands for it in FROM.
        qualifier: What it is called before a column; None for a view that goes by an alias.
    """

    sql: str
    qualifier: str | None


class SparkTables:
    """What a transaction on Spark works with.

    Args:
        view: At which version it sees each table.
        spark: The user's session.
    """

    def __init__(self, view: View, spark: Any) -> None:
        self._context = view.context
        self._view = view
        self.workspace = Workspace(spark, view.transaction_id)
        self._pinned: dict[TableName, int] = {}
        self._written: dict[TableName, _Written] = {}

    def to_read(self, name: TableName) -> str:
        """What a table is called in SQL that reads it.

        Raises:
            TableNotFound: The transaction sees no such table.
        """
        member = self._note_read(name)
        written = self._written.get(name)
        if written is not None:
            self._complete(written)
            self._enter(written)
        elif self._pinned.get(name) != member.change.head.version:
            self._pin(name, member)
        return self.workspace.name(name.namespace, name.name, member.change.head.format)

    def live(self, name: TableName) -> Relation:
        """A table as statements read it that run at once, or look at it whenever they are used.

        Raises:
            TableNotFound: The transaction sees no such table.
        """
        known = self.to_read(name)
        if self.format(name) == iceberg.FORMAT:
            return Relation(known, identifier(name.namespace or NAMESPACE, name.name))
        database = self.workspace.database(name.namespace)
        return Relation(known, identifier(database, name.name))

    def pinned(self, name: TableName) -> Relation:
        """A table as it is now, whatever is written to it later.

        Raises:
            TableNotFound: The transaction sees no such table.
        """
        head = self._note_read(name).change.head
        written = self._written.get(name)
        if head.format == iceberg.FORMAT:
            document = str(head.pointer)
            if written is not None:
                document = self.workspace.document(name.namespace, name.name)
            space, own = self.workspace.pin_iceberg(name.namespace, name.name, document)
            return Relation(own, identifier(space, name.name))
        found = self.live(name)
        if written is None:
            # What it is called may mean the branch later; whoever reads it now keeps the version.
            return found
        target = self.workspace.target(name.namespace, name.name, "delta")
        database = self.workspace.database(name.namespace, written=True)
        return Relation(
            f"{target} VERSION AS OF {written.branch.version}", identifier(database, name.name)
        )

    def may_have_vectors(self, name: TableName) -> bool:
        """Whether a table that was asked for before may have Delta's deletion vectors."""
        features = self.definition(name).protocol.get("readerFeatures") or ()
        return self.format(name) != iceberg.FORMAT and "deletionVectors" in features

    def to_write(self, name: TableName, operation: Operation, *, reads: bool) -> str:
        """What a table is called in SQL that writes it.

        Args:
            name: The table.
            operation: What is done to it.
            reads: Whether that looks at its rows.

        Raises:
            TableNotFound: The transaction sees no such table.
            UnsupportedFeature: It cannot be written on a branch.
        """
        written = self._to_change(name, operation, reads=reads)
        self._enter(written)
        return self.workspace.target(name.namespace, name.name, self.format(name))

    def to_append(self, name: TableName, operation: Operation) -> str:
        """What a table is called in SQL that only adds rows: names cost more than a branch does.

        Raises:
            TableNotFound: The transaction sees no such table.
            UnsupportedFeature: It cannot be written on a branch.
        """
        written = self._to_change(name, operation, reads=False)
        if not written.is_entered:
            return identifier("delta", written.branch.location)
        return self.workspace.target(name.namespace, name.name, self.format(name))

    def is_untouched(self, name: TableName) -> bool:
        """Whether rows that are added to a table next can be told from all others by its branch."""
        return not self.is_iceberg(name) and name not in self._written and name not in self._pinned

    def added(self, name: TableName) -> DataFrame | None:
        """The rows that one statement added to a table that nothing has looked at, read back."""
        written = self._written.get(name)
        if written is None or written.branch.is_whole or len(written.operations) != 1:
            return None
        # By its version: what is added to the branch later is not meant.
        reader = self.workspace.session.read.format("delta")
        return reader.option("versionAsOf", written.branch.version).load(written.branch.location)

    def make(
        self,
        name: TableName,
        format: str,  # noqa: A002  the name users know
        definition: Definition,
        operation: Operation,
    ) -> str:
        """Make a table that nobody else sees before the commit; what it is called to be written.

        Raises:
            AlreadyExists: The lake has a table of this name, or one lies where it would.
        """
        with self._context.database.read() as session:
            head = new_head(self._context, session, name, format, guard=True)
        member = self._view.make(head, replace(definition, created_ms=now_ms()))
        self._written[name] = self._open(name, member, whole=False)
        self._written[name].made = operation
        self._enter(self._written[name])
        return self.workspace.target(name.namespace, name.name, format)

    def knows(self, name: TableName) -> bool:
        """Whether the lake has a table of this name, or the transaction makes one."""
        if name in self._view.members:
            return True
        with self._context.database.read() as session:
            return heads.find(session, name) is not None

    def look(self, name: TableName) -> None:
        """Ask for a table that is to be looked at, and open nothing yet.

        Raises:
            TableNotFound: The transaction sees no such table.
        """
        self._view.member(name, reads=True)

    def is_iceberg(self, name: TableName) -> bool:
        """Whether a table is an Iceberg table; asks for it, without a look.

        Raises:
            TableNotFound: The transaction sees no such table.
        """
        return self._view.member(name, reads=False).change.head.format == iceberg.FORMAT

    def definition(self, name: TableName) -> Definition:
        """The definition of a table that was asked for before."""
        return self._view.members[name].change.definition

    def format(self, name: TableName) -> str:
        """The format of a table that was asked for before."""
        return self._view.members[name].change.head.format

    def scope(self, name: TableName, scope: Expression | None) -> None:
        """Note which rows a statement replaces or removes; None for all."""
        self._view.members[name].change.scopes.append(scope)

    def noted(self) -> Callable[[], None]:
        """Note what was asked of each table; the result forgets what was asked for since.

        For operations that were prepared and did not run: they have read and changed nothing.
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

    def settle(self) -> None:
        """Net every branch, validate its new rows, and make it part of the table's change.

        Raises:
            ConstraintViolation: Rows that a table's checks refuse.
            UnsupportedFeature: A statement changed what may not change here.
        """
        for written in self._written.values():
            if written.net is not None:
                continue
            branch, change = written.branch, written.member.change
            branch.head = change.head
            net = self._net(branch)
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
        self.close()

    def discard(self) -> None:
        """Delete the branches with all that was written on them, and forget the tables."""
        for written in self._written.values():
            with suppress(LakewardError):
                written.branch.discard()
        self.close()

    def close(self) -> None:
        """Forget the tables; the branches stay."""
        self._written.clear()
        self._pinned.clear()
        self.workspace.close()

    def _note_read(self, name: TableName) -> Member:
        member = self._view.member(name, reads=True)
        if None not in member.change.reads:
            member.change.reads.append(None)
        return member

    def _tell(self, task: Difference) -> None:
        session = self.workspace.session
        write_difference(session, task.before, task.after, task.target, task.columns)

    def _net(self, branch: Branch) -> Net:
        if branch.document is not None:
            name = branch.head.name
            branch.document = self.workspace.document(name.namespace, name.name)
        return branch.net(differ=self._tell)

    def _open(self, name: TableName, member: Member, *, whole: bool) -> _Written:
        self._view.register()
        was_pinned = self._pinned.pop(name, None) is not None
        head = member.change.head
        # Checks run on the rows as they are to be committed, whatever came before: all violations
        # are counted then, and one that is mended before is none.
        definition = _unchecked(member.change.definition)
        base = member.files() if whole and member.change.removed else None
        branch = branch_class(head.format).open(
            self._context, self._view.transaction_id, head, definition, whole=whole, base=base
        )
        out = _Written(member, branch, [], is_entered=branch.document is not None)
        if branch.document is not None:
            self.workspace.enter_iceberg(name.namespace, name.name, branch.document)
            return out
        if was_pinned:
            # Views and frames that were made of the table meanwhile go on by its name.
            self._enter(out)
        return out

    def _enter(self, written: _Written) -> None:
        if written.is_entered:
            return
        name = written.branch.head.name
        self.workspace.enter_delta(name.namespace, name.name, written.branch.location)
        written.is_entered = True

    def _to_change(self, name: TableName, operation: Operation, *, reads: bool) -> _Written:
        """A table that something is done to, on its branch."""
        member = self._view.member(name, reads=reads)
        written = self._written.get(name)
        if written is None and member.change.head.format == iceberg.FORMAT:
            # Its branch begins with one snapshot and cannot move to a cut that is taken later.
            member = self._view.member(name, reads=reads or not member.change.is_new)
        if written is None:
            whole = reads or name in self._pinned
            written = self._written[name] = self._open(name, member, whole=whole)
        if reads:
            self._complete(written)
        written.operations.append(operation)
        return written

    def _complete(self, written: _Written) -> None:
        if written.branch.is_whole:
            return
        # Joined without a look, so its base may have moved to the cut since.
        written.branch.head = written.member.change.head
        if written.member.change.is_new:
            written.branch.is_whole = True
        else:
            written.branch.complete(written.member.files())

    def _pin(self, name: TableName, member: Member) -> None:
        head, storage = member.change.head, self._context.storage
        if head.format == iceberg.FORMAT:
            self.workspace.enter_iceberg(name.namespace, name.name, str(head.pointer))
        else:
            if not storage.exists(commit_path(head.location, head.version)):
                publish_backlog(self._context, head)
            place = storage.uri(head.location)
            self.workspace.enter_version(name.namespace, name.name, place, head.version)
        self._pinned[name] = head.version


def _unchecked(definition: Definition) -> Definition:
    """A definition without checks, of columns that require no value; parts of them may."""
    fields = tuple(replace(f, nullable=True) for f in definition.schema)
    return replace(definition, schema=replace(definition.schema, fields=fields), constraints={})
