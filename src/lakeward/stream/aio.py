"""Sinks for event loops: nothing blocks the loop, and a writer that must wait is awaited."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from lakeward.model.closing import AsyncClosing
from lakeward.stream.inlet import Inlet
from lakeward.stream.metrics import SinkMetrics
from lakeward.stream.result import EpochResult

if TYPE_CHECKING:
    from lakeward.stream.sink import Sink, SinkGroup


class AsyncSink(AsyncClosing):
    """A `Sink` whose calls are awaited.

    A task that writes goes on at once while there is room, and otherwise lets other tasks run.
    Commits run in a thread. A commit whose task is cancelled goes on; commit the same epoch again
    to learn its result.

    Attributes:
        sink: The sink itself, for what takes no time: `last_epoch`, `progress`, `schema`.
    """

    def __init__(self, sink: Sink, inlet: Inlet) -> None:
        self.sink = sink
        self._inlet = inlet

    async def write(self, data: Any) -> None:
        """Take rows for the current epoch; see `Sink.write`."""
        # Looked at once: a reader gives its rows only once.
        rows = self._inlet.accept(data)
        if not self._inlet.put(rows, wait=False):
            await asyncio.to_thread(self._inlet.put, rows)

    async def commit_epoch(self, epoch: int, *, progress: Any = None) -> EpochResult:
        """Commit everything written since the last epoch; see `Sink.commit_epoch`."""
        return await asyncio.to_thread(self.sink.commit_epoch, epoch, progress=progress)

    async def discard(self) -> None:
        """Throw away what was written since the last epoch, to write it again."""
        await asyncio.to_thread(self.sink.discard)

    def metrics(self) -> SinkMetrics:
        """What happened so far, and what waits now."""
        return self.sink.metrics()

    async def close(self) -> None:
        """Throw away what was not committed, and end the threads."""
        await asyncio.to_thread(self.sink.close)


class AsyncSinkGroup(AsyncClosing):
    """A `SinkGroup` whose calls are awaited; `group[name]` is the `AsyncSink` of a table."""

    def __init__(self, group: SinkGroup) -> None:
        self.group = group

    def __getitem__(self, name: str) -> AsyncSink:
        return self.group[name].aio()

    async def write(self, name: str, data: Any) -> None:
        """Take rows for a table; see `Sink.write`."""
        await self[name].write(data)

    async def commit_epoch(self, epoch: int, *, progress: Any = None) -> EpochResult:
        """Commit everything written to the sinks since the last epoch, by one transaction."""
        return await asyncio.to_thread(self.group.commit_epoch, epoch, progress=progress)

    async def discard(self) -> None:
        """Throw away what was written since the last epoch, to write it again."""
        await asyncio.to_thread(self.group.discard)

    async def close(self) -> None:
        """Close the sinks."""
        await asyncio.to_thread(self.group.close)
