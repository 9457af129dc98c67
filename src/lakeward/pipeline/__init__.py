"""Pipelines: steps from landing files to tables, run as one transaction.

::

    from lakeward.pipeline import Pipeline, landing, new, whole

    pipeline = Pipeline("shop")

    @pipeline.step("bronze.orders", schema="id int64, amount double")
    def bronze(batch=landing("orders")):
        return batch
"""

from __future__ import annotations

from lakeward.pipeline.declaration import (
    Changes,
    Landing,
    New,
    Step,
    StepSource,
    Whole,
    changes,
    landing,
    new,
    whole,
)
from lakeward.pipeline.pipeline import Pipeline
from lakeward.pipeline.results import Notice, RunResult, StepResult

__all__ = [
    "Changes",
    "Landing",
    "New",
    "Notice",
    "Pipeline",
    "RunResult",
    "Step",
    "StepResult",
    "StepSource",
    "Whole",
    "changes",
    "landing",
    "new",
    "whole",
]
