"""Where rows enter a table's part of a stream: checked before they are taken, staged behind.

A batch is taken whole or refused whole. Everything that can be wrong with rows is found before they
are buffered: columns, types, values that do not fit, missing ones, and what the table's checks
refuse. What is left to go wrong afterwards is the disk, and the store.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa

from lakeward.engines.arrow.derived import completed
from lakeward.engines.arrow.input import tables_of
from lakeward.errors import Conflict, LakewardError, TableNotFound
from lakeward.model.definition import Definition
from lakeward.stream.changes import Changes
from lakeward.stream.epoch import Epoch
from lakeward.stream.identity import Identity
from lakeward.stream.metrics import Meter, SinkMetrics
from lakeward.stream.mode import Mode
from lakeward.stream.queue import Limits, Queue
from lakeward.stream.spill import spilled
from lakeward.write.plan.validate import Checks
from lakeward.write.transaction.staging import Staging


class Inlet:
    """One table of a stream."""

    def __init__(
        self,
        identity: Identity,
        definition: Definition,
        mode: Mode,
        limits: Limits,
        key: Sequence[str] = (),
    ) -> None:
        self.name = str(identity.head.name)
        self.identity = identity
        self.mode = mode
        self.meter = Meter()
        self.queue = Queue(self.name, limits, self._stage, self.meter)
        self._key = key
        self._limit = limits.bytes
        self._lock = threading.Lock()
        self._records: WeakKeyDictionary[Epoch, list[pa.Table]] = WeakKeyDictionary()
        self._hold_to(definition)

    def metrics(self) -> SinkMetrics:
        """What happened so far."""
        rows, size = self.queue.held
        return self.meter.read(queued_rows=rows, queued_bytes=size)

    def accept(self, data: Any) -> list[pa.Table]:
        """Rows as the table wants them.

        Raises:
            SchemaMismatch: They do not fit.
            ConstraintViolation: The table's checks refuse them.
        """
        try:
            return self._accepted(data)
        except LakewardError:
            self.meter.add(refused_batches=1)
            raise

    def put(self, tables: Sequence[pa.Table], *, wait: bool = True) -> bool:
        """Take rows in; False where there is no room and the caller does not want to wait."""
        rows = sum(t.num_rows for t in tables)
        if not rows:
            return True
        size = sum(t.nbytes for t in tables)
        if not self.queue.put(tables, rows, size, wait=wait):
            return False
        self.meter.add(written_batches=1, written_rows=rows, written_bytes=size)
        return True

    def settle(self, epoch: Epoch) -> None:
        """Let what was staged do to the table what it is meant to do."""
        staging = self._staging(epoch)
        if self._changes is not None:
            if staging.definition is not self.definition:
                self._hold_to(staging.definition)
                what = f"Somebody changed the definition of {self.name} meanwhile."
                raise Conflict(what, hint="Write the epoch again.", table=self.name)
            merged = self._changes.merge(self._records.pop(epoch, []))
            staging.merge(merged.rows, merged.keys)
        elif self.mode is Mode.OVERWRITE:
            staging.replace_partitions()
        else:
            staging.append()

    def _accepted(self, data: Any) -> list[pa.Table]:
        definition = self.definition
        # A frame's values may be changed in place by whoever owns it, while they wait here.
        owned = data.copy() if _is_pandas(data) else data
        out = []
        checks = self._checks.anew()
        for table in tables_of(owned, self.expected, self.name):
            if self._changes is not None:
                out.extend(self._changes.accept(table, checks))
                continue
            rows = completed(table, definition, self.name)
            checks.look_at(rows)
            out.append(rows)
        checks.settle()
        return out

    def _stage(self, epoch: Epoch, tables: Sequence[pa.Table]) -> None:
        if self._changes is not None:
            self._keep(epoch, self._changes.compact(tables))
            return
        staging = self._staging(epoch)
        if staging.definition is not self.definition:
            # Somebody changed the table; rows that come from now on are held to its new definition.
            self._hold_to(staging.definition)
        # As one table: the fewer calls, the less the producer's thread is kept from running.
        staging.write([pa.concat_tables(tables)])

    def _keep(self, epoch: Epoch, records: pa.Table) -> None:
        """Changes wait until all of the epoch are there; beyond some size, on disk."""
        with self._lock:
            kept = self._records.setdefault(epoch, [])
            if kept and sum(t.nbytes for t in kept) + records.nbytes > self._limit:
                records = spilled(records)
            kept.append(records)

    def _hold_to(self, definition: Definition) -> None:
        self.definition = definition
        self._checks = Checks.of(definition, self.name)
        self.expected = definition.schema.arrow
        self._changes: Changes | None = None
        if self.mode is Mode.UPSERT:
            self._changes = Changes(definition, self.name, self._key)
            self.expected = self._changes.expected

    def _staging(self, epoch: Epoch) -> Staging:
        found = epoch.staging(self.name)
        if found.table_id != self.identity.head.table_id:
            what = f"The table {self.name} was dropped and made anew."
            raise TableNotFound(what, hint="Open the sink again.", table=self.name)
        return found


def _is_pandas(data: Any) -> bool:
    return type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "copy")
