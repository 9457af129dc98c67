"""What becomes of rows that violate a constraint: the transaction fails, or they are reported."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from lakeward.context import LakeContext
from lakeward.errors import ConstraintViolation
from lakeward.log.database import Session
from lakeward.model.commit import Head
from lakeward.model.constraints import ForeignKey, OnViolation, Unique
from lakeward.model.definition import Definition
from lakeward.write.keys.changes import movable_files
from lakeward.write.keys.check import KeyCheck, Offence
from lakeward.write.keys.guards import Guard
from lakeward.write.plan.change import Change


@dataclass(frozen=True)
class Checked:
    """Changes whose keys were checked.

    Attributes:
        guards: What must still hold when they are ratified.
        warned: Rows that violate a constraint and are committed all the same.
        quarantined: Rows that must be moved to the quarantine before the changes are checked again.
    """

    guards: Sequence[Guard] = ()
    warned: Sequence[Offence] = ()
    quarantined: Sequence[Offence] = ()


NOTHING: Final = Checked()
"""The result where no key has to be checked."""


def check_keys(context: LakeContext, changes: Iterable[Change]) -> Checked:
    """Compare the changes of a transaction with the newest versions of the tables.

    Raises:
        ConstraintViolation: Rows violate a key.
    """
    with context.database.read() as session:
        # A table that the transaction creates has no id yet.
        by_id = {c.head.table_id or -n: c for n, c in enumerate(changes, 1)}
        check = KeyCheck(context, session, by_id)
        check.run()
    fatal = [o for o in check.offences if _is_fatal(o)]
    if fatal:
        raise _violation(fatal)
    warned = [o for o in check.offences if o.constraint.on_violation == OnViolation.WARN]
    moved = [o for o in check.offences if o.constraint.on_violation == OnViolation.QUARANTINE]
    return Checked(check.guards, warned, moved)


def check_existing(
    context: LakeContext, session: Session, head: Head, before: Definition, after: Definition
) -> None:
    """Compare all rows of a version of a table with the keys and checks that a definition adds.

    Raises:
        ConstraintViolation: Rows violate a constraint whose reaction is to fail.
    """
    change = Change(head, before, new_definition=after)
    check = KeyCheck(context, session, {head.table_id: change}, is_pinned=True)
    check.run()
    fatal = [o for o in check.offences if o.constraint.on_violation == OnViolation.FAIL]
    if fatal:
        raise _violation(fatal)


def _is_fatal(offence: Offence) -> bool:
    if offence.constraint.on_violation == OnViolation.QUARANTINE:
        return not _can_move(offence)
    return offence.constraint.on_violation == OnViolation.FAIL


def _can_move(offence: Offence) -> bool:
    """Whether the rows are new: those of another table, or that an update changed, are not."""
    change = offence.change
    places = offence.places.keys()
    return bool(places) and change.head.guarded and places <= movable_files(change)


def _violation(found: Sequence[Offence]) -> ConstraintViolation:
    first = max(found, key=lambda o: o.count)
    counts = {o.name: o.count for o in found}
    others = sorted(set(counts) - {first.name})
    more = f" Also violated: {', '.join(others)}." if others else ""
    rows = "1 row violates" if first.count == 1 else f"{first.count} rows violate"
    what = f"{described(first)} of {first.table}: {rows} it: {first.reason}.{more}"
    return ConstraintViolation(
        what,
        hint=f"Nothing was committed. First of them: {first.sample[0]}",
        table=first.table,
        constraint=first.name,
        count=first.count,
        counts=counts,
        sample=first.sample,
        reason=first.reason,
    )


def described(offence: Offence) -> str:
    """A constraint as messages name it."""
    match offence.constraint:
        case Unique(columns):
            return f"Unique key {offence.name} ({', '.join(columns)})"
        case ForeignKey(columns):
            return f"Foreign key {offence.name} ({', '.join(columns)})"
        case _:
            return f"Check {offence.name}"
