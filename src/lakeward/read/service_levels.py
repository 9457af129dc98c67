"""Computes from the log how far service levels are kept."""

from __future__ import annotations

from lakeward.log import heads, queries, service_levels
from lakeward.log.database import Session
from lakeward.model.clock import to_datetime
from lakeward.model.maintenance import JobState
from lakeward.model.names import TableName
from lakeward.model.service_levels import (
    Attainment,
    Objective,
    ServiceLevel,
    ServiceLevelRecord,
    attainment,
    counted,
    fresh_and_stale,
)

_RATIFIED = "ratified"


def declared(session: Session) -> list[ServiceLevelRecord]:
    """Return all service levels, by name."""
    return [
        ServiceLevelRecord(name, body, actor, to_datetime(at))
        for name, body, actor, at in service_levels.every(session)
    ]


def attained(session: Session, now: int) -> list[Attainment]:
    """Return how far each service level is kept over its window until now."""
    levels = [ServiceLevel.of(name, body) for name, body, _, _ in service_levels.every(session)]
    return [attainment(level, *_good_and_bad(session, level, now)) for level in levels]


def _good_and_bad(session: Session, level: ServiceLevel, now: int) -> tuple[float, float]:
    since = now - int(level.window.total_seconds() * 1000)
    match level.objective:
        case Objective.RUN_DURATION:
            runs = service_levels.runs(session, level.subject, since)
            return counted(s == _RATIFIED and took <= level.limit for took, s in runs)
        case Objective.RUN_SUCCESS:
            runs = service_levels.runs(session, level.subject, since)
            return counted(state == _RATIFIED for _, state in runs)
        case Objective.MAINTENANCE:
            jobs = service_levels.jobs(session, level.subject, since)
            return counted(state != JobState.FAILED and took <= level.limit for took, state in jobs)
    head = heads.find(session, TableName.parse(level.subject))
    if head is None:
        return 0.0, 0.0
    if level.objective is Objective.FRESHNESS:
        moments = service_levels.changed_since(session, head.table_id, since)
        return fresh_and_stale(moments, since, now, level.limit)
    if level.objective is Objective.QUERY_LATENCY:
        reads = queries.took(session, head.table_id, since)
        return counted(took <= level.limit for took in reads)
    done = service_levels.transactions(session, head.table_id, since)
    if level.objective is Objective.COMMIT_LATENCY:
        return counted(took <= level.limit for took, _ in done)
    return counted(rows * 1000 >= level.limit * max(took, 1) for took, rows in done if rows)
