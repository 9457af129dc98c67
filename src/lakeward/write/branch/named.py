"""Named branches: working copies of tables that outlive the process that made them.

A branch is made from one cut over its tables, worked on by any engine, compared with the lake, and
published as one transaction or dropped. The transaction that publishes it has the branch's own id,
so it commits once, however often and by whomever publishing is tried.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from lakeward.context import LakeContext
from lakeward.engines.datafusion import write_difference
from lakeward.errors import AlreadyExists, Conflict, InvalidInput, InvalidName, NotFound
from lakeward.formats.delta.changes import Difference
from lakeward.formats.net import Net
from lakeward.log import audit, branches, catalog, commits, definitions, heads
from lakeward.log.branches import LoggedBranch
from lakeward.log.database import Session
from lakeward.model import arguments
from lakeward.model.clock import now_ms
from lakeward.model.commit import Head, Isolation, new_transaction_id
from lakeward.model.definition import Definition
from lakeward.model.names import TableName
from lakeward.storage.base import Storage
from lakeward.write.branch.base import Branch, Differ
from lakeward.write.branch.classes import branch_class
from lakeward.write.branch.directory import note_named, sweep
from lakeward.write.branch.evolution import check_evolution
from lakeward.write.commit import conflict, publications
from lakeward.write.commit.publications import follow_all
from lakeward.write.plan.change import Change
from lakeward.write.stage.added_files import check_rows
from lakeward.write.transaction.lifecycle import CommitResult
from lakeward.write.transaction.transaction import Transaction

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class BranchDiff:
    """What publishing a branch would do to one table.

    Attributes:
        table: Its name.
        base_version: The version that the branch was made from.
        version: The table's newest version.
        operations: What was done on the branch, in order.
        files_added: How many files would be added.
        files_removed: How many files would be removed.
        rows_added: Rows in the files that would be added, without deleted ones.
        rows_removed: Rows in the files that would be removed.
        is_evolved: Whether columns or properties would change.
        conflict: The conflicting change of others since then; None where there is none.
    """

    table: str
    base_version: int
    version: int
    operations: tuple[str, ...]
    files_added: int
    files_removed: int
    rows_added: int
    rows_removed: int
    is_evolved: bool
    conflict: str | None


@dataclass(frozen=True, slots=True)
class NamedBranch:
    """A named branch as the store knows it: its tables, each with its working copy."""

    name: str
    owner: str
    actor: str
    created_ms: int
    tables: Mapping[TableName, Branch]


def create(context: LakeContext, name: str, tables: Iterable[TableName]) -> NamedBranch:
    """Make a branch of tables, all at one cut.

    Raises `InvalidName`, `TableNotFound`, `AlreadyExists`, and `UnsupportedFeature` for a table
    that cannot be branched; then nothing was made.
    """
    if not _NAME.fullmatch(arguments.text(name, "name")):
        what = f"{name!r} is not a name for a branch."
        raise InvalidName(what, hint="Use letters, digits, '_' and '-'.", name=str(name))
    wanted, owner = sorted(set(tables)), new_transaction_id()
    if not wanted:
        what = f"The branch {name!r} would have no tables."
        raise InvalidInput(what, hint="Name the tables to branch.", branch=name)
    follow_all(context)
    sweep(context)
    with context.database.write() as session:
        # Two branches of one name with different tables would look like one.
        context.database.lock_schema(session)
        if branches.named(session, name):
            what = f"The lake has a branch {name!r} already."
            hint = "Publish or drop it, or choose another name."
            raise AlreadyExists(what, hint=hint, branch=name)
        for table in wanted:
            head = heads.get(session, table)
            branch_class(head.format).check(context.definition(session, head), str(head.name))
            note_named(context, session, name, owner, head)
    with context.database.write() as session:
        # The rows exist by now, so a crash leaves no directory that nobody cleans up.
        for row in branches.named(session, name):
            found = heads.ever_by_id(session, row.table_id)
            _begin(context, session, row, heads.lock(session, row.table_id, found.name))
    return get(context, name)


def get(context: LakeContext, name: str) -> NamedBranch:
    """A named branch; tables that its maker did not finish are finished first.

    Raises `NotFound` if there is none of this name, or it was published.
    """
    with context.database.read() as session:
        rows = [r for r in branches.named(session) if r.name == name]
        if not rows:
            what = f"The lake has no branch {name!r}."
            raise NotFound(what, hint="`lakeward branch list` lists what it has.", branch=name)
        found = [_working(context, session, row) for row in rows]
    for branch in found:
        if not branch.is_made:
            branch.make(rows[0].owner)
    return NamedBranch(
        name, rows[0].owner, rows[0].actor, rows[0].created_ms, {b.head.name: b for b in found}
    )


def diff(context: LakeContext, branch: NamedBranch) -> list[BranchDiff]:
    """What publishing the branch would do to each of its tables, and what conflicts with it."""
    follow_all(context)
    return [_diff(context, table) for table in branch.tables.values()]


def stage(
    context: LakeContext, tx: Transaction, branch: NamedBranch, differ: Differ | None
) -> dict[TableName, Net]:
    """Make the changes on a branch part of `tx`, a new transaction of the branch's own id.

    New rows are checked like appended ones: raises `ConstraintViolation`. `differ` compares rows
    for the change feed of several statements; delta-rs when None.
    """
    out: dict[TableName, Net] = {}
    differ = differ or _delta_rs_differ(context.storage)
    for name, table in branch.tables.items():
        net = out[name] = table.net(evolve=True, differ=differ)
        if not net.is_empty:
            change = tx._begin_at(*_under_policy(context, table))
            check_evolution(context, table, change, net)
            table.fill(change, net)
            _check_new(context, change, net)
    return out


def _under_policy(context: LakeContext, table: Branch) -> tuple[Head, Definition]:
    """Return the base of a branch, with the policies that match its table now."""
    with context.database.read() as session:
        now = heads.ever_by_id(session, table.head.table_id)
        definition = context.governed(session, now, replace(table.definition, rules=()))
    return replace(table.head, policy_id=now.policy_id), definition


def publish(
    context: LakeContext, tx: Transaction, branch: NamedBranch, differ: Differ | None
) -> CommitResult:
    """Commit all changes on a branch as `stage` does, and clean up after it."""
    if tx._is_replay():
        return tx.commit()
    try:
        staged = stage(context, tx, branch, differ)
        result = tx.commit()
    except BaseException:
        tx.rollback()
        raise
    with context.database.write() as session:
        catalog.leave_branch(session, branch.name)
    for name, table in branch.tables.items():
        table.tidy(staged[name])
    return result


def drop(context: LakeContext, branch: NamedBranch) -> None:
    """Delete a branch and all files written on it."""
    with context.database.write() as session:
        for table in branch.tables.values():
            if heads.by_id(session, table.head.table_id) is not None:
                head = heads.lock(session, table.head.table_id, table.head.name)
                _audit(context, session, head, "DROP BRANCH", {"branch": branch.name})
        catalog.leave_branch(session, branch.name)
        branches.unname(session, branch.owner)
    for table in branch.tables.values():
        table.discard()


def _diff(context: LakeContext, table: Branch) -> BranchDiff:
    net = table.look()
    change = Change(table.head, table.definition)
    table.fill(change, net)
    reason: str | None = None
    with context.database.read() as session:
        current = heads.get(session, table.head.name)
        try:
            conflict.check(session, change, current, Isolation.SNAPSHOT)
        except Conflict as error:
            reason = error.what
    return BranchDiff(
        table=str(table.head.name),
        base_version=table.head.version,
        version=current.version,
        operations=tuple(s.info.operation for s in net.statements),
        files_added=len(net.added),
        files_removed=len(net.removed),
        rows_added=sum(f.logged_rows for f in net.added),
        rows_removed=sum(f.file.logged_rows for f in net.removed),
        is_evolved=net.definition is not None,
        conflict=reason,
    )


def _begin(context: LakeContext, session: Session, row: LoggedBranch, head: Head) -> None:
    """Begin a table's branch at its locked head, so that all tables are at one cut."""
    if head.guarded:
        head = publications.take_over_or_refuse(context, session, head)
    branches.rebase(session, row.table_id, row.directory, head.version)
    definition = context.definition(session, head)
    branch_class(head.format)(context, head, definition, row.directory, row.name).begin(session)
    _audit(context, session, head, "CREATE BRANCH", {"branch": row.name, "version": head.version})


