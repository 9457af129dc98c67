"""Runs a plan unit by unit, within a budget, and records the run in the log.

A killed run is shown as interrupted once its lease has expired. Each unit is done completely or not
at all, so the next run of the same kind makes a new plan and continues.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from lakeward.context import LakeContext
from lakeward.errors import LakewardError
from lakeward.log import jobs
from lakeward.log.jobs import LEASE_MS, Job
from lakeward.model import event_names
from lakeward.model.commit import new_transaction_id
from lakeward.model.duration import to_milliseconds
from lakeward.model.maintenance import Done, JobRecord, JobState, Plan, Unit

Progress: TypeAlias = Callable[[int, int | None], None]
"""A function that is called with the number of units done, and the number of all units."""
Execute: TypeAlias = Callable[[Unit], Done]
"""A function that does one unit and returns what it did."""

_LOG = logging.getLogger(__name__)
_PROCESS: Final = f"{socket.gethostname()}:{os.getpid()}"


@dataclass(frozen=True, slots=True)
class Budget:
    """A deadline after which no unit begins; `None` for no deadline."""

    deadline: float | None = None

    @classmethod
    def of(cls, length: object) -> Budget:
        """Return a budget that begins now: `30m`, seconds, a `timedelta`, or None."""
        if length is None:
            return cls()
        return cls(time.monotonic() + to_milliseconds(length, "budget") / 1000)

    @property
    def is_spent(self) -> bool:
        """Whether the deadline has passed."""
        return self.deadline is not None and time.monotonic() >= self.deadline

    @property
    def seconds_left(self) -> float | None:
        """The seconds until the deadline, at least 0; None without a deadline."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())


def run(
    context: LakeContext,
    plan: Plan,
    execute: Execute,
    *,
    budget: Budget | None = None,
    progress: Progress | None = None,
) -> JobRecord:
    """Run the units of a plan in order, and record the run.

    Args:
        context: The lake.
        plan: What to do.
        execute: Does one unit. An error ends the run as failed and is raised again.
        budget: No unit begins after the deadline, but at least one unit is tried.
        progress: Called after each unit.
    """
    limit = budget or Budget()
    with _begun(context, plan) as current:
        for number, unit in enumerate(plan.units):
            if number and limit.is_spent:
                return current.end(JobState.STOPPED)
            current.add(execute(unit))
            if progress is not None:
                progress(number + 1, len(plan.units))
        return current.end(JobState.DONE if plan.units else JobState.NOTHING)


class _Current:
    """The row of the current run."""

    def __init__(self, context: LakeContext, row: Job) -> None:
        self._context = context
        self._row = row

    def add(self, done: Done) -> None:
        """Record one more completed unit."""
        row = self._row
        self._put(replace(row, units_done=row.units_done + 1, done=row.done.plus(done)))

    def end(self, state: JobState, error: str | None = None) -> JobRecord:
        """Record how the run ended; return its record."""
        with self._context.database.read() as session:
            now = self._context.database.clock_ms(session)
        self._put(replace(self._row, state=state.value, ended_ms=now, error=error))
        ended = jobs.record(self._row, now)
        self._context.counters.add(f"jobs_{state.value}")
        self._context.counters.time(f"job_{self._row.kind}", ended.seconds)
        self._context.events.deliver(event_names.MAINTENANCE, ended)
        return ended

    def _put(self, row: Job) -> None:
        self._row = row
        with self._context.database.write(durable=row.ended_ms is not None) as session:
            now = self._context.database.clock_ms(session)
            jobs.update(session, replace(row, lease_until_ms=now + LEASE_MS))


@contextmanager
def _begun(context: LakeContext, plan: Plan) -> Generator[_Current]:
    with context.database.write(durable=False) as session:
        now = context.database.clock_ms(session)
        row = Job(
            job_id=new_transaction_id(),
            kind=plan.kind,
            table_name=plan.table,
            state=JobState.RUNNING.value,
            actor=context.actor,
            process=_PROCESS,
            started_ms=now,
            ended_ms=None,
            lease_until_ms=now + LEASE_MS,
            units=len(plan.units),
            units_done=0,
            done=Done(),
            error=None,
        )
        jobs.insert(session, row)
    current, stop = _Current(context, row), threading.Event()
    keeper = threading.Thread(target=_keep, args=(context, row.job_id, stop), daemon=True)
    keeper.start()
    try:
        yield current
    except BaseException as error:
        try:
            current.end(JobState.FAILED, f"{type(error).__name__}: {error}")
        except LakewardError as failure:
            _LOG.warning("The run %s could not be recorded as failed: %s", row.job_id, failure)
        raise
    finally:
        stop.set()


def _keep(context: LakeContext, job_id: str, stop: threading.Event) -> None:
    """Renew a run's lease until `stop`, however long its units take."""
    while not stop.wait(LEASE_MS / 3000):
        try:
            with context.database.write(durable=False) as session:
                jobs.extend(session, job_id, context.database.clock_ms(session))
        except LakewardError as error:
            _LOG.warning("The lease of run %s could not be renewed: %s", job_id, error)
