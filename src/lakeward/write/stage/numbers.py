"""Assigns values to identity columns of new rows.

Ranges of values are reserved in the store, before rows are written and in a separate session, so
that no two transactions get the same value, whether they commit or not. The unused rest of a range
is released, unless values after it have been reserved. A null in data gets a value like a missing
column.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.context import LakeContext
from lakeward.errors import InvalidInput, SchemaMismatch
from lakeward.formats.registry import format_of
from lakeward.log import identity
from lakeward.log.database import Session
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.identity import Identity
from lakeward.model.steps import reach
from lakeward.model.types import Field

_MOST: Final = 1_000_000
"""The most values that are reserved ahead of the rows that need them."""


@dataclass
class Numbers:
    """Assigns values to identity columns of a table, for one transaction or sink; thread-safe."""

    context: LakeContext
    head: Head
    definition: Definition
    _free: dict[int, range] = field(default_factory=dict)
    _used: dict[int, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def fill(self, rows: pa.Table) -> pa.Table:
        """Return rows of the table with a value for each null of an identity column.

        Raise `SchemaMismatch` if the rows have values for a column that does not allow them.
        """
        if not rows.num_rows:
            return rows
        schema = self.definition.schema
        for own, counted in self.definition.identity.items():
            column = schema.by_id[own]
            place = schema.names.index(column.name)
            given = rows.column(place)
            missing = given.null_count
            if missing < rows.num_rows:
                self._take_out(column, counted, given)
            if missing:
                values = self._values(column, counted, missing)
                found = values if missing == rows.num_rows else _merged(given, values)
                rows = rows.set_column(place, rows.schema.field(place), pa.chunked_array([found]))
        return rows

    def give_back(self) -> None:
        """Release values that were reserved and not used."""
        with self._lock:
            left = [(own, free) for own, free in self._free.items() if free]
            self._free.clear()
            self._used.clear()
        if left:
            with self._writing() as session:
                for own, free in left:
                    identity.move(session, self.head.uuid, own, known=free.stop, taken=free.start)

    def _values(self, column: Field, counted: Identity, count: int) -> pa.Array:
        parts = []
        for places in self._places(column, counted, count):
            if not counted.holds(places[-1]):
                what = f"Identity column {column.name} of {self.head.name} has no more values."
                hint = f"The next one is {counted.value(places[-1])}, beyond 64 bits."
                raise InvalidInput(what, hint=hint, table=str(self.head.name), column=column.name)
            # The product may wrap around where the sum, which does so too, is right.
            first = np.int64(counted.value(places[0]))
            ahead = np.arange(len(places), dtype=np.int64) * np.int64(counted.step)
            parts.append(first + ahead)
        return pa.array(np.concatenate(parts))

    def _places(self, column: Field, counted: Identity, count: int) -> list[range]:
        """Return places in the series for `count` values: the rest of the last range, then new."""
        own = column.id
        with self._lock:
            free, used = self._free.get(own, range(0)), self._used.get(own, 0)
            found, self._free[own] = [free[:count]], free[count:]
            lacking = count - len(found[0])
            if lacking:
                # More than that, because data may come in many small parts.
                wanted = max(lacking, min(used, _MOST))
                with self._writing() as session:
                    known = self._known(session, column, counted)
                    first = identity.take(session, self.head.uuid, own, wanted, at_least=known)
                reach("stage.numbered")
                found.append(range(first, first + lacking))
                self._free[own] = range(first + lacking, first + wanted)
            self._used[own] = used + count
        return [places for places in found if places]

    def _take_out(self, column: Field, counted: Identity, given: pa.ChunkedArray) -> None:
        """Reserve the values that rows bring themselves, so that the series continues after them.

        Raise `SchemaMismatch` if the column does not allow explicit values.
        """
        if not counted.explicit:
            what = f"The data for {self.head.name} has values for column {column.name}, which is"
            what += " generated always as identity."
            hint = "Leave the column out: each new row gets the next value."
            raise SchemaMismatch(what, hint=hint, table=str(self.head.name), columns=[column.name])
        bounds = pc.min_max(given).as_py()
        place = counted.place_after(counted.furthest(bounds["min"], bounds["max"]))
        with self._lock, self._writing() as session:
            known = max(place, self._known(session, column, counted))
            identity.take(session, self.head.uuid, column.id, 0, at_least=known)
            # Values that were reserved ahead are given out only beyond those of the rows.
            free = self._free.get(column.id, range(0))
            self._free[column.id] = range(max(free.start, place), free.stop)

    def _writing(self) -> AbstractContextManager[Session]:
        # A database server may crash without this process, so the reservation must survive. A power
        # cut on this host ends the process too, and its values are in no committed file.
        return self.context.database.write(durable=self.context.database.is_remote)

    def _known(self, session: Session, column: Field, counted: Identity) -> int:
        """Return how many values of the series are used according to the column's newest mark."""
        marks = format_of(self.head).identity_marks(session, self.head)
        return counted.place_after(marks[column.id]) if column.id in marks else 0


def check_kept(before: pa.Table, after: pa.Table, definition: Definition, table: str) -> None:
    """Raise `InvalidInput` if an update changes a value of an identity column."""
    for own in definition.identity:
        name = definition.schema.by_id[own].name
        if not after[name].cast(before[name].type).equals(before[name]):
            what = f"Column {name} of {table} is an identity column, and its values stay."
            raise InvalidInput(what, hint="Leave it out of the update.", table=table, column=name)


def _merged(given: pa.ChunkedArray, values: pa.Array) -> pa.Array:
    """Return a column whose nulls are replaced by `values`, in order."""
    missing = given.is_null().to_numpy()
    out = pc.fill_null(given, 0).to_numpy().copy()
    out[missing] = values.to_numpy()
    return pa.array(out)
