"""Named listeners: a function that is called with every commit in the log, at least once.

The log keeps the position up to which a listener is done. A thread reads the commits after it,
calls the function with each, in the order of the lake, and then updates the position: so a commit
is delivered again if the process died before its position was recorded. A call that raises is
repeated, with growing pauses. Two processes with the same name both call their functions.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Final

from lakeward.context import LakeContext
from lakeward.errors import LakewardError
from lakeward.log import consumers, positions
from lakeward.log.consumers import ConsumerRow
from lakeward.log.waiting import waiter
from lakeward.model.clock import now_ms
from lakeward.model.delivery import shown
from lakeward.model.events import CommitEvent
from lakeward.read.lake_changes import LakeChange, lake_changes

PREFIX: Final = "listener:"
_LOOK_SECONDS: Final = 0.5
_RECORD_SECONDS: Final = 1.0
"""The interval at which a busy listener records its position."""
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 30.0
_LOG: Final = logging.getLogger(__name__)


class NamedListener:
    """Calls a function with every commit after the listener's position in the log."""

    def __init__(self, context: LakeContext, name: str, listener: Callable[[Any], object]) -> None:
        self._context = context
        self._name = PREFIX + name
        self._listener = listener
        self._stopped = threading.Event()
        with context.database.write() as session:
            known = consumers.get(session, self._name)
            self._recorded = positions.last(session) if known is None else known.position
            if known is None:
                consumers.add(session, self._row(self._recorded))
        self._done = self._recorded
        self._thread = threading.Thread(target=self._work, name="lakeward-listener", daemon=True)
        self._thread.start()

    def calls(self, listener: Callable[[Any], object]) -> bool:
        """Return whether this listener calls the given function."""
        return bool(self._listener == listener)

    def wait(self, seconds: float) -> bool:
        """Wait until the listener is done with all commits so far; return False on timeout."""
        with self._context.database.read() as session:
            newest = positions.last(session)
        deadline = time.monotonic() + seconds
        while self._recorded < newest:
            if not self._thread.is_alive() or time.monotonic() >= deadline:
                return False
            time.sleep(0.005)
        return True

    def stop(self, seconds: float) -> None:
        """Stop calling the function; wait up to `seconds` for a call that is under way."""
        self._stopped.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(seconds)

    def _work(self) -> None:
        pause = _FIRST_PAUSE
        waiting = waiter(self._context.database)
        try:
            while not self._stopped.is_set():
                try:
                    self._deliver()
                    pause = _FIRST_PAUSE
                    waiting.wait(_LOOK_SECONDS)
                except LakewardError as error:
                    _LOG.warning("Listener %s cannot read the log: %s", self._name, error)
                    self._stopped.wait(pause)
                    pause = min(pause * 2, _LONGEST_PAUSE)
        finally:
            waiting.close()

    def _deliver(self) -> None:
        """Call the function with each commit after the last delivered one; record the position."""
        recorded_at = time.monotonic()
        try:
            for change in lake_changes(self._context, self._done):
                if not self._call(_event(change)):
                    return
                self._done = change.position
                if time.monotonic() - recorded_at > _RECORD_SECONDS:
                    self._record()
                    recorded_at = time.monotonic()
        finally:
            self._record()

    def _call(self, event: CommitEvent) -> bool:
        """Call the function until it succeeds; return False if the listener is stopped first."""
        pause = _FIRST_PAUSE
        while not self._stopped.is_set():
            try:
                self._listener(event)
            except Exception as error:  # noqa: BLE001  it gets the commit again
                self._context.counters.add("events_failed")
                what = "Listener %s failed and is called again in %.1f s: %s: %s"
                _LOG.warning(what, shown(self._listener), pause, type(error).__name__, error)
                self._stopped.wait(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
            else:
                return True
        return False

    def _record(self) -> None:
        if self._done == self._recorded:
            return
        with self._context.database.write(durable=False) as session:
            if not consumers.move(session, self._row(self._done), self._recorded):
                # Another process of the same name, or a user, changed the position.
                found = consumers.get(session, self._name)
                if found is None:
                    consumers.add(session, self._row(self._done))
                else:
                    self._done = found.position
        self._recorded = self._done

    def _row(self, position: int) -> ConsumerRow:
        return ConsumerRow(self._name, position, None, self._context.actor, now_ms())


def _event(change: LakeChange) -> CommitEvent:
    return CommitEvent(
        transaction_id=change.transaction_id,
        versions=MappingProxyType({name: t.version for name, t in change.tables.items()}),
        timestamp=change.timestamp,
        actor=change.actor,
        message=change.message,
        operations=MappingProxyType({name: t.operation for name, t in change.tables.items()}),
        published=None,
    )
