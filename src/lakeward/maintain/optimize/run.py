"""Runs one unit of a compaction: one transaction, one version, no row changes.

It never blocks a writer and never makes one fail. If others changed a file of the unit meanwhile,
the part of the unit with this file is left out; if the table is locked or was altered, the whole
unit is. The next plan finds again what was left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

from lakeward.context import LakeContext
from lakeward.errors import Conflict, LakewardError, Locked
from lakeward.log import claims
from lakeward.log import files as file_rows
from lakeward.maintain.optimize.choice import Group
from lakeward.maintain.optimize.planning import OPERATION, Work
from lakeward.maintain.optimize.rewriting import Rewriter
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.maintenance import Done, Unit
from lakeward.model.names import TableName
from lakeward.model.steps import reach
from lakeward.write.commit.publications import current
from lakeward.write.plan.change import Move, Operation
from lakeward.write.transaction.lifecycle import Lifecycle
from lakeward.write.transaction.moved import set_moves

Begin: TypeAlias = Callable[[], Lifecycle]
"""Begins a transaction that waits for no lock."""


@dataclass(frozen=True)
class Optimizer:
    """Runs the units of plans of one lake."""

    context: LakeContext
    begin: Begin

    def __call__(self, unit: Unit) -> Done:
        """Run one unit and return how much of it was done."""
        work: Work = unit.work
        head, definition, groups = self._still_there(TableName.parse(unit.table), work.groups)
        if not groups:
            return _done((), given_way=len(work.groups))
        lifecycle = self.begin()
        try:
            member = lifecycle.view.begin_at(head, definition)
            member.before_writing()
            groups = self._claimed(lifecycle, head, groups)
            if not groups:
                lifecycle.rollback()
                return _done((), given_way=len(work.groups))
            rewriter = Rewriter(member.stager, work.asked.layout, work.asked.target)
            moves = rewriter.moves(groups)
            reach("move.staged")
            parameters = {"predicate": work.asked.where or "", **work.asked.layout.parameters}
            member.change.operations.append(Operation(OPERATION, parameters))
            set_moves(member, moves)
            lifecycle.commit()
        except (Conflict, Locked):
            return _done((), given_way=len(work.groups))
        except BaseException:
            lifecycle.rollback()
            raise
        finally:
            self._release(lifecycle)
        kept = member.change.moves
        return _done(kept, given_way=len(work.groups) - len(kept))

    def _claimed(self, lifecycle: Lifecycle, head: Head, groups: Sequence[Group]) -> list[Group]:
        """Return the groups whose partitions no other run has claimed."""
        names = [f"{OPERATION} {head.table_id} {sorted(g.partition.items())}" for g in groups]
        with self.context.database.write(durable=False) as session:
            now = self.context.database.clock_ms(session)
            taken = claims.take(session, sorted(set(names)), lifecycle.transaction_id, now)
        return [g for g, name in zip(groups, names, strict=True) if name in taken]

    def _release(self, lifecycle: Lifecycle) -> None:
        """Release the claims; if that fails, they end with the transaction's lease."""
        with suppress(LakewardError), self.context.database.write(durable=False) as session:
            claims.release(session, lifecycle.transaction_id)

    def _still_there(
        self, name: TableName, groups: Sequence[Group]
    ) -> tuple[Head, Definition, list[Group]]:
        """Return the table now, and the groups whose files are all still live."""
        head = current(self.context, name)
        with self.context.database.read() as session:
            definition = self.context.definition(session, head)
            live = {
                (f.added, f.ordinal)
                for g in groups
                for f in g.files
                if file_rows.is_live(session, head.table_id, f)
            }
        kept = [g for g in groups if all((f.added, f.ordinal) in live for f in g.files)]
        return head, definition, kept


def _done(moves: Sequence[Move], *, given_way: int) -> Done:
    before = [f for m in moves for f in m.removed]
    after = [f for m in moves for f in m.added]
    read, written = sum(f.size for f in before), sum(f.size for f in after)
    facts = {
        "files_before": len(before),
        "files_after": len(after),
        "bytes_before": read,
        "bytes_after": written,
        "rows": sum(f.rows or 0 for f in after),
        "groups": len(moves),
        "given_way": given_way,
    }
    return Done(reads=read, writes=written, files=len(before), facts=facts)
