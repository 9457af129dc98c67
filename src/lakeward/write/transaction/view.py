"""The versions of tables that a transaction sees, according to its isolation level.

``snapshot`` and ``serializable`` read one cut over all tables of the lake, which is taken when the
transaction first reads rows. Every table is seen at that cut, also tables to which rows were only
added before; a table that was created later does not exist. ``read_committed`` reads the newest
committed version with each operation. At every level, the transaction also sees its own changes,
and no changes of others that are not ratified.

Adding rows is no read, so it takes no cut.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from lakeward.context import LakeContext
from lakeward.errors import Conflict, TableNotFound
from lakeward.log import heads
from lakeward.log.database import Session
from lakeward.model.commit import Head, Isolation
from lakeward.model.definition import Definition
from lakeward.model.names import TableName, hint_for_unknown
from lakeward.read.auditing import audit_read
from lakeward.write.commit import conflict
from lakeward.write.commit.publications import follow, follow_all, may_have_drifted
from lakeward.write.plan.change import Change
from lakeward.write.transaction.member import Member
from lakeward.write.transaction.quarantined import Quarantined
from lakeward.write.transaction.registration import Registered

Answer: TypeAlias = tuple[Head, Definition, bool]
"""A table's head, its definition, and whether others may have changed it since."""
Question: TypeAlias = Callable[[Session], Answer]

_REPLANNED: Final = frozenset({conflict.Kind.ADDED, conflict.Kind.REMOVED, conflict.Kind.MOVED})


