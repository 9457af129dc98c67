"""Sets the policy of a table pattern in one database transaction, while others may commit.

The heads of the tables that the pattern matches are locked and get the policy's id, so a concurrent
commit either precedes the policy, or finds the new id in the head and is checked against the
policy. Existing rows are checked against constraints before; if a table has a newer version by
then, it is checked again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from lakeward.context import LakeContext
from lakeward.errors import Conflict
from lakeward.log import audit, foreign_keys, heads, policies, transactions
from lakeward.log.database import Session
from lakeward.model.commit import Head, TransactionState, new_transaction_id
from lakeward.model.constraints import plain_checks, rule_constraints, rule_keys
from lakeward.model.definition import Definition
from lakeward.model.expressions.nodes import columns_in
from lakeward.model.expressions.where import parse
from lakeward.model.names import TableName
from lakeward.model.policy.patterns import Pattern
from lakeward.model.policy.policy import Policy
from lakeward.model.policy.rules import Rule
from lakeward.model.policy.rules import for_table as matching
from lakeward.model.steps import reach
from lakeward.read import policies as reading
from lakeward.read.policies import PolicyRecord
from lakeward.read.scan import read_files
from lakeward.read.snapshot import TableSnapshot
from lakeward.write.commit.new_table import register
from lakeward.write.commit.outcome import patiently
from lakeward.write.commit.ratify import timestamp_after
from lakeward.write.keys.declare import check_references, check_still_referable
from lakeward.write.keys.reactions import check_existing
from lakeward.write.stage.checks import Checks, check_columns

_TRIES: Final = 10


def set_policy(
    context: LakeContext, pattern: Pattern, policy: Policy | None, message: str | None
) -> PolicyRecord:
    """Set the policy of a pattern; `Lake.set_policy` documents the arguments and errors."""
    transaction_id = new_transaction_id()
    looked: dict[int, int] = {}
    for _ in range(_TRIES):
        _look(context, pattern, policy, looked)
        if patiently(
            context,
            lambda: _set(context, transaction_id, pattern, policy, message, looked),
        ):
            break
    else:
        what = f"Tables of {pattern} got rows faster than they could be checked."
        raise Conflict(what, hint="Nothing was set. Try again when less is written.")
    with context.database.read() as session:
        found = reading.history(session, pattern.text)
    return next(one for one in found if one.transaction_id == transaction_id)


def _look(
    context: LakeContext, pattern: Pattern, policy: Policy | None, looked: dict[int, int]
) -> None:
    """Check existing rows against the policy; record each table's checked version in `looked`."""
    if policy is None or not policy.constraints:
        return
    with context.database.read() as session:
        live = _with(policies.live(session), pattern, policy)
        found = [
            (head, context.definition(session, head))
            for head in heads.all_heads(session)
            if pattern.matches(head.name) and looked.get(head.table_id) != head.version
        ]
    for head, before in found:
        after = replace(before, rules=matching(live, head.name))
        _check(context, head, before, after)
        looked[head.table_id] = head.version


def check_clone(context: LakeContext, source: TableSnapshot, name: TableName) -> tuple[Rule, ...]:
    """Check a snapshot's rows against the constraints of policies that match a new table's name.

    Return these policies.

    Raises:
        ConstraintViolation: Rows violate a constraint.
        InvalidInput: The table would lack a column of a constraint.
    """
    with context.database.read() as session:
        rules = policies.for_table(session, name)
    if any(rule.policy.constraints for rule in rules):
        head = replace(source.log_head, version=source.version, timestamp_ms=source.timestamp_ms)
        before = replace(source.definition, rules=())
        _check(context, head, before, replace(before, rules=rules))
    return rules


def check_governed(context: LakeContext, head: Head) -> None:
    """Check the rows of a table against the constraints of policies that currently match it.

    Raises:
        ConstraintViolation: Rows violate a constraint.
        InvalidInput: The table lacks a column of a constraint.
    """
    with context.database.read() as session:
        after = context.definition(session, head)
    if rule_constraints(after):
        _check(context, head, replace(after, rules=()), after)


def _check(context: LakeContext, head: Head, before: Definition, after: Definition) -> None:
    """Check the rows of a version against the policy constraints that only `after` has.

    Raises `ConstraintViolation` at the first constraint that a row violates.
    """
    check_columns(head, after)
    _check_rows(context, head, before, after)
    if rule_keys(before) != rule_keys(after):
        with context.database.read() as session:
            check_existing(context, session, head, before, after)


