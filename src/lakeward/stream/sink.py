"""Sinks: a program writes rows and commits them by epochs, each exactly once; also for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any

import pyarrow as pa

from lakeward.context import LakeContext
from lakeward.errors import InvalidInput
from lakeward.model.closing import AsyncClosing, Closing
from lakeward.model.schema import Schema
from lakeward.stream.committer import Committer
from lakeward.stream.consume import Consumed, Consumer
from lakeward.stream.epoch import EpochResult
from lakeward.stream.queue import SinkMetrics
from lakeward.stream.source import Source
from lakeward.stream.table import SinkTable
from lakeward.write.transaction.transaction import Transaction


class Sink(Closing):
    """A stream of rows into one table, committed by epochs.

    Rows written before `commit_epoch` are in that epoch, later rows in the next. Readers see
    nothing of an epoch before it is committed, and then all of it. As a context manager the sink is
    closed at the end, and uncommitted rows are discarded.

    Rows are not copied: do not change arrays that were written before their epoch is committed.
    """

    def __init__(
        self,
        context: LakeContext,
        begin: Callable[[], Transaction],
        table: SinkTable,
        *,
        gaps: bool,
    ) -> None:
        self._context = context
        self._begin = begin
        self._table = table
        self._gaps = gaps
        self._committer = Committer(context, begin, [table], gaps=gaps)
        self._group: SinkGroup | None = None

    def __repr__(self) -> str:
        identity = self._table.writer
        return (
            f"Sink({self.name!r}, mode={self.mode!r}, writer_id={identity.writer_id!r},"
            f" generation={identity.generation})"
        )

    @property
    def name(self) -> str:
        """The name of the table."""
        return self._table.name

    @property
    def mode(self) -> str:
        """`append`, `upsert` or `overwrite`."""
        return self._table.mode.value

    @property
    def writer_id(self) -> str:
        """The writer's id, the same for all its instances."""
        return self._table.writer.writer_id

    @property
    def generation(self) -> int:
        """How many instances of the writer opened the table so far, including this one."""
        return self._table.writer.generation

    @property
    def schema(self) -> Schema:
        """The table's schema, which rows must fit."""
        return self._table.definition.schema

    @property
    def expected(self) -> pa.Schema:
        """The Arrow schema of rows: the table's columns, and those of changes in mode `upsert`."""
        return self._table.expected

    @property
    def last_epoch(self) -> int | None:
        """The last epoch committed by any instance of the writer; None before the first."""
        return self._table.writer.last

    @property
    def progress(self) -> Any:
        """The `progress` that was committed with the last epoch; None if there was none."""
        return self._table.writer.progress

    def write(self, data: Any) -> None:
        """Add rows to the current epoch; return as soon as they are buffered.

        If `max_bytes` are waiting already, wait until there is room. The rows of one call are
        accepted or refused as a whole; after a refusal the sink can be used as before.

        Args:
            data: An Arrow table, batch or reader, a pandas or Polars frame, or a list of dicts.

        Raises:
            SchemaMismatch: The rows do not fit the table's schema. None was accepted.
            ConstraintViolation: Some rows violate the table's constraints. None was accepted.
            EpochFailed: Earlier rows could not be staged. Call `discard` and write them again.
            SinkClosed: The sink was closed, or fenced off.
        """
        self._committer.check_open()
        self._table.put(self._table.accept(data))

    def commit_epoch(
        self, epoch: int, *, progress: Any = None, sources: Sequence[str] = ()
    ) -> EpochResult:
        """Commit everything written since the last epoch, as one version of the table.

        The same commit records the epoch's number, as the application transaction of the writer. An
        epoch that was committed before is not committed again: the rows are discarded, and the
        result has `replayed`. After `EpochOutOfOrder` the rows are kept: call again with the right
        number. After `OutcomeUnknown` call again with the same number. After any other error
        nothing of the epoch is in the lake: write its rows again from the beginning.

        Args:
            epoch: The last epoch's number plus one; the first epoch may have any number.
            progress: A mapping of plain JSON values to record with the epoch, such as the offsets
                of a source.
            sources: Files, topics or other addresses from which the rows come, without passwords,
                for lineage; if empty, the source of the rows is unknown.

        Raises:
            EpochOutOfOrder: An epoch was skipped. The rows written since the last one are kept.
            Fenced: A newer instance of the writer took over. The sink is closed.
            Conflict: Others changed the table's definition meanwhile.
            OutcomeUnknown: The store did not answer, so the commit may or may not have happened.
        """
        self._check_alone()
        return self._committer.commit(epoch, progress, sources)

    def submit_epoch(
        self, epoch: int, *, progress: Any = None, sources: Sequence[str] = ()
    ) -> Future[EpochResult]:
        """Commit as `commit_epoch` does, but in the background; return a future of the result.

        The call waits only while too many submitted epochs are not committed yet. Epochs are
        committed in the order in which they were submitted. If one fails, those after it fail too,
        and the sink accepts no rows until `discard`; then write again the rows after `last_epoch`.
        """
        self._check_alone()
        return self._committer.submit(epoch, progress, sources)

    def discard(self) -> None:
        """Discard the rows written since the last epoch, so that they can be written again.

        Raises:
            OutcomeUnknown: The outcome of the last commit is still unknown.
        """
        self._committer.discard()

    def consume(
        self,
        source: Source,
        *,
        epoch_rows: int = 100_000,
        epoch_seconds: float = 10.0,
        restarts: int = 5,
        on_epoch: Callable[[EpochResult], object] | None = None,
    ) -> Consumed:
        """Write rows from a source until it ends; commit epochs by size or time.

        The source's position is committed with each epoch; the next call continues there.

        Args:
            source: `JsonFiles`, `JsonStream`, `ArrowFiles` or `ArrowStream` of
                `lakeward.stream`, `lakeward.integrations.kafka`, or your own subclass of `Source`.
            epoch_rows: Commit when this many rows have been written.
            epoch_seconds: Or when the epoch's first rows are this old.
            restarts: How often to restart from the last epoch after an error that may pass, if the
                source can be read again.
            on_epoch: Called with the result of each epoch.
        """
        return Consumer(self, source, epoch_rows, epoch_seconds, restarts, on_epoch).run()

    def metrics(self) -> SinkMetrics:
        """Return counts since the sink was opened, and the rows that wait now."""
        return self._table.metrics()

    def aio(self) -> AsyncSink:
        """Return the same sink for use in an event loop."""
        return AsyncSink(self)

    def close(self) -> None:
        """Discard rows that were not committed, and end the threads."""
        self._committer.close()

    def _check_alone(self) -> None:
        if self._group is not None:
            what = f"The sink for {self.name} is one of a group."
            raise InvalidInput(what, hint="Commit the epoch of the group.", table=self.name)


