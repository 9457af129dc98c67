"""Restores changed rows, so that a table has the rows as they were before a transaction.

The old row of a row that an update or a merge changed is read from its file in the base version and
written to a new file; the caller leaves out the changed row. The counts of the operations are
corrected.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from lakeward.engines.arrow.keys import KeyIndex, Positions, distinct
from lakeward.engines.arrow.row_groups import POSITION
from lakeward.model.definition import Definition
from lakeward.model.file import LoggedFile
from lakeward.model.row_counts import whole_numbers
from lakeward.read.scan import read_files
from lakeward.write.keys.changes import kinds_of
from lakeward.write.keys.reading import logged
from lakeward.write.plan.change import Added, Change
from lakeward.write.plan.origins import Kind
from lakeward.write.rows.row_ids import KeptIds
from lakeward.write.transaction.member import Member

_UPDATED: Final = ("numUpdatedRows", "numTargetRowsUpdated")
_INSERTED: Final = ("numTargetRowsInserted",)
_COPIED: Final = ("numCopiedRows", "numTargetRowsCopied")


def put_back(member: Member, rejected: Mapping[str, Collection[int]]) -> None:
    """Add the old rows of rejected rows to a change again, and correct its counts.

    `rejected` has positions of rows, by the paths of files that the change adds. New rows have no
    old row.
    """
    change = member.change
    if change.origins is None:
        return
    known = {p: sorted(at) for p, at in rejected.items() if change.origins.knows(p)}
    kinds = [kinds_of(change, path, at) for path, at in known.items()]
    new = sum(int((kind == Kind.NEW).sum()) for kind in kinds)
    count = sum(_add_again(member, *place) for place in change.origins.rows(known))
    _correct(change, _UPDATED, -count)
    _correct(change, _COPIED, count)
    _correct(change, _INSERTED, -new)
    for step in change.steps:
        if isinstance(step, Added) and step.key:
            given = {f.path: rejected[f.path] for f in step.files if f.path in rejected}
            places = _replaced(member, step.key, given) if given else []
            count += sum(_add_again(member, *place) for place in places)
    change.rejected += count + new


def _add_again(member: Member, file: LoggedFile, positions: Positions) -> int:
    """Write rows of a file of the base version to a new file; return how many."""
    change, storage = member.change, member.context.storage
    kept_ids = KeptIds.of_change(storage, change)
    wanted = kept_ids.definition.schema.names
    rows = _rows(member, file, wanted, kept_ids.definition, positions)
    at = rows[POSITION].to_numpy()
    whole = kept_ids.filled(rows.drop_columns([POSITION]), file, at)
    change.added.extend(kept_ids.stage(member.stager, [whole], trusted=True))
    return whole.num_rows


def _replaced(
    member: Member, key: Sequence[str], rejected: Mapping[str, Collection[int]]
) -> Iterator[tuple[LoggedFile, Positions]]:
    """Yield the rows of the base version that rejected rows replaced by key, as file, positions."""
    change = member.change
    new = logged(change.added, change.head.version + 1)
    parts = [
        _rows(member, f, key, change.definition, np.array(sorted(rejected[f.path])))
        for f in new
        if f.path in rejected
    ]
    index = KeyIndex(distinct(parts, key).columns)
    for file in list(change.removed.values()):
        rows = _rows(member, file, key, change.definition, None)
        found = index.find([rows[name] for name in key]).rows
        if len(found):
            yield file, np.sort(rows[POSITION].to_numpy()[found])


def _rows(
    member: Member,
    file: LoggedFile,
    columns: Sequence[str],
    definition: Definition,
    positions: Positions | None,
) -> pa.Table:
    """Return columns of a file's rows at `positions`, or of all rows, with `POSITION`."""
    rows = read_files(
        member.context.storage,
        member.change.head,
        definition,
        [file],
        columns=columns,
        numbered=True,
        among=None if positions is None else positions.tolist(),
    ).read_all()
    if positions is None:
        return rows
    return rows.filter(pa.array(np.isin(rows[POSITION].to_numpy(), positions)))


def _correct(change: Change, names: Collection[str], by: int) -> None:
    """Add `by` to a metric of the last operation that has one of `names`, the first in their order.

    Changes nothing if no operation has one.
    """
    if not by:
        return
    for place in reversed(range(len(change.operations))):
        operation = change.operations[place]
        counts = whole_numbers(operation.metrics)
        name = next((n for n in names if n in counts and counts[n] + by >= 0), None)
        if name is not None:
            metrics = {**operation.metrics, name: counts[name] + by}
            change.operations[place] = replace(operation, metrics=metrics)
            return
