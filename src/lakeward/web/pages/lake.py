"""Pages about the whole lake: transactions and locks, maintenance, pipelines, quality, audit."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from lakeward.model.roles import Role
from lakeward.web.access import By, needs
from lakeward.web.alerts import alerts
from lakeward.web.answers import Cursor
from lakeward.web.lists import page_after
from lakeward.web.pages.rendering import page
from lakeward.web.seen import (
    seen_jobs,
    seen_levels,
    seen_quality,
    seen_run,
    seen_runs,
    seen_streams,
    seen_tags,
    seen_transaction,
    seen_transactions,
    seen_violations,
)

router = APIRouter(include_in_schema=False)
Name = Annotated[str | None, Query(max_length=300)]
_SHOWN = 100


@router.get("/transactions")
@needs(Role.READER)
def transactions(request: Request, by: By) -> Response:
    """Show the newest transactions with their tables, also open ones, and the locks and tags."""
    records = {
        "transactions": seen_transactions(by, _SHOWN),
        "locks": [one for one in by.lake.locks() if by.sees(one.table)],
        "tags": seen_tags(by),
    }
    return page(request, "transactions", records)


@router.get("/transactions/{transaction_id}")
@needs(Role.READER)
def transaction(request: Request, by: By, transaction_id: str) -> Response:
    """Show one transaction: its state, actor and message, and the version it made of each table."""
    return page(request, "transaction", {"transaction": seen_transaction(by, transaction_id)})


@router.get("/jobs")
@needs(Role.READER)
def jobs(request: Request, by: By, table: Name = None) -> Response:
    """Show runs of maintenance, newest first; and runs of pipelines, if all tables are visible."""
    records = {
        "jobs": seen_jobs(by, table=table or None, limit=_SHOWN),
        "runs": seen_runs(by, 20) if by.sees_everything and not table else [],
        "of_table": table,
    }
    return page(request, "jobs", records)


@router.get("/streams")
@needs(Role.READER)
def streams(request: Request, by: By) -> Response:
    """Show writers of sinks with their last commits, and consumers with their lag."""
    return page(request, "streams", {"streams": seen_streams(by)})


@router.get("/alerts")
@needs(Role.READER)
def lake_alerts(request: Request, by: By) -> Response:
    """Show what needs attention: service levels, publication, expectations, failed runs."""
    return page(request, "alerts", {"alerts": alerts(by)})


@router.get("/runs/{run}")
@needs(Role.READER, everything=True)
def run(request: Request, by: By, run: str) -> Response:
    """Show a run of a pipeline: its steps, inputs and versions, and the error if it failed."""
    return page(request, "run", {"run": seen_run(by, run)})


@router.get("/quality")
@needs(Role.READER)
def quality(request: Request, by: By) -> Response:
    """Show the service levels, the last measured expectations of tables, and the violations."""
    records = {
        "levels": seen_levels(by),
        "tables": seen_quality(by, _SHOWN),
        "violations": seen_violations(by, _SHOWN),
    }
    return page(request, "lake_quality", records)


@router.get("/audit")
@needs(Role.READER)
def audit(
    request: Request,
    by: By,
    table: Name = None,
    actor: Name = None,
    action: Name = None,
    cursor: Cursor = None,
) -> Response:
    """Show entries of the audit trail, newest first."""

    def read(until: str | None, count: int) -> list[Any]:
        return by.lake.audit(
            table=table or None,
            actor=actor or None,
            action=action or None,
            until=until,
            limit=count,
        )

    found, more = page_after(read, cursor, _SHOWN, lambda entry: by.sees(entry.table))
    wanted = {"of_table": table, "actor": actor, "action": action}
    return page(request, "audit", {"entries": found, "next": more, **wanted})
