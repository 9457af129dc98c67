"""Epochs of one or several tables, each committed by one transaction, once.

An epoch's rows, its number and the check that no newer instance of the writer took over are in one
database transaction. So an epoch is in the lake with its number or not at all, and an epoch whose
number is there is not committed again, whoever tries.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from lakeward.context import LakeContext
from lakeward.errors import (
    EpochFailed,
    EpochOutOfOrder,
    Fenced,
    LakewardError,
    OutcomeUnknown,
    SinkClosed,
)
from lakeward.model import arguments
from lakeward.stream.attempt import Attempt, check_progress, replayed, wanted
from lakeward.stream.epoch import Epoch
from lakeward.stream.identity import Replayed
from lakeward.stream.inlet import Inlet
from lakeward.stream.result import EpochResult
from lakeward.stream.underway import Underway
from lakeward.write.transaction.transaction import Transaction


class Committer:
    """Commits the epochs of some tables, one after the other."""

    def __init__(
        self,
        context: LakeContext,
        begin: Callable[[], Transaction],
        inlets: Sequence[Inlet],
        *,
        gaps: bool,
    ) -> None:
        self._context = context
        self._begin = begin
        self._inlets = inlets
        self._gaps = gaps
        self._epoch = Epoch(begin)
        self._doubtful: Attempt | None = None
        self._broken: BaseException | None = None
        self._submitted = 0
        self._underway = Underway()
        self._stale = False
        self._closed = False
        self._reason: BaseException | None = None
        # Who numbers epochs holds the order; who changes the lake for them, the turn.
        self._order = threading.Lock()
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
        with self._order:
            if self._underway.is_busy:
                behind = self._submit(number, progress)
            else:
                with self._turn:
                    self._check(number, progress)
                    return self._carry_out(self._attempt(number, progress))
        return behind.result()

    def submit(self, number: int, progress: Any) -> Future[EpochResult]:
        """The same behind the caller, after the epochs that were submitted before.

        When one fails, those behind it fail too, and nothing is taken until `discard`.

        Raises:
            EpochOutOfOrder: The number does not follow the one before.
            EpochFailed: An epoch that was submitted before failed.
        """
        number = arguments.whole(number, "epoch")
        with self._order:
            return self._submit(number, progress)

    def discard(self) -> None:
        """Throw away what was written since the last epoch, when none is under way.

        Raises:
            OutcomeUnknown: It is still not known what became of the last commit.
        """
        with self._order:
            self._underway.wait()
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
                self._broken = None

    def close(self, reason: BaseException | None = None) -> None:
        """Throw away what was not committed or submitted, and take nothing any more."""
        with self._order:
            self._underway.close()
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

    # With the order held.

    def _submit(self, number: int, progress: Any) -> Future[EpochResult]:
        if not self._underway.is_busy:
            with self._turn:
                self._check(number, progress)
        else:
            self._check_next(number)
            check_progress(self._inlets, progress)
        attempt = self._attempt(number, progress, ahead=True)
        return self._underway.add(lambda: self._behind(attempt))

    def _attempt(self, number: int, progress: Any, *, ahead: bool = False) -> Attempt:
        """End the epoch: what is written from now on belongs to the next.

        One whose outcome is not known was ended before.
        """
        if self._doubtful is not None:
            return self._doubtful
        sealed, self._epoch = self._epoch, Epoch(self._begin)
        rows = sum(i.queue.seal(self._epoch, hand_on=ahead) for i in self._inlets)
        self._submitted = number
        return Attempt(number, sealed, rows, progress)

    def _check_next(self, number: int) -> None:
        """A number that follows one which is still under way."""
        self._check_broken()
        before = self._submitted
        if number <= before or (number > before + 1 and not self._gaps):
            what = f"Epoch {number} does not follow epoch {before}, which is under way."
            raise EpochOutOfOrder(
                what, hint="Wait for it.", epoch=number, last=before, expected=before + 1
            )

    def _check_broken(self) -> None:
        if self._broken is not None:
            names = ", ".join(i.name for i in self._inlets)
            what = f"An epoch of {names} that was submitted before failed: {self._broken}"
            hint = "Call discard(), and write again what comes after last_epoch."
            raise EpochFailed(what, hint=hint) from self._broken

    # With the turn held.

    def _check(self, number: int, progress: Any) -> None:
        self.check_open()
        self._check_broken()
        if self._doubtful is not None and number != self._doubtful.number:
            what = f"It is not known yet whether epoch {self._doubtful.number} was committed."
            hint = f"Call commit_epoch({self._doubtful.number}) again."
            raise EpochOutOfOrder(what, hint=hint, epoch=number, last=self.last)
        if self._stale:
            for inlet in self._inlets:
                inlet.identity.refresh(self._context)
            self._stale = False
        wanted(self._inlets, number, gaps=self._gaps)
        check_progress(self._inlets, progress)

    def _behind(self, attempt: Attempt) -> EpochResult:
        """Carry out an attempt that was submitted; a failure stops those behind it."""
        with self._turn:
            try:
                self.check_open()
                self._check_broken()
                return self._carry_out(attempt)
            except BaseException as error:
                if self._broken is None:
                    self._broken = error
                    for inlet in self._inlets:
                        inlet.queue.fail(error)
                if attempt is not self._doubtful:
                    self._abandon(attempt.epoch)
                raise

    def _carry_out(self, attempt: Attempt) -> EpochResult:
        started = time.perf_counter()
        result = None if attempt is self._doubtful else self._composed(attempt)
        if result is None:
            result = self._settle(attempt)
        taken = time.perf_counter() - started
        for inlet in self._inlets:
            if result.replayed:
                inlet.meter.add(replays=1)
            else:
                inlet.meter.add(commits=1, commit_seconds=taken, commit_seconds_most=taken)
        return result

    def _composed(self, attempt: Attempt) -> EpochResult | None:
        """Stage all of an epoch and say what it does; the result of one that is there already."""
        sealed = attempt.epoch
        try:
            missing = wanted(self._inlets, attempt.number, gaps=self._gaps)
            for inlet in self._inlets:
                if inlet in missing:
                    inlet.queue.drain(sealed)
                else:
                    inlet.queue.drop(sealed)
            if missing:
                attempt.compose(missing)
                return None
            sealed.roll_back()
            return replayed(self._context, self._inlets, attempt)
        except BaseException as error:
            self._failed(sealed, error)
            raise

    def _settle(self, attempt: Attempt) -> EpochResult:
        try:
            done = attempt.epoch.transaction.commit()
        except OutcomeUnknown:
            self._doubtful = attempt
            raise
        except Replayed:
            self._doubtful, self._stale = None, True
            return replayed(self._context, self._inlets, attempt)
        except BaseException as error:
            self._doubtful = None
            self._failed(attempt.epoch, error)
            raise
        self._doubtful = None
        return attempt.committed(done)

    def _failed(self, epoch: Epoch, error: BaseException) -> None:
        """What was written is lost; where later rows came in meanwhile, they are lost, too."""
        for inlet in self._inlets:
            inlet.meter.add(failures=1)
        self._stale = True
        if isinstance(error, Fenced):
            self._close(error)
            return
        self._abandon(epoch)
        if self._underway.is_busy or any(i.queue.fresh for i in self._inlets):
            # Their producer has to learn that they cannot be committed before what was lost.
            for inlet in self._inlets:
                inlet.queue.fail(error)
        else:
            self._start_over()

    def _abandon(self, epoch: Epoch) -> None:
        for inlet in self._inlets:
            inlet.queue.drop(epoch)
        with suppress(LakewardError):
            epoch.roll_back()

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
