"""Runs of pipelines, as recorded in the log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakeward.errors import NotFound
from lakeward.log import runs
from lakeward.log.database import Session
from lakeward.model.clock import to_datetime
from lakeward.model.records import HIDDEN


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run of a pipeline.

    Attributes:
        run: The id of the run and of its transaction.
        pipeline: The pipeline's name.
        state: `ratified` or `failed`.
        started: When it began, in ISO 8601.
        seconds: How long it took; None if that is not known.
        versions: The new version of each table that it changed.
        bundle: All that was recorded of the run.
    """

    run: str
    pipeline: str
    state: str
    started: str
    seconds: float | None
    versions: Mapping[str, int]
    bundle: Mapping[str, Any] = field(metadata=HIDDEN, repr=False)


def newest(session: Session, pipeline: str | None, limit: int) -> list[RunRecord]:
    """Return the newest runs, of one pipeline or of all, newest first."""
    return [_record(run) for run in runs.newest(session, pipeline, limit)]


def one(session: Session, run_id: str) -> RunRecord:
    """Return a run by its id.

    Raises:
        NotFound: There is no such run.
    """
    found = runs.one(session, run_id)
    if found is None:
        what = f"The log knows no run {run_id}."
        raise NotFound(what, hint="`lakeward runs` lists them.", run=run_id)
    return _record(found)


def _record(source: runs.Run) -> RunRecord:
    started = to_datetime(source.started_ms).isoformat(timespec="milliseconds")
    return RunRecord(
        source.run_id,
        source.pipeline,
        source.state,
        started.replace("+00:00", "Z"),
        source.bundle.get("seconds"),
        source.bundle.get("versions_out", {}),
        source.bundle,
    )
