"""What needs attention in the lake, from what the lake records and measures anyway."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from lakeward.web.access import Caller
from lakeward.web.seen import seen_jobs, seen_levels, seen_quality, seen_runs

_STUCK_SECONDS: Final = 60.0
"""A commit is published at once; one that is not after this time is reported."""
_READ: Final = 100


@dataclass(frozen=True, slots=True)
class Alert:
    """One thing that needs attention.

    Attributes:
        kind: `service level`, `publication`, `expectation`, `maintenance` or `pipeline`.
        subject: The table or the pipeline.
        what: What is wrong.
        place: The path of the page with more about it.
    """

    kind: str
    subject: str
    what: str
    place: str


def alerts(by: Caller) -> list[Alert]:
    """Return what needs attention in tables that the caller has access to, by kind."""
    return [*_levels(by), *_publications(by), *_expectations(by), *_jobs(by), *_runs(by)]


def _levels(by: Caller) -> Iterator[Alert]:
    for one in seen_levels(by):
        if one.kept is False:
            share = "" if one.attained is None else f", kept for {one.attained:.2%}"
            what = f"{one.name} is not kept: {one.wanted}{share} of the time"
            yield Alert("service level", one.subject, what, "/quality")


def _publications(by: Caller) -> Iterator[Alert]:
    for one in by.lake.unpublished():
        if one.seconds > _STUCK_SECONDS and by.sees(one.table):
            what = f"Committed versions are not published since {one.seconds:.0f} seconds"
            place = f"/tables/{quote(one.table, safe='')}"
            yield Alert("publication", one.table, what, place)


def _expectations(by: Caller) -> Iterator[Alert]:
    for quality in seen_quality(by):
        for one in quality.measurements:
            if one.passed is False:
                what = f"{one.name} is not met in version {one.version}: {one.wanted}"
                place = f"/tables/{quote(quality.table, safe='')}/quality"
                yield Alert("expectation", quality.table, what, place)


def _jobs(by: Caller) -> Iterator[Alert]:
    newest = {(job.kind, job.table): job for job in reversed(seen_jobs(by, limit=_READ))}
    for job in newest.values():
        if job.state.value == "failed":
            what = f"The last run of {job.kind} failed: {job.error or 'without a message'}"
            yield Alert("maintenance", job.table or "all tables", what, "/jobs")


def _runs(by: Caller) -> Iterator[Alert]:
    if not by.sees_everything:
        return
    newest = {run["pipeline"]: run for run in reversed(seen_runs(by, _READ))}
    for name, run in newest.items():
        if run["state"] == "failed":
            place = f"/runs/{quote(run['run'], safe='')}"
            yield Alert("pipeline", name, "The last run of the pipeline failed", place)
