"""Service levels: what a table or a pipeline promises, and how far the promise is kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from lakeward.errors import InvalidInput
from lakeward.model import arguments
from lakeward.model.duration import for_people, to_milliseconds
from lakeward.model.names import TableName


class Objective(StrEnum):
    """The kinds of promises. Whether they are kept is computed from the log."""

    FRESHNESS = "freshness"
    """The newest change of a table's data is not older than `max`; measured as a share of time."""
    COMMIT_LATENCY = "commit_latency"
    """Transactions on a table take at most `max` from their begin; a share of transactions."""
    THROUGHPUT = "throughput"
    """Transactions on a table write at least `min` rows a second; a share of transactions."""
    QUERY_LATENCY = "query_latency"
    """Queries and reads of a table take at most `max` until their last row; a share of reads."""
    MAINTENANCE = "maintenance"
    """Runs of maintenance of a table take at most `max`; a share of runs."""
    RUN_DURATION = "run_duration"
    """Runs of a pipeline take at most `max`; a share of runs."""
    RUN_SUCCESS = "run_success"
    """Runs of a pipeline succeed; a share of runs."""


_OF_PIPELINES: Final = (Objective.RUN_DURATION, Objective.RUN_SUCCESS)
_FIELDS: Final = ("objective", "table", "pipeline", "min", "max", "target", "window")
_WINDOW: Final = "30 days"


@dataclass(frozen=True, slots=True)
class ServiceLevel:
    """A promise of a table or a pipeline.

    Attributes:
        name: Unique in the lake.
        objective: The kind of the promise.
        subject: The table or the pipeline.
        limit: The limit, in milliseconds or rows a second; 0 for `run_success`.
        target: The share for which the promise must be kept, below 1.
        window: The length of time until now over which the share is computed.
    """

    name: str
    objective: Objective
    subject: str
    limit: float
    target: float
    window: timedelta

    @classmethod
    def of(cls, name: str, value: Any) -> ServiceLevel:
        """Return the service level for its plain form, a mapping.

        Raises:
            InvalidInput: There is no such objective, or something that it needs is missing.
        """
        own = arguments.text(name, "name")
        body = arguments.mapping(value, own)
        unknown = sorted(set(body) - set(_FIELDS))
        if unknown:
            what = f"Service level {own} has a field {unknown[0]!r}, which there is not."
            raise InvalidInput(what, hint=f"Fields are {', '.join(_FIELDS)}.", parameter=own)
        objective = arguments.choice(body.get("objective"), Objective, f"{own}.objective")
        key = "pipeline" if objective in _OF_PIPELINES else "table"
        subject = arguments.text(body.get(key), f"{own}.{key}")
        if key == "table":
            subject = str(TableName.parse(subject))
        target = arguments.number(body.get("target", 0.99), f"{own}.target")
        if not 0 < target < 1:
            what = f"The target of service level {own} must be a share between 0 and 1."
            raise InvalidInput(what, hint="Write 0.99.", parameter=own)
        window = to_milliseconds(body.get("window", _WINDOW), f"{own}.window")
        return cls(
            own,
            objective,
            subject,
            _limit(own, objective, body),
            target,
            timedelta(milliseconds=window),
        )

    def wanted(self) -> str:
        """Return the promise in words."""
        share = f"{self.target:.15g} of {self._of()}"
        if self.objective is Objective.RUN_SUCCESS:
            return f"{share} succeed"
        if self.objective is Objective.THROUGHPUT:
            return f"{share} ≥ {self.limit:.15g} rows/s"
        return f"{share} ≤ {for_people(int(self.limit))}"

    def _of(self) -> str:
        match self.objective:
            case Objective.FRESHNESS:
                return "the time, data is aged"
            case Objective.COMMIT_LATENCY | Objective.THROUGHPUT:
                return "transactions"
            case Objective.QUERY_LATENCY:
                return "reads"
            case Objective.MAINTENANCE:
                return "maintenance"
            case _:
                return "runs"


@dataclass(frozen=True, slots=True)
class Attainment:
    """How far a service level is kept.

    Attributes:
        name: The service level.
        objective: The kind of the promise.
        subject: The table or the pipeline.
        wanted: The promise in words.
        target: The share for which the promise must be kept.
        window_seconds: The length of the window, which ends now.
        attained: The share for which it was kept; None if nothing happened in the window.
        good: How many transactions, reads or runs kept it; how many seconds for `freshness`.
        bad: How many did not keep it.
        budget_left: The share of the error budget that is left; negative if it is exceeded.
        kept: Whether the target is reached; None if nothing happened in the window.
    """

    name: str
    objective: str
    subject: str
    wanted: str
    target: float
    window_seconds: float
    attained: float | None
    good: float
    bad: float
    budget_left: float | None
    kept: bool | None


@dataclass(frozen=True, slots=True)
class ServiceLevelRecord:
    """A service level as it was declared.

    Attributes:
        name: The name of the service level.
        level: The promise, as it was given.
        actor: Who declared it.
        at: When it was declared.
    """

    name: str
    level: dict[str, Any]
    actor: str
    at: datetime


def attainment(level: ServiceLevel, good: float, bad: float) -> Attainment:
    """Return how far a service level is kept, from what kept it and what did not."""
    total = good + bad
    attained = good / total if total else None
    left = None if attained is None else 1 - (1 - attained) / (1 - level.target)
    return Attainment(
        level.name,
        str(level.objective),
        level.subject,
        level.wanted(),
        level.target,
        level.window.total_seconds(),
        attained,
        good,
        bad,
        left,
        None if attained is None else attained >= level.target,
    )


def fresh_and_stale(
    moments: Sequence[int], begin: int, end: int, longest: float
) -> tuple[float, float]:
    """Return for how many seconds of a period data was fresh, and for how many stale.

    Args:
        moments: When data was changed, ascending, in milliseconds; the first may be before `begin`.
        begin: The begin of the period, in milliseconds.
        end: The end of the period, in milliseconds.
        longest: The age up to which data is fresh, in milliseconds.
    """
    if not moments:
        return 0.0, 0.0
    start = max(begin, moments[0])
    edges = [m for m in moments if m > start]
    fresh = total = 0.0
    last = max((m for m in moments if m <= start), default=start)
    for at in [*(m for m in edges if m < end), end]:
        low = max(last, start)
        total += max(0, at - low)
        fresh += max(0.0, min(at, last + longest) - low)
        last = at
    return fresh / 1000, (total - fresh) / 1000


def counted(values: Iterable[bool]) -> tuple[float, float]:
    """Return how many values are true, and how many are false."""
    found = list(values)
    return sum(found), len(found) - sum(found)


def _limit(name: str, objective: Objective, body: dict[str, Any]) -> float:
    if objective is Objective.RUN_SUCCESS:
        return 0.0
    key = "min" if objective is Objective.THROUGHPUT else "max"
    if body.get(key) is None:
        what = f"Service level {name} needs `{key}`."
        raise InvalidInput(what, hint='Write max = "1 hour", or min = 1000.', parameter=name)
    if key == "min":
        return arguments.number(body["min"], f"{name}.min")
    return to_milliseconds(body["max"], f"{name}.max")
