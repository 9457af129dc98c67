"""What a run did, and its notices: what it left out or changed, which a user must see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

SAMPLE: Final = 5


@dataclass(frozen=True, slots=True)
class Notice:
    """One line of a run's report.

    Attributes:
        kind: What it is about, for programs: `files_not_taken`, `rows_superseded`, …
        table: The table of the step.
        message: What happened, for people.
        count: How many files, columns or rows.
        sample: Some of their names.
    """

    kind: str
    table: str
    message: str
    count: int
    sample: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The notice as plain JSON values."""
        return {**asdict(self), "sample": list(self.sample)}


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step did.

    Attributes:
        table: What it wrote.
        mode: How.
        rows: How many rows it gave.
        seconds: How long it took.
        dropped: By condition, rows that were left out.
        warned: By condition, rows that are not as it says.
        inputs: How many new files it took in, by source.
    """

    table: str
    mode: str
    rows: int
    seconds: float
    dropped: Mapping[str, int] = field(default_factory=dict)
    warned: Mapping[str, int] = field(default_factory=dict)
    inputs: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run did.

    Attributes:
        pipeline: Which.
        run_id: The id of its transaction; None where there was nothing new.
        versions: The new version of each table that it changed.
        steps: What each step did, in order; steps without anything new are left out.
        seconds: How long it took.
        attempts: How often it was tried.
        bundle: Everything that is known of it, as it is kept in the log and on disk.
        bundle_path: Where it is on disk, below the warehouse.
        notices: What was left out: files that are not read, columns, rows of the same key.
    """

    pipeline: str
    run_id: str | None
    versions: Mapping[str, int] = field(default_factory=dict)
    steps: Sequence[StepResult] = ()
    seconds: float = 0.0
    attempts: int = 1
    bundle: Mapping[str, Any] = field(default_factory=dict)
    bundle_path: str | None = None
    notices: Sequence[Notice] = ()

    @property
    def committed(self) -> bool:
        """Whether there was anything to commit."""
        return self.run_id is not None

    @property
    def rows(self) -> int:
        """Rows that all steps gave."""
        return sum(s.rows for s in self.steps)

    def to_json(self) -> dict[str, Any]:
        """The bundle of a run that committed; else its notices."""
        if not self.committed:
            return {"pipeline": self.pipeline, "committed": False, "notices": self.notices}
        return {**self.bundle, "committed": True, "bundle": self.bundle_path}


def named(names: Sequence[str]) -> str:
    """The first names, and how many more there are, for a message."""
    shown = ", ".join(names[:SAMPLE])
    more = len(names) - SAMPLE
    return f"{shown} and {more:,} more" if more > 0 else shown


def counted(count: int, noun: str) -> str:
    """A number with its noun: `1 row`, `2 rows`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
