"""Executes a plan on one file: finds the changing rows, reads them, and computes new values.

The position of a row is its index in the file, counting rows that are deleted in place too.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from lakeward.engines.arrow.conform import completed
from lakeward.engines.arrow.expression import Mask, computed
from lakeward.engines.arrow.keys import KeyIndex, Pairs, Positions, picked
from lakeward.engines.arrow.row_groups import POSITION
from lakeward.model.definition import Definition
from lakeward.model.expressions.names import targets
from lakeward.model.expressions.nodes import Expression, Or
from lakeward.model.file import DataFile, LoggedFile
from lakeward.model.generated import generated_ids
from lakeward.read.plan import file_always_matches
from lakeward.read.scan import read_files
from lakeward.storage.base import Storage
from lakeward.write.plan.change import Change
from lakeward.write.plan.merge_source import FoundPairs, pairs_among
from lakeward.write.plan.row_plan import RowPlan
from lakeward.write.rows.feed import Feed
from lakeward.write.rows.find import (
    FileRows,
    Found,
    Updated,
    beside,
    by_parts,
    find,
    find_by_condition,
    inserted,
    same_keys,
)
from lakeward.write.rows.row_ids import KeptIds
from lakeward.write.stage.checks import Checks
from lakeward.write.stage.numbers import check_kept
from lakeward.write.stage.stager import Stager

_NEW_BYTES: Final = 64 * 2**20
"""The size of source rows that are converted to rows of the table at a time."""


@dataclass
class RowWork:
    """Runs a plan on one file of a table at a time; thread-safe.

    Attributes:
        feed: Writes the changed rows; None if they are not recorded.
        seen: For each row of the data, whether it has a match.
        checks: Conditions that new rows must satisfy.
        pairs: The matches of rows, if the data has blocks.
        kept_ids: Ids of rows, which rewritten rows keep.
    """

    storage: Storage
    stager: Stager
    change: Change
    plan: RowPlan
    feed: Feed | None = None
    seen: Mask = field(init=False)
    checks: Checks = field(init=False)
    pairs: FoundPairs | None = field(init=False)
    kept_ids: KeptIds = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.seen = np.zeros(self.plan.source.num_rows, dtype=bool)
        self.checks = Checks.of(self.change.definition, self.plan.table)
        self.pairs = None if self.plan.blocks is None else FoundPairs()
        self.kept_ids = KeptIds.of_change(self.storage, self.change)

    def close(self) -> None:
        """Delete the temporary file of pairs; `look` and `match` cannot be called after that."""
        if self.pairs is not None:
            self.pairs.close()

    def look(self, file: LoggedFile) -> Found:
        """Find the rows of a file that change, by their positions in it."""
        where = _scope(self.plan.scopes, file)
        clause = self.plan.only_clause
        if clause is not None:
            # The reader applies the condition, and passes nothing on but the positions.
            numbers = self._reader(file, (), where=where).read_all()[POSITION].to_numpy()
            return find_by_condition(clause, numbers)
        names = [n for n in self.change.definition.schema.names if n in self.plan.needed]
        known = None if self.pairs is None else self.pairs.of(file)
        parts = self._read(file, names, where=where)
        return Found.joined([self._look(rows, known) for rows in parts])

    def match(
        self, file: LoggedFile, index: KeyIndex, start: int, scope: Expression | None
    ) -> None:
        """Record which rows of a file have the key of a source row of one block.

        `start` is the index of the block's first row in the source. `scope` is a condition that is
        true for all rows with a key of the block: only such rows are read.
        """
        for rows in self._read(file, self._keys, where=_scope([scope], file)):
            pairs = same_keys(self.plan, index, rows)
            numbers = rows[POSITION].to_numpy()
            if self.pairs is not None:
                self.pairs.add(file, numbers[pairs.rows], pairs.partners + start)

    def parts(self, file: LoggedFile, found: Found) -> Iterator[FileRows]:
        """Yield all rows of a file in parts, each with the changes `found` in it."""
        definition = self.kept_ids.definition
        if file.file.deletion_vector is None:
            # Every row is read, so its position is its place.
            reader = read_files(self.storage, self.change.head, definition, [file])
            start = 0
            for rows in by_parts(reader):
                some = found.between(start, start + rows.num_rows)
                places = np.arange(start, start + rows.num_rows)
                rows = self.kept_ids.filled(rows, file, places)
                yield self._file_rows(rows, some.moved(partial(_less, start)))
                start += rows.num_rows
            return
        for rows in self._read(file, definition.schema.names):
            numbers = rows[POSITION].to_numpy()
            low, high = (numbers[0], numbers[-1] + 1) if len(numbers) else (0, 0)
            placed = found.between(low, high).moved(partial(_among, numbers))
            whole = self.kept_ids.filled(rows.drop_columns([POSITION]), file, numbers)
            yield self._file_rows(whole, placed)

    def changed(self, file: LoggedFile, found: Found) -> FileRows:
        """Return the changing rows of a file, with the columns whose old values are needed."""
        gone = found.gone
        names = [*self._needed(found), *self.kept_ids.names]
        reader = self._reader(file, names, among=gone)
        parts = [_chosen(batch, gone) for batch in reader]
        some = pa.Table.from_batches(parts, reader.schema)
        placed = found.moved(lambda places: np.searchsorted(gone, places))
        whole = self.kept_ids.filled(some.drop_columns([POSITION]), file, gone)
        return self._file_rows(whole, placed)

    def check(self, rows: pa.Table) -> bool:
        """Check rows that are new or have new values; return whether no row so far violates one."""
        if rows.num_rows:
            with self._lock:
                self.checks.look_at(rows)
        return not self.checks.violated

    def record(self, rows: FileRows) -> list[DataFile]:
        """Write the changes of rows as change files; return none if changes are not recorded."""
        if self.feed is None:
            return []
        before, after, gone = map(
            self.kept_ids.visible, (rows.before(), rows.after, rows.deleted())
        )
        return self.feed.write_changes(before=before, after=after, gone=gone)

    def inserted(self) -> Iterator[pa.Table]:
        """Yield source rows that match no row of the table, as new rows of it, in batches."""
        definition, count = self.change.definition, self.plan.source.num_rows
        step = max(1, _NEW_BYTES * count // max(self.plan.source.nbytes, 1))
        for start in range(0, count, step):
            some = slice(start, start + step)
            for clause, rows in inserted(self.plan, self.seen, some):
                new = _new_rows(rows, clause.values, definition)
                new = completed(new, definition, self.plan.table)
                yield new if self.stager.numbers is None else self.stager.numbers.fill(new)

    def _file_rows(self, rows: pa.Table, found: Found) -> FileRows:
        return FileRows(rows, found, self._after(rows, found))

    def _look(self, rows: pa.Table, known: Pairs | None) -> Found:
        numbers = rows[POSITION].to_numpy()
        among = None if known is None else pairs_among(known, numbers)
        found = find(self.plan, rows, self.seen, among)
        if found.is_empty:
            return found
        return found.moved(lambda places: numbers[places])

    def _read(
        self, file: LoggedFile, names: Sequence[str], *, where: Expression | None = None
    ) -> Iterator[pa.Table]:
        """Yield the rows for which a condition is true, with their positions, in parts."""
        return by_parts(self._reader(file, names, where=where))

    def _reader(
        self,
        file: LoggedFile,
        names: Sequence[str],
        *,
        where: Expression | None = None,
        among: Positions | None = None,
    ) -> pa.RecordBatchReader:
        return read_files(
            self.storage,
            self.change.head,
            self.kept_ids.definition,
            [file],
            columns=names,
            where=where,
            numbered=True,
            among=None if among is None else among.tolist(),
        )

    def _needed(self, found: Found) -> list[str]:
        """Return the columns whose old values are needed to write the changed rows."""
        schema = self.change.definition.schema
        if self.feed is not None:
            return schema.names
        wanted: set[str] = set()
        for updated in found.updated:
            wanted |= set(schema.names) - set(updated.values) - self._generated
            wanted |= set().union(*map(targets, updated.values.values()))
        return [n for n in schema.names if n in wanted]

    @property
    def _keys(self) -> list[str]:
        """The columns of the table that the merge keys are computed from."""
        used = set().union(*(targets(target) for target, _ in self.plan.keys))
        return [n for n in self.change.definition.schema.names if n in used]

    @property
    def _generated(self) -> set[str]:
        definition = self.change.definition
        return {definition.schema.by_id[i].name for i in generated_ids(definition)}

    def _after(self, rows: pa.Table, found: Found) -> pa.Table:
        parts = [self._updated(rows, updated) for updated in found.updated]
        return pa.concat_tables([self.kept_ids.schema.empty_table(), *parts])

    def _updated(self, rows: pa.Table, updated: Updated) -> pa.Table:
        definition, table = self.change.definition, self.plan.table
        old = picked(rows, updated.rows)
        values = updated.values
        joined = beside(self.plan, old, updated.partners, values.values())
        found = computed(joined, values, f"A new value for {table}")
        # Generated columns are computed again, unless the update sets them: then they are checked.
        names = [n for n in definition.schema.names if n in found or n not in self._generated]
        new = pa.table({n: found[n] if n in found else old[n] for n in names})
        if definition.identity:
            check_kept(old, new, definition, table)
        return self.kept_ids.updated(completed(new, definition, table), old)


def _scope(scopes: Sequence[Expression | None], file: LoggedFile) -> Expression | None:
    """Return the condition by which rows of a file are read; None if all rows must be read."""
    known = [scope for scope in scopes if scope is not None]
    if len(known) < len(scopes):
        return None
    condition = known[0] if len(known) == 1 else Or(tuple(known))
    return None if file_always_matches(condition, file.file) else condition


def _among(numbers: Positions, positions: Positions) -> Positions:
    return np.searchsorted(numbers, positions)


def _less(start: int, positions: Positions) -> Positions:
    return positions - start


def _chosen(rows: pa.RecordBatch, wanted: Positions) -> pa.RecordBatch:
    """Return the rows at the `wanted` positions; rows and positions are ascending."""
    numbers = rows[POSITION].to_numpy()
    low, high = np.searchsorted(wanted, [numbers[0], numbers[-1] + 1]) if len(numbers) else (0, 0)
    return rows.take(pa.array(np.searchsorted(numbers, wanted[low:high])))


def _new_rows(rows: pa.Table, values: Mapping[str, Expression], definition: Definition) -> pa.Table:
    """Return rows of the table computed from source rows.

    Columns without a value are null; those that have a default or are generated are left out.
    """
    found = computed(rows, values, "A value of a new row")
    for column in definition.schema:
        absent = column.name not in found and column.default is None
        if absent and column.id not in generated_ids(definition):
            kind = definition.schema.arrow.field(column.name).type
            found[column.name] = pa.chunked_array([pa.nulls(rows.num_rows, kind)])
    return pa.table(found)