class SinkGroup(Closing):
    """Sinks whose epochs are committed together: in all their tables, or in none.

    Iteration yields the sinks; `group[name]` is the sink of a table.
    """

    def __init__(self, sinks: Sequence[Sink]) -> None:
        _check_group(sinks)
        self._sinks = {s.name: s for s in sinks}
        first = sinks[0]
        tables = [s._table for s in sinks]
        gaps = all(s._gaps for s in sinks)
        self._committer = Committer(first._context, first._begin, tables, gaps=gaps)
        for sink in sinks:
            sink._committer = self._committer
            sink._group = self

    def __getitem__(self, name: str) -> Sink:
        try:
            return self._sinks[name]
        except KeyError:
            what = f"The group has no sink for {name!r}."
            hint = f"It has {', '.join(self._sinks)}."
            raise InvalidInput(what, hint=hint, table=name) from None

    def __iter__(self) -> Iterator[Sink]:
        return iter(self._sinks.values())

    def __len__(self) -> int:
        return len(self._sinks)

    @property
    def last_epoch(self) -> int | None:
        """The last epoch that all the tables have."""
        return self._committer.last

    @property
    def progress(self) -> Any:
        """The `progress` that was committed with the last epoch; None if there was none."""
        last = self.last_epoch
        return next((s.progress for s in self if s.last_epoch == last), None)

    def write(self, name: str, data: Any) -> None:
        """Add rows of a table to the current epoch; see `Sink.write`."""
        self[name].write(data)

    def commit_epoch(
        self, epoch: int, *, progress: Any = None, sources: Sequence[str] = ()
    ) -> EpochResult:
        """Commit everything written to the sinks since the last epoch, by one transaction.

        Only tables that do not have the epoch yet are changed. See `Sink.commit_epoch`.
        """
        return self._committer.commit(epoch, progress, sources)

    def submit_epoch(
        self, epoch: int, *, progress: Any = None, sources: Sequence[str] = ()
    ) -> Future[EpochResult]:
        """Commit as `commit_epoch` does, in the background; see `Sink.submit_epoch`."""
        return self._committer.submit(epoch, progress, sources)

    def discard(self) -> None:
        """Discard the rows written since the last epoch, so that they can be written again."""
        self._committer.discard()

    def aio(self) -> AsyncSinkGroup:
        """Return the same group for use in an event loop."""
        return AsyncSinkGroup(self)

    def close(self) -> None:
        """Close the sinks."""
        self._committer.close()


