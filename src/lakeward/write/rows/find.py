"""Finds the rows of a file that a plan changes, from the few columns that decide it.

Large files are read part by part, so that only one part is in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from lakeward.engines.arrow.expression import Mask, computed, holds
from lakeward.engines.arrow.keys import KeyIndex, Pairs, Positions, picked
from lakeward.engines.arrow.values import python_rows
from lakeward.errors import ConstraintViolation
from lakeward.model.expressions.names import source_name, sources, targets
from lakeward.model.expressions.nodes import Expression
from lakeward.model.expressions.when import Does
from lakeward.write.plan.row_plan import BoundClause, RowPlan

_RUNS: Final = 100
PART_BYTES: Final = 64 * 2**20
"""Rows of about this size are processed together; a usual file has one part or two."""
_SAMPLE: Final = 5
_PLACE: Final = "\0place"
"""A name that no column can have."""


@dataclass(frozen=True, slots=True)
class Updated:
    """Positions of rows that get new values, and of the source rows (`partners`) they match."""

    values: Mapping[str, Expression]
    rows: Positions
    partners: Positions | None


@dataclass(frozen=True, slots=True)
class Found:
    """The changes of a plan to some rows, by their positions.

    Attributes:
        deleted: Positions of deleted rows, ascending.
        updated: Rows that get new values; positions ascend in each item, and no row is in two.
    """

    deleted: Positions
    updated: tuple[Updated, ...]

    @property
    def gone(self) -> Positions:
        """Positions of all rows that are deleted or updated, in order."""
        return np.sort(np.concatenate([self.deleted, *(u.rows for u in self.updated)]))

    def moved(self, place: Callable[[Positions], Positions]) -> Found:
        """Return the same changes, with every position mapped by a function."""
        updated = tuple(replace(u, rows=place(u.rows)) for u in self.updated)
        return Found(place(self.deleted), updated)

    def between(self, low: int, high: int) -> Found:
        """Return the changes of rows at positions from `low` up to, but not including, `high`."""
        updated = []
        for one in self.updated:
            some = slice(*np.searchsorted(one.rows, [low, high]))
            if some.stop > some.start:
                partners = None if one.partners is None else one.partners[some]
                updated.append(replace(one, rows=one.rows[some], partners=partners))
        return Found(
            self.deleted[slice(*np.searchsorted(self.deleted, [low, high]))], tuple(updated)
        )

    @classmethod
    def joined(cls, parts: Sequence[Found]) -> Found:
        """Return the changes of consecutive parts of a file as one."""
        if len(parts) == 1:
            return parts[0]
        deleted = np.concatenate([np.empty(0, dtype=np.int64), *(p.deleted for p in parts)])
        return cls(deleted, tuple(u for p in parts for u in p.updated))

    @property
    def is_empty(self) -> bool:
        """Whether no row changes."""
        return not len(self.deleted) and not self.updated


def find(plan: RowPlan, rows: pa.Table, seen: Mask, known: Pairs | None = None) -> Found:
    """Find which of some rows of the table a plan deletes or updates.

    `rows` has the columns that the plan needs. `seen` is set to true for each source row that
    matches one of them. `known` has the matches by key, if they were looked up block by block.
    """
    deleted: list[Positions] = []
    updated: list[Updated] = []
    unmatched = None
    if plan.has_data:
        pairs = _partners(plan, rows, known)
        seen[pairs.partners] = True
        chosen = _chosen(plan, rows, pairs)
        _check_once(plan, rows, pairs, [found for _, found in chosen])
        for clause, found in chosen:
            _note(clause, pairs.rows[found], pairs.partners[found], deleted, updated)
        stays = np.ones(rows.num_rows, dtype=bool)
        stays[pairs.rows] = False
        unmatched = np.flatnonzero(stays)
    if plan.unmatched_target:
        for clause, found in _first(plan.unmatched_target, rows, unmatched, plan):
            _note(clause, found, None, deleted, updated)
    gone = np.unique(np.concatenate(deleted)) if deleted else np.empty(0, dtype=np.int64)
    return Found(gone, tuple(updated))


def find_by_condition(clause: BoundClause, rows: Positions) -> Found:
    """Return the changes of a clause to rows for which its condition is known to be true."""
    if clause.does is Does.DELETE:
        return Found(rows, ())
    return Found(rows[:0], (Updated(clause.values, rows, None),) if len(rows) else ())


def changed_rows(plan: RowPlan, rows: pa.Table) -> Positions:
    """Return the positions of rows that a plan deletes or updates.

    `rows` has the columns that the plan needs.
    """
    return find(plan, rows, np.zeros(plan.source.num_rows, dtype=bool)).gone


def inserted(plan: RowPlan, seen: Mask, some: slice) -> Iterable[tuple[BoundClause, pa.Table]]:
    """Yield each clause with the source rows that it inserts: rows of a slice that match none."""
    rest = np.flatnonzero(~seen[some])
    rows = plan.source.slice(some.start, some.stop - some.start)
    for clause, found in _first(plan.not_matched, rows, rest, plan):
        if len(found):
            yield clause, picked(rows, found)


def beside(
    plan: RowPlan,
    rows: pa.Table,
    partners: Positions | None,
    expressions: Iterable[Expression],
) -> pa.Table:
    """Return rows of the table with the source columns that the expressions use.

    `partners` are the positions of the source row of each row; if None, the rows are unchanged.
    """
    if partners is None:
        return rows
    names = sorted(set().union(*map(sources, expressions)))
    # Arrow's `take` would first copy all chunks of a column into one.
    taken = picked(plan.source.select([source_name(n) for n in names]), partners)
    for name in taken.column_names:
        rows = rows.append_column(name, taken[name])
    return rows


def same_keys(plan: RowPlan, index: KeyIndex, rows: pa.Table) -> Pairs:
    """Return pairs of rows of the table and rows of an index that have the same key."""
    wanted = {str(n): target for n, (target, _) in enumerate(plan.keys)}
    found = computed(rows, wanted, f"The key of {plan.table}")
    return index.find(list(found.values()))


@dataclass(frozen=True, slots=True)
class FileRows:
    """All rows of a part of a file, or only those that change, and the changes.

    `after` has the updated rows with their new values, in the order of `found`.
    """

    whole: pa.Table
    found: Found
    after: pa.Table

    def kept(self) -> pa.Table:
        """Return the rows that do not change."""
        return rows_without(self.whole, self.found.gone)

    def before(self) -> pa.Table:
        """Return the updated rows with their old values, in the order of `after`."""
        places = [u.rows for u in self.found.updated]
        return picked(self.whole, np.concatenate([np.empty(0, dtype=np.int64), *places]))

    def deleted(self) -> pa.Table:
        """Return the deleted rows."""
        return picked(self.whole, self.found.deleted)


def rows_without(rows: pa.Table, gone: Positions) -> pa.Table:
    """Return the rows except those at the positions `gone`, which are ascending."""
    if not len(gone):
        return rows
    breaks = np.flatnonzero(np.diff(gone) > 1)
    if len(breaks) < _RUNS:
        # The rows between few runs need not be copied.
        starts = [0, *(gone[[*breaks, len(gone) - 1]] + 1).tolist()]
        ends = [*gone[[0, *(breaks + 1)]].tolist(), rows.num_rows]
        return pa.concat_tables([rows.slice(a, b - a) for a, b in zip(starts, ends, strict=True)])
    stays = np.ones(rows.num_rows, dtype=bool)
    stays[gone] = False
    return rows.filter(pa.array(stays))


def by_parts(batches: pa.RecordBatchReader) -> Iterator[pa.Table]:
    """Yield rows as tables of about `PART_BYTES`, in order; at least one, which may be empty."""
    waiting: list[pa.RecordBatch] = []
    size, empty = 0, True
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        if size >= PART_BYTES:
            yield pa.Table.from_batches(waiting, batches.schema)
            waiting, size, empty = [], 0, False
    if waiting or empty:
        yield pa.Table.from_batches(waiting, batches.schema)


def _partners(plan: RowPlan, rows: pa.Table, known: Pairs | None) -> Pairs:
    pairs = known
    if pairs is None:
        assert plan.index is not None  # noqa: S101  else the pairs are known
        pairs = same_keys(plan, plan.index, rows)
    if plan.residual is None or not len(pairs.rows):
        return pairs
    joined = _joined(plan, rows, pairs, [plan.residual])
    keep = holds(joined, plan.residual, f"The condition of the merge into {plan.table}")
    return Pairs(pairs.rows[keep], pairs.partners[keep])


def _chosen(plan: RowPlan, rows: pa.Table, pairs: Pairs) -> list[tuple[BoundClause, Positions]]:
    """Return, for each clause, the indices of the matched pairs that it applies to."""
    conditions = [c.condition for c in plan.matched if c.condition is not None]
    if not conditions or not len(pairs.rows):
        everything = np.arange(len(pairs.rows))
        return [(clause, everything) for clause in plan.matched[:1]]
    return _first(plan.matched, _joined(plan, rows, pairs, conditions), None, plan)


def _joined(
    plan: RowPlan, rows: pa.Table, pairs: Pairs, expressions: Sequence[Expression]
) -> pa.Table:
    names = sorted(set().union(*map(targets, expressions)))
    places = pa.array(pairs.rows)
    # A table without columns has no number of rows.
    some = picked(rows.select(names), pairs.rows) if names else pa.table({})
    taken = pa.table({_PLACE: places, **{n: some[n] for n in names}})
    return beside(plan, taken, pairs.partners, expressions)


def _first(
    clauses: Iterable[BoundClause], rows: pa.Table, among: Positions | None, plan: RowPlan
) -> list[tuple[BoundClause, Positions]]:
    """Return each clause with the positions of rows for which it is the first to apply.

    A condition is only computed for rows to which no earlier clause applies.
    """
    out = []
    what = f"A condition of the change to {plan.table}"
    rest = among
    for clause in clauses:
        if rest is None:
            some, places = rows, np.arange(rows.num_rows)
        else:
            some, places = rows, rest
            if clause.condition is not None and len(rest) < rows.num_rows:
                some = picked(rows, rest)
        if clause.condition is None:
            out.append((clause, places))
            break
        mask = holds(some, clause.condition, what)
        out.append((clause, places[mask]))
        rest = places[~mask]
    return out


def _check_once(plan: RowPlan, rows: pa.Table, pairs: Pairs, chosen: Sequence[Positions]) -> None:
    is_unique = plan.index is not None and plan.index.is_unique
    if is_unique or plan.is_plain_delete or not chosen:
        return
    taken = np.sort(pairs.rows[np.concatenate(chosen)])
    twice = np.unique(taken[1:][taken[1:] == taken[:-1]])
    if not len(twice):
        return
    names = sorted(set().union(*(targets(target) for target, _ in plan.keys)))
    sample = python_rows(rows.select(names).take(pa.array(twice[:_SAMPLE])))
    what = f"Two rows of the data match one row of {plan.table}, with {sample[0]}."
    hint = "Nothing was changed. A row can be updated or deleted once: leave one of them out."
    raise ConstraintViolation(
        what,
        hint=hint,
        table=plan.table,
        constraint="one row of the data for each row of the table",
        count=len(twice),
        sample=sample,
    )


def _note(
    clause: BoundClause,
    rows: Positions,
    partners: Positions | None,
    deleted: list[Positions],
    updated: list[Updated],
) -> None:
    if not len(rows):
        return
    if clause.does is Does.DELETE:
        deleted.append(rows)
    elif clause.values:
        updated.append(Updated(clause.values, rows, partners))
