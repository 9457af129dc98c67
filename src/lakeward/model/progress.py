"""Progress of long operations: loops count completed work, and a caller may set a listener.

The listener belongs to the calling thread's context, so that functions in between need not pass it
on. Without a listener, counting costs one look-up.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Progress: TypeAlias = Callable[[int, int | None], None]
"""Called with the amount of work done, and the total amount; None if that is unknown."""


class _Counter:
    def __init__(self, listener: Progress) -> None:
        self.listener = listener
        self.done = 0
        self.total = 0


_CURRENT: ContextVar[_Counter | None] = ContextVar("lakeward_progress", default=None)


@contextmanager
def reported(listener: Progress | None) -> Generator[None]:
    """Report the progress of the block to `listener`; None for no reports."""
    if listener is None:
        yield
        return
    token = _CURRENT.set(_Counter(listener))
    try:
        yield
    finally:
        _CURRENT.reset(token)


def expect(count: int) -> None:
    """Add an amount of work to the total, and report it."""
    counter = _CURRENT.get()
    if counter is not None:
        counter.total += count
        counter.listener(counter.done, counter.total)


def advance(count: int = 1) -> None:
    """Add an amount to the work done, and report it."""
    counter = _CURRENT.get()
    if counter is not None:
        counter.done += count
        counter.listener(counter.done, max(counter.total, counter.done))


def report(done: int, total: int) -> None:
    """Report work that another component counts."""
    counter = _CURRENT.get()
    if counter is not None:
        counter.listener(done, total)


def counted(items: Iterable[T], total: int) -> Iterator[T]:
    """Yield the items, and count each as done when the next one is requested."""
    expect(total)
    for item in items:
        yield item
        advance()
