"""Rows that violate a constraint, and whether they can be moved to quarantine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lakeward.model.constraints import Constraint, OnViolation
from lakeward.write.keys.changes import kinds_of
from lakeward.write.plan.change import Change
from lakeward.write.plan.origins import Kind


@dataclass(frozen=True)
class Offence:
    """Rows that violate a constraint.

    Attributes:
        change: The change that adds the rows, or that removes the rows that they refer to.
        name: The name of the constraint.
        table: The name of the table that has the constraint.
        count: The number of violating rows.
        places: The positions of the rows, by the paths of added files.
    """

    change: Change
    name: str
    table: str
    constraint: Constraint
    reason: str
    count: int
    sample: list[dict[str, object]]
    places: Mapping[str, list[int]] = field(default_factory=dict)


def move_rows(offences: Sequence[Offence]) -> bool:
    """Return whether rows are moved to quarantine: there are such rows, and nothing is fatal."""
    moved = any(o.constraint.on_violation == OnViolation.QUARANTINE for o in offences)
    return moved and not any(map(is_fatal, offences))


def is_fatal(offence: Offence) -> bool:
    """Return whether the transaction fails: rows must not violate it, or cannot be moved."""
    if offence.constraint.on_violation == OnViolation.QUARANTINE:
        return not _can_move(offence)
    return offence.constraint.on_violation == OnViolation.FAIL


def _can_move(offence: Offence) -> bool:
    """Return whether rows can be moved to quarantine: all of them new or changed by the change."""
    change, places = offence.change, offence.places
    if not places or not change.head.guarded:
        return False
    return all((kinds_of(change, path, at) > Kind.KEPT).all() for path, at in places.items())
