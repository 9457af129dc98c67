"""Runs of pipelines with their bundles: inputs, outputs and results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lakeward.log.codec import dumps, loads
from lakeward.log.database import Session
from lakeward.log.statement import Statement, insertion
from lakeward.log.tables import run

_PUT = insertion(
    run,
    "ON CONFLICT (run_id) DO UPDATE SET state = excluded.state, ended_ms = excluded.ended_ms,"
    " bundle = excluded.bundle WHERE lakeward_run.state <> 'ratified'"
    " OR excluded.state = 'ratified'",
)
_COLUMNS = ", ".join(run.columns)
_NEWEST = Statement(
    f"""SELECT {_COLUMNS} FROM lakeward_run WHERE :pipeline = '' OR pipeline = :own
    ORDER BY started_ms DESC, run_id DESC LIMIT :limit"""  # noqa: S608  our names
)
_ONE = Statement(
    f"SELECT {_COLUMNS} FROM lakeward_run WHERE run_id = :run_id"  # noqa: S608  our names
)


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a pipeline."""

    run_id: str
    """The id of the run's transaction."""
    pipeline: str
    state: str
    """`ratified` or `failed`."""
    started_ms: int
    ended_ms: int
    bundle: dict[str, Any]


def put(session: Session, new: Run) -> None:
    """Insert a run, or replace one of the same id; a `ratified` run is not replaced by a failed."""
    row = {name: getattr(new, name) for name in run.columns}
    session.run(_PUT, {**row, "bundle": dumps(new.bundle)})


def newest(session: Session, pipeline: str | None, limit: int) -> list[Run]:
    """Return the newest runs, of one pipeline or of all, newest first."""
    name = pipeline or ""
    rows = session.rows(_NEWEST, {"pipeline": name, "own": name, "limit": limit})
    return [_run(row) for row in rows]


def one(session: Session, run_id: str) -> Run | None:
    """Return the run of an id, or None."""
    row = session.row(_ONE, {"run_id": run_id})
    return _run(row) if row else None


def _run(row: Any) -> Run:
    run_id, pipeline, state, started_ms, ended_ms, bundle = row
    return Run(run_id, pipeline, state, started_ms, ended_ms, loads(bundle))
