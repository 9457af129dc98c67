"""Rows between a producer and the threads that write them as files, bounded in bytes.

A producer is kept waiting only while there is no room. Rows are handed to the threads by number, by
size and by age. What was put before `seal` belongs to one epoch, what is put later to the next. The
first failure of a thread empties the queue; from then on it takes nothing until it is cleared.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from lakeward.errors import EpochFailed, SinkClosed
from lakeward.stream.epoch import Epoch
from lakeward.stream.metrics import Meter

_GIVE_UP_SECONDS: Final = 60.0
"""How long a queue that is closed waits for a thread that is still writing."""

Flush = Callable[[Epoch, Sequence[pa.Table]], None]


@dataclass(frozen=True, slots=True)
class Limits:
    """When rows are handed on, and how much may wait.

    Attributes:
        rows: Hand on when so many have come.
        bytes: Hand on when they have this size in memory.
        seconds: Hand on when the first has waited for so long.
        held_bytes: Let the producer wait when so much is waiting or being written.
        threads: That write.
    """

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


class Queue:
    """One table's rows on their way to files."""

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
        self._failure: BaseException | None = None
        self._closed = False
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []

    @property
    def failure(self) -> BaseException | None:
        """Why it takes nothing."""
        return self._failure

    @property
    def held(self) -> tuple[int, int]:
        """Rows and bytes that wait or are being written."""
        with self._changed:
            return self._rows, self._held

    @property
    def fresh(self) -> int:
        """Rows that were put since the last `seal`."""
        return self._fresh

    def start(self, epoch: Epoch) -> None:
        """Begin with an epoch, before any row was put."""
        with self._changed:
            self._open = _Chunk(epoch)

    def put(self, tables: Sequence[pa.Table], rows: int, size: int, *, wait: bool = True) -> bool:
        """Take rows in; False where there is no room and the caller does not want to wait.

        Raises:
            EpochFailed: Rows that were put before could not be written.
            SinkClosed: The queue was closed, perhaps while the caller was waiting.
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
            chunk.tables.extend(tables)
            chunk.rows += rows
            chunk.size += size
            self._rows += rows
            self._held += size
            self._fresh += rows
            if chunk.rows >= self._limits.rows or chunk.size >= self._limits.bytes:
                self._hand_on()
            elif not self._threads:
                # Somebody has to look at the rows' age.
                self._start_threads()
            self._meter.add(queued_bytes_most=self._held)
        return True

    def seal(self, following: Epoch, *, hand_on: bool = False) -> int:
        """End the epoch: rows that are put from now on belong to the following one.

        Args:
            following: That one.
            hand_on: Let the threads write what is left; otherwise whoever drains it does.

        Returns:
            How many rows the epoch has.
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
        """Write what is left of an epoch that was sealed, in this thread too.

        Raises:
            BaseException: What kept rows from being written, here or in another thread.
        """
        while chunk := self._taken(epoch):
            self._write(chunk)
        with self._changed:
            self._changed.wait_for(lambda: not any(c.epoch is epoch for c in self._busy))
            if self._failure is not None:
                raise self._failure

    def drop(self, epoch: Epoch) -> None:
        """Forget the rows of an epoch that was sealed; none of it is being written after that."""
        with self._changed:
            self._let_go([c for c in self._ready if c.epoch is epoch])
            self._ready = deque(c for c in self._ready if c.epoch is not epoch)
            self._changed.wait_for(lambda: not any(c.epoch is epoch for c in self._busy))
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """Forget all rows and take none until the queue is cleared."""
        with self._changed:
            self._failure = self._failure or error
            self._empty()
            self._changed.notify_all()

    def clear(self, epoch: Epoch) -> None:
        """Forget all rows, and a failure, and begin with an epoch."""
        with self._changed:
            self._empty()
            self._changed.wait_for(lambda: not self._busy)
            self._open = _Chunk(epoch)
            self._failure = None
            self._fresh = 0
            self._changed.notify_all()

    def close(self) -> None:
        """Forget all rows and end the threads."""
        with self._changed:
            self._closed = True
            self._empty()
            self._changed.notify_all()
            threads, self._threads = self._threads, []
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(_GIVE_UP_SECONDS)

    # With the lock held.

    def _has_room(self, size: int) -> bool:
        # A batch that is larger than all the room passes when nothing else is there.
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
        # The threads hold no reference to the queue while they wait, so that a sink that somebody
        # forgot to close ends with its last reference.
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
        self._let_go([*self._ready, self._open])
        self._ready.clear()
        self._open = _Chunk(self._open.epoch)

    def _let_go(self, chunks: Sequence[_Chunk]) -> None:
        for chunk in chunks:
            self._rows -= chunk.rows
            self._held -= chunk.size

    def _due(self) -> _Chunk | None:
        """The next chunk to write, whose age may be what makes it due."""
        if not self._ready and self._open.tables:
            age = time.monotonic() - self._open.since
            if age >= self._limits.seconds:
                self._hand_on()
        if not self._ready:
            return None
        chunk = self._ready.popleft()
        self._busy.append(chunk)
        return chunk

    # Without it.

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
            self._let_go([chunk])
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
