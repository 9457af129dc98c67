"""Decides the reaction to rows that violate a constraint: fail, warn, or move to quarantine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lakeward.context import LakeContext
from lakeward.errors import ConstraintViolation
from lakeward.log.database import Session
from lakeward.model.commit import Head
from lakeward.model.constraint_kinds import FOREIGN_KEY
from lakeward.model.constraints import ForeignKey, NotNull, OnViolation, Unique
from lakeward.model.constraints import foreign_keys as foreign_keys_of
from lakeward.model.definition import Definition
from lakeward.model.names import TableName
from lakeward.write.keys.check import KeyCheck
from lakeward.write.keys.guards import Guard, NothingRemoved
from lakeward.write.keys.offences import Offence, is_fatal
from lakeward.write.plan.change import Change


@dataclass(frozen=True)
class Checked:
    """The result of a check of the changes of a transaction.

    Attributes:
        guards: Conditions that must still be true when the changes are ratified.
        warned: Rows that violate a constraint and are committed nevertheless.
        quarantined: Rows that must be moved to quarantine before the changes are checked again.
    """

    guards: Sequence[Guard] = ()
    warned: Sequence[Offence] = ()
    quarantined: Sequence[Offence] = ()


NOTHING: Final = Checked()
"""The result if no constraint has to be checked."""


def check_keys(
    context: LakeContext, changes: Iterable[Change], dropped: Iterable[Head] = ()
) -> Checked:
    """Check the changes of a transaction against the newest versions of the tables.

    `dropped` are the tables that it drops.

    Raises:
        ConstraintViolation: Rows violate a constraint that fails the transaction.
    """
    with context.database.read() as session:
        # A table that the transaction creates has no id yet.
        by_id = {c.head.table_id or -n: c for n, c in enumerate(changes, 1)}
        check = KeyCheck(context, session, by_id, {head.table_id for head in dropped})
        check.run()
    fatal = [o for o in check.offences if is_fatal(o)]
    if fatal:
        raise _violation(fatal)
    warned = [o for o in check.offences if o.constraint.on_violation == OnViolation.WARN]
    moved = [o for o in check.offences if o.constraint.on_violation == OnViolation.QUARANTINE]
    return Checked(check.guards, warned, moved)


def check_existing(
    context: LakeContext, session: Session, head: Head, before: Definition, after: Definition
) -> None:
    """Check all rows of a version of a table against the constraints that a definition adds.

    Raises:
        ConstraintViolation: Rows violate a constraint whose reaction is to fail.
    """
    change = Change(head, before, new_definition=after)
    check = KeyCheck(context, session, {head.table_id: change}, is_pinned=True)
    check.run()
    fatal = [o for o in check.offences if o.constraint.on_violation == OnViolation.FAIL]
    if fatal:
        raise _violation(fatal)


def check_foreign_keys(
    context: LakeContext, head: Head, definition: Definition, *, own: TableName | None = None
) -> Sequence[Guard]:
    """Check all rows of a version of a table against its foreign keys, except those to `own`.

    Return conditions on the tables that it refers to, which must still hold when the rows come back
    as a table.

    Raises:
        ConstraintViolation: Rows refer to rows that are no longer there.
        InvalidInput: A foreign key refers to a table or a unique key that is no longer there.
    """
    wanted = {
        FOREIGN_KEY + name
        for name, key in foreign_keys_of(definition).items()
        if own is None or key.references != str(own)
    }
    if not wanted:
        return ()
    kept = {k: v for k, v in definition.properties.items() if k not in wanted}
    change = Change(head, replace(definition, properties=kept), new_definition=definition)
    with context.database.read() as session:
        check = KeyCheck(context, session, {head.table_id: change}, is_pinned=True)
        check.run()
    fatal = [o for o in check.offences if is_fatal(o)]
    if fatal:
        raise _violation(fatal)
    return [guard for guard in check.guards if isinstance(guard, NothingRemoved)]


def endless(found: Sequence[Offence]) -> ConstraintViolation:
    """Return the error for a change that still violates a constraint after many restored rows."""
    error = _violation(found)
    what = f"{error.what} Rows were put back again and again, and others violate it each time."
    return ConstraintViolation(what, hint=error.hint, **error.facts)


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
    """Return the kind, name and columns of a constraint for messages."""
    match offence.constraint:
        case Unique(columns):
            return f"Unique key {offence.name} ({', '.join(columns)})"
        case ForeignKey(columns):
            return f"Foreign key {offence.name} ({', '.join(columns)})"
        case NotNull(columns):
            return f"Required column {', '.join(columns)} (constraint {offence.name})"
        case _:
            return f"Check {offence.name}"
