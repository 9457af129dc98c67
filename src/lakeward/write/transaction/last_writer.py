"""Last writer wins, key by key: a table that lost is brought onto the newest version alone.

The keys that the transaction touched are those of the rows it added, and of the rows it removed.
Its work is done again on those files of its base version that are still there; the touched keys are
then taken out of the files that others added since. So a touched key ends as the transaction left
it, and every other key as others left it, without anybody's function being run again.

Others may have copied rows of the base version into new files, because other rows of the same file
changed. Such rows are not theirs: where the transaction left them, they stay.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lakeward.engines.arrow import keys
from lakeward.engines.arrow.keys import difference, picked
from lakeward.log import files
from lakeward.model.commit import Head
from lakeward.model.expressions.nodes import Expression
from lakeward.model.file import LoggedFile
from lakeward.model.keys import between
from lakeward.model.types import Field
from lakeward.model.values import Value, to_neutral
from lakeward.read.plan import file_may_match, plan, to_prune_by
from lakeward.read.scan import read_files
from lakeward.write.plan.change import Added, RowsChanged
from lakeward.write.rows.find import changed_rows, rows_without
from lakeward.write.rows.work import check_readable
from lakeward.write.transaction.member import Member


def resolve(member: Member, head: Head) -> None:
    """Make the change again on top of a newer version, with the last say over its keys."""
    member.check_replayable(head)
    if member.touched is None:
        member.touched = _touched(member)
        member.known = member.change.head.version
    member.replan(head)
    _take_out(member, member.touched, member.known)


def _touched(member: Member) -> pa.Table:
    change = member.change
    names = [f.name for f in member.key]
    removed = list(change.removed.values())
    found = []
    for step in change.steps:
        match step:
            case Added(files):
                staged = [LoggedFile(f, change.head.version + 1, n) for n, f in enumerate(files)]
                found.append(_read(member, staged, names))
            case RowsChanged(plan):
                columns = dict.fromkeys([*names, *plan.needed])
                rows = _read(member, removed, list(columns), plan.scopes[0])
                found.append(picked(rows, changed_rows(plan, rows)))
    return keys.distinct(found, names)


def _read(
    member: Member,
    files: Sequence[LoggedFile],
    columns: Sequence[str] | None = None,
    where: Expression | None = None,
) -> pa.Table:
    change = member.change
    check_readable(change)
    return read_files(
        member.context.storage, change.head, change.definition, files, columns=columns, where=where
    ).read_all()


def _take_out(member: Member, touched: pa.Table, known: int) -> None:
    if not touched.num_rows:
        return
    change = member.change
    spans = keys.span(touched)
    where = between({f: _neutral(f, *spans[f.name]) for f in member.key})
    table_id, version = change.head.table_id, change.head.version
    with member.context.database.read() as session:
        condition = to_prune_by(where, change.definition)
        found = list(plan(session, table_id, version, condition, after=known))
        replaced = files.removed_since(session, table_id, known, version) if found else []
    replaced = [f for f in replaced if condition is None or file_may_match(condition, f.file)]
    left = _left(member, replaced, touched)
    for file in sorted(found, key=lambda f: (f.added, f.ordinal)):
        rows = _read(member, [file])
        same_key, kept = keys.split(rows, touched)
        if left is not None and same_key.num_rows:
            left, theirs = difference(left, same_key)
            kept = pa.concat_tables([kept, difference(same_key, theirs)[0]])
        if kept.num_rows < rows.num_rows:
            change.added.extend(member.stager.stage([kept], trusted=True))
            change.remove(file)


def _left(member: Member, replaced: Sequence[LoggedFile], touched: pa.Table) -> pa.Table | None:
    """The rows with touched keys in files that others replaced which the transaction left there."""
    change = member.change
    if not replaced:
        return None
    rows, _ = keys.split(_read(member, replaced), touched)
    for step in change.steps:
        if isinstance(step, RowsChanged):
            rows = rows_without(rows, changed_rows(step.plan, rows))
    return rows


def _neutral(field: Field, low: object, high: object) -> tuple[Value, Value]:
    return to_neutral(field.type, low), to_neutral(field.type, high)
