"""Policies of table patterns, each with the versions of a table for which it is valid.

Setting a policy for a pattern ends the previous one, whose row is kept. The head of every matching
table refers to the newest policy that matches it, and a row records the version from which that
policy is valid; a table without such a row was created later, so that the policy is valid from
version 0 on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lakeward.log.codec import dumps, loads
from lakeward.log.database import Session
from lakeward.log.statement import Statement, insertion
from lakeward.log.tables import policy, policy_version
from lakeward.model.file import LIVE
from lakeward.model.names import TableName
from lakeward.model.policy.patterns import Pattern
from lakeward.model.policy.policy import Policy
from lakeward.model.policy.rules import Rule
from lakeward.model.policy.rules import for_table as matching

_COLUMNS = ", ".join(policy.columns)
_LIVE = Statement(
    """SELECT policy_id, pattern, body FROM lakeward_policy
    WHERE until_id = :live AND body IS NOT NULL ORDER BY pattern"""
)
_ALL = Statement(f"SELECT {_COLUMNS} FROM lakeward_policy ORDER BY policy_id")  # noqa: S608  our names
_INSERT = insertion(policy, "RETURNING policy_id", without=("policy_id",))
_END = Statement(
    """UPDATE lakeward_policy SET until_id = :new
    WHERE pattern = :pattern AND until_id = :live AND policy_id < :before"""
)
_SINCE = insertion(policy_version, "")
_VERSIONS = Statement(
    "SELECT policy_id, from_version FROM lakeward_policy_version WHERE table_id = :table_id"
)


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """A policy that was set for a pattern.

    Attributes:
        policy: None if the pattern's policy was removed.
        at_ms: When it was set.
        until_id: The id of the policy that replaced this one; `LIVE` while this one is valid.
        actor: Who set it.
        message: Why.
        transaction_id: The transaction that set it.
    """

    policy_id: int
    pattern: Pattern
    policy: Policy | None
    at_ms: int
    until_id: int
    actor: str
    message: str | None
    transaction_id: str


def for_table(session: Session, name: TableName) -> tuple[Rule, ...]:
    """Return the policies that match a table now, least specific first."""
    return matching(live(session), name)


def live(session: Session) -> list[Rule]:
    """Return the policies that are valid now, by pattern."""
    rows = session.rows(_LIVE, {"live": LIVE})
    return [Rule(i, Pattern(text), Policy.of(loads(body))) for i, text, body in rows]


def history(session: Session) -> list[PolicyRow]:
    """Return every policy that was ever set, oldest first."""
    return [_row(row) for row in session.rows(_ALL)]


def insert(
    session: Session,
    pattern: Pattern,
    new: Policy | None,
    *,
    at_ms: int,
    actor: str,
    message: str | None,
    transaction_id: str,
) -> int:
    """Record a policy (None: removal) and end the pattern's previous one; return the new id."""
    row = session.row(
        _INSERT,
        {
            "pattern": pattern.text,
            "body": None if new is None else dumps(new.to_json()),
            "from_ms": at_ms,
            "until_id": LIVE,
            "actor": actor,
            "message": message,
            "transaction_id": transaction_id,
        },
    )
    policy_id = int(row[0])
    params = {"new": policy_id, "pattern": pattern.text, "live": LIVE, "before": policy_id}
    session.run(_END, params)
    session.has_redefined = True
    return policy_id


def begin(session: Session, policy_id: int, tables: Iterable[tuple[int, int]]) -> None:
    """Record the version of each table from which on a policy is valid: table id, version."""
    for table_id, version in tables:
        params = {"table_id": table_id, "policy_id": policy_id, "from_version": version}
        session.run(_SINCE, params)


def versions(session: Session, table_id: int) -> dict[int, int]:
    """Return, by policy id, the first version for which it is valid; others: from version 0."""
    return {int(i): int(v) for i, v in session.rows(_VERSIONS, {"table_id": table_id})}


def at_version(session: Session, table_id: int, name: TableName, version: int) -> tuple[Rule, ...]:
    """Return the policies that were valid for a version of a table, least specific first."""
    since = versions(session, table_id)
    found = (
        Rule(row.policy_id, row.pattern, row.policy)
        for row in history(session)
        if row.policy is not None
        and since.get(row.policy_id, 0) <= version
        and (row.until_id == LIVE or since.get(row.until_id, 0) > version)
    )
    return matching(found, name)


def _row(row: Any) -> PolicyRow:
    policy_id, pattern, body, at_ms, until_id, actor, message, transaction_id = row
    said = None if body is None else Policy.of(loads(body))
    known = Pattern(pattern)
    return PolicyRow(policy_id, known, said, at_ms, until_id, actor, message, transaction_id)
