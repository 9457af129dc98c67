"""The result of a run, and its notices: what was left out or changed, for the user to see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

SAMPLE: Final = 5


@dataclass(frozen=True, slots=True)
class Notice:
    """One line of a run's report.

    Attributes:
        kind: The kind of notice, for programs: `files_not_taken`, `rows_superseded`, …
        table: The table of the step.
        message: What happened, for people.
        count: The number of files, columns or rows.
        sample: Some of their names or contents.
    """

    kind: str
    table: str
    message: str
    count: int
    sample: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the notice as plain JSON values."""
        return {**asdict(self), "sample": list(self.sample)}


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step did.

    Attributes:
        table: The table that it wrote.
        mode: How the rows were written: `append`, `merge`, `apply` or `overwrite`.
        rows: The number of rows that the step's function returned.
        seconds: How long the step took.
        dropped: The number of rows left out, by condition.
        warned: The number of rows for which a condition is not true, by condition.
        inputs: The number of new files read, by source.
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
        pipeline: The name of the pipeline.
        run_id: The id of the run's transaction; None if there was no new input.
        versions: The new version of each table that the run changed.
        steps: What each step did, in order; steps without new input are left out.
        seconds: How long the run took.
        attempts: How often the run was tried.
        bundle: The record of the run, as stored in the log and on disk.
        bundle_path: The path of the bundle on disk, below the warehouse.
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
        """The number of rows that all steps returned."""
        return sum(s.rows for s in self.steps)

    def to_json(self) -> dict[str, Any]:
        """Return the bundle of a run that committed; otherwise the run's notices."""
        if not self.committed:
            return {"pipeline": self.pipeline, "committed": False, "notices": self.notices}
        return {**self.bundle, "committed": True, "bundle": self.bundle_path}


def named(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are, as text for a message."""
    shown = ", ".join(names[:SAMPLE])
    more = len(names) - SAMPLE
    return f"{shown} and {more:,} more" if more > 0 else shown


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: `1 row`, `2 rows`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
