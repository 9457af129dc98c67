"""Reads policies from the log: current ones, earlier ones, and the effective one of a table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from lakeward.context import LakeContext
from lakeward.formats.policy import effective_policy
from lakeward.log import definitions, heads, policies
from lakeward.log.database import Session
from lakeward.model.clock import to_datetime
from lakeward.model.commit import Head
from lakeward.model.file import LIVE
from lakeward.model.names import TableName
from lakeward.model.policy.policy import Policy
from lakeward.model.policy.rules import EffectivePolicy, effective


@dataclass(frozen=True, slots=True)
class PolicyRecord:
    """A policy that was set for a pattern of tables.

    Attributes:
        policy_id: The number of the policy; later policies have greater ones.
        pattern: The tables that it applies to.
        policy: The policy; None if the pattern's policy was removed.
        at: When it was set.
        until: When the policy was replaced or removed; None while it is valid.
        actor: Who set it.
        message: The message given with the change.
        transaction_id: The transaction that set it.
    """

    policy_id: int
    pattern: str
    policy: Policy | None
    at: datetime
    until: datetime | None
    actor: str
    message: str | None
    transaction_id: str


def current(session: Session) -> list[PolicyRecord]:
    """Return the current policies, sorted by pattern."""
    found = (one for one in history(session) if one.until is None and one.policy is not None)
    return sorted(found, key=lambda one: one.pattern)


def history(session: Session, pattern: str | None = None) -> list[PolicyRecord]:
    """Return all policies ever set, of one pattern or of all, oldest first."""
    rows = policies.history(session)
    times = {row.policy_id: row.at_ms for row in rows}
    return [
        PolicyRecord(
            row.policy_id,
            row.pattern.text,
            row.policy,
            to_datetime(row.at_ms),
            None if row.until_id == LIVE else to_datetime(times[row.until_id]),
            row.actor,
            row.message,
            row.transaction_id,
        )
        for row in rows
        if pattern is None or row.pattern.text == pattern
    ]


def of_table(context: LakeContext, session: Session, name: TableName) -> EffectivePolicy:
    """Return the effective policy of a table, or of a new table of this name."""
    head = heads.find(session, name)
    if head is None:
        return effective(name, policies.for_table(session, name), Policy())
    return effective_policy(head, context.definition(session, head))


def at_version(session: Session, head: Head, version: int) -> EffectivePolicy:
    """Return the effective policy of a version of a table."""
    _, definition = definitions.at(session, head.table_id, version)
    rules = policies.at_version(session, head.table_id, head.name, version)
    return effective_policy(head, replace(definition, rules=rules))
