"""What came of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakeward.pipeline.notices import Notice


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
