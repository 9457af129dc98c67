"""Plans of maintenance, and records of its runs.

A plan is data: showing it (`dry_run`) and running it use the same plan. It consists of units, each
done completely or not at all; a run may stop between two units, and the next run continues.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from lakeward.model.records import HIDDEN, in_json


@dataclass(frozen=True, slots=True)
class Unit:
    """One piece of maintenance work.

    Attributes:
        table: The table's full name.
        what: What will be done, in a sentence.
        why: The reason.
        gain: The benefit, for people.
        reads: Bytes that the unit reads, as far as known.
        writes: Bytes that the unit writes.
        frees: Bytes that the unit frees.
        files: Data files or metadata files that the unit removes or rewrites.
        work: Internal data for the code that runs the unit; not shown.
    """

    table: str
    what: str
    why: str
    gain: str = ""
    reads: int = 0
    writes: int = 0
    frees: int = 0
    files: int = 0
    work: Any = field(default=None, metadata=HIDDEN, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run of maintenance would do.

    Attributes:
        kind: `vacuum`, `optimize`, `checkpoint`, `expire`, …
        table: The table's full name; None for several tables.
        units: In the order in which they run.
        notes: What is skipped, and why.
        facts: Further details of this kind of plan, by name.
    """

    kind: str
    table: str | None
    units: tuple[Unit, ...] = ()
    notes: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    @in_json
    def files(self) -> int:
        """Number of files of all units."""
        return sum(unit.files for unit in self.units)

    @property
    @in_json
    def reads(self) -> int:
        """Bytes that all units read."""
        return sum(unit.reads for unit in self.units)

    @property
    @in_json
    def writes(self) -> int:
        """Bytes that all units write."""
        return sum(unit.writes for unit in self.units)

    @property
    @in_json
    def frees(self) -> int:
        """Bytes that all units free."""
        return sum(unit.frees for unit in self.units)


class JobState(StrEnum):
    """The state of a maintenance run."""

    RUNNING = "running"
    DONE = "done"
    NOTHING = "nothing"
    """There was nothing to do."""
    STOPPED = "stopped"
    """The budget was spent before the last unit; run it again."""
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    """The process of the run died."""


@dataclass(frozen=True, slots=True)
class Done:
    """What one unit, or a run so far, did: counts and bytes."""

    reads: int = 0
    writes: int = 0
    frees: int = 0
    files: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Further results by name; numbers of several units are added."""

    def plus(self, other: Done) -> Done:
        """Return the sum of both."""
        facts = dict(self.facts)
        for name, value in other.facts.items():
            known = facts.get(name)
            both = isinstance(known, int | float) and isinstance(value, int | float)
            facts[name] = known + value if both else value
        return Done(
            self.reads + other.reads,
            self.writes + other.writes,
            self.frees + other.frees,
            self.files + other.files,
            facts,
        )


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A maintenance run, as the log records it.

    Attributes:
        job: The id of the run.
        kind: As in `Plan`.
        table: As in `Plan`.
        state: How the run ended, or that it is running.
        actor: Who ran it.
        started: When it began.
        seconds: How long it took, or has taken so far.
        units: How many units its plan has.
        units_done: How many units were done.
        done: What these units did.
        error: Why the run failed.
    """

    job: str
    kind: str
    table: str | None
    state: JobState
    actor: str
    started: datetime
    seconds: float
    units: int
    units_done: int
    done: Done
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Maintained:
    """The plan and the run of a maintenance call; `job` is None for a dry run."""

    plan: Plan
    job: JobRecord | None = None

    @property
    @in_json
    def state(self) -> str:
        """How the run ended; for a dry run `planned`, or `nothing` if there is no work."""
        if self.job is not None:
            return self.job.state.value
        return "planned" if self.plan.units else JobState.NOTHING.value
