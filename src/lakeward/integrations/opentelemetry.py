"""Spans of OpenTelemetry for the transactions of a lake, their steps, and runs of pipelines.

`trace(lake)` starts tracing, with the tracer provider of the process unless one is given. The
parent of a transaction's span is the span that is current when the transaction begins, so the
transaction is part of the program's trace. Spans contain names of tables, versions, counts and
classes of errors; they contain no rows, no texts of statements, no messages of users or of errors,
and no credentials.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from lakeward.context import context_of
from lakeward.errors import MissingExtra
from lakeward.model.tracing import RunSpan

if TYPE_CHECKING:
    from lakeward.lake.lake import Lake

_PREFIX: Final = "lakeward."
_NAME: Final = "lakeward"
_MOST: Final = 10_000
"""The most open spans that are kept; beyond that, the oldest are dropped and never end."""
_LOG: Final = logging.getLogger(__name__)


def trace(lake: Lake, *, provider: Any = None) -> Callable[[], None]:
    """Make spans for the operations of a lake object; return a function that stops tracing.

    Args:
        lake: The lake.
        provider: A `TracerProvider`; the provider of the process unless given.

    Raises:
        MissingExtra: opentelemetry-api is not installed.
    """
    import lakeward

    library = _library()
    tracer = library.get_tracer(_NAME, lakeward.__version__, tracer_provider=provider)
    events = context_of(lake).events
    events.tracer = Spans(library, tracer)

    def stop() -> None:
        events.tracer = None

    return stop


class Spans:
    """Makes a span for each operation. Errors of OpenTelemetry are logged and not raised."""

    def __init__(self, library: Any, tracer: Any) -> None:
        self._library = library
        self._tracer = tracer
        self._open: OrderedDict[str, Any] = OrderedDict()
        self._lock = Lock()

    def begin(self, transaction_id: str, isolation: str) -> None:
        """Begin the span of a transaction."""
        with _harmless():
            facts = {"transaction_id": transaction_id, "isolation": isolation}
            span = self._tracer.start_span("lakeward transaction", attributes=_attributes(facts))
            with self._lock:
                self._open[transaction_id] = span
                if len(self._open) > _MOST:
                    self._open.popitem(last=False)

    def step(self, transaction_id: str, name: str, seconds: float, **facts: Any) -> None:
        """Make the span of a transaction's step that has just ended and took `seconds`."""
        with _harmless():
            self._ended(self._open.get(transaction_id), name, seconds, facts)

    def note(self, transaction_id: str, name: str, **facts: Any) -> None:
        """Add an event to the span of a transaction."""
        with _harmless():
            span = self._open.get(transaction_id)
            if span is not None:
                span.add_event(name, _attributes(facts))

    def end(self, transaction_id: str, state: str, error: str | None, **facts: Any) -> None:
        """End the span of a transaction; `error` is the class of the error that ended it."""
        with _harmless():
            with self._lock:
                span = self._open.pop(transaction_id, None)
            if span is not None:
                self._finish(span, error, {"state": state, **facts})

    def run(self, pipeline: str) -> AbstractContextManager[RunSpan]:
        """Return a context manager that makes the span of a pipeline's run the current span."""
        return self._run(pipeline)

    @contextmanager
    def _run(self, pipeline: str) -> Iterator[RunSpan]:
        span: Any = None
        current = ExitStack()
        with _harmless():
            span = self._tracer.start_span(
                "lakeward pipeline", attributes=_attributes({"pipeline": pipeline})
            )
            current.enter_context(
                self._library.use_span(span, record_exception=False, set_status_on_exception=False)
            )
        error: str | None = None
        made = _Run(self, span)
        try:
            yield made
        except BaseException as failure:
            error = type(failure).__name__
            raise
        finally:
            with _harmless():
                current.close()
            with _harmless():
                if span is not None:
                    self._finish(span, error, made.facts)

    def _ended(self, parent: Any, name: str, seconds: float, facts: Mapping[str, Any]) -> None:
        now = time.time_ns()
        context = None if parent is None else self._library.set_span_in_context(parent)
        span = self._tracer.start_span(
            f"lakeward {name}",
            context=context,
            start_time=now - int(seconds * 1e9),
            attributes=_attributes(facts),
        )
        span.end(now)

    def _finish(self, span: Any, error: str | None, facts: Mapping[str, Any]) -> None:
        for key, value in _attributes(facts).items():
            span.set_attribute(key, value)
        if error is not None:
            span.set_attribute("error.type", error)
            span.set_status(self._library.Status(self._library.StatusCode.ERROR, error))
        span.end()


class _Run:
    """The span of one run of a pipeline."""

    def __init__(self, spans: Spans, span: Any) -> None:
        self._spans = spans
        self._span = span
        self.facts: dict[str, Any] = {}

    def step(self, table: str, seconds: float, rows: int) -> None:
        """Make the span of a run's step that has just ended and took `seconds`."""
        with _harmless():
            self._spans._ended(self._span, "step", seconds, {"table": table, "rows": rows})

    def end(self, state: str, run_id: str | None, versions: Mapping[str, int]) -> None:
        """Record how the run ended, for the attributes of the span."""
        self.facts = {"state": state, "transaction_id": run_id, "versions": versions}


@contextmanager
def _harmless() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # noqa: BLE001  a span must not fail a commit
        _LOG.warning("A span was not made: %s: %s", type(error).__name__, error)


def _attributes(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return facts as attributes of a span: plain values, and mappings as lists of `key=value`."""
    made: dict[str, Any] = {}
    for name, value in facts.items():
        if isinstance(value, Mapping):
            made[f"{_PREFIX}{name}"] = [f"{key}={one}" for key, one in sorted(value.items())]
        elif value is not None:
            is_plain = isinstance(value, str | bool | int | float)
            made[f"{_PREFIX}{name}"] = value if is_plain else str(value)
    return made


def _library() -> Any:
    try:
        from opentelemetry import trace as library
    except ImportError as error:
        what = "Spans of OpenTelemetry need opentelemetry-api."
        raise MissingExtra(what, hint="Run: pip install 'lakeward[otel]'.") from error
    return library
