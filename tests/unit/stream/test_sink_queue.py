"""The queue between a producer and the threads that write: bounded, in time, and whole epochs."""

from __future__ import annotations

import gc
import threading
from collections.abc import Generator, Sequence

import pyarrow as pa
import pytest

from lakeward.errors import EpochFailed, SinkClosed
from lakeward.stream.epoch import Epoch
from lakeward.stream.queue import Limits, Meter, Queue

ROW = pa.table({"n": [1]})
SIZE = 10


class Disk:
    """Takes what is flushed; lets nothing pass while it is stuck, and fails when told to."""

    def __init__(self) -> None:
        self.flushed: list[tuple[Epoch, int]] = []
        self.passing = threading.Event()
        self.passing.set()
        self.waiting = threading.Event()
        self.error: Exception | None = None

    def flush(self, epoch: Epoch, tables: Sequence[pa.Table]) -> None:
        self.waiting.set()
        assert self.passing.wait(30)
        if self.error is not None:
            raise self.error
        self.flushed.append((epoch, sum(t.num_rows for t in tables)))


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def queues(disk: Disk) -> Generator[list[Queue]]:
    made: list[Queue] = []
    yield made
    disk.passing.set()
    for queue in made:
        queue.close()


def new_epoch() -> Epoch:
    return Epoch(lambda: pytest.fail("nothing is staged here"))


def queue_of(
    queues: list[Queue],
    disk: Disk,
    epoch: Epoch,
    *,
    rows: int = 1000,
    size: int = 10**6,
    seconds: float = 1000.0,
    held: int = 10**6,
    meter: Meter | None = None,
) -> Queue:
    limits = Limits(rows, size, seconds, held, threads=2)
    queue = Queue("t", limits, disk.flush, meter or Meter())
    queue.start(epoch)
    queues.append(queue)
    return queue


def put(queue: Queue, count: int = 1, *, wait: bool = True) -> list[bool]:
    return [queue.put([ROW], 1, SIZE, wait=wait) for _ in range(count)]


def start_putting(
    queue: Queue, expected: type[Exception]
) -> tuple[threading.Thread, list[BaseException]]:
    """A producer that waits in a thread of its own, and what it learned there."""
    caught: list[BaseException] = []

    def produce() -> None:
        try:
            put(queue)
        except expected as error:
            caught.append(error)

    producer = threading.Thread(target=produce)
    producer.start()
    return producer, caught


def test_rows_are_handed_on_by_number(queues: list[Queue], disk: Disk) -> None:
    epoch = new_epoch()
    queue = queue_of(queues, disk, epoch, rows=3)
    put(queue, 7)
    queue.seal(new_epoch())
    queue.drain(epoch)
    assert sorted(n for _, n in disk.flushed) == [1, 3, 3]
    assert queue.held == (0, 0)


def test_rows_are_handed_on_by_size(queues: list[Queue], disk: Disk) -> None:
    epoch = new_epoch()
    queue = queue_of(queues, disk, epoch, size=2 * SIZE)
    put(queue, 5)
    queue.seal(new_epoch())
    queue.drain(epoch)
    assert sorted(n for _, n in disk.flushed) == [1, 2, 2]


def test_rows_are_handed_on_by_age(queues: list[Queue], disk: Disk) -> None:
    queue = queue_of(queues, disk, new_epoch(), seconds=0.02)
    put(queue)
    assert disk.waiting.wait(30)


def test_nothing_is_handed_on_before_it_is_due(queues: list[Queue], disk: Disk) -> None:
    queue = queue_of(queues, disk, new_epoch())
    put(queue, 5)
    assert not disk.waiting.wait(0.05)
    assert queue.held == (5, 5 * SIZE)


