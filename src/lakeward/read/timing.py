"""Records how long reads of tables took: in the log for service levels, as events for listeners.

A read is timed only if a table has a service level for queries, or the event `read` has a listener.
A thread writes the durations after the last row was read, so no reader waits for the store.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import Final, Protocol

import pyarrow as pa

from lakeward.context import LakeContext
from lakeward.errors import LakewardError
from lakeward.log import queries, service_levels
from lakeward.log.queries import QueryRow
from lakeward.model import event_names
from lakeward.model.clock import now_ms, to_datetime
from lakeward.model.commit import Head
from lakeward.model.events import ReadEvent
from lakeward.model.service_levels import Objective, ServiceLevel

_KNOWN_SECONDS: Final = 60.0
"""For how many seconds the tables with a service level for queries are cached."""
_KEPT_MS: Final = 366 * 24 * 3600 * 1000
_WAITING: Final = 10_000
_PAUSE_SECONDS: Final = 0.5


class ReadTable(Protocol):
    """A table at a version, such as a snapshot."""

    @property
    def name(self) -> str:
        """The table's name."""

    @property
    def version(self) -> int:
        """The version."""

    @property
    def log_head(self) -> Head:
        """The table's head."""


class RowSource(Protocol):
    """A query that an engine has planned."""

    def reader(self) -> pa.RecordBatchReader:
        """Run the query and return its rows as a stream."""


def timed(
    context: LakeContext,
    tables: Sequence[ReadTable],
    how: str,
    reader: pa.RecordBatchReader,
    began: float | None = None,
) -> pa.RecordBatchReader:
    """Return a reader of the same rows that records its duration after the last row, if needed.

    `began` is when the read began, by `time.perf_counter`; now unless given.
    """
    if not _wants_times(context, tables):
        return reader
    began = time.perf_counter() if began is None else began
    return pa.RecordBatchReader.from_batches(
        reader.schema, _until_the_end(context, tables, how, reader, began)
    )


class TimedQuery:
    """A planned query whose duration is recorded, if a listener or a service level needs it."""

    def __init__(
        self, context: LakeContext, tables: Sequence[ReadTable], running: RowSource
    ) -> None:
        self._context = context
        self._tables = tables
        self._running = running

    def reader(self) -> pa.RecordBatchReader:
        """Run the query and return its rows as a stream."""
        # Some engines execute the query before they return the reader.
        began = time.perf_counter()
        return timed(self._context, self._tables, "sql", self._running.reader(), began)


def _wants_times(context: LakeContext, tables: Sequence[ReadTable]) -> bool:
    """Return whether a listener or a service level needs the duration of reads of tables."""
    if context.events.wants(event_names.READ):
        return True
    known = context.cache(_Levels).names(context)
    if not known:
        return False
    return any(table.name in known for table in tables)


def _until_the_end(
    context: LakeContext,
    tables: Sequence[ReadTable],
    how: str,
    reader: pa.RecordBatchReader,
    began: float,
) -> Iterator[pa.RecordBatch]:
    rows = 0
    with reader:
        for batch in reader:
            rows += batch.num_rows
            yield batch
    record_time(context, tables, how, rows, time.perf_counter() - began)


def record_time(
    context: LakeContext, tables: Sequence[ReadTable], how: str, rows: int, seconds: float
) -> None:
    """Record the duration of a read for service levels, and deliver the event `read`."""
    at = now_ms()
    if context.events.wants(event_names.READ):
        versions = MappingProxyType({table.name: table.version for table in tables})
        event = ReadEvent(versions, how, rows, seconds, context.actor, to_datetime(at))
        context.events.deliver(event_names.READ, event)
    known = context.cache(_Levels).names(context)
    found = {t.log_head.table_id for t in tables if t.name in known}
    if found and context.database.read_only is None:
        took = max(0, round(seconds * 1000))
        context.cache(_Recorder).add(context, [QueryRow(table, at, took) for table in found])


class _Levels:
    """A cache of the tables that have a service level for queries."""

    def __init__(self) -> None:
        self._names: frozenset[str] = frozenset()
        self._looked: float | None = None

    def names(self, context: LakeContext) -> frozenset[str]:
        """Return the names of the tables; read them from the store if the cache is too old."""
        now = time.monotonic()
        if self._looked is None or now - self._looked > _KNOWN_SECONDS:
            with context.database.read() as session:
                every = [
                    ServiceLevel.of(n, body) for n, body, _, _ in service_levels.every(session)
                ]
            self._names = frozenset(
                level.subject for level in every if level.objective is Objective.QUERY_LATENCY
            )
            self._looked = now
        return self._names

    def forget(self) -> None:
        """Clear the cache, so that the next read looks the tables up again."""
        self._looked = None


class _Recorder:
    """Writes durations to the log in a thread, so that no reader waits for the store."""

    def __init__(self) -> None:
        self._waiting: list[QueryRow] = []
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._ends_with_the_lake = False

    def add(self, context: LakeContext, rows: Sequence[QueryRow]) -> None:
        """Queue rows to be written by the thread; if too many wait, drop and count them."""
        with self._lock:
            if len(self._waiting) >= _WAITING:
                context.counters.add("reads_dropped", len(rows))
                return
            self._waiting += rows
            if not self._ends_with_the_lake:
                context.at_end(partial(self.flush, context))
                self._ends_with_the_lake = True
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, args=(context,), name="lakeward-reads", daemon=True
                )
                self._thread.start()

    def flush(self, context: LakeContext) -> None:
        """Write the queued durations of queries to the store, and delete those past retention."""
        with self._lock:
            rows, self._waiting = self._waiting, []
        if not rows:
            return
        try:
            with context.database.write(durable=False) as session:
                queries.insert(session, rows)
                queries.prune(session, now_ms() - _KEPT_MS)
        except LakewardError:
            context.counters.add("reads_dropped", len(rows))
            raise

    def _work(self, context: LakeContext) -> None:
        while True:
            time.sleep(_PAUSE_SECONDS)
            with suppress(LakewardError):
                self.flush(context)
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return


def flush(context: LakeContext) -> None:
    """Write queued durations; called before service levels are computed."""
    if context.database.read_only is None:
        context.cache(_Recorder).flush(context)


def levels_changed(context: LakeContext) -> None:
    """Forget the cached list of tables with a service level for queries."""
    context.cache(_Levels).forget()