def _check_new(context: LakeContext, change: Change, net: Net) -> None:
    """Check rows that another engine wrote."""
    after = replace(change, definition=change.new_definition or change.definition)
    check_rows(context.storage, after, [f for f in net.added if f.deletion_vector is None])


def _working(context: LakeContext, session: Session, row: LoggedBranch) -> Branch:
    """The working copy of one table of a named branch, at the branch's base version."""
    now = heads.ever_by_id(session, row.table_id)
    made = commits.one(session, row.table_id, row.base_version)
    number, recorded = definitions.at(session, row.table_id, row.base_version)
    definition = context.governed(session, now, recorded)
    head = replace(
        now,
        version=row.base_version,
        definition_id=number,
        timestamp_ms=now.timestamp_ms if made is None else made.timestamp_ms,
    )
    return branch_class(head.format)(context, head, definition, row.directory, row.name)


def _audit(
    context: LakeContext, session: Session, head: Head, action: str, detail: Mapping[str, object]
) -> None:
    noted = audit.record(
        session, head, at_ms=now_ms(), actor=context.actor, action=action, detail=dict(detail)
    )
    heads.advance(session, noted)


def _delta_rs_differ(storage: Storage) -> Differ:
    """A differ that runs in delta-rs with the lake's own storage options."""

    def write(task: Difference) -> None:
        options = storage.delta_options()
        write_difference(task.before, task.after, task.target, task.columns, options=options)

    return write
