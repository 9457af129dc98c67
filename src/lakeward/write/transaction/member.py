"""A table in a transaction: the files that it sees, and the changes that it makes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from lakeward.context import LakeContext
from lakeward.errors import InvalidInput, UnsupportedFeature
from lakeward.formats.registry import format_of
from lakeward.model.commit import Head
from lakeward.model.constraints import is_tolerant, loosened
from lakeward.model.definition import Definition
from lakeward.model.evolution.alterations import Alteration
from lakeward.model.expressions.nodes import Expression
from lakeward.model.expressions.where import parse
from lakeward.model.file import LIVE, DataFile, LoggedFile
from lakeward.model.keys import keys_of
from lakeward.model.types import Field
from lakeward.read.plan import file_may_match, to_prune_by
from lakeward.read.scan import read_files
from lakeward.read.snapshot import TableSnapshot
from lakeward.write.alter.alter import Altered, altered, check_rows, note
from lakeward.write.plan.change import (
    Added,
    Change,
    Operation,
    RowChanges,
    RowsChanged,
    progress_operation,
    write_operation,
)
from lakeward.write.plan.origins import Origins
from lakeward.write.plan.row_plan import RowPlan, delete_keys_plan, delete_plan
from lakeward.write.rows import feed
from lakeward.write.rows.apply import Done, carried_out
from lakeward.write.rows.work import RowWork
from lakeward.write.stage import added_files
from lakeward.write.stage.checks import OVERWRITE, Checks, check_deletable, check_writable
from lakeward.write.stage.numbers import Numbers
from lakeward.write.stage.stager import Stager, options_of


@dataclass
class Member:
    """One table's part of a transaction."""

    context: LakeContext  # the context of the lake
    change: Change  # the pending change of the table
    stager: Stager  # writes the files of the change
    # registers the transaction before its first file is written
    before_writing: Callable[[], None]
    key: tuple[Field, ...] = ()  # identifies rows, for the strategy LastWriterWins
    # the keys that were written or removed, once a conflict was resolved by them
    touched: pa.Table | None = None
    # files that were added after this version are ignored when rows are removed
    known: int = LIVE
    _all: list[LoggedFile] | None = field(default=None)

    @classmethod
    def of(
        cls,
        context: LakeContext,
        transaction_id: str,
        head: Head,
        definition: Definition,
        before_writing: Callable[[], None],
    ) -> Member:
        """Return a member for a table at a head, without any changes."""
        options = options_of(head, definition)
        stager = Stager(context.storage, transaction_id, head, definition, options)
        stager.numbers = Numbers(context, head, definition) if definition.identity else None
        return cls(context, Change(head, definition), stager, before_writing)

    def stage(self, data: Any, checks: Checks | None = None) -> list[DataFile]:
        """Check a user's rows and write them as files, which are not part of the change yet."""
        self.check_writable()
        self.before_writing()
        return self.stager.stage_data(data, checks)

    def add(self, files: Sequence[DataFile], key: Sequence[str] = ()) -> None:
        """Add files to the change that were staged, or that exist already.

        With `key`, their rows have replaced rows with the same values of these columns.
        """
        self.change.added.extend(files)
        self.change.steps.append(Added(tuple(files), tuple(key)))
        if self.key and files:
            self.change.scopes.append(keys_of(files, self.key))

    def overwrite(self, data: Any, where: str | None) -> RowChanges:
        """Replace all rows, or those for which a condition is true."""
        change = self.change
        scope = None if where is None else parse(where, change.definition.schema)
        checks = Checks.of(change.definition, str(change.head.name))
        if scope is not None and where is not None:
            checks.add(OVERWRITE, where, scope)
        staged, files = self.stage(data, checks), self.file_count()
        done = self.remove_rows(scope)
        self.add(staged)
        change.operations.append(write_operation("Overwrite", change, where))
        return replace(done.result(files), inserted=sum(f.logged_rows for f in staged))

    def remove_rows(self, scope: Expression | None) -> Done:
        """Delete the rows of a scope: remove or rewrite files, or mark rows as deleted."""
        return self._carry_out(RowsChanged(delete_plan(str(self.change.head.name), scope)))

    def remove_keys(self, keys: pa.Table) -> None:
        """Delete the rows whose key is in `keys`; files without such rows are not changed."""
        schema, name = self.change.definition.schema, str(self.change.head.name)
        self._carry_out(RowsChanged(delete_keys_plan(schema, name, keys)))

    def change_rows(self, plan: RowPlan, operation: Operation) -> RowChanges:
        """Execute a plan for rows; only files with changing rows are rewritten."""
        self.change.operations.append(operation)
        return self._carry_out_operation(plan, len(self.change.operations) - 1)

    def add_files(self, paths: Sequence[str]) -> None:
        """Add Parquet files below the table's location; check their rows like appended rows."""
        added_files.check_paths(paths, str(self.change.head.name))
        self.check_writable()
        added_files.check_addable(self.change)
        self.before_writing()
        added_files.claim(self.context, self.change, self.stager.transaction_id, paths)
        found = added_files.entries(self.context, self.change, paths)
        self.add(found)
        self.change.claims.extend(f.path for f in found)
        self.change.operations.append(Operation("ADD FILES", {"files": str(len(found))}))

    def remove_files(self, paths: Sequence[str]) -> None:
        """Remove whole files; raise `InvalidInput` for a path that the table does not have."""
        self.check_writable()
        check_deletable(self.change)
        live = {f.path: f for f in self.files()}
        unknown = [p for p in paths if p not in live]
        if unknown:
            what = f"Table {self.change.head.name} has no file {unknown[0]!r}."
            raise InvalidInput(what, hint="table.files() lists what it has.", path=unknown[0])
        for path in paths:
            self.change.remove(live[path])
        self.change.fixed = True
        self.change.operations.append(Operation("REMOVE FILES", {"files": str(len(paths))}))

    def alter(self, asked: Alteration) -> None:
        """Change the table's definition, for all later operations of the transaction."""
        change = self.change
        if self.key:
            what = f"Table {change.head.name} is altered, which LastWriterWins does not support."
            hint = "Begin the transaction without on_conflict for the table."
            raise UnsupportedFeature(what, hint=hint, table=str(change.head.name))
        self._check_data_change()
        found = altered(self.context, change, asked, self.look, lambda: bool(change.added))
        # What only another engine can write may be what goes.
        format_of(change.head).check_writable(found.definition, str(change.head.name))
        self.redefine(asked, found)

    def redefine(self, asked: Alteration, found: Altered) -> None:
        """Continue under the definition that results from an alteration."""
        change = self.change
        if found.definition == change.definition:
            return
        if found.looked:
            # Rows that others add meanwhile would not have been looked at.
            change.scopes.append(None)
        # What was done to rows was planned for the old definition.
        change.fixed = change.fixed or found.looked or bool(change.steps)
        note(change, asked)
        change.new_definition = found.definition
        self.take_definition(found.definition)
        if found.numbers:
            self._add_again()

    def _add_again(self) -> None:
        """Remove and add all files unchanged, so that their rows get ids at the commit."""
        change, live = self.change, self.files()
        if not live:
            return
        if change.added or change.removed:
            raise _alone(change.head)
        for file in live:
            change.remove(file)
        change.added.extend(file.file for file in live)
        change.data_change = False

    def look(self, asked: Alteration, after: Definition) -> None:
        """Raise an error if existing rows do not satisfy an alteration."""
        change = self.change
        check_rows(asked, change.definition, after, str(change.head.name), self._rows)

    def move(self, head: Head, definition: Definition) -> None:
        """Set another version of the table as the base; the change applies to it unchanged.

        The caller has checked that the change fits the definition and the policies of that version.
        """
        before, self.change.head = self.change.head, head
        if (head.definition_id, head.policy_id) != (before.definition_id, before.policy_id):
            if self.change.new_definition is not None:
                definition = replace(self.change.new_definition, rules=definition.rules)
                self.change.new_definition = definition
            self.take_definition(definition)
        self._all = None

    def rebase(self, head: Head) -> None:
        """Set another version of the table as the base, under the same definition and policies."""
        self.change.head = self._under_same_policies(head)
        self._all = None

    def _under_same_policies(self, head: Head) -> Head:
        """Return a head with the policy of the base, so that ratification checks newer policies."""
        return replace(head, policy_id=self.change.head.policy_id)

    def take_definition(self, definition: Definition) -> None:
        """Continue under another definition, which existing files fit."""
        self.change.definition = definition
        self.stager.definition = definition
        self.stager.options = options_of(self.change.head, definition)
        head, own = self.change.head, definition.identity
        self.stager.numbers = Numbers(self.context, head, definition) if own else None

    def forget_rows(self) -> None:
        """Clear the cached list of files, after the change was replaced."""
        self._all = None

    def _rows(self, columns: Sequence[str], scope: Expression | None) -> pa.RecordBatchReader:
        """Read columns of all rows in files, also staged ones, that may match a scope."""
        change = self.change
        files = [*self.files(scope), *self._staged(self._matcher(scope))]
        return read_files(
            self.context.storage, change.head, change.definition, files, columns=columns
        )

    def reset(self, head: Head) -> None:
        """Discard all changes of rows, and set another version of the table as the base.

        The progress of applications is kept, because their rows have been handled.
        """
        progress = self.change.app_transactions
        base = self._under_same_policies(head)
        self.change = Change(base, self.change.definition, app_transactions=progress)
        self.touched, self.known = None, LIVE
        self._all = None

    def drop(self, head: Head) -> None:
        """Discard all changes of rows on top of another version; record only progress, if any."""
        self.reset(head)
        self.change.operations.extend(progress_operation(a) for a in self.change.app_transactions)

    def replan(self, head: Head) -> None:
        """Replay all changes of rows on top of another version.

        Staged rows are not written again; only files of which rows are deleted or updated are
        rewritten. Files that were written for the old version and are not needed are deleted after
        the commit. If the replay fails, the change is the same as before.
        """
        self.change.check_replayable(head)
        before, base = self.change, self._under_same_policies(head)
        self.change = replace(before, head=base, added=[], removed={}, scopes=[], steps=[])
        self.change.origins, self.change.overrides = None, False
        self.change.change_files, self.change.recorded_change_files = [], []
        self._all = None
        try:
            for step in before.steps:
                match step:
                    case Added(files, key):
                        self.add(files, key)
                    case RowsChanged(operation=None):
                        self._carry_out(step)
                    case RowsChanged(plan, int(place)):
                        self._carry_out_operation(plan, place)
        except BaseException:
            self.change = before
            self._all = None
            raise

    def file_count(self) -> int:
        """Return how many files of the table the transaction sees, including staged files."""
        return self._base().totals().files - len(self.change.removed) + len(self.change.added)

    def files(self, scope: Expression | None = None) -> list[LoggedFile]:
        """Return the files of the base version that are not removed and may match a scope."""
        change = self.change
        if self._all is not None and scope is not None:
            may_match = self._matcher(scope)
            found = [f for f in self._all if may_match(f.file)]
        elif self._all is not None:
            found = self._all
        else:
            found = self._base().plan(scope)
            if scope is None:
                self._all = found
        return [
            f for f in found if (f.added, f.ordinal) not in change.removed and f.added <= self.known
        ]

    def read(self, columns: Sequence[str] | None, scope: Expression | None) -> pa.Table:
        """Return the rows that the transaction sees, with its own changes."""
        change = self.change
        files = [*self.files(scope), *self._staged(self._matcher(scope))]
        head, definition, storage = change.head, change.definition, self.context.storage
        return read_files(storage, head, definition, files, columns=columns, where=scope).read_all()

    def _carry_out_operation(self, plan: RowPlan, place: int) -> RowChanges:
        """Execute the plan of an update or a merge, and record the metrics of its operation.

        `place` is the index of the operation in the change.
        """
        change = self.change
        if self.key:
            what = f"Rows of {change.head.name} are merged, which LastWriterWins does not support."
            hint = "Begin the transaction without on_conflict for the table."
            raise UnsupportedFeature(what, hint=hint, table=str(change.head.name))
        count = self.file_count()
        change.reads.extend(plan.scopes)
        done = self._carry_out(RowsChanged(plan, place))
        result = done.result(count)
        operation = change.operations[place]
        metrics = done.metrics(operation.name, result)
        change.operations[place] = replace(operation, metrics=metrics)
        return result

    def _carry_out(self, step: RowsChanged) -> Done:
        """Execute a plan on rows of the base version and on staged rows; record the step."""
        change, plan = self.change, step.plan
        self.check_writable()
        if plan.matched or plan.unmatched_target:
            check_deletable(change)
        change.scopes.extend(plan.scopes)
        change.steps.append(step)
        found = {(f.added, f.ordinal): f for scope in plan.scopes for f in self.files(scope)}
        may_match = [self._matcher(scope) for scope in plan.scopes]
        own = self._staged(lambda f: any(may(f) for may in may_match))
        # What deletions change, `feed.finish` reads from the removed files, if it must.
        recorder = None if step.operation is None else feed.Feed.of(self.stager)
        if change.origins is None and is_tolerant(change.definition):
            change.origins = Origins()
        self.stager.origins = change.origins
        with closing(RowWork(self.context.storage, self.stager, change, plan, recorder)) as work:
            done = carried_out(work, [*found.values(), *own], self.before_writing)
        for replaced in done.replaced:
            change.added.extend(replaced.files)
            if replaced.file in own:
                change.added.remove(replaced.file.file)
            else:
                change.remove(replaced.file)
        change.added.extend(done.added)
        change.recorded_change_files.extend(done.change_files)
        return done

    def _staged(self, may_match: Callable[[DataFile], bool]) -> list[LoggedFile]:
        """Return the staged files that may match, as if committed in the version after the base."""
        found = filter(may_match, self.change.added)
        return [LoggedFile(f, self.change.head.version + 1, n) for n, f in enumerate(found)]

    def seen(self) -> TableSnapshot:
        """Return the base version of the table under its current definition, for SQL engines.

        Use `planned` for the files. Columns that staged rows may lack are nullable here.
        """
        return replace(self._base(), definition=loosened(self.change.definition))

    def planned(self, scope: Expression | None) -> list[LoggedFile]:
        """Return the files that the transaction sees and that may match, including its own."""
        return [*self.files(scope), *self._staged(self._matcher(scope))]

    def _base(self) -> TableSnapshot:
        """Return the table at the base version."""
        head = self.change.head
        return TableSnapshot(
            self.context, head, head.version, head.timestamp_ms, self.change.definition
        )

    def _matcher(self, scope: Expression | None) -> Callable[[DataFile], bool]:
        """Return a function that returns whether a file may contain rows of a scope."""
        condition = to_prune_by(scope, self.change.definition)
        return lambda file: condition is None or file_may_match(condition, file)

    def finish(self) -> None:
        """Write the change files that depend on all steps; appended rows need none."""
        change, only_adds = self.change, all(isinstance(s, Added) for s in self.change.steps)
        if change.rejected or change.overrides or not only_adds:
            feed.finish(self.context.storage, self.stager, change)

    def check_writable(self) -> None:
        """Raise an error if this engine cannot write the table, or the change only adds row ids."""
        check_writable(self.change)
        self._check_data_change()

    def _check_data_change(self) -> None:
        if not self.change.data_change:
            raise _alone(self.change.head)


def _alone(head: Head) -> UnsupportedFeature:
    what = f"All rows of table {head.name} get ids, which needs a separate transaction."
    hint = "Enable row_tracking first, and write rows in the next transaction."
    return UnsupportedFeature(what, hint=hint, table=str(head.name))
