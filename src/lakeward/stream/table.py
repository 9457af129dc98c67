"""One table of a sink: its writer, the check of its rows, and how epochs change the table.

A batch is accepted or refused as a whole, before it is buffered: columns, types, ranges of values,
missing values and the table's checks are tested. After that, only errors of the disk and the store
are possible.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa

from lakeward.context import LakeContext
from lakeward.engines.arrow.conform import completed
from lakeward.engines.arrow.input import tables_of
from lakeward.engines.arrow.spill import Spill
from lakeward.errors import Conflict, Fenced, LakewardError, SchemaMismatch, TableNotFound
from lakeward.log import commits, heads, writers
from lakeward.log.commits import LoggedCommit
from lakeward.log.database import Session
from lakeward.model.clock import now_ms
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.sink_counts import SinkCounts
from lakeward.stream.changes import Changes
from lakeward.stream.epoch import Epoch
from lakeward.stream.evolving import Evolving
from lakeward.stream.queue import Limits, Meter, Queue, SinkMetrics
from lakeward.write.commit.outcome import patiently
from lakeward.write.stage.checks import Checks
from lakeward.write.stage.numbers import Numbers
from lakeward.write.transaction.staging import Staging


class Mode(StrEnum):
    """How an epoch's rows change the table.

    `append` adds them. `overwrite` replaces all rows of their partitions. `upsert` treats them as
    changes and merges them by key.
    """

    APPEND = "append"
    UPSERT = "upsert"
    OVERWRITE = "overwrite"


class Replayed(LakewardError):
    """The epoch was committed before, which this instance had not recorded."""


@dataclass
class WriterInstance:
    """One instance of a writer of one table; only the newest instance may commit.

    `last` is the last committed epoch, which is the version of the writer's application transaction
    in the table's log; `progress` was recorded with it. Both are read in the transaction that
    assigns `generation`, under the lock of commits, so no older instance can commit later.
    """

    head: Head
    writer_id: str
    instance: str
    generation: int
    last: int | None
    progress: Any

    @classmethod
    def take(cls, context: LakeContext, head: Head, writer_id: str) -> WriterInstance:
        """Return a new instance, which is the newest: commits of older instances now fail."""
        instance = secrets.token_hex(8)

        def once() -> WriterInstance:
            with context.database.write() as session:
                row = writers.take(
                    session,
                    head.table_id,
                    writer_id,
                    instance=instance,
                    actor=context.actor,
                    now=now_ms(),
                )
                last = writers.last_epoch(session, head.table_id, writer_id)
                # The row's progress belongs to the row's epoch.
                progress = row.progress if row.epoch == last else None
                writers.align(session, head.table_id, writer_id, epoch=last, progress=progress)
            return cls(head, writer_id, instance, row.generation, last, progress)

        return patiently(context, once)

    def refresh(self, context: LakeContext) -> None:
        """Read the last committed epoch again, after a failure."""
        with context.database.read() as session:
            self.last = writers.last_epoch(session, self.head.table_id, self.writer_id)

    def advance(self, session: Session, epoch: int, transaction_id: str, progress: Any) -> None:
        """Record an epoch, in the session that ratifies it.

        Raise `Fenced` if there is a newer instance, `Replayed` if the epoch was committed before.
        """
        own = (self.head.table_id, self.writer_id)
        if writers.advance(
            session,
            *own,
            instance=self.instance,
            epoch=epoch,
            transaction_id=transaction_id,
            progress=progress,
        ):
            return
        found = writers.get(session, *own)
        if found is not None and found.instance == self.instance:
            what = f"Epoch {epoch} of writer {self.writer_id} was committed before."
            raise Replayed(what)
        raise self._fenced(found)

    def committed(self, context: LakeContext, epoch: int) -> tuple[str, LoggedCommit] | None:
        """Return the table's name and the commit of an epoch; None if it is not in the log."""
        table_id = self.head.table_id
        with context.database.read() as session:
            version = writers.version_of(session, table_id, self.writer_id, epoch)
            found = None if version is None else commits.one(session, table_id, version)
            head = heads.by_id(session, table_id)
        return None if found is None or head is None else (str(head.name), found)

    def _fenced(self, newer: writers.Writer | None) -> Fenced:
        name = str(self.head.name)
        who = "Somebody" if newer is None else newer.actor
        what = (
            f"{who} opened a newer instance of writer {self.writer_id} for {name}; this one"
            f" (generation {self.generation}) is fenced off, and committed nothing."
        )
        hint = "Let the newer one go on, or open the sink again to take over from it."
        facts = {"table": name, "writer_id": self.writer_id, "generation": self.generation}
        if newer is not None:
            facts["newer_generation"] = newer.generation
        return Fenced(what, hint=hint, **facts)


