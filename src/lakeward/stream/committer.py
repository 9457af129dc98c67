"""Commits epochs of one or several tables, each by one transaction, exactly once.

One database transaction holds an epoch's rows, its number, and the check that no newer instance of
the writer has taken over. So an epoch is in the lake with its number or not at all, and an epoch
whose number is in the log is never committed again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from lakeward.context import LakeContext
from lakeward.errors import (
    EpochFailed,
    EpochOutOfOrder,
    Fenced,
    LakewardError,
    OutcomeUnknown,
    SinkClosed,
    UnsupportedFeature,
)
from lakeward.log.database import Session
from lakeward.model import arguments
from lakeward.model.clock import to_datetime
from lakeward.stream.epoch import CommitThread, Epoch, EpochResult
from lakeward.stream.table import Replayed, SinkTable
from lakeward.write.transaction.lifecycle import CommitResult
from lakeward.write.transaction.transaction import Transaction


@dataclass(eq=False)
class SealedEpoch:
    """An epoch to which no more rows are added; `tables` are those that its commit changes."""

    number: int
    epoch: Epoch
    rows: int
    progress: Any
    sources: Sequence[str] = ()
    tables: list[SinkTable] = field(default_factory=list)

    def apply(self, tables: Sequence[SinkTable]) -> None:
        """Add to the transaction the tables' changes, the epoch's number, and the fencing check."""
        transaction = self.epoch.transaction
        self.tables.extend(tables)
        for table in tables:
            table.apply(self.epoch)
            transaction.record(table.name, table.writer.writer_id, self.number)
            if self.sources:
                transaction.sources(table.name, files=self.sources)
        # All writers lock the rows in one order.
        ordered = sorted(tables, key=lambda t: t.writer.head.table_id)

        def record(session: Session) -> None:
            for table in ordered:
                table.writer.advance(
                    session, self.number, transaction.transaction_id, self.progress
                )

        transaction.on_ratify(record)

    def committed(self, done: CommitResult) -> EpochResult:
        """Record in the writers that the epoch was committed; return its result."""
        for table in self.tables:
            table.writer.last = self.number
            table.writer.progress = self.progress
        return EpochResult(
            self.number,
            replayed=False,
            transaction_id=done.transaction_id,
            versions=done.versions,
            rows=self.rows,
            timestamp=done.timestamp,
            published=done.published,
        )

    def replayed(self, context: LakeContext, tables: Sequence[SinkTable]) -> EpochResult:
        """Return the result for an epoch that all the tables already have."""
        found = [t.writer.committed(context, self.number) for t in tables]
        first = None if found[0] is None else found[0][1]
        return EpochResult(
            self.number,
            replayed=True,
            transaction_id=None if first is None else first.info.transaction_id,
            versions={name: commit.version for name, commit in filter(None, found)},
            rows=self.rows,
            timestamp=None if first is None else to_datetime(first.timestamp_ms),
        )


class Committer:
    """Commits the epochs of some tables, one after the other."""

    def __init__(
        self,
        context: LakeContext,
        begin: Callable[[], Transaction],
        tables: Sequence[SinkTable],
        *,
        gaps: bool,
    ) -> None:
        self._context = context
        self._begin = begin
        self._tables = tables
        self._gaps = gaps
        self._epoch = Epoch(begin)
        self._unknown: SealedEpoch | None = None
        """The epoch whose commit has an unknown outcome."""
        self._broken: BaseException | None = None
        self._submitted = 0
        self._thread = CommitThread()
        self._stale = False
        self._closed = False
        self._reason: BaseException | None = None
        # The first protects the order of epoch numbers, the second changes to the lake.
        self._order = threading.Lock()
        self._turn = threading.Lock()
        for table in tables:
            table.queue.start(self._epoch)

    @property
    def last(self) -> int | None:
        """The last epoch that is committed in every table of the sink; None if there is none."""
        found = [t.writer.last for t in self._tables]
        return None if None in found else min(n for n in found if n is not None)

    def commit(self, number: int, progress: Any, sources: Sequence[str]) -> EpochResult:
        """Commit the rows written since the last epoch; see `Sink.commit_epoch`."""
        number = arguments.whole(number, "epoch")
        with self._order:
            if self._thread.is_busy:
                submitted = self._submit(number, progress, sources)
            else:
                with self._turn:
                    self._check(number, progress)
                    return self._carry_out(self._seal(number, progress, sources))
        return submitted.result()

    def submit(self, number: int, progress: Any, sources: Sequence[str]) -> Future[EpochResult]:
        """Commit in the background; see `Sink.submit_epoch`."""
        number = arguments.whole(number, "epoch")
        with self._order:
            return self._submit(number, progress, sources)

    def discard(self) -> None:
        """Wait for submitted epochs, then discard rows written since; see `Sink.discard`."""
        with self._order:
            self._thread.wait()
            with self._turn:
                self.check_open()
                if self._unknown is not None:
                    try:
                        self._finish(self._unknown)
                    except OutcomeUnknown:
                        raise
                    except LakewardError:
                        self.check_open()
                self._start_over()
                self._broken = None

    def close(self, reason: BaseException | None = None) -> None:
        """Discard rows that were not committed or submitted, and accept no more rows."""
        with self._order:
            self._thread.close()
            with self._turn:
                self._close(reason)

    def check_open(self) -> None:
        """Raise `SinkClosed` if the committer is closed, or `Fenced` if that was the reason."""
        if not self._closed:
            return
        if isinstance(self._reason, Fenced):
            raise Fenced(self._reason.what, hint=self._reason.hint, **self._reason.facts)
        what = f"The sink for {self._names} is closed."
        raise SinkClosed(what, hint="Open a new one.") from self._reason

    @property
    def _names(self) -> str:
        return ", ".join(t.name for t in self._tables)

    # Callers hold the lock `_order`.

    def _submit(self, number: int, progress: Any, sources: Sequence[str]) -> Future[EpochResult]:
        if not self._thread.is_busy:
            with self._turn:
                self._check(number, progress)
        else:
            self._check_next(number)
            _check_progress(self._tables, progress)
        sealed = self._seal(number, progress, sources, hand_on=True)
        return self._thread.submit(lambda: self._carry_out_submitted(sealed))

    def _seal(
        self, number: int, progress: Any, sources: Sequence[str], *, hand_on: bool = False
    ) -> SealedEpoch:
        """End the current epoch, and begin the next; return the ended one.

        If the outcome of an earlier commit is unknown, return that epoch instead.
        """
        if self._unknown is not None:
            return self._unknown
        sealed, self._epoch = self._epoch, Epoch(self._begin)
        rows = sum(t.queue.seal(self._epoch, hand_on=hand_on) for t in self._tables)
        self._submitted = number
        return SealedEpoch(number, sealed, rows, progress, arguments.texts(sources, "sources"))

    def _check_next(self, number: int) -> None:
        """Check the number of an epoch that follows one that is not committed yet."""
        self._check_broken()
        before = self._submitted
        if number <= before or (number > before + 1 and not self._gaps):
            what = f"Epoch {number} does not follow epoch {before}, which is under way."
            raise EpochOutOfOrder(
                what, hint="Wait for it.", epoch=number, last=before, expected=before + 1
            )

    def _check_broken(self) -> None:
        if self._broken is not None:
            what = f"An epoch of {self._names} that was submitted before failed: {self._broken}"
            hint = "Call discard(), and write again what comes after last_epoch."
            raise EpochFailed(what, hint=hint) from self._broken

    # Callers hold the lock `_turn`.

    def _check(self, number: int, progress: Any) -> None:
        self.check_open()
        self._check_broken()
        if self._unknown is not None and number != self._unknown.number:
            what = f"It is not known yet whether epoch {self._unknown.number} was committed."
            hint = f"Call commit_epoch({self._unknown.number}) again."
            raise EpochOutOfOrder(what, hint=hint, epoch=number, last=self.last)
        if self._stale:
            for table in self._tables:
                table.writer.refresh(self._context)
            self._stale = False
        _without(self._tables, number, gaps=self._gaps)
        _check_progress(self._tables, progress)

    def _carry_out_submitted(self, sealed: SealedEpoch) -> EpochResult:
        """Commit a submitted epoch; if it fails, those submitted after it fail too."""
        with self._turn:
            try:
                self.check_open()
                self._check_broken()
                return self._carry_out(sealed)
            except BaseException as error:
                if self._broken is None:
                    self._broken = error
                    self._fail_queues(error)
                if sealed is not self._unknown:
                    self._abandon(sealed.epoch)
                raise

    def _carry_out(self, sealed: SealedEpoch) -> EpochResult:
        started = time.perf_counter()
        result = None if sealed is self._unknown else self._apply(sealed)
        if result is None:
            result = self._finish(sealed)
        taken = time.perf_counter() - started
        for table in self._tables:
            if result.replayed:
                table.replayed(sealed.epoch)
            else:
                table.committed(sealed.epoch, taken)
        return result

    def _apply(self, sealed: SealedEpoch) -> EpochResult | None:
        """Stage all rows and change the tables; return a result only if all have the epoch."""
        try:
            missing = _without(self._tables, sealed.number, gaps=self._gaps)
            for table in self._tables:
                if table in missing:
                    table.queue.drain(sealed.epoch)
                else:
                    table.queue.drop(sealed.epoch)
            if missing:
                sealed.apply(missing)
                return None
            sealed.epoch.roll_back()
            return sealed.replayed(self._context, self._tables)
        except BaseException as error:
            self._failed(sealed.epoch, error)
            raise

    def _finish(self, sealed: SealedEpoch) -> EpochResult:
        """Commit the epoch's transaction; return the result."""
        try:
            done = sealed.epoch.transaction.commit()
        except OutcomeUnknown:
            self._unknown = sealed
            raise
        except Replayed:
            self._unknown, self._stale = None, True
            return sealed.replayed(self._context, self._tables)
        except BaseException as error:
            self._unknown = None
            self._failed(sealed.epoch, error)
            raise
        self._unknown = None
        return sealed.committed(done)

    def _failed(self, epoch: Epoch, error: BaseException) -> None:
        """Discard a failed epoch, with the rows that were written after it."""
        for table in self._tables:
            table.meter.add(failures=1)
        self._stale = True
        if isinstance(error, Fenced):
            self._close(error)
            return
        self._abandon(epoch)
        if self._thread.is_busy or any(t.queue.fresh for t in self._tables):
            # Later rows must not be committed without the lost ones, so the next `write` fails.
            self._fail_queues(error)
        else:
            self._start_over()

    def _fail_queues(self, error: BaseException) -> None:
        for table in self._tables:
            table.queue.fail(error)

    def _abandon(self, epoch: Epoch) -> None:
        for table in self._tables:
            table.queue.drop(epoch)
        with suppress(LakewardError):
            epoch.roll_back()

    def _start_over(self) -> None:
        dropped, self._epoch = self._epoch, Epoch(self._begin)
        for table in self._tables:
            table.queue.clear(self._epoch)
        with suppress(LakewardError):
            dropped.roll_back()

    def _close(self, reason: BaseException | None) -> None:
        if self._closed:
            return
        self._closed, self._reason = True, reason
        for table in self._tables:
            table.queue.close()
        with suppress(LakewardError):
            self._epoch.roll_back()


def _without(tables: Sequence[SinkTable], number: int, *, gaps: bool) -> list[SinkTable]:
    """Return the tables without an epoch; raise `EpochOutOfOrder` if one would skip an epoch."""
    found = []
    for table in tables:
        last = table.writer.last
        if last is not None and number <= last:
            continue
        if last is not None and number > last + 1 and not gaps:
            what = f"Epoch {number} does not follow epoch {last}, the last one of {table.name}."
            hint = f"Commit epoch {last + 1} first, or open the sink with gaps=True."
            raise EpochOutOfOrder(
                what,
                hint=hint,
                table=table.name,
                writer_id=table.writer.writer_id,
                epoch=number,
                last=last,
                expected=last + 1,
            )
        found.append(table)
    return found


def _check_progress(tables: Sequence[SinkTable], progress: Any) -> None:
    """Raise unless progress can be recorded: it is a mapping and all tables are guarded."""
    if progress is None:
        return
    unguarded = next((t.name for t in tables if not t.writer.head.guarded), None)
    if unguarded is not None:
        what = f"Table {unguarded} is not guarded, so nothing is recorded with its epochs."
        raise UnsupportedFeature(what, hint="Adopt it with guard=True.", table=unguarded)
    arguments.mapping(progress, "progress")