class AsyncSink(AsyncClosing):
    """A `Sink` whose calls are awaited.

    A task that writes waits only while there is no room, and other tasks run meanwhile. Commits run
    in a thread. A commit whose task is cancelled continues; commit the same epoch again to get its
    result.

    Attributes:
        sink: The sink itself, for attributes that need no waiting: `last_epoch`, `progress`.
    """

    def __init__(self, sink: Sink) -> None:
        self.sink = sink

    async def write(self, data: Any) -> None:
        """Add rows to the current epoch; see `Sink.write`."""
        # Converted once: a reader gives its rows only once.
        table = self.sink._table
        rows = table.accept(data)
        if not table.put(rows, wait=False):
            await asyncio.to_thread(table.put, rows)

    async def commit_epoch(
        self, epoch: int, *, progress: Any = None, sources: Sequence[str] = ()
    ) -> EpochResult:
        """Commit everything written since the last epoch; see `Sink.commit_epoch`."""
        commit = self.sink.commit_epoch
        return await asyncio.to_thread(commit, epoch, progress=progress, sources=sources)

    async def discard(self) -> None:
        """Discard the rows written since the last epoch, so that they can be written again."""
        await asyncio.to_thread(self.sink.discard)

    def metrics(self) -> SinkMetrics:
        """Return counts since the sink was opened, and the rows that wait now."""
        return self.sink.metrics()

    async def close(self) -> None:
        """Discard rows that were not committed, and end the threads."""
        await asyncio.to_thread(self.sink.close)


class AsyncSinkGroup(AsyncClosing):
    """A `SinkGroup` whose calls are awaited; `group[name]` is the `AsyncSink` of a table."""

    def __init__(self, group: SinkGroup) -> None:
        self.group = group

    def __getitem__(self, name: str) -> AsyncSink:
        return self.group[name].aio()

    async def write(self, name: str, data: Any) -> None:
        """Add rows of a table to the current epoch; see `Sink.write`."""
        await self[name].write(data)

    async def commit_epoch(
        self, epoch: int, *, progress: Any = None, sources: Sequence[str] = ()
    ) -> EpochResult:
        """Commit everything written to the sinks since the last epoch, by one transaction."""
        commit = self.group.commit_epoch
        return await asyncio.to_thread(commit, epoch, progress=progress, sources=sources)

    async def discard(self) -> None:
        """Discard the rows written since the last epoch, so that they can be written again."""
        await asyncio.to_thread(self.group.discard)

    async def close(self) -> None:
        """Close the sinks."""
        await asyncio.to_thread(self.group.close)


def _check_group(sinks: Sequence[Sink]) -> None:
    if not sinks or not all(isinstance(s, Sink) for s in sinks):
        what = "A group is made of sinks, one or more."
        raise InvalidInput(what, hint="Write lake.sinks([lake.sink(...), lake.sink(...)]).")
    names = [s.name for s in sinks]
    twice = next((n for n in names if names.count(n) > 1), None)
    if twice is not None:
        what = f"Two sinks of the group are for {twice}."
        raise InvalidInput(what, table=twice)
    for sink in sinks:
        sink._committer.check_open()
        if sink._group is not None or sink.metrics().written_batches or sink.metrics().commits:
            what = f"The sink for {sink.name} is in use already."
            raise InvalidInput(what, hint="Open it for the group.", table=sink.name)
        if sink._context is not sinks[0]._context:
            what = f"The sink for {sink.name} is of another lake."
            raise InvalidInput(what, table=sink.name)
        if not sink._table.writer.head.guarded and len(sinks) > 1:
            what = f"Table {sink.name} is not guarded, so it cannot commit together with others."
            raise InvalidInput(what, hint="Adopt it with guard=True.", table=sink.name)
