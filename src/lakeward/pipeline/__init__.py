"""Pipelines: steps from landing files to tables, run as one transaction.

::

    from lakeward.pipeline import Pipeline, landing, new, whole

    pipeline = Pipeline("shop")

    @pipeline.step("bronze.orders", schema="id int64, amount double")
    def bronze(batch=landing("orders")):
        return batch
"""

from __future__ import annotations

from lakeward.pipeline.declaration import Pipeline, Step
from lakeward.pipeline.notices import Notice
from lakeward.pipeline.outcome import RunResult, StepResult
from lakeward.pipeline.sources import Landing, New, Source, Whole, landing, new, whole

__all__ = [
    "Landing",
    "New",
    "Notice",
    "Pipeline",
    "RunResult",
    "Source",
    "Step",
    "StepResult",
    "Whole",
    "landing",
    "new",
    "whole",
]
