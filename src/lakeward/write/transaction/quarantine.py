"""The quarantine: rows that a constraint keeps out of a table go to a table beside it.

They are appended to `<table>__quarantine` in the same transaction. That table has the columns of
the first one, all nullable, and what is known of the violation. It is made when it is first needed,
and gets columns that the first one gets later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from lakeward.context import LakeContext
from lakeward.engines.arrow.row_groups import POSITION
from lakeward.log import heads
from lakeward.log.violations import Violation
from lakeward.model.evolution.merging import merging
from lakeward.model.names import TableName
from lakeward.model.policy.rules import QUARANTINE
from lakeward.model.records import to_json
from lakeward.read.scan import read_files
from lakeward.write.keys.check import Offence
from lakeward.write.keys.reading import logged
from lakeward.write.plan.change import Added, write_operation
from lakeward.write.tables import create
from lakeward.write.transaction.member import Member
from lakeward.write.transaction.view import View

SUFFIX: Final = QUARANTINE
CONSTRAINT: Final = "_constraint"
REASON: Final = "_reason"
TRANSACTION: Final = "_transaction"
_ABOUT: Final = (CONSTRAINT, REASON, TRANSACTION)


def quarantine(view: View, offences: Sequence[Offence]) -> list[Violation]:
    """Move rows out of the files that a transaction adds; return what is to be recorded.

    A row that violates several constraints is moved once, for the first of them.
    """
    for table in dict.fromkeys(o.change.head.name for o in offences):
        member = view.members[table]
        rows = _move(member, [o for o in offences if o.change.head.name == table], view)
        place = view.member(_made(view.context, member), reads=False)
        place.add(place.stage(_fitted(place, rows)))
        place.change.operations.append(write_operation("Append", place.change))
    return [_violation(view, offence) for offence in offences]


def warnings(view: View, warned: Sequence[Offence]) -> list[Violation]:
    """What is to be recorded of rows that violate constraints and stay in their tables."""
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


def _move(member: Member, offences: Sequence[Offence], view: View) -> pa.Table:
    """Write the files that have such rows again without them; return the rows."""
    change = member.change
    found: dict[str, dict[int, Offence]] = {}
    for offence in offences:
        for path, places in offence.places.items():
            for place in places:
                found.setdefault(path, {}).setdefault(place, offence)
    moved = []
    for file in logged(change.added, change.head.version + 1):
        bad = found.get(file.path)
        if bad is None:
            continue
        rows = read_files(
            member.context.storage, change.head, change.definition, [file], numbered=True
        ).read_all()
        positions = rows[POSITION].to_numpy()
        is_bad = np.isin(positions, list(bad))
        rows = rows.drop_columns([POSITION])
        kept = rows.filter(pa.array(~is_bad))
        new = member.stager.stage([kept], trusted=True) if kept.num_rows else []
        at = change.added.index(file.file)
        change.added[at : at + 1] = new
        for n, step in enumerate(change.steps):
            if isinstance(step, Added) and file.file in step.files:
                rest = [f for f in step.files if f != file.file]
                change.steps[n] = Added((*rest, *new))
        # It is deleted with the other files that no commit names.
        member.stager.created.append(f"{change.head.location}/{file.path}")
        about = [bad[n] for n in positions[is_bad]]
        out = rows.filter(pa.array(is_bad))
        out = out.append_column(CONSTRAINT, pa.array([o.name for o in about], pa.string()))
        out = out.append_column(REASON, pa.array([o.reason for o in about], pa.string()))
        own = pa.repeat(pa.scalar(view.transaction_id), out.num_rows)
        moved.append(out.append_column(TRANSACTION, own))
    return pa.concat_tables(moved)


def _made(context: LakeContext, member: Member) -> TableName:
    """The table beside a table, made if it is missing."""
    head = member.change.head
    name = replace(head.name, name=head.name.name + SUFFIX)
    with context.database.read() as session:
        if heads.find(session, name) is not None:
            return name
    fields = [f.with_nullable(True) for f in member.change.definition.schema.to_arrow()]
    schema = pa.schema([*fields, *(pa.field(n, pa.string()) for n in _ABOUT)])
    create.create(
        context,
        name,
        schema,
        if_not_exists=True,
        format=head.format,
        partition_by=(),
        properties=None,
        policy=None,
        constraints=None,
        comment=f"Rows that constraints keep out of {head.name}.",
        guard=True,
    )
    return name


def _fitted(place: Member, rows: pa.Table) -> pa.Table:
    """Give the quarantine table the columns of rows; return the rows with all of its columns.

    The table whose rows they are may have been altered since the first of them were moved.
    """
    given = pa.schema([f.with_nullable(True).remove_metadata() for f in rows.schema])
    for change in merging(place.change.definition.schema, given, typed=True):
        place.alter(change)
    columns = place.change.definition.schema.arrow
    lacking = [f for f in columns if f.name not in rows.column_names]
    for field in lacking:
        rows = rows.append_column(field.name, pa.nulls(rows.num_rows, field.type))
    return rows.select(columns.names)
