"""Endpoints about the whole lake: transactions, locks, tags, jobs, audit, violations, policies.

A caller who has access to only some tables gets only the entries about these tables.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from lakeward.model.roles import Role
from lakeward.web.access import By, needs
from lakeward.web.answers import Cursor, Limit, answer
from lakeward.web.lineage import seen_lineage
from lakeward.web.lists import page_after
from lakeward.web.seen import (
    seen_jobs,
    seen_run,
    seen_tags,
    seen_transaction,
    seen_transactions,
    seen_violations,
)

router = APIRouter(prefix="/api/v1", tags=["lake"])
Name = Annotated[str | None, Query(max_length=300)]
Moment = Annotated[str | None, Query(max_length=64, description="ISO 8601.")]


@router.get("")
@needs(Role.READER)
def about(request: Request, by: By) -> Response:
    """Show the version of Lakeward, the caller's name and role, and their access to tables."""
    from importlib.metadata import version

    facts = {
        "lakeward": version("lakeward"),
        "caller": by.name,
        "role": by.role,
        "tables_open": [str(pattern) for pattern in by.tables_open],
        "tables": len(by.tables()),
    }
    return answer(request, facts)


@router.get("/transactions")
@needs(Role.READER)
def transactions(
    request: Request,
    by: By,
    state: Annotated[str | None, Query(max_length=20)] = None,
    limit: Limit = 100,
) -> Response:
    """List the newest transactions, open ones too, newest first."""
    return answer(request, {"transactions": seen_transactions(by, limit, state)})


@router.get("/transactions/{transaction_id}")
@needs(Role.READER)
def transaction(request: Request, by: By, transaction_id: str) -> Response:
    """Show a transaction: its state, its tables, the actor and the message."""
    return answer(request, seen_transaction(by, transaction_id))


@router.get("/locks")
@needs(Role.READER)
def locks(request: Request, by: By) -> Response:
    """List the locked tables, the transactions that hold the locks, and those that wait."""
    return answer(request, {"locks": [one for one in by.lake.locks() if by.sees(one.table)]})


@router.get("/tags")
@needs(Role.READER)
def tags(request: Request, by: By) -> Response:
    """List the tags, by the time of their cuts."""
    return answer(request, {"tags": seen_tags(by)})


@router.get("/jobs")
@needs(Role.READER)
def jobs(
    request: Request, by: By, kind: Name = None, table: Name = None, limit: Limit = 100
) -> Response:
    """List runs of maintenance, newest first, with what each of them did."""
    return answer(request, {"jobs": seen_jobs(by, kind=kind, table=table, limit=limit)})


@router.get("/runs")
@needs(Role.READER, everything=True)
def runs(request: Request, by: By, pipeline: Name = None, limit: Limit = 100) -> Response:
    """List runs of pipelines, newest first."""
    return answer(request, {"runs": by.lake.runs(pipeline=pipeline, limit=limit)})


@router.get("/health")
@needs(Role.READER)
def health(request: Request, by: By, limit: Limit = 100) -> Response:
    """List the health scores of all tables' file layouts, worst first."""
    found = sorted((t.health() for t in by.tables()), key=lambda h: (h.score, h.table))
    return answer(request, {"tables": found[:limit], "count": len(found)})


@router.get("/lineage")
@needs(Role.READER)
def lineage(request: Request, by: By) -> Response:
    """Show the lineage: the tables, files and columns that each table was made from."""
    return answer(request, seen_lineage(by, by.lake.lineage()))


@router.get("/metrics")
@needs(Role.READER, everything=True)
def metrics(request: Request, by: By) -> Response:
    """Show the metrics of the lake and of its tables, as `lakeward metrics --json` does."""
    return answer(request, by.lake.metrics())


@router.get("/branches")
@needs(Role.READER, everything=True)
def branches(request: Request, by: By) -> Response:
    """List the named branches with their tables."""
    return answer(request, {"branches": [one.info() for one in by.lake.branches()]})


@router.get("/runs/{run}")
@needs(Role.READER, everything=True)
def run(request: Request, by: By, run: str) -> Response:
    """Show a run of a pipeline: state, inputs, steps, the versions that it read and wrote."""
    return answer(request, seen_run(by, run))


@router.get("/audit")
@needs(Role.READER)
def audit(
    request: Request,
    by: By,
    table: Name = None,
    actor: Name = None,
    action: Name = None,
    since: Moment = None,
    until: Moment = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """List entries of the audit trail, newest first."""

    def read(moment: str | None, count: int) -> list[Any]:
        return by.lake.audit(
            table=table,
            actor=actor,
            action=action,
            since=since,
            until=moment or until,
            limit=count,
        )

    found, more = page_after(read, cursor, limit, lambda entry: by.sees(entry.table))
    return answer(request, {"entries": found, "next": more})


@router.get("/violations")
@needs(Role.READER)
def violations(request: Request, by: By, table: Name = None, limit: Limit = 100) -> Response:
    """List violations of constraints, newest first, also those of failed transactions."""
    return answer(request, {"violations": seen_violations(by, limit, table)})


@router.get("/policies")
@needs(Role.READER, everything=True)
def policies(request: Request, by: By, history: bool = False, pattern: Name = None) -> Response:
    """List the policies that are set for patterns of table names."""
    return answer(request, {"policies": by.lake.policies(history=history, pattern=pattern)})


@router.get("/stats")
@needs(Role.READER, everything=True)
def stats(request: Request, by: By) -> Response:
    """Count the tables, versions and entries of the log."""
    return answer(request, by.lake.stats())


@router.get("/doctor")
@needs(Role.ADMIN, everything=True)
def doctor(
    request: Request, by: By, table: Annotated[list[str] | None, Query()] = None
) -> Response:
    """Check that the log is consistent and agrees with the published files; change nothing."""
    return answer(request, by.lake.doctor(tables=table))


@router.get("/tokens")
@needs(Role.ADMIN, everything=True)
def tokens(request: Request, by: By) -> Response:
    """List the access tokens, without their secrets."""
    return answer(request, {"tokens": by.lake.tokens()})
