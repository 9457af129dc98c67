"""Named branches: working copies of tables that outlive the process that made them.

A branch is made from one cut over its tables, written by any engine, compared with the lake, and
published as one transaction or dropped. The transaction that publishes a branch has the branch's
id, so it commits once, however often and by whichever process publishing is tried.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lakeward.context import LakeContext
from lakeward.engines.datafusion import write_difference
from lakeward.errors import (
    AlreadyExists,
    Conflict,
    InvalidInput,
    InvalidName,
    LakewardError,
    NotFound,
    OutcomeUnknown,
    StoreError,
)
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
from lakeward.write.branch import ending
from lakeward.write.branch.base import Branch, Differ
from lakeward.write.branch.classes import branch_class
from lakeward.write.branch.directory import note_named, sweep
from lakeward.write.branch.evolution import check_evolution
from lakeward.write.commit import conflict, publications
from lakeward.write.commit.outcome import happened
from lakeward.write.commit.publications import follow_all
from lakeward.write.plan.change import Change
from lakeward.write.stage.added_files import check_rows
from lakeward.write.transaction.lifecycle import CommitResult
from lakeward.write.transaction.transaction import Transaction

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class BranchDiff:
    """The changes that publishing a branch would make to one table.

    Attributes:
        table: The table's name.
        base_version: The version that the branch was made from.
        version: The table's newest version.
        operations: The operations on the branch, in order.
        files_added: How many files would be added.
        files_removed: How many files would be removed.
        rows_added: Rows in the files that would be added, without deleted ones.
        rows_removed: Rows in the files that would be removed.
        is_evolved: Whether columns or properties would change.
        conflict: A change since the base version that conflicts; None if there is none.
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
    """A named branch as recorded in the store: its tables, each with its working copy."""

    name: str
    owner: str
    actor: str
    created_ms: int
    tables: Mapping[TableName, Branch]


def create(context: LakeContext, name: str, tables: Iterable[TableName]) -> NamedBranch:
    """Create a branch of tables, all at one cut.

    Raises `InvalidName`, `TableNotFound`, `AlreadyExists`, and `UnsupportedFeature` for a table
    that cannot be branched; then nothing was created.
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
    """Return a named branch, after completing tables whose creation was interrupted.

    Raises `NotFound` if there is no branch of this name, or it was published.
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
    """Return the changes that publishing the branch would make to each table, and conflicts."""
    follow_all(context)
    return [_diff(context, table) for table in branch.tables.values()]


def stage(
    context: LakeContext, tx: Transaction, branch: NamedBranch, differ: Differ | None
) -> dict[TableName, Net]:
    """Add the changes on a branch to `tx`, a new transaction that has the branch's id.

    New rows are checked like appended ones: raises `ConstraintViolation`. `differ` compares rows
    for the change feed of several statements; delta-rs when None. Returns the changes by table.
    """
    out: dict[TableName, Net] = {}
    differ = differ or _delta_rs_differ(context.storage)
    for name, table in branch.tables.items():
        net = out[name] = table.net(evolve=True, differ=differ)
        if not net.is_empty:
            change = tx._begin_at(*_under_policy(context, table))
            net = out[name] = check_evolution(context, table, change, net)
            table.fill(change, net)
            _check_new(context, change, net)
    return out


def _under_policy(context: LakeContext, table: Branch) -> tuple[Head, Definition]:
    """Return head and definition of a branch's base, with the policies that match it now."""
    with context.database.read() as session:
        now = heads.ever_by_id(session, table.head.table_id)
        definition = context.governed(session, now, replace(table.definition, rules=()))
    return replace(table.head, policy_id=now.policy_id), definition


def publish(
    context: LakeContext,
    begin: Callable[[], Transaction],
    branch: NamedBranch,
    differ: Differ | None,
    sources: Mapping[str, Sequence[str]],
) -> CommitResult:
    """Commit all changes on a branch, and delete the working copies.

    `begin` returns a new transaction that has the branch's id. If another process has published the
    branch, return the result of that. Raises `NotFound` if the branch was dropped.
    """
    tx = begin()
    if tx._is_replay():
        return tx.commit()
    try:
        tx._register(lambda session: ending.check_exists(session, branch.name, branch.owner))
        staged = stage(context, tx, branch, differ)
        _note_sources(context, tx, branch, staged, sources)
        # With this, a branch without changes is ratified too, so that it ends once.
        tx.on_ratify(lambda session: catalog.leave_branch(session, branch.name))
        result = tx.commit()
    except LakewardError as error:
        tx.rollback()
        if isinstance(error, OutcomeUnknown | StoreError) or not happened(context, branch.owner):
            raise
        # Another process published and deleted the branch while this one read it.
        return publish(context, begin, branch, differ, sources)
    except BaseException:
        tx.rollback()
        raise
    sweep(context, branch.owner)
    return result


def _note_sources(
    context: LakeContext,
    tx: Transaction,
    branch: NamedBranch,
    staged: Mapping[TableName, Net],
    sources: Mapping[str, Sequence[str]],
) -> None:
    """Record for lineage the sources of a branch's rows that its user has given."""
    known = {TableName.parse(name): list(given) for name, given in sources.items()}
    unknown = next((str(name) for name in known if name not in branch.tables), None)
    if unknown is not None:
        what = f"Branch {branch.name} has no table {unknown}, for which sources are given."
        raise InvalidInput(what, table=unknown)
    for name, net in staged.items():
        if name in known:
            with context.database.read() as session:
                tables = [s for s in known[name] if _is_table(session, s)]
            files = [s for s in known[name] if s not in tables]
            tx.sources(str(name), tables=tables, files=files)
        elif net.added:
            tx.note_branch(str(name), branch.name)


def _is_table(session: Session, source: str) -> bool:
    try:
        return heads.find(session, TableName.parse(source)) is not None
    except InvalidName:
        return False


def drop(context: LakeContext, branch: NamedBranch) -> None:
    """Delete a branch and all files written on it.

    Raises `NotFound` if it was published or dropped before, `Conflict` if it is published now.
    """
    tables = [table.head for table in branch.tables.values()]
    with context.database.write() as session:
        for head in ending.close(context, session, branch.name, branch.owner, tables):
            _audit(context, session, head, "DROP BRANCH", {"branch": branch.name})
        catalog.leave_branch(session, branch.name)
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
    """Make a table's branch at its locked head, so that all tables are at one cut."""
    if head.guarded:
        head = publications.take_over_or_refuse(context, session, head)
    branches.rebase(session, row.table_id, row.directory, head.version)
    definition = context.definition(session, head)
    branch_class(head.format)(context, head, definition, row.directory, row.name).begin(session)
    _audit(context, session, head, "CREATE BRANCH", {"branch": row.name, "version": head.version})


def _check_new(context: LakeContext, change: Change, net: Net) -> None:
    """Check the rows that other engines wrote against the table's constraints.

    A file that only gets another deletion vector has no new rows.
    """
    after = replace(change, definition=change.new_definition or change.definition)
    known = {f.file.path for f in net.removed}
    new = [f for f in net.added if f.deletion_vector is None or f.path not in known]
    check_rows(context.storage, after, new)


def _working(context: LakeContext, session: Session, row: LoggedBranch) -> Branch:
    """Return the working copy of one table of a named branch, at the branch's base version."""
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
    """Return a differ that runs in delta-rs with the lake's own storage options."""

    def write(task: Difference) -> None:
        options = storage.delta_options()
        write_difference(task.before, task.after, task.target, task.columns, options=options)

    return write