def _check_rows(context: LakeContext, head: Head, before: Definition, after: Definition) -> None:
    held = plain_checks(before)
    new = {n: text for n, text in plain_checks(after).items() if held.get(n) != text}
    if not new:
        return
    table = TableSnapshot(context, head, head.version, head.timestamp_ms, before)
    checks = Checks(str(head.name), {})
    used: dict[str, None] = {}
    for name, text in new.items():
        expression = parse(text, before.schema)
        checks.add(name, text, expression)
        used.update({c.field.name: None for c in columns_in(expression)})
    columns = list(used) or [before.schema.names[0]]
    rows = read_files(context.storage, head, before, table.plan(None), columns=columns)
    for batch in rows:
        checks.look_at(pa.Table.from_batches([batch]))
    checks.raise_violations()


def _set(
    context: LakeContext,
    transaction_id: str,
    pattern: Pattern,
    policy: Policy | None,
    message: str | None,
    looked: Mapping[int, int],
) -> bool:
    """Set the policy; return False if a table has a newer version than the one that was checked."""
    with context.database.write() as session:
        context.database.lock_schema(session)
        context.check_bound(session)
        if transactions.lock(session, transaction_id) is TransactionState.RATIFIED:
            # The commit succeeded, but its response was lost.
            return True
        names = [(i, name, v) for i, name, v in heads.ever(session) if pattern.matches(name)]
        locked = [h for i, _, _ in names if (h := _lock(session, i)) is not None]
        must_look = bool(policy is not None and policy.constraints)
        if must_look and any(looked.get(h.table_id) != h.version for h in locked):
            return False
        _check_keys(context, session, pattern, policy, locked)
        reach("policy.locked")
        now = timestamp_after(locked)
        register(context, session, transaction_id, message)
        policy_id = policies.insert(
            session,
            pattern,
            policy,
            at_ms=now,
            actor=context.actor,
            message=message,
            transaction_id=transaction_id,
        )
        versions = {h.table_id: h.version for h in locked}
        policies.begin(session, policy_id, ((i, versions.get(i, v) + 1) for i, _, v in names))
        for table_id, _, _ in names:
            # Including dropped tables, which may be restored.
            heads.set_policy(session, table_id, policy_id)
        for head in locked:
            _note(context, session, head, policy_id, pattern, now, transaction_id)
        transactions.end(session, transaction_id, TransactionState.RATIFIED, now)
        reach("policy.inserted")
    reach("policy.committed")
    return True


def _check_keys(
    context: LakeContext,
    session: Session,
    pattern: Pattern,
    policy: Policy | None,
    locked: Iterable[Head],
) -> None:
    """Raise `InvalidInput` if a foreign key would refer to no unique key under the policy."""
    before = policies.live(session)
    after = _with(before, pattern, policy)
    if not any(rule.policy.constraints for rule in (*before, *after) if rule.pattern == pattern):
        return
    for head in locked:
        if foreign_keys.referring_to(session, head.name):
            new = replace(context.definition(session, head), rules=matching(after, head.name))
            check_references(context, session, head.name, new, guarded=head.guarded)
            check_still_referable(session, head.name, new)


def _lock(session: Session, table_id: int) -> Head | None:
    head = heads.by_id(session, table_id)
    return None if head is None else heads.lock(session, table_id, head.name)


def _note(
    context: LakeContext,
    session: Session,
    head: Head,
    policy_id: int,
    pattern: Pattern,
    now: int,
    transaction_id: str,
) -> None:
    """Record the policy change in a table's audit trail and head."""
    detail: dict[str, Any] = {"pattern": pattern.text, "policy_id": policy_id}
    link = audit.add(
        session,
        head,
        at_ms=now,
        actor=context.actor,
        action="SET POLICY",
        transaction_id=transaction_id,
        detail=detail,
    )
    heads.advance(session, head, link)


def _with(live: list[Rule], pattern: Pattern, policy: Policy | None) -> list[Rule]:
    kept = [rule for rule in live if rule.pattern != pattern]
    return kept if policy is None else [*kept, Rule(0, pattern, policy)]
