"""The interface of tracers, which make spans of transactions, of their steps and of runs.

`lakeward.integrations.opentelemetry` implements it. Spans have names, versions and counts, and no
rows, texts of statements, messages or texts of errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol


class RunSpan(Protocol):
    """The span of a pipeline's run, which is the parent of its transactions' spans."""

    def step(self, table: str, seconds: float, rows: int) -> None:
        """Make the span of a step of the run that has just ended and took `seconds`."""

    def end(self, state: str, run_id: str | None, versions: Mapping[str, int]) -> None:
        """Record how the run ended, for the attributes of the span."""


class Tracer(Protocol):
    """Makes spans. It is called in the thread that does the work, and must not raise."""

    def begin(self, transaction_id: str, isolation: str) -> None:
        """Begin the span of a transaction, as a child of the current span."""

    def step(self, transaction_id: str, name: str, seconds: float, **facts: Any) -> None:
        """Make the span of a step of a transaction that has just ended and took `seconds`."""

    def note(self, transaction_id: str, name: str, **facts: Any) -> None:
        """Add an event, such as a conflict, to the span of a transaction."""

    def end(self, transaction_id: str, state: str, error: str | None, **facts: Any) -> None:
        """End the span of a transaction; `error` is the class of the error that ended it."""

    def run(self, pipeline: str) -> AbstractContextManager[RunSpan]:
        """Return a context manager for the span of a pipeline's run."""
