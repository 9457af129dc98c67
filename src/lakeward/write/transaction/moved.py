"""Rebases a change onto a commit that only moved rows, so that compactions fail no writer.

The rows are the same before and after such a commit. A change whose steps are known is planned
again on the new files. Any other change (made by Spark on a branch, or by removing files by their
paths) cannot be planned again; it removes the compaction's files, and adds again those of the old
files that it does not change. Vacuum keeps removed files for days; if it was set to delete them
earlier, the change has a conflict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakeward.formats.registry import format_of
from lakeward.log import commits, files, heads
from lakeward.model.commit import Head
from lakeward.model.file import LIVE, LoggedFile
from lakeward.write.plan.change import Move
from lakeward.write.transaction.member import Member


def give_way(member: Member) -> bool:
    """Drop the parts of a compaction whose files others changed; return False if there are none.

    The remaining parts are rebased onto the newest version.
    """
    change = member.change
    with member.context.database.read() as session:
        head = heads.by_id(session, change.head.table_id)
        if head is None or head.definition_id != change.head.definition_id:
            return False
        gone = files.removed_since(session, head.table_id, change.head.version, head.version)
    lost = {(f.added, f.ordinal) for f in gone}
    kept = [m for m in change.moves if lost.isdisjoint((f.added, f.ordinal) for f in m.removed)]
    if len(kept) == len(change.moves):
        return False
    set_moves(member, kept)
    member.rebase(head)
    return True


def set_moves(member: Member, moves: Sequence[Move]) -> None:
    """Set a change to the given moves of rows; to no change if there are none."""
    change = member.change
    change.moves[:] = moves
    change.data_change, change.fixed = False, True
    change.added[:] = [file for move in moves for file in move.added]
    change.removed.clear()
    for move in moves:
        for file in move.removed:
            change.remove(file)
    if not moves:
        change.operations.clear()


def carry_over(member: Member, version: int) -> bool:
    """Rebase a change to `version`, which moved its rows; return False if that is impossible.

    The caller has checked that no version between the base and `version` conflicts with it.
    """
    if member.change.is_replayable:
        head = _head_at(member, version)
        if head is None:
            return False
        member.replan(head)
        return True
    return _take_back(member, version)


def _head_at(member: Member, version: int) -> Head | None:
    base = member.change.head
    with member.context.database.read() as session:
        head = heads.by_id(session, base.table_id)
        found = commits.one(session, base.table_id, version)
    if head is None or found is None:
        return None
    # The definition is that of the base: another one would be a conflict, checked before.
    return replace(
        head,
        version=version,
        timestamp_ms=found.timestamp_ms,
        definition_id=base.definition_id,
    )


def _take_back(member: Member, version: int) -> bool:
    """Undo the move as a part of the change; return False if that is impossible."""
    change, head = member.change, _head_at(member, version)
    if head is None:
        return False
    with member.context.database.read() as session:
        before = files.removed_at(session, head.table_id, version)
        after = files.added_at(session, head.table_id, version)
    if any(f.removed != LIVE for f in after):
        # Another transaction changed rows that the compaction had moved.
        return False
    back = [f for f in before if (f.added, f.ordinal) not in change.removed]
    if not all(_may_return(head, f) for f in back):
        return False
    for file in before:
        change.removed.pop((file.added, file.ordinal), None)
    for file in after:
        change.remove(file)
    change.added.extend(f.file for f in back)
    if back:
        # Nothing protects these files until the commit is ratified, which checks this version.
        known = change.put_back_from
        change.put_back_from = version - 1 if known is None else min(known, version - 1)
    member.rebase(head)
    return True


def _may_return(head: Head, file: LoggedFile) -> bool:
    """Return whether a file's deleted rows stay deleted when it is added again.

    Iceberg delete files apply only to older data files.
    """
    return file.file.deletion_vector is None or not format_of(head).columns_by_id
