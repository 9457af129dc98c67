"""A loop that writes rows from a source into a sink, and commits epochs by size or time.

The source's position is committed with its rows. A restarted loop continues after the last epoch,
so every row of a source that can be read again is in the table exactly once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa
import tenacity

from lakeward.errors import InvalidInput, LakewardError, OutcomeUnknown, SinkClosed
from lakeward.model import arguments
from lakeward.stream.epoch import EpochResult
from lakeward.stream.source import Source


class _EpochSink(Protocol):
    """The part of a `Sink` that the loop uses."""

    @property
    def name(self) -> str: ...
    @property
    def expected(self) -> pa.Schema: ...
    @property
    def last_epoch(self) -> int | None: ...
    @property
    def progress(self) -> Any: ...
    def write(self, data: Any) -> None: ...
    def discard(self) -> None: ...
    def commit_epoch(
        self, epoch: int, *, progress: Any = None, sources: Sequence[str] = ()
    ) -> EpochResult: ...


@dataclass(frozen=True, slots=True)
class Consumed:
    """What a loop did.

    Attributes:
        epochs: The number of epochs committed.
        rows: The number of rows in these epochs.
        last_epoch: The last epoch of the table and writer.
        progress: The position of the source that was committed last.
        restarts: How often a passing failure sent the loop back to the last epoch.
    """

    epochs: int
    rows: int
    last_epoch: int | None
    progress: Any
    restarts: int


@dataclass
class Consumer:
    """The loop that reads one source."""

    sink: _EpochSink
    source: Source
    epoch_rows: int
    epoch_seconds: float
    restarts: int
    on_epoch: Callable[[EpochResult], object] | None
    _done: dict[str, int] = field(default_factory=lambda: {"epochs": 0, "rows": 0, "restarts": 0})

    def run(self) -> Consumed:
        """Run until the source ends; return what was done.

        Raise `InvalidInput`, when all other rows are committed, for files that end within a line.
        """
        arguments.whole(self.epoch_rows, "epoch_rows", least=1)
        arguments.number(self.epoch_seconds, "epoch_seconds")
        arguments.whole(self.restarts, "restarts")
        try:
            for attempt in self._attempts():
                with attempt:
                    self._done["restarts"] = attempt.retry_state.attempt_number - 1
                    self._pass()
        finally:
            self.source.close()
        left = self.source.unfinished()
        if left:
            raise _incomplete(left, self._done["rows"])
        sink = self.sink
        return Consumed(**self._done, last_epoch=sink.last_epoch, progress=sink.progress)

    def _attempts(self) -> tenacity.Retrying:
        # A source that cannot be read again cannot be retried.
        tries = 1 + (self.restarts if self.source.rewinds else 0)
        return tenacity.Retrying(
            retry=tenacity.retry_if_exception(_may_pass),
            wait=tenacity.wait_random_exponential(multiplier=0.1, max=5.0),
            stop=tenacity.stop_after_attempt(tries),
            reraise=True,
        )

    def _pass(self) -> None:
        sink = self.sink
        sink.discard()
        self.source.start(sink.progress, sink.expected, sink.name)
        rows, since = 0, time.monotonic()
        position: Mapping[str, Any] | None = None
        for portion in self.source.portions():
            if portion.count:
                if not rows:
                    since = time.monotonic()
                sink.write(portion.rows)
                rows += portion.count
                position = portion.position
            old = rows and time.monotonic() - since >= self.epoch_seconds
            if position is not None and (rows >= self.epoch_rows or old):
                self._commit(rows, position)
                rows, position = 0, None
        if position is not None:
            self._commit(rows, position)

    def _commit(self, rows: int, position: Mapping[str, Any]) -> None:
        last = self.sink.last_epoch
        # A writer may use several sources in turn: keep the positions of the others.
        before = self.sink.progress or {}
        result = self.sink.commit_epoch(
            0 if last is None else last + 1,
            progress={**before, **position},
            sources=self.source.places(before, position),
        )
        self._done["epochs"] += 1
        self._done["rows"] += rows
        self.source.committed(position)
        if self.on_epoch is not None:
            self.on_epoch(result)


def _incomplete(paths: Sequence[str], rows: int) -> InvalidInput:
    what = (
        f"The last line of {', '.join(paths)} has no end: it may be incomplete, and was not taken."
    )
    what += f" All others are committed, {rows} rows of this run."
    hint = "End it with a newline when the file is complete, and run this again."
    return InvalidInput(what, hint=hint, path=paths[0])


def _may_pass(error: BaseException) -> bool:
    """Return whether a restart from the last epoch may help.

    After an unknown outcome it may: `discard` finds the outcome out.
    """
    if not isinstance(error, LakewardError) or isinstance(error, SinkClosed):
        return False
    return error.retryable or isinstance(error, OutcomeUnknown)
