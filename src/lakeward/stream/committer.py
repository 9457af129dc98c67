"""Epochs of one or several tables, each committed by one transaction, once.

An epoch's rows, its number and the check that no newer instance of the writer took over are in one
database transaction. So an epoch is in the lake with its number or not at all, and an epoch whose
number is there is not committed again, whoever tries.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from lakeward.errors import (
    EpochOutOfOrder,
    Fenced,
    LakewardError,
    OutcomeUnknown,
    SinkClosed,
    UnsupportedFeature,
)
from lakeward.log.database import Session
from lakeward.model import arguments
from lakeward.read.parts import Parts
from lakeward.stream.epoch import Epoch
from lakeward.stream.identity import Replayed
from lakeward.stream.inlet import Inlet
from lakeward.stream.result import EpochResult
from lakeward.write.transaction import Transaction


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A commit whose outcome is not known yet."""

    number: int
    epoch: Epoch
    inlets: Sequence[Inlet]
    rows: int
    progress: Any


class Committer:
    """Commits the epochs of some tables, one after the other."""

    def __init__(
        self,
        parts: Parts,
        begin: Callable[[], Transaction],
        inlets: Sequence[Inlet],
        *,
        gaps: bool,
    ) -> None:
        self._parts = parts
        self._begin = begin
        self._inlets = inlets
        self._gaps = gaps
        self._epoch = Epoch(begin)
        self._doubtful: _Attempt | None = None
        self._stale = False
        self._closed = False
        self._reason: BaseException | None = None
        self._turn = threading.Lock()
        for inlet in inlets:
            inlet.queue.start(self._epoch)

    @property
    def last(self) -> int | None:
        """The last epoch that is in all the tables."""
        found = [i.identity.last for i in self._inlets]
        return None if None in found else min(n for n in found if n is not None)

    def commit(self, number: int, progress: Any) -> EpochResult:
        """Commit what was written since the last epoch.

        Raises:
            EpochOutOfOrder: The number does not follow the last one. What was written is kept.
            EpochFailed: Rows could not be staged. What was written is lost.
            Fenced: A newer instance took over. What was written is lost.
            OutcomeUnknown: The store stayed silent. Call it again with the same number.
        """
        number = arguments.whole(number, "epoch")
        with self._turn:
            started = time.perf_counter()
            self.check_open()
            result = self._commit(number, progress)
            taken = time.perf_counter() - started
            for inlet in self._inlets:
                if result.replayed:
                    inlet.meter.add(replays=1)
                else:
                    inlet.meter.add(commits=1, commit_seconds=taken, commit_seconds_most=taken)
            return result

    def discard(self) -> None:
        """Throw away what was written since the last epoch.

        Raises:
            OutcomeUnknown: It is still not known what became of the last commit.
        """
        with self._turn:
            self.check_open()
            if self._doubtful is not None:
                try:
                    self._settle(self._doubtful)
                except OutcomeUnknown:
                    raise
                except LakewardError:
                    self.check_open()
            self._start_over()

    def close(self, reason: BaseException | None = None) -> None:
        """Throw away what was not committed, and take nothing any more."""
        with self._turn:
            self._close(reason)

    def check_open(self) -> None:
        """Raise when it was closed.

        Raises:
            SinkClosed: It was; `Fenced` where that is why.
        """
        if not self._closed:
            return
        names = ", ".join(i.name for i in self._inlets)
        what = f"The sink for {names} is closed."
        if isinstance(self._reason, Fenced):
            raise Fenced(self._reason.what, hint=self._reason.hint, **self._reason.facts)
        raise SinkClosed(what, hint="Open a new one.") from self._reason

    # With the turn held.

    def _commit(self, number: int, progress: Any) -> EpochResult:
        if self._doubtful is not None:
            if number != self._doubtful.number:
                what = f"It is not known yet whether epoch {self._doubtful.number} was committed."
                hint = f"Call commit_epoch({self._doubtful.number}) again."
                raise EpochOutOfOrder(what, hint=hint, epoch=number, last=self.last)
            return self._settle(self._doubtful)
        if self._stale:
            for inlet in self._inlets:
                inlet.identity.refresh(self._parts)
            self._stale = False
        wanted = self._wanted(number)
        self._check_progress(progress)
        sealed, self._epoch = self._epoch, Epoch(self._begin)
        rows = sum(i.queue.seal(self._epoch) for i in self._inlets)
        attempt = _Attempt(number, sealed, wanted, rows, progress)
        try:
            for inlet in self._inlets:
                if inlet in wanted:
                    inlet.queue.drain(sealed)
                else:
                    inlet.queue.drop(sealed)
            if not wanted:
                sealed.roll_back()
                return self._replayed(number, rows)
            self._compose(attempt)
        except BaseException as error:
            self._failed(sealed, error)
            raise
        return self._settle(attempt)

    def _wanted(self, number: int) -> list[Inlet]:
        """The tables that do not have the epoch yet."""
        wanted = []
        for inlet in self._inlets:
            last = inlet.identity.last
            if last is not None and number <= last:
                continue
            if last is not None and number > last + 1 and not self._gaps:
                what = f"Epoch {number} does not follow epoch {last}, the last one of {inlet.name}."
                hint = f"Commit epoch {last + 1} first, or open the sink with gaps=True."
                raise EpochOutOfOrder(
                    what,
                    hint=hint,
                    table=inlet.name,
                    writer_id=inlet.identity.writer_id,
                    epoch=number,
                    last=last,
                    expected=last + 1,
                )
            wanted.append(inlet)
        return wanted

    def _check_progress(self, progress: Any) -> None:
        if progress is None:
            return
        open_tables = [i.name for i in self._inlets if not i.identity.head.guarded]
        if open_tables:
            what = f"Table {open_tables[0]} is not guarded, so nothing is recorded with its epochs."
            raise UnsupportedFeature(what, hint="Adopt it with guard=True.", table=open_tables[0])
        arguments.mapping(progress, "progress")

    def _compose(self, attempt: _Attempt) -> None:
        transaction = attempt.epoch.transaction
        for inlet in attempt.inlets:
            inlet.settle(attempt.epoch)
            transaction.record(inlet.name, inlet.identity.writer_id, attempt.number)
        # In one order, whoever commits: they lock rows.
        ordered = sorted(attempt.inlets, key=lambda i: i.identity.head.table_id)

        def record(session: Session) -> None:
            for inlet in ordered:
                inlet.identity.advance(
                    session, attempt.number, transaction.transaction_id, attempt.progress
                )

        transaction.along(record)

    def _settle(self, attempt: _Attempt) -> EpochResult:
        try:
            done = attempt.epoch.transaction.commit()
        except OutcomeUnknown:
            self._doubtful = attempt
            raise
        except Replayed:
            self._doubtful, self._stale = None, True
            return self._replayed(attempt.number, attempt.rows)
        except BaseException as error:
            self._doubtful = None
            self._failed(attempt.epoch, error)
            raise
        self._doubtful = None
        for inlet in attempt.inlets:
            inlet.identity.last = attempt.number
            inlet.identity.progress = attempt.progress
        return EpochResult(
            attempt.number,
            replayed=False,
            transaction_id=done.transaction_id,
            versions=done.versions,
            rows=attempt.rows,
            timestamp=done.timestamp,
            published=done.published,
        )

    def _replayed(self, number: int, rows: int) -> EpochResult:
        found = [i.identity.committed(self._parts, number, rows) for i in self._inlets]
        versions = {name: v for result in found for name, v in result.versions.items()}
        return EpochResult(
            number,
            replayed=True,
            transaction_id=found[0].transaction_id,
            versions=versions,
            rows=rows,
            timestamp=found[0].timestamp,
        )

    def _failed(self, epoch: Epoch, error: BaseException) -> None:
        """What was written is lost; where later rows came in meanwhile, they are lost, too."""
        for inlet in self._inlets:
            inlet.meter.add(failures=1)
        self._stale = True
        if isinstance(error, Fenced):
            self._close(error)
            return
        for inlet in self._inlets:
            inlet.queue.drop(epoch)
        with suppress(LakewardError):
            epoch.roll_back()
        if any(i.queue.fresh for i in self._inlets):
            # Their producer has to learn that they cannot be committed before what was lost.
            for inlet in self._inlets:
                inlet.queue.fail(error)
        else:
            self._start_over()

    def _start_over(self) -> None:
        dropped, self._epoch = self._epoch, Epoch(self._begin)
        for inlet in self._inlets:
            inlet.queue.clear(self._epoch)
        with suppress(LakewardError):
            dropped.roll_back()

    def _close(self, reason: BaseException | None) -> None:
        if self._closed:
            return
        self._closed, self._reason = True, reason
        for inlet in self._inlets:
            inlet.queue.close()
        with suppress(LakewardError):
            self._epoch.roll_back()
