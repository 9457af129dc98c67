"""Maintenance runs: what each planned, did and saved. A running one renews a lease."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

from lakeward.log.codec import dumps, loads
from lakeward.log.database import Session
from lakeward.log.statement import Statement, insertion
from lakeward.log.tables import job
from lakeward.model.clock import to_datetime
from lakeward.model.maintenance import Done, JobRecord, JobState

LEASE_MS: Final = 60_000
_INSERT = insertion(job, "")
_COLUMNS = ", ".join(job.columns)
_UPDATE = Statement(
    """UPDATE lakeward_job SET state = :state, ended_ms = :ended_ms, lease_until_ms = :until,
      units_done = :units_done, done = :done, error = :error WHERE job_id = :job_id"""
)
_EXTEND = Statement(
    "UPDATE lakeward_job SET lease_until_ms = :until WHERE job_id = :job_id AND state = 'running'"
)
_NEWEST = Statement(
    f"""SELECT {_COLUMNS} FROM lakeward_job
    WHERE (:any_kind = '' OR kind = :kind) AND (:any_table = '' OR table_name = :table_name)
    ORDER BY started_ms DESC, job_id DESC LIMIT :limit"""  # noqa: S608  our names
)


@dataclass(frozen=True, slots=True)
class Job:
    """The row of a maintenance run."""

    job_id: str
    kind: str
    table_name: str | None
    state: str
    actor: str
    process: str
    started_ms: int
    ended_ms: int | None
    lease_until_ms: int
    units: int
    units_done: int
    done: Done
    error: str | None


def insert(session: Session, new: Job) -> None:
    """Insert a new maintenance run."""
    session.run(_INSERT, {**asdict(new), "done": dumps(asdict(new.done))})


def update(session: Session, new: Job) -> None:
    """Record the progress of a run, or how it ended."""
    session.run(
        _UPDATE,
        {
            "job_id": new.job_id,
            "state": new.state,
            "ended_ms": new.ended_ms,
            "until": new.lease_until_ms,
            "units_done": new.units_done,
            "done": dumps(asdict(new.done)),
            "error": new.error,
        },
    )


def extend(session: Session, job_id: str, now: int) -> None:
    """Renew the lease of a run."""
    session.run(_EXTEND, {"job_id": job_id, "until": now + LEASE_MS})


def newest(
    session: Session, now: int, *, kind: str | None, table: str | None, limit: int
) -> list[JobRecord]:
    """Return the newest runs, of one kind or table or of all, newest first."""
    names = {"any_kind": kind or "", "kind": kind or ""}
    names |= {"any_table": table or "", "table_name": table or ""}
    return [record(_job(row), now) for row in session.rows(_NEWEST, {**names, "limit": limit})]


def record(source: Job, now: int) -> JobRecord:
    """Return a run as users see it; a run whose lease has expired is shown as interrupted."""
    state, ended = JobState(source.state), source.ended_ms
    if state is JobState.RUNNING and source.lease_until_ms < now:
        state, ended = JobState.INTERRUPTED, source.lease_until_ms
    return JobRecord(
        job=source.job_id,
        kind=source.kind,
        table=source.table_name,
        state=state,
        actor=source.actor,
        started=to_datetime(source.started_ms),
        seconds=max(0, (now if ended is None else ended) - source.started_ms) / 1000,
        units=source.units,
        units_done=source.units_done,
        done=source.done,
        error=source.error,
    )


def _job(row: Any) -> Job:
    values = dict(zip(job.columns, row, strict=True))
    return Job(**{**values, "done": Done(**loads(values["done"]))})
