"""Restores a table in a transaction to an older version, or undoes one version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lakeward.errors import InvalidInput, UnsupportedFeature
from lakeward.log import commits
from lakeward.model.commit import Return
from lakeward.model.constraints import plain_checks, rule_constraints
from lakeward.model.evolution.alterations import AddConstraint
from lakeward.read.snapshot import TableSnapshot
from lakeward.write.history.restore import Step, TableChange, apply, restoring
from lakeward.write.history.undo import undoing
from lakeward.write.stage.added_files import check_rows
from lakeward.write.stage.checks import check_columns, check_deletable
from lakeward.write.transaction.member import Member


def restore_member(member: Member, target: TableSnapshot) -> TableChange:
    """Restore the table to an older version, replacing its pending change."""
    _check_revisable(member)
    with member.context.database.read() as session:
        step = restoring(member.context, session, member.change.head, target.version)
    told = {"version": str(target.version), "timestamp": target.timestamp.isoformat()}
    _take(member, step, "RESTORE", told, exact=True)
    # Rows that others add meanwhile must not be in the result.
    member.change.scopes[:] = [None]
    # A table that has the state already is not committed, but must still have it then.
    member.change.exact = not member.change.operations
    return step.record()


def take_back_member(member: Member, version: int, transaction_id: str) -> TableChange:
    """Undo the changes of one version of the table, and keep the versions after it."""
    _check_revisable(member)
    with member.context.database.read() as session:
        commit = commits.one(session, member.change.head.table_id, version)
        step = undoing(member.context, session, member.change.head, version)
    told = {"version": str(version), "transactionId": transaction_id}
    checks = plain_checks(member.change.definition)
    _take(member, step, "UNDO", told, exact=version == member.change.head.version)
    member.change.claims.extend(f.path for f in step.back if f.path not in step.gone_paths)
    member.change.data_change = commit is None or commit.info.data_change
    _check_again(member, checks)
    return step.record()


def _check_again(member: Member, before: Mapping[str, str]) -> None:
    """Check all rows against the checks that come back; those before the undo are in `before`."""
    change = member.change
    for name, text in plain_checks(change.definition).items():
        if before.get(name) != text:
            member.look(AddConstraint(name, text), change.definition)
            # Rows that others add meanwhile would not have been looked at.
            change.scopes.append(None)


def _take(member: Member, step: Step, operation: str, told: dict[str, str], *, exact: bool) -> None:
    """Set the pending change to a step, unless the step is empty."""
    if step.gone:
        check_deletable(member.change)
    apply(member.change, step, operation, told)
    member.forget_rows()
    if step.record().is_empty:
        member.change.operations.clear()
        return
    member.change.returns = Return(step.to_version, exact)
    if step.definition is not None:
        governed = replace(step.definition, rules=member.change.definition.rules)
        check_columns(member.change.head, governed)
        member.take_definition(governed)
        member.change.new_definition = governed
    if rule_constraints(member.change.definition):
        # A policy may have been set after the restored rows were written.
        check_rows(member.context.storage, member.change, [f.file for f in step.back])


def _check_revisable(member: Member) -> None:
    member.check_writable()
    name = str(member.change.head.name)
    if member.key:
        what = f"Table {name} is restored, which LastWriterWins does not support."
        hint = "Begin the transaction without on_conflict for the table."
        raise UnsupportedFeature(what, hint=hint, table=name)
    if not member.change.is_empty:
        what = f"Table {name} was changed in this transaction before."
        hint = "Restore it first, or in a transaction of its own."
        raise InvalidInput(what, hint=hint, table=name)
