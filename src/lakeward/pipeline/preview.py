"""What a run of a pipeline would do, as a record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakeward.context import LakeContext
from lakeward.pipeline.declaration import Changes, Declaration, Landing, New, StepSource
from lakeward.pipeline.plan import PlannedStep, plan
from lakeward.pipeline.results import Notice


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What a run would do in one step.

    Attributes:
        table: The table that the step writes.
        runs: Whether the step has new input.
        inputs: The new input by parameter: of a `landing` directory, of `new` rows or `changes` of
            a table, or of a `whole` table.
    """

    table: str
    format: str
    mode: str
    runs: bool
    inputs: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class PipelinePlan:
    """What a run would do, step by step, and notices of what it would leave out."""

    pipeline: str
    steps: tuple[StepPlan, ...]
    notices: tuple[Notice, ...]

    @property
    def has_news(self) -> bool:
        """Whether any step has new input."""
        return any(step.runs for step in self.steps)


def preview(pipeline: Declaration, context: LakeContext, landing: str | None) -> PipelinePlan:
    """Return what a run that begins now would do, with all steps."""
    planned = plan(pipeline, context, landing)
    fresh = {p.step.target: p for p in planned.steps}
    steps = (
        StepPlan(
            str(step.target),
            step.table["format"],
            step.mode.value,
            step.target in fresh,
            {name: _news(name, s, fresh.get(step.target)) for name, s in step.inputs.items()},
        )
        for step in pipeline.steps()
    )
    return PipelinePlan(pipeline.name, tuple(steps), planned.notices)


def _news(name: str, source: StepSource, planned: PlannedStep | None) -> dict[str, Any]:
    if isinstance(source, Landing):
        files = planned.files[name].files if planned else ()
        size = sum(f.size for f in files)
        return {"landing": source.path, "files": len(files), "bytes": size}
    if isinstance(source, New | Changes):
        found = planned.tables.get(name) if planned else None
        return {
            "new" if isinstance(source, New) else "changes": str(source.table),
            "this_run": bool(planned and name in planned.upstream),
            "versions": list(found.versions) if found else [],
        }
    return {"whole": str(source.table)}
