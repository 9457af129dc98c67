"""Detects conflicts of a change with a policy that was set after the change began."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from lakeward.errors import Conflict
from lakeward.formats.policy import effective_policy
from lakeward.log import policies
from lakeward.log.database import Session
from lakeward.model.commit import Head
from lakeward.model.constraints import rule_constraints, rule_keys
from lakeward.model.evolution.fit import misfits
from lakeward.write.commit.kinds import HINT, Kind
from lakeward.write.plan.change import Change

_OF_SCHEMA: Final = ("schema_mode", "allowed_evolutions", "column_mapping")


def check_policy(session: Session, change: Change, current: Head) -> None:
    """Raise `Conflict` if the change violates a policy that was set after the change began."""
    old = change.definition
    new = replace(old, rules=policies.for_table(session, current.name))
    found = next(misfits(old, new), None) if change.added else None
    reason = None if found is None else f"which {found.reason}"
    if reason is None and change.added and rule_keys(old) != rule_keys(new):
        reason = "which changed a constraint"
    if change.new_definition is not None and rule_constraints(old) != rule_constraints(new):
        # They were checked with the columns and rows of the old definition.
        reason = reason or "which changed a constraint"
    before, after = effective_policy(current, old).policy, effective_policy(current, new).policy
    if change.new_definition is not None and any(
        getattr(before, name) != getattr(after, name) for name in _OF_SCHEMA
    ):
        reason = "which changed how the table's schema may change"
    if change.removed and after.append_only and not before.append_only:
        reason = "which made the table append-only"
    if reason is None:
        return
    what = f"A policy was set for {current.name} meanwhile, {reason}."
    raise Conflict(
        what,
        hint=HINT,
        table=str(current.name),
        base_version=change.head.version,
        version=current.version,
        kind=Kind.DEFINITION,
        reason=reason,
    )