def test_a_producer_waits_only_while_there_is_no_room(queues: list[Queue], disk: Disk) -> None:
    disk.passing.clear()
    meter = Meter()
    queue = queue_of(queues, disk, new_epoch(), held=3 * SIZE, meter=meter)
    assert put(queue, 4, wait=False) == [True, True, True, False]
    producer = threading.Thread(target=put, args=(queue,))
    producer.start()
    producer.join(0.05)
    assert producer.is_alive()
    assert queue.held == (3, 3 * SIZE)
    disk.passing.set()
    producer.join(30)
    assert not producer.is_alive()
    found = meter.read(queued_rows=0, queued_bytes=0)
    assert found.waits == 1
    assert found.queued_bytes_most == 3 * SIZE


def test_a_batch_larger_than_all_the_room_passes_alone(queues: list[Queue], disk: Disk) -> None:
    queue = queue_of(queues, disk, new_epoch(), held=1)
    assert put(queue, 3) == [True, True, True]


def test_what_comes_after_the_seal_is_not_in_the_epoch(queues: list[Queue], disk: Disk) -> None:
    first, second = new_epoch(), new_epoch()
    queue = queue_of(queues, disk, first)
    put(queue, 2)
    assert queue.seal(second) == 2
    put(queue, 3)
    assert queue.fresh == 3
    queue.drain(first)
    assert disk.flushed == [(first, 2)]
    queue.seal(new_epoch())
    queue.drain(second)
    assert disk.flushed == [(first, 2), (second, 3)]


def test_an_epoch_is_drained_when_no_thread_writes_any_of_it(
    queues: list[Queue], disk: Disk
) -> None:
    epoch = new_epoch()
    queue = queue_of(queues, disk, epoch, rows=1)
    disk.passing.clear()
    put(queue)
    assert disk.waiting.wait(30)
    queue.seal(new_epoch())
    drainer = threading.Thread(target=queue.drain, args=(epoch,))
    drainer.start()
    drainer.join(0.05)
    assert drainer.is_alive()
    disk.passing.set()
    drainer.join(30)
    assert disk.flushed == [(epoch, 1)]


def test_a_failure_reaches_the_producer_and_empties_the_queue(
    queues: list[Queue], disk: Disk
) -> None:
    epoch = new_epoch()
    queue = queue_of(queues, disk, epoch, rows=1)
    disk.error = OSError("no space")
    put(queue)
    while queue._failure is None:
        assert disk.waiting.wait(30)
    with pytest.raises(EpochFailed, match="no space"):
        put(queue)
    assert queue.held == (0, 0)
    queue.seal(new_epoch())
    with pytest.raises(OSError, match="no space"):
        queue.drain(epoch)

    disk.error = None
    again = new_epoch()
    queue.clear(again)
    put(queue)
    queue.seal(new_epoch())
    queue.drain(again)
    assert disk.flushed == [(again, 1)]


def test_a_producer_that_waits_learns_of_a_failure(queues: list[Queue], disk: Disk) -> None:
    disk.passing.clear()
    disk.error = OSError("no space")
    queue = queue_of(queues, disk, new_epoch(), held=SIZE)
    put(queue)
    producer, caught = start_putting(queue, EpochFailed)
    assert disk.waiting.wait(30)
    disk.passing.set()
    producer.join(30)
    assert len(caught) == 1


def test_a_producer_that_waits_learns_that_the_queue_is_closed(
    queues: list[Queue], disk: Disk
) -> None:
    disk.passing.clear()
    queue = queue_of(queues, disk, new_epoch(), held=SIZE)
    put(queue)
    producer, caught = start_putting(queue, SinkClosed)
    assert disk.waiting.wait(30)
    closer = threading.Thread(target=queue.close)
    closer.start()
    producer.join(30)
    disk.passing.set()
    closer.join(30)
    assert len(caught) == 1


def test_threads_of_a_queue_that_nobody_has_any_more_end(disk: Disk) -> None:
    queue = Queue("t", Limits(1, 1, 0.02, 100, threads=1), disk.flush, Meter())
    queue.start(new_epoch())
    put(queue)
    (thread,) = queue._threads
    assert disk.waiting.wait(30)
    del queue
    gc.collect()
    thread.join(30)
    assert not thread.is_alive()