class View:
    """The tables of one transaction, each at the version that its isolation level shows."""

    def __init__(
        self,
        context: LakeContext,
        transaction_id: str,
        isolation: Isolation,
        registered: Registered,
    ) -> None:
        self.context = context
        self.transaction_id = transaction_id
        self.members: dict[TableName, Member] = {}
        self.missed: set[TableName] = set()
        """Names that were looked up and not found."""
        self.properties: dict[str, str] = {}
        self.dropped: dict[TableName, Member] = {}
        """Tables that the commit drops, as they were seen."""
        self.quarantined = 0
        """How often rows were moved to quarantine tables."""
        self.moved: dict[TableName, Quarantined] = {}
        """The rows that were moved to quarantine tables, by the tables that they are from."""
        self.has_restored = False
        """Whether a table was restored, which may have had the state already."""
        self._isolation = isolation
        self._registered = registered
        self._cut: dict[TableName, Head] | None = None
        self._audited: set[TableName] = set()

    def register(self) -> None:
        """Register the transaction in the store, before its first file is written."""
        self._registered.ensure()

    def audit_read(self, member: Member) -> None:
        """Record a read of a table in its audit trail, once, if its policy requires that."""
        head = member.change.head
        if head.name not in self._audited and not member.change.is_new:
            audit_read(self.context, head, head.version, "transaction")
            self._audited.add(head.name)

    def member(self, name: TableName, *, reads: bool) -> Member:
        """Return a table in the transaction, at the version that the isolation level shows.

        `reads` is whether its rows will be read. Raise `TableNotFound` if the transaction does not
        see the table.
        """
        found = self.members.get(name)
        if found is None and self.dropped and name in self.dropped:
            what = f"This transaction drops the table {name}."
            raise TableNotFound(what, hint="Create one of that name first.", table=str(name))
        if found is not None and found.change.is_new:
            return found
        if reads and self._isolation is Isolation.READ_COMMITTED:
            return self._newest(name)
        if reads and self._cut is None:
            self._take_cut()
        if reads and self._cut is not None and name not in self._cut:
            self.missed.add(name)
            what = f"The lake had no table {name} when the transaction first looked at rows."
            hint = hint_for_unknown(name, self._cut)
            raise TableNotFound(what, hint=hint, table=str(name))
        return self._join(name) if found is None else found

    def unchanged(self) -> list[Change]:
        """Return the guarded tables that must not change, although this commit does not either."""
        found = self.members.values()
        return [
            m.change
            for m in found
            if m.change.exact and m.change.is_empty and m.change.head.guarded
        ]

    def names(self) -> list[TableName]:
        """Return the tables that the transaction sees now, including those it creates."""
        if self._cut is None and self._isolation is not Isolation.READ_COMMITTED:
            self._take_cut()
        found: set[TableName] = set(self._cut or ())
        if self._cut is None:
            with self.context.database.read() as session:
                found = set(heads.names(session))
        return sorted((found - self.dropped.keys()) | self.members.keys())

    def begin_at(self, head: Head, definition: Definition) -> Member:
        """Begin a change of a table at a version that the caller chose."""
        return self._add(head, definition)

    def make(self, head: Head, definition: Definition) -> Member:
        """Add and return a table that the transaction creates; others see it after the commit."""
        with self.context.database.read() as session:
            governed = self.context.governed(session, head, definition)
        member = self._add(head, governed)
        member.change.new_definition = governed
        return member

    def drop(self, name: TableName) -> None:
        """Drop a table when the transaction commits; discard one that the transaction created."""
        member = self.member(name, reads=False)
        del self.members[name]
        if not member.change.is_new:
            self.dropped[name] = member

    def locked(self, head: Head) -> None:
        """Move to the head of a table that was just locked, which no other transaction changes now.

        Raise `Conflict` if the transaction has read an older version of the table.
        """
        member = self.members.get(head.name)
        if self._isolation is Isolation.READ_COMMITTED:
            if member is not None:
                self._newest(head.name)
            return
        base = member.change.head if member is not None else (self._cut or {}).get(head.name)
        if base is None or (base.table_id, base.version) == (head.table_id, head.version):
            return
        if self._cut is not None or member is None:
            raise _looked_before(base, head)
        with self.context.database.read() as session:
            conflict.check(session, member.change, head, self._isolation)
            definition = self.context.definition(session, head)
        member.move(head, definition)

    def catch_up(self, name: TableName) -> bool:
        """Replay the changes of a table with a conflict on its newest version.

        Return False if the isolation level does not allow it, or the changes cannot be replayed.
        Only ``read_committed`` allows it, because it guarantees nothing about earlier reads.
        """
        is_replayable = self.members[name].change.is_replayable
        if self._isolation is not Isolation.READ_COMMITTED or not is_replayable:
            return False
        self._newest(name)
        return True

    def _take_cut(self) -> None:
        follow_all(self.context)
        with self.context.database.read() as session:
            self._cut = {h.name: h for h in heads.all_heads(session)}
            for name, member in self.members.items():
                if member.change.is_new:
                    continue
                # Only added to so far, which depends on no version: the base may move to the cut.
                head = self._cut.get(name)
                if head is None or head.table_id != member.change.head.table_id:
                    raise _dropped(name)
                conflict.check(session, member.change, head, self._isolation)
                member.move(head, self.context.definition(session, head))

    def _join(self, name: TableName) -> Member:
        if self._cut is not None:
            return self._add(*self._found(name, self._cut))
        # Rows are about to be added.
        return self._add(*self._found(name, None, ask=self._registered.look))

    def _newest(self, name: TableName) -> Member:
        head, definition = self._found(name, None, newest=True)
        member = self.members.get(name)
        if member is None or (member.change.is_empty and not member.stager.created):
            return self._add(head, definition)
        base = member.change.head
        if head.table_id != base.table_id:
            raise _dropped(name)
        if head.version == base.version:
            return member
        try:
            with self.context.database.read() as session:
                conflict.check(session, member.change, head, self._isolation)
        except Conflict as error:
            if not _replannable(error, member):
                raise
            member.replan(head)
        else:
            member.move(head, definition)
        return member

    def _found(
        self,
        name: TableName,
        cut: dict[TableName, Head] | None,
        *,
        newest: bool = False,
        ask: Callable[[Question], Answer] | None = None,
    ) -> tuple[Head, Definition]:
        """Return a table's head and definition, from a cut or the newest.

        For the newest, commits of other engines are adopted first.
        """

        def question(session: Session) -> Answer:
            head = cut.get(name) if cut is not None else None
            if head is None:
                head = heads.find(session, name)
            if head is None:
                self.missed.add(name)
                raise heads.missing(session, name)
            definition = self.context.definition(session, head)
            return head, definition, cut is None and (newest or may_have_drifted(session, head))

        head, definition, stale = (ask or self._ask)(question)
        if stale:
            head = follow(self.context, head)
            with self.context.database.read() as session:
                definition = self.context.definition(session, head)
        return head, definition

    def _ask(self, question: Question) -> Answer:
        with self.context.database.read() as session:
            return question(session)

    def _add(self, head: Head, definition: Definition) -> Member:
        member = self.members[head.name] = Member.of(
            self.context, self.transaction_id, head, definition, self._registered.ensure
        )
        return member


def _replannable(error: Conflict, member: Member) -> bool:
    return error.kind in _REPLANNED and member.change.is_replayable


def _dropped(name: TableName) -> TableNotFound:
    what = f"The table {name} was dropped meanwhile."
    return TableNotFound(what, table=str(name))


def _looked_before(base: Head, head: Head) -> Conflict:
    what = (
        f"Table {head.name} is at version {head.version}; this transaction looked at version"
        f" {base.version} before it had the lock."
    )
    hint = "Nothing was committed. Lock before you look, and run the transaction again."
    return Conflict(
        what,
        hint=hint,
        table=str(head.name),
        base_version=base.version,
        version=head.version,
        kind=conflict.Kind.READ,
        reason="changed the table before it was locked",
    )
