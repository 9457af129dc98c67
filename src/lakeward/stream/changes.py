"""Change records, merged by key: the last change of a key wins.

A batch of changes has the table's columns and may have two more: `_change_type` (`insert`, `update`
or `delete`) and `_sequence`, which orders changes of one key. Without `_change_type` a row replaces
the row with its key; without `_sequence` the row that was written later wins. The change types of
Delta's change feed are accepted too; its `update_preimage` rows are ignored. A deletion needs only
the key's columns.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.engines.arrow.conform import completed, conform
from lakeward.engines.arrow.grouped import renamed
from lakeward.errors import ConstraintViolation, InvalidInput, SchemaMismatch
from lakeward.model.definition import Definition
from lakeward.model.schema import Schema
from lakeward.model.types import Decimal, Field, Primitive
from lakeward.write.stage.checks import Checks

CHANGE_TYPE: Final = "_change_type"
SEQUENCE: Final = "_sequence"
_WRITTEN: Final = ("insert", "update", "update_postimage")
_DELETED: Final = "delete"
_IGNORED: Final = "update_preimage"
# Names that no column can have.
_GONE: Final = "\0gone"
_ORDER: Final = "\0order"
_ARRIVAL: Final = "\0arrival"
_POSITION: Final = "\0position"
_INEXACT: Final = ("float", "double")


@dataclass(frozen=True, slots=True)
class Merged:
    """`rows`: the rows to write, one for each remaining key; `keys`: each changed key once."""

    rows: pa.Table
    keys: pa.Table


class Changes:
    """Checks and merges change records of one table; `expected` is their Arrow schema."""

    def __init__(self, definition: Definition, table: str, key: Sequence[str]) -> None:
        self._definition = definition
        self._table = table
        self._key = list(key)
        fields = tuple(definition.schema.by_name[name] for name in key)
        self._key_schema = Schema(fields, definition.schema.last_id)
        plain = [f.with_nullable(True) for f in definition.schema.arrow]
        control = [(_GONE, pa.bool_()), (_ORDER, pa.int64()), (_ARRIVAL, pa.int64())]
        self._records = pa.schema([*plain, *control])
        self.expected = pa.schema([*plain, (CHANGE_TYPE, pa.string()), (SEQUENCE, pa.int64())])
        self._arrivals = itertools.count()
        self._has_sequence: bool | None = None

    def accept(self, data: pa.Table, checks: Checks) -> list[pa.Table]:
        """Check a batch; return its change records: the written rows, then the deleted ones."""
        kinds = self._kinds(data)
        order = self._order(data)
        rows = data.drop_columns([n for n in (CHANGE_TYPE, SEQUENCE) if n in data.column_names])
        # Orders all records of this writer as they arrived.
        batch = next(self._arrivals)
        arrival = pa.array(np.arange(data.num_rows, dtype=np.int64) + (batch << 32))
        out = []
        for gone in (False, True):
            wanted = pc.fill_null(kinds if gone else pc.invert(kinds), False)
            some = rows.filter(wanted)
            if some.num_rows:
                made = self._deletions(some) if gone else self._written(some, checks)
                self._check_keys(made)
                marks = [
                    pa.array(np.full(some.num_rows, gone)),
                    order.filter(wanted),
                    arrival.filter(wanted),
                ]
                columns = [*made.columns, *marks]
                out.append(pa.Table.from_arrays(columns, schema=self._records))
        self._has_sequence = SEQUENCE in data.column_names
        return out

    def merge(self, records: Sequence[pa.Table]) -> Merged:
        """Merge the change records of any number of batches."""
        everything = pa.concat_tables([self._records.empty_table(), *records])
        last = self._last(everything)
        rows = last.filter(pc.invert(last[_GONE]))
        target = self._definition.schema.arrow
        kept = pa.Table.from_arrays([rows[n] for n in target.names], schema=target)
        return Merged(kept, last.select(self._key))

    def compact(self, records: Sequence[pa.Table]) -> pa.Table:
        """Return the change records without those that later records replace."""
        return self._last(pa.concat_tables(records))

    def _last(self, records: pa.Table) -> pa.Table:
        """Return the last record of each key."""
        if records.num_rows < 2:
            return records
        by = [(_ORDER, "ascending"), (_ARRIVAL, "ascending")]
        ordered = records.take(pc.sort_indices(records, sort_keys=by))
        keys = renamed(ordered.select(self._key))
        numbered = keys.append_column(
            _POSITION, pa.array(np.arange(ordered.num_rows, dtype=np.int64))
        )
        found = numbered.group_by(keys.column_names).aggregate([(_POSITION, "max")])
        last = np.sort(found[f"{_POSITION}_max"].to_numpy())
        return ordered.take(pa.array(last))

    def _kinds(self, data: pa.Table) -> pa.ChunkedArray:
        """Return each row's kind: true for a deletion, false for a write, null to ignore it."""
        if CHANGE_TYPE not in data.column_names:
            return pa.chunked_array([pa.array(np.zeros(data.num_rows, dtype=bool))])
        column = data.column(CHANGE_TYPE)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            what = f"Column {CHANGE_TYPE} of the changes for {self._table} is {column.type}."
            raise SchemaMismatch(what, hint="It is text.", table=self._table, column=CHANGE_TYPE)
        words = (*_WRITTEN, _DELETED, _IGNORED)
        known = pc.is_in(column, value_set=pa.array([*words, None], column.type))
        unknown = column.filter(pc.invert(known))
        if len(unknown):
            what = f"A change for {self._table} is of the kind {unknown[0].as_py()!r}."
            hint = f"Use one of {', '.join(words)}."
            raise SchemaMismatch(what, hint=hint, table=self._table, column=CHANGE_TYPE)
        column = pc.fill_null(column, _WRITTEN[0])
        ignored = pc.equal(column, _IGNORED)
        return pc.if_else(ignored, pa.scalar(None, pa.bool_()), pc.equal(column, _DELETED))

    def _order(self, data: pa.Table) -> pa.ChunkedArray:
        given = SEQUENCE in data.column_names
        if self._has_sequence not in (None, given):
            what = f"Some changes for {self._table} have a column {SEQUENCE} and others have none."
            hint = "Give it with all, or with none."
            raise SchemaMismatch(what, hint=hint, table=self._table, column=SEQUENCE)
        if not given:
            return pa.chunked_array([pa.array(np.zeros(data.num_rows, dtype=np.int64))])
        column = data.column(SEQUENCE)
        kind = column.type
        if not (pa.types.is_integer(kind) or pa.types.is_timestamp(kind)) or column.null_count:
            what = f"Column {SEQUENCE} of the changes for {self._table} has to order all of them."
            hint = "It is a whole number or a timestamp, and never missing."
            raise SchemaMismatch(what, hint=hint, table=self._table, column=SEQUENCE)
        try:
            return column.cast(pa.int64())
        except pa.ArrowInvalid as error:
            what = f"Column {SEQUENCE} of the changes for {self._table} is too large: {error}."
            raise SchemaMismatch(what, table=self._table, column=SEQUENCE) from error

    def _written(self, rows: pa.Table, checks: Checks) -> pa.Table:
        done = completed(rows, self._definition, self._table)
        checks.look_at(done)
        return done

    def _deletions(self, rows: pa.Table) -> pa.Table:
        known = [n for n in rows.column_names if n in self._definition.schema.by_name]
        if len(known) < len(rows.column_names):
            # Raise the same error as for written rows with an unknown column.
            conform(rows, self._definition.schema, self._table)
        keys = conform(
            rows.select([n for n in rows.column_names if n in self._key]),
            self._key_schema,
            self._table,
        )
        columns = [
            keys[f.name] if f.name in self._key else pa.nulls(rows.num_rows, f.type)
            for f in self._definition.schema.arrow
        ]
        names = self._definition.schema.names
        return pa.table(dict(zip(names, columns, strict=True)))

    def _check_keys(self, rows: pa.Table) -> None:
        for name in self._key:
            missing = rows[name].null_count
            if missing:
                what = f"Key column {name} of {self._table} has {missing} missing values."
                hint = "None of the changes was taken. A key tells its row from all others."
                raise ConstraintViolation(
                    what,
                    hint=hint,
                    table=self._table,
                    constraint=f"key {', '.join(self._key)}",
                    column=name,
                    count=missing,
                )


def check_key(key: Sequence[Field], table: str) -> None:
    """Raise `InvalidInput` if a column's type cannot be part of a key."""
    for field in key:
        kind = field.type
        if not isinstance(kind, Primitive | Decimal) or str(kind) in _INEXACT:
            what = f"Column {field.name} of {table} is {kind}, which cannot be a key."
            hint = "Use whole numbers, decimals, text, dates or timestamps."
            raise InvalidInput(what, hint=hint, table=table, column=field.name)
