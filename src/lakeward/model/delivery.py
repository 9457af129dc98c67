"""Delivers events to listeners, each in a separate thread.

Each listener has a bounded queue and a thread that calls it, so a listener that raises, hangs or is
slow delays neither a commit nor another listener. A listener gets its events one after the other,
in the order in which they happened. Events beyond the bound are dropped and counted; so are events
that are still waiting when the process ends. A listener that must not miss a commit reads the log:
see `lakeward.stream.listener`.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from lakeward.errors import InvalidInput
from lakeward.model.counters import Counters
from lakeward.model.event_names import COMMIT, NAMES
from lakeward.model.tracing import Tracer

if TYPE_CHECKING:
    from lakeward.model.events import CommitEvent

Listener = Callable[[Any], object]

_REMEMBERED: Final = 10_000
"""How many delivered transaction ids are remembered, to deliver a replayed commit once."""
_WAITING: Final = 10_000
"""How many events may wait for one listener."""
_IDLE_SECONDS: Final = 5.0
"""A thread without events ends after this time, and a new event starts another."""
_EXIT_SECONDS: Final = 2.0
_LOG: Final = logging.getLogger(__name__)


class Events:
    """The listeners of one lake object. It is false while there are none.

    Attributes:
        counters: Where dropped and failed events are counted.
        tracer: Makes spans of transactions; None unless tracing was enabled.
    """

    def __init__(self) -> None:
        self.counters = Counters()
        self.tracer: Tracer | None = None
        self._queues: dict[str, tuple[_Queue, ...]] = {}
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()

    def __bool__(self) -> bool:
        return bool(self._queues)

    def wants(self, event: str) -> bool:
        """Return whether an event has a listener."""
        return event in self._queues

    def add(self, event: str, listener: Listener) -> None:
        """Call a listener with every event of this name from now on.

        Raises:
            InvalidInput: There is no such event, or the listener cannot be called.
        """
        check_event(event)
        check_listener(event, listener)
        with self._lock:
            own = self._queues.get(event, ())
            found = [q for queues in self._queues.values() for q in queues if q.calls(listener)]
            queue = found[0] if found else _Queue(listener, self.counters)
            self._queues = {**self._queues, event: (*own, queue)}

    def remove(self, event: str, listener: Listener) -> None:
        """Stop calling a listener; do nothing if it was not added."""
        check_event(event)
        with self._lock:
            own = tuple(q for q in self._queues.get(event, ()) if not q.calls(listener))
            others = {name: kept for name, kept in self._queues.items() if name != event}
            self._queues = {**others, event: own} if own else others

    def deliver(self, name: str, event: object) -> None:
        """Put an event into the queue of each of its listeners. It never waits."""
        for queue in self._queues.get(name, ()):
            queue.put(name, event)

    def committed(self, event: CommitEvent) -> None:
        """Deliver a commit, unless this lake object delivered the same transaction before."""
        with self._lock:
            if event.transaction_id in self._seen:
                return
            self._seen[event.transaction_id] = None
            if len(self._seen) > _REMEMBERED:
                self._seen.popitem(last=False)
        self.deliver(COMMIT, event)

    def wait(self, seconds: float) -> bool:
        """Wait until listeners have processed all events so far; return False after the timeout.

        If a listener calls it, it does not wait for that listener.
        """
        deadline = time.monotonic() + seconds
        while True:
            queues = {id(q): q for queues in self._queues.values() for q in queues}.values()
            if not all(queue.wait(deadline) for queue in queues):
                return False
            if not any(queue.is_busy for queue in queues):
                # Else one of them committed, and the others got that event.
                return True


class _Queue:
    """The events that wait for one listener, and the thread that calls it."""

    _thread: threading.Thread | None

    def __init__(self, listener: Listener, counters: Counters) -> None:
        self._listener = listener
        self._counters = counters
        self._begin()
        _alive.add(self)

    def calls(self, listener: Listener) -> bool:
        """Return whether this is the queue of a listener."""
        return bool(self._listener == listener)

    @property
    def is_busy(self) -> bool:
        """Whether events wait for the listener; False in a call from the listener itself."""
        return bool(self._events) and threading.current_thread() is not self._thread

    def put(self, name: str, event: object) -> None:
        """Add an event; if too many events wait, drop and count it."""
        if self._pid != os.getpid():
            # A forked child has none of its parent's threads and none of its events.
            self._begin()
        with self._changed:
            if len(self._events) >= _WAITING:
                self._drop()
                return
            self._events.append((name, event))
            if self._thread is not None:
                self._changed.notify_all()
                return
            # A daemon, so that a listener that hangs does not keep the process alive.
            thread = threading.Thread(target=self._work, name="lakeward-events", daemon=True)
            self._thread = thread
            try:
                thread.start()
            except RuntimeError:
                # Threads have run out, or the process is about to end.
                self._thread = None
                self._events.clear()
                self._drop()

    def wait(self, deadline: float) -> bool:
        """Wait until no event is left; return False if some are left at the deadline."""
        if self._pid != os.getpid() or threading.current_thread() is self._thread:
            return True
        with self._changed:
            left = deadline - time.monotonic()
            return self._changed.wait_for(lambda: not self._events, max(0.0, left))

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._events: deque[tuple[str, object]] = deque()
        self._changed = threading.Condition()
        self._thread = None
        self._has_dropped = False

    def _drop(self) -> None:
        self._counters.add("events_dropped")
        if not self._has_dropped:
            self._has_dropped = True
            what = "Listener %s is too slow: events are dropped and counted in `events_dropped`."
            _LOG.warning(what, shown(self._listener))

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._changed.wait_for(lambda: self._events, _IDLE_SECONDS):
                    self._thread = None
                    return
                name, event = self._events[0]
            self._call(name, event)
            with self._changed:
                # It is removed when it is done, so that `wait` waits for it.
                self._events.popleft()
                if not self._events:
                    self._has_dropped = False
                    self._changed.notify_all()

    def _call(self, name: str, event: object) -> None:
        try:
            self._listener(event)
        except Exception as error:  # noqa: BLE001  the commit stands, whatever a listener does
            self._counters.add("events_failed")
            kind = type(error).__name__
            what = "Listener %s of %r failed and was skipped: %s: %s"
            _LOG.warning(what, shown(self._listener), name, kind, error)


def check_event(event: str) -> None:
    """Raise `InvalidInput` if there is no event of this name."""
    if event not in NAMES:
        what = f"There is no event {event!r}."
        raise InvalidInput(what, hint=f"Events are: {', '.join(NAMES)}.", event=str(event))


def check_listener(event: str, listener: object) -> None:
    """Raise `InvalidInput` if a listener cannot be called."""
    if not callable(listener):
        what = f"A listener must be a function of an event, not {type(listener).__name__}."
        raise InvalidInput(what, hint=f'Write lake.on("{event}", fn).')


def shown(listener: object) -> str:
    """Return a listener's name for messages."""
    return str(getattr(listener, "__qualname__", repr(listener)))


_alive: weakref.WeakSet[_Queue] = weakref.WeakSet()


@atexit.register
def _deliver_the_rest() -> None:
    """Wait a short time for listeners at the end of the process, for lakes that were not closed."""
    deadline = time.monotonic() + _EXIT_SECONDS
    for queue in list(_alive):
        queue.wait(deadline)
