"""Listeners of a lake's events."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from lakeward.context import LakeContext
from lakeward.errors import InvalidInput
from lakeward.model import arguments
from lakeward.model.delivery import check_event, check_listener
from lakeward.model.event_names import COMMIT

if TYPE_CHECKING:
    from lakeward.stream.listener import NamedListener

F = TypeVar("F", bound=Callable[[Any], object])
_CLOSING_SECONDS: Final = 5.0


class Listening:
    """The part of a lake that calls listeners with its events."""

    _context: LakeContext
    _named: dict[str, NamedListener]

    @overload
    def on(self, event: str, fn: None = None, *, name: str | None = None) -> Callable[[F], F]: ...
    @overload
    def on(self, event: str, fn: F, *, name: str | None = None) -> F: ...
    def on(self, event: str, fn: Any = None, *, name: str | None = None) -> Any:
        """Call a function after each event of this lake object.

        Without `fn` it is a decorator: `@lake.on("commit")`. Each function is called in a separate
        thread, one event after the other, so it never delays a commit. Its exceptions are logged as
        warnings and have no other effect. Up to 10,000 events wait for a slow function; more are
        dropped and counted in `lake.counters()`. A function may begin transactions.

        With `name` the function gets every commit of the lake from the log, of any process, at
        least once: the log keeps the function's position under that name. A call that raises is
        repeated after a pause, until it succeeds.

        Args:
            event: `commit`: a transaction is committed, and publishing was tried (`CommitEvent`);
                `ratified`: the same before its files are published;
                `published`: versions are published (`PublishedEvent`);
                `conflicted`: a transaction met a conflict (`ConflictEvent`);
                `failed`: an error ended a transaction (`FailedEvent`);
                `violation`: rows violated a constraint (`ViolationEvent`);
                `maintenance`: a run of maintenance ended (`JobRecord`);
                `pipeline`: a run of a pipeline ended (`PipelineEvent`);
                `quality`: an expectation was measured and is not met (`QualityEvent`);
                `service_level`: a service level was computed and is not kept (`ServiceLevelEvent`);
                `read`: the last row of a query or a table was read (`ReadEvent`).
            fn: Called with the event; what it returns is ignored.
            name: For `commit` only: the name under which the log keeps the position. A new name
                begins after the newest commit.

        Raises:
            InvalidInput: There is no such event, `fn` cannot be called, or the name is in use.
        """
        check_event(event)
        if fn is None:
            return partial(self.on, event, name=name)
        if name is None:
            self._context.events.add(event, fn)
            return fn
        check_listener(event, fn)
        arguments.text(name, "name")
        if event != COMMIT:
            what = f"A listener with a name gets commits from the log, and no event {event!r}."
            raise InvalidInput(what, hint=f'Leave out name=, or write lake.on("{COMMIT}", …).')
        if name in self._named:
            what = f"This lake has a listener {name!r} already."
            raise InvalidInput(what, hint="Choose another name, or end the first with off().")
        from lakeward.stream.listener import NamedListener

        self._named[name] = NamedListener(self._context, name, fn)
        return fn

    def off(self, event: str, fn: Callable[[Any], object]) -> None:
        """Stop calling a function that `on` registered; do nothing if it is not registered.

        The log keeps the position of a named function: `on` with the same name continues there.
        """
        self._context.events.remove(event, fn)
        for name, listener in list(self._named.items()):
            if event == COMMIT and listener.calls(fn):
                del self._named[name]
                listener.stop(_CLOSING_SECONDS)

    def wait_for_listeners(self, *, timeout: float = 60.0) -> bool:
        """Wait until the functions that `on` registered have processed all events so far.

        Return False if some events were not processed in time.

        Args:
            timeout: How many seconds to wait at most.
        """
        seconds = arguments.number(timeout, "timeout")
        done = self._context.events.wait(seconds)
        return all(listener.wait(seconds) for listener in self._named.values()) and done

    def _end_listening(self) -> None:
        self._context.events.wait(_CLOSING_SECONDS)
        for listener in self._named.values():
            listener.stop(_CLOSING_SECONDS)
