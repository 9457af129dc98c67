"""A bounded queue of rows between a producer and the threads that write them as files.

A producer waits only while there is no room. The threads get rows when there are enough of them, or
when they are old. Rows put before `seal` belong to one epoch, later rows to the next. The first
failure of a thread empties the queue, which then accepts no rows until it is cleared.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Final

import pyarrow as pa

from lakeward.errors import EpochFailed, SinkClosed
from lakeward.stream.epoch import Epoch

_GIVE_UP_SECONDS: Final = 60.0
"""How long `close` waits for each thread that is still writing."""

Flush = Callable[[Epoch, Sequence[pa.Table]], None]


@dataclass(frozen=True, slots=True)
class SinkMetrics:
    """Counts since the sink was opened, and the rows that wait in it now.

    Attributes:
        written_batches: Calls of `write` that were accepted.
        written_rows: Rows in these calls.
        written_bytes: Size of these rows in memory.
        refused_batches: Calls of `write` whose rows did not fit.
        queued_rows: Rows that wait to be staged or are being staged now.
        queued_bytes: Size of these rows in memory.
        queued_bytes_most: The largest `queued_bytes` so far.
        waits: How often `write` had to wait for room.
        wait_seconds: How long `write` waited in all.
        flushes: How often rows were written as files.
        flushed_rows: Rows written as files, including those of discarded epochs.
        flushed_bytes: Size of these rows in memory.
        flush_seconds: Time spent on writing files, in all threads.
        uncommitted_seconds: Age of the oldest rows that are not committed; 0 if there are none.
        commits: Epochs that were committed.
        committed_rows: Rows written in these epochs.
        committed_bytes: Size of these rows in memory.
        commit_seconds: Time spent on committing these epochs.
        commit_seconds_most: The longest time for one epoch.
        replays: Epochs that had been committed before.
        failures: Epochs that could not be committed.
    """

    written_batches: int = 0
    written_rows: int = 0
    written_bytes: int = 0
    refused_batches: int = 0
    queued_rows: int = 0
    queued_bytes: int = 0
    queued_bytes_most: int = 0
    waits: int = 0
    wait_seconds: float = 0.0
    flushes: int = 0
    flushed_rows: int = 0
    flushed_bytes: int = 0
    flush_seconds: float = 0.0
    uncommitted_seconds: float = 0.0
    commits: int = 0
    committed_rows: int = 0
    committed_bytes: int = 0
    commit_seconds: float = 0.0
    commit_seconds_most: float = 0.0
    replays: int = 0
    failures: int = 0


class Meter:
    """Counts for `SinkMetrics`, from any thread."""

    def __init__(self) -> None:
        self._values: dict[str, float] = {f.name: f.default for f in fields(SinkMetrics)}  # type: ignore[misc]
        self._lock = threading.Lock()

    def add(self, **counts: float) -> None:
        """Add to counts by their names in `SinkMetrics`; a `_most` keeps the largest value."""
        with self._lock:
            for name, count in counts.items():
                if name.endswith("_most"):
                    self._values[name] = max(self._values[name], count)
                else:
                    self._values[name] += count

    def read(self, **current: float) -> SinkMetrics:
        """Return the counts so far, with the given values of now."""
        with self._lock:
            return SinkMetrics(**{**self._values, **current})  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Limits:
    """Rows, bytes or seconds after which rows go to the threads; the most bytes that may wait."""

    rows: int
    bytes: int
    seconds: float
    held_bytes: int
    threads: int


@dataclass(eq=False)
class _Chunk:
    epoch: Epoch | None
    tables: list[pa.Table] = field(default_factory=list)
    rows: int = 0
    size: int = 0
    since: float = 0.0


@dataclass
class _Uncommitted:
    since: float
    rows: int = 0
    size: int = 0


class Queue:
    """Rows of one table that wait to be written as files."""

    def __init__(self, name: str, limits: Limits, flush: Flush, meter: Meter) -> None:
        self._name = name
        self._limits = limits
        self._flush = flush
        self._meter = meter
        self._open = _Chunk(None)
        self._ready: deque[_Chunk] = deque()
        self._busy: list[_Chunk] = []
        self._rows = 0
        self._held = 0
        self._fresh = 0
        self._uncommitted: dict[Epoch | None, _Uncommitted] = {}
        self._failure: BaseException | None = None
        self._closed = False
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []

    @property
    def held(self) -> tuple[int, int]:
        """The rows and bytes that wait or are being written."""
        with self._changed:
            return self._rows, self._held

    @property
    def fresh(self) -> int:
        """The number of rows that were put since the last `seal`."""
        return self._fresh

    @property
    def uncommitted_seconds(self) -> float:
        """The age of the oldest rows whose epoch has not ended; 0 if there are none."""
        with self._changed:
            since = min((u.since for u in self._uncommitted.values()), default=None)
        return 0.0 if since is None else time.monotonic() - since

    def ended(self, epoch: Epoch) -> tuple[int, int]:
        """Return the rows and bytes of an epoch that was committed, which are now forgotten."""
        with self._changed:
            found = self._uncommitted.pop(epoch, None)
        return (0, 0) if found is None else (found.rows, found.size)

    def start(self, epoch: Epoch) -> None:
        """Set the first epoch; called before any row is put."""
        with self._changed:
            self._open = _Chunk(epoch)

    def put(self, tables: Sequence[pa.Table], rows: int, size: int, *, wait: bool = True) -> bool:
        """Add rows; return False if there is no room and `wait` is not set.

        Raise `EpochFailed` if earlier rows could not be written, `SinkClosed` after `close`.
        """
        with self._changed:
            if not self._has_room(size):
                self._hand_on()
                if not wait:
                    return False
                self._wait_for_room(size)
            if self._closed:
                what = "The sink is closed."
                raise SinkClosed(what, hint="Open a new one.")
            if self._failure is not None:
                what = f"Rows for {self._name} could not be staged: {self._failure}"
                hint = "Call discard(), and write the epoch again from its beginning."
                raise EpochFailed(what, hint=hint, table=self._name) from self._failure
            chunk = self._open
            if not chunk.tables:
                chunk.since = time.monotonic()
            if chunk.epoch not in self._uncommitted:
                self._uncommitted[chunk.epoch] = _Uncommitted(chunk.since)
            uncommitted = self._uncommitted[chunk.epoch]
            uncommitted.rows += rows
            uncommitted.size += size
            chunk.tables.extend(tables)
            chunk.rows += rows
            chunk.size += size
            self._rows += rows
            self._held += size
            self._fresh += rows
            if chunk.rows >= self._limits.rows or chunk.size >= self._limits.bytes:
                self._hand_on()
            elif not self._threads:
                # A thread must check the age of the rows.
                self._start_threads()
            self._meter.add(queued_bytes_most=self._held)
        return True

    def seal(self, following: Epoch, *, hand_on: bool = False) -> int:
        """End the epoch and return its number of rows; later rows belong to the following one.

        With `hand_on` the threads write the rest, otherwise the thread that calls `drain`.
        """
        with self._changed:
            rows, self._fresh = self._fresh, 0
            if hand_on:
                self._hand_on()
            elif self._open.tables:
                self._ready.append(self._open)
            self._open = _Chunk(following)
            return rows

    def drain(self, epoch: Epoch) -> None:
        """Write the rest of a sealed epoch, in this thread too; raise if any write failed."""
        while chunk := self._taken(epoch):
            self._write(chunk)
        with self._changed:
            self._changed.wait_for(lambda: not any(c.epoch is epoch for c in self._busy))
            if self._failure is not None:
                raise self._failure

    def drop(self, epoch: Epoch) -> None:
        """Drop the rows of a sealed epoch; wait for those that are being written."""
        with self._changed:
            self._uncount([c for c in self._ready if c.epoch is epoch])
            self._ready = deque(c for c in self._ready if c.epoch is not epoch)
            self._uncommitted.pop(epoch, None)
            self._changed.wait_for(lambda: not any(c.epoch is epoch for c in self._busy))
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """Drop all rows, and refuse rows until the queue is cleared."""
        with self._changed:
            self._failure = self._failure or error
            self._empty()
            self._changed.notify_all()

    def clear(self, epoch: Epoch) -> None:
        """Drop all rows, forget a failure, and start with a new epoch."""
        with self._changed:
            self._empty()
            self._changed.wait_for(lambda: not self._busy)
            self._open = _Chunk(epoch)
            self._uncommitted.clear()
            self._failure = None
            self._fresh = 0
            self._changed.notify_all()

    def close(self) -> None:
        """Drop all rows and end the threads."""
        with self._changed:
            self._closed = True
            self._empty()
            self._uncommitted.clear()
            self._changed.notify_all()
            threads, self._threads = self._threads, []
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(_GIVE_UP_SECONDS)

    # Callers hold the lock.

    def _has_room(self, size: int) -> bool:
        # A batch larger than the limit passes when the queue is empty.
        return not self._held or self._held + size <= self._limits.held_bytes

    def _wait_for_room(self, size: int) -> None:
        started = time.monotonic()
        self._changed.wait_for(
            lambda: self._has_room(size) or self._closed or self._failure is not None
        )
        self._meter.add(waits=1, wait_seconds=time.monotonic() - started)

    def _hand_on(self) -> None:
        if not self._open.tables:
            return
        self._ready.append(self._open)
        self._open = _Chunk(self._open.epoch)
        if not self._threads:
            self._start_threads()
        self._changed.notify_all()

    def _start_threads(self) -> None:
        # Waiting threads hold no reference to the queue, so a sink that nobody closed ends with
        # its last reference.
        for number in range(self._limits.threads):
            thread = threading.Thread(
                target=_work,
                args=(weakref.ref(self), self._changed, max(self._limits.seconds / 2, 0.01)),
                name=f"lakeward-sink-{number}",
                daemon=True,
            )
            self._threads.append(thread)
            thread.start()

    def _empty(self) -> None:
        self._uncount([*self._ready, self._open])
        self._ready.clear()
        self._open = _Chunk(self._open.epoch)

    def _uncount(self, chunks: Sequence[_Chunk]) -> None:
        for chunk in chunks:
            self._rows -= chunk.rows
            self._held -= chunk.size

    def _due(self) -> _Chunk | None:
        """Take the next chunk to write, or None; rows that are old enough become a chunk."""
        if not self._ready and self._open.tables:
            age = time.monotonic() - self._open.since
            if age >= self._limits.seconds:
                self._hand_on()
        if not self._ready:
            return None
        chunk = self._ready.popleft()
        self._busy.append(chunk)
        return chunk

    # Callers do not hold the lock.

    def _taken(self, epoch: Epoch) -> _Chunk | None:
        with self._changed:
            for chunk in self._ready:
                if chunk.epoch is epoch:
                    self._ready.remove(chunk)
                    self._busy.append(chunk)
                    return chunk
        return None

    def _write(self, chunk: _Chunk) -> None:
        started = time.perf_counter()
        failure: BaseException | None = None
        try:
            assert chunk.epoch is not None  # noqa: S101  `start` came first
            self._flush(chunk.epoch, chunk.tables)
        except BaseException as error:  # noqa: BLE001  it is raised in the producer's thread
            failure = error
        self._meter.add(
            flushes=1,
            flushed_rows=chunk.rows,
            flushed_bytes=chunk.size,
            flush_seconds=time.perf_counter() - started,
        )
        with self._changed:
            self._busy.remove(chunk)
            self._uncount([chunk])
            if failure is not None:
                self._failure = self._failure or failure
                self._empty()
            self._changed.notify_all()


def _work(of: weakref.ref[Queue], changed: threading.Condition, tick: float) -> None:
    while True:
        with changed:
            queue = of()
            if queue is None or queue._closed:
                return
            chunk = queue._due()
            if chunk is None:
                del queue
                changed.wait(tick)
                continue
        queue._write(chunk)
        del chunk, queue