class SinkTable:
    """One table of a sink."""

    def __init__(
        self,
        context: LakeContext,
        writer: WriterInstance,
        definition: Definition,
        mode: Mode,
        limits: Limits,
        key: Sequence[str] = (),
        evolving: Evolving | None = None,
    ) -> None:
        self.name = str(writer.head.name)
        self.writer = writer
        self._context = context
        self.mode = mode
        self.meter = Meter()
        self.queue = Queue(self.name, limits, self._stage, self.meter)
        self._counts = context.cache(SinkCounts).of(self.name, writer.writer_id)
        self._counts.follow(self.queue)
        self._key = key
        self._evolving = evolving
        # Serializes staging once rows may have several definitions.
        self._gate = threading.Lock()
        self._is_changed = False
        self._limit = limits.bytes
        self._lock = threading.Lock()
        self._records: WeakKeyDictionary[Epoch, list[pa.Table]] = WeakKeyDictionary()
        self._use(definition)

    def metrics(self) -> SinkMetrics:
        """Return the counts of rows, bytes and batches so far."""
        rows, size = self.queue.held
        age = self.queue.uncommitted_seconds
        return self.meter.read(queued_rows=rows, queued_bytes=size, uncommitted_seconds=age)

    def committed(self, epoch: Epoch, seconds: float) -> None:
        """Count the rows of an epoch that was committed in `seconds`."""
        rows, size = self.queue.ended(epoch)
        self._counts.add(rows, size)
        self.meter.add(
            commits=1,
            committed_rows=rows,
            committed_bytes=size,
            commit_seconds=seconds,
            commit_seconds_most=seconds,
        )

    def replayed(self, epoch: Epoch) -> None:
        """Count an epoch that had been committed before; its rows were discarded."""
        self.queue.ended(epoch)
        self.meter.add(replays=1)

    def accept(self, data: Any) -> list[pa.Table]:
        """Check rows and convert them to the table's schema; raise an error if one does not fit."""
        try:
            if self._evolving is not None and self._evolving.is_due(data, self.definition):
                self._evolve(self._evolving, data)
            return self._accepted(data)
        except LakewardError:
            self.meter.add(refused_batches=1)
            raise

    def put(self, tables: Sequence[pa.Table], *, wait: bool = True) -> bool:
        """Buffer rows; return False if the buffer is full and `wait` is false."""
        rows = sum(t.num_rows for t in tables)
        if not rows:
            return True
        size = sum(t.nbytes for t in tables)
        if not self.queue.put(tables, rows, size, wait=wait):
            return False
        self.meter.add(written_batches=1, written_rows=rows, written_bytes=size)
        return True

    def apply(self, epoch: Epoch) -> None:
        """Append, overwrite or merge the epoch's rows, according to the mode."""
        staging = self._staging(epoch)
        if self._changes is not None:
            if staging.definition is not self.definition:
                self._use(staging.definition)
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
        # The owner of a frame may change its values in place while they wait here.
        owned = data.copy() if _is_pandas(data) else data
        out = []
        checks = self._checks.anew()
        for table in tables_of(owned, self.expected, self.name):
            if self._changes is not None:
                out.extend(self._changes.accept(table, checks))
                continue
            rows = completed(table, definition, self.name)
            if self._numbers is not None:
                rows = self._numbers.fill(rows)
            checks.look_at(rows)
            out.append(rows)
        if self._numbers is not None:
            self._numbers.give_back()
        checks.raise_violations()
        return out

    def _stage(self, epoch: Epoch, tables: Sequence[pa.Table]) -> None:
        if self._changes is not None:
            self._keep(epoch, self._changes.compact(tables))
            return
        staging = self._staging(epoch)
        if staging.definition is self.definition and not self._is_changed:
            # As one table: fewer calls block the producer's thread for less time.
            staging.write([pa.concat_tables(tables)])
            return
        with self._gate:
            self._stage_changed(staging, tables)

    def _stage_changed(self, staging: Staging, tables: Sequence[pa.Table]) -> None:
        """Stage rows that were accepted under an older definition of the table or the current one.

        The table or its policy has changed since the sink was opened, by others or by the sink;
        rows staged from now on must fit the new definition.
        """
        if staging.definition is not self.definition:
            if not _has_all(staging.definition, self.definition):
                staging.catch_up()
            self._use(staging.definition)
        self._is_changed = True
        definition, checks = staging.definition, self._checks.anew()
        rows = [completed(t, definition, self.name, trusted=True) for t in tables]
        for table in rows:
            checks.look_at(table)
        checks.raise_violations()
        staging.write(rows)

    def _evolve(self, evolving: Evolving, data: Any) -> None:
        """Add columns to the table that the rows have and the table lacks, and widen types."""
        if self._changes is not None and self.queue.fresh:
            what = f"Rows bring new columns to {self.name} in the middle of an epoch of changes."
            raise SchemaMismatch(what, hint="Commit the epoch first.", table=self.name)
        definition = evolving.evolve(data)
        with self._gate:
            self._is_changed = True
            self._use(definition)

    def _keep(self, epoch: Epoch, records: pa.Table) -> None:
        """Keep changes until the epoch is applied; beyond a size, on disk."""
        with self._lock:
            kept = self._records.setdefault(epoch, [])
            if kept and sum(t.nbytes for t in kept) + records.nbytes > self._limit:
                spill = Spill(records.schema)
                spill.write(records)
                records = spill.finish()
            kept.append(records)

    def _use(self, definition: Definition) -> None:
        self.definition = definition
        self._checks = Checks.of(definition, self.name)
        own = definition.identity
        self._numbers = Numbers(self._context, self.writer.head, definition) if own else None
        self.expected = definition.schema.arrow
        self._changes: Changes | None = None
        if self.mode is Mode.UPSERT:
            self._changes = Changes(definition, self.name, self._key)
            self.expected = self._changes.expected

    def _staging(self, epoch: Epoch) -> Staging:
        found = epoch.staging(self.name)
        if found.table_id != self.writer.head.table_id:
            what = f"The table {self.name} was dropped and made anew."
            raise TableNotFound(what, hint="Open the sink again.", table=self.name)
        return found


def _has_all(definition: Definition, other: Definition) -> bool:
    """Return whether a definition has all columns of `other`, with the same types."""
    known = {f.id: f.type for f in definition.schema.walk()}
    return all(known.get(f.id) == f.type for f in other.schema.walk())


def _is_pandas(data: Any) -> bool:
    return type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "copy")
