"""Events: frozen records that a lake delivers to listeners after something happened.

Listeners run in the thread that committed, in the order in which they were registered, after the
commit is ratified and publishing was tried. What a listener raises is logged as a warning and never
changes the outcome of the commit.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from lakeward.errors import InvalidInput

Listener = Callable[[Any], object]

COMMIT: Final = "commit"
_NAMES: Final = (COMMIT,)
_REMEMBERED: Final = 10_000
"""How many delivered transaction ids are remembered, to deliver a replayed commit once."""
_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CommitEvent:
    """A transaction that was committed through this lake object.

    Attributes:
        transaction_id: The transaction's id.
        versions: The new version of each table that it changed.
        timestamp: When it was committed, the same for all its tables.
        actor: Who committed.
        message: Why, as the transaction was given it.
        operations: What it did to each table: `WRITE`, `DELETE`, `MERGE`, …
        published: False where a table's own files could not be written yet. The commit stands, and
            the next process that opens the lake writes them.
    """

    transaction_id: str
    versions: Mapping[str, int]
    timestamp: datetime
    actor: str
    message: str | None
    operations: Mapping[str, str]
    published: bool


class Events:
    """The listeners of one lake object. It is false while there are none."""

    def __init__(self) -> None:
        self._listeners: dict[str, tuple[Listener, ...]] = {}
        self._delivered: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()
        self._thread = threading.local()

    def __bool__(self) -> bool:
        return bool(self._listeners)

    def add(self, event: str, listener: Listener) -> None:
        """Call a listener with every event of this name from now on.

        Raises:
            InvalidInput: There is no such event, or the listener cannot be called.
        """
        _check(event)
        if not callable(listener):
            what = f"A listener must be a function of an event, not {type(listener).__name__}."
            raise InvalidInput(what, hint=f'Write lake.on("{event}", fn).')
        with self._lock:
            own = self._listeners.get(event, ())
            self._listeners = {**self._listeners, event: (*own, listener)}

    def remove(self, event: str, listener: Listener) -> None:
        """Stop calling a listener; one that was never added is ignored."""
        _check(event)
        with self._lock:
            own = tuple(f for f in self._listeners.get(event, ()) if f != listener)
            others = {name: kept for name, kept in self._listeners.items() if name != event}
            self._listeners = {**others, event: own} if own else others

    def committed(self, event: CommitEvent) -> None:
        """Deliver a commit, unless this lake object delivered the same transaction before."""
        with self._lock:
            if event.transaction_id in self._delivered:
                return
            self._delivered[event.transaction_id] = None
            if len(self._delivered) > _REMEMBERED:
                self._delivered.popitem(last=False)
        self._deliver(COMMIT, event)

    def _deliver(self, name: str, event: Any) -> None:
        """Call the listeners; the event of a listener's own commit waits for its turn."""
        waiting: deque[tuple[str, Any]] | None = getattr(self._thread, "waiting", None)
        if waiting is not None:
            waiting.append((name, event))
            return
        waiting = self._thread.waiting = deque([(name, event)])
        try:
            while waiting:
                name, event = waiting.popleft()
                for listener in self._listeners.get(name, ()):
                    _call(listener, name, event)
        finally:
            self._thread.waiting = None


def _call(listener: Listener, name: str, event: Any) -> None:
    try:
        listener(event)
    except Exception as error:  # noqa: BLE001  the commit stands, whatever a listener does
        shown = getattr(listener, "__qualname__", repr(listener))
        _LOG.warning(
            "Listener %s of %r failed and was skipped: %s: %s",
            shown,
            name,
            type(error).__name__,
            error,
        )


def _check(event: str) -> None:
    if event not in _NAMES:
        what = f"There is no event {event!r}."
        raise InvalidInput(what, hint=f"Events are: {', '.join(_NAMES)}.", event=str(event))
