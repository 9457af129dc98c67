"""The quarantine: moves rows that violate a constraint to a separate table.

They are appended to `<table>__quarantine` in the same transaction. A row that an update or a merge
changed is restored: the table keeps the row from before the transaction, and the row with its new
values goes to the quarantine.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from lakeward.engines.arrow.row_groups import POSITION
from lakeward.errors import LakewardError
from lakeward.log.violations import Violation
from lakeward.model.file import DataFile
from lakeward.model.names import TableName
from lakeward.model.records import to_json
from lakeward.model.steps import reach
from lakeward.read.scan import read_files
from lakeward.write.keys.offences import Offence
from lakeward.write.keys.reactions import endless
from lakeward.write.keys.reading import logged
from lakeward.write.plan.change import Added, Change, write_operation
from lakeward.write.rows.row_ids import KeptIds
from lakeward.write.transaction.member import Member
from lakeward.write.transaction.put_back import put_back
from lakeward.write.transaction.quarantine_table import (
    CONSTRAINT,
    REASON,
    TRANSACTION,
    ensure_table,
    fitted,
)
from lakeward.write.transaction.quarantined import Quarantined
from lakeward.write.transaction.view import View

_ROUNDS: Final = 100
"""The most rounds of moving rows: a restored row may make another row violate a key."""


def quarantine(view: View, offences: Sequence[Offence]) -> None:
    """Move rows from the files that a transaction adds to quarantine tables.

    `view.moved` records them. A row that violates several constraints is moved once, for the first
    of them. Raise `ConstraintViolation` after too many rounds in one transaction.
    """
    view.quarantined += 1
    if view.quarantined > _ROUNDS:
        raise endless(offences)
    for table in dict.fromkeys(o.change.head.name for o in offences):
        member, found = view.members[table], [o for o in offences if o.change.head.name == table]
        rows, about = _move(member, found, view)
        name = ensure_table(view.context, member)
        moved = view.moved.setdefault(table, Quarantined(name, name not in view.members))
        place = view.member(name, reads=False)
        files = place.stage(fitted(place, rows, about))
        place.add(files)
        operation = write_operation("Append", place.change)
        place.change.operations.append(operation)
        moved.note(files, operation)
        moved.violations += (_violation(view, offence) for offence in found)


def take_back(view: View, table: TableName) -> None:
    """Remove the rows that a discarded change of a table moved to its quarantine table."""
    moved = view.moved.pop(table, None)
    if moved is None:
        return
    place = view.members[moved.place]
    if moved.is_only:
        del view.members[moved.place]
        with suppress(LakewardError):
            place.stager.discard()
            view.context.storage.delete(place.change.metadata_files)
    else:
        moved.take_out(place)


def warnings(view: View, warned: Sequence[Offence]) -> list[Violation]:
    """Return the violations to record for rows that stay in their tables."""
    return [_violation(view, offence) for offence in warned]


def _violation(view: View, offence: Offence) -> Violation:
    return Violation(
        table=offence.table,
        constraint=offence.name,
        transaction_id=view.transaction_id,
        actor=view.context.actor,
        action=str(offence.constraint.on_violation),
        reason=offence.reason,
        count=offence.count,
        sample=to_json(offence.sample),
    )


def _move(member: Member, offences: Sequence[Offence], view: View) -> tuple[pa.Table, pa.Table]:
    """Rewrite the files that contain violating rows without these.

    Returns the violating rows, and what is recorded about each of them.
    Files that the transaction wrote are deleted when it ends, like all that no commit refers to.
    Other files stay: the history, a user, a branch or a client may need them.
    """
    change = member.change
    found: dict[str, dict[int, Offence]] = {}
    for offence in offences:
        for path, places in offence.places.items():
            for place in places:
                found.setdefault(path, {}).setdefault(place, offence)
    put_back(member, found)
    reach("quarantine.put-back")
    kept_ids = KeptIds.of_change(member.context.storage, change)
    moved: list[pa.Table] = []
    about: list[Offence] = []
    for file in logged(change.added, change.head.version + 1):
        bad = found.get(file.path)
        if bad is None:
            continue
        rows = read_files(
            member.context.storage, change.head, kept_ids.definition, [file], numbered=True
        ).read_all()
        positions = rows[POSITION].to_numpy()
        is_bad = np.isin(positions, list(bad))
        rows = kept_ids.filled(rows.drop_columns([POSITION]), file, positions)
        kept = rows.filter(pa.array(~is_bad))
        new = kept_ids.stage(member.stager, [kept], trusted=True) if kept.num_rows else []
        rows = kept_ids.visible(rows)
        at = change.added.index(file.file)
        change.added[at : at + 1] = new
        if not _replace(change, file.file, new) and not change.rejected:
            # The steps have the file as it was before rows of it were deleted in place.
            change.rejected = len(bad)
        moved.append(rows.filter(pa.array(is_bad)))
        about += (bad[n] for n in positions[is_bad])
    reach("quarantine.moved")
    described = {
        CONSTRAINT: pa.array([o.name for o in about], pa.string()),
        REASON: pa.array([o.reason for o in about], pa.string()),
        TRANSACTION: pa.repeat(pa.scalar(view.transaction_id), len(about)),
    }
    return pa.concat_tables(moved), pa.table(described)


def _replace(change: Change, old: DataFile, new: Sequence[DataFile]) -> bool:
    """Replace a file in the steps that added it; return False if there are only other steps."""
    if not change.steps:
        return True
    for n, step in enumerate(change.steps):
        if isinstance(step, Added) and old in step.files:
            rest = [f for f in step.files if f != old]
            change.steps[n] = replace(step, files=(*rest, *new))
            return True
    return False
