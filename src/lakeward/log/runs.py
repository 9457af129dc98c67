"""Runs of pipelines with their bundles: what went in, what came out, and how it went."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam

from lakeward.log.codec import dumps, loads
from lakeward.log.database import Session
from lakeward.log.statement import Statement
from lakeward.log.tables import run

_PUT = Statement(
    f"""INSERT INTO lakeward_run ({", ".join(c.name for c in run.c)})
    VALUES ({", ".join(f":{c.name}" for c in run.c)})
    ON CONFLICT (run_id) DO UPDATE SET state = excluded.state, ended_ms = excluded.ended_ms,
        bundle = excluded.bundle"""  # noqa: S608  column names of our own
)
_NEWEST = Statement(
    sa.select(*run.c)
    .where(sa.or_(bindparam("pipeline", type_=sa.Text) == "", run.c.pipeline == bindparam("own")))
    .order_by(run.c.started_ms.desc(), run.c.run_id.desc())
    .limit(bindparam("limit"))
)
_ONE = Statement(sa.select(*run.c).where(run.c.run_id == bindparam("run_id")))


@dataclass(frozen=True, slots=True)
class Run:
    """A run as the log keeps it.

    Attributes:
        run_id: The id of its transaction.
        pipeline: Which pipeline.
        state: `ratified` or `failed`.
        started_ms: When it began.
        ended_ms: When it was over.
        bundle: Everything that is known of it.
    """

    run_id: str
    pipeline: str
    state: str
    started_ms: int
    ended_ms: int
    bundle: dict[str, Any]


def put(session: Session, new: Run) -> None:
    """Keep a run; one of the same id is replaced."""
    session.run(
        _PUT,
        {
            "run_id": new.run_id,
            "pipeline": new.pipeline,
            "state": new.state,
            "started_ms": new.started_ms,
            "ended_ms": new.ended_ms,
            "bundle": dumps(new.bundle),
        },
    )


def newest(session: Session, pipeline: str | None, limit: int) -> list[Run]:
    """The newest runs, of one pipeline or of all."""
    name = pipeline or ""
    rows = session.rows(_NEWEST, {"pipeline": name, "own": name, "limit": limit})
    return [_run(row) for row in rows]


def one(session: Session, run_id: str) -> Run | None:
    """A run by its id."""
    row = session.row(_ONE, {"run_id": run_id})
    return _run(row) if row else None


def _run(row: Any) -> Run:
    return Run(row[0], row[1], row[2], row[3], row[4], loads(row[5]))
