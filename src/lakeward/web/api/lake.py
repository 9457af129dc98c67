"""What the lake as a whole answers: transactions, locks, tags, jobs, audit, violations, policies.

A caller to whom only some tables are open sees the entries that are about these tables.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from lakeward.errors import TransactionNotFound
from lakeward.lake.records import JobRecord, Tag, TransactionRecord
from lakeward.model.records import to_json
from lakeward.model.roles import Role
from lakeward.web.access import By, Caller, needs
from lakeward.web.answers import Cursor, Limit, answer
from lakeward.web.lineage import seen_lineage
from lakeward.web.lists import page_after

router = APIRouter(prefix="/api/v1", tags=["lake"])
Name = Annotated[str | None, Query(max_length=300)]
Moment = Annotated[str | None, Query(max_length=64, description="ISO 8601.")]


@router.get("")
@needs(Role.READER)
def about(request: Request, by: By) -> Response:
    """Return the caller's name and role, and how many tables they have access to."""
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
    found = by.lake.transactions(state=state, limit=limit)
    shown = [one for one in (seen_record(by, r) for r in found) if one is not None]
    return answer(request, {"transactions": shown})


@router.get("/transactions/{transaction_id}")
@needs(Role.READER)
def transaction(request: Request, by: By, transaction_id: str) -> Response:
    """Show what the log knows of a transaction: its state, its tables, who and why."""
    seen = seen_record(by, by.lake.transaction_record(transaction_id))
    if seen is None:
        what = f"The log knows no transaction {transaction_id}, or it is not open to you."
        raise TransactionNotFound(what, transaction_id=transaction_id)
    return answer(request, seen)


@router.get("/locks")
@needs(Role.READER)
def locks(request: Request, by: By) -> Response:
    """List the locked tables, by whom they are held, and who waits for them."""
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
    """List runs of maintenance, newest first, with what each of them did and gained."""
    return answer(request, {"jobs": seen_jobs(by, kind=kind, table=table, limit=limit)})


@router.get("/runs")
@needs(Role.READER, everything=True)
def runs(request: Request, by: By, pipeline: Name = None, limit: Limit = 100) -> Response:
    """List runs of pipelines, newest first."""
    return answer(request, {"runs": by.lake.runs(pipeline=pipeline, limit=limit)})


@router.get("/health")
@needs(Role.READER)
def health(request: Request, by: By, limit: Limit = 100) -> Response:
    """Score the layout of all tables, worst first."""
    found = sorted((t.health() for t in by.tables()), key=lambda h: (h.score, h.table))
    return answer(request, {"tables": found[:limit], "count": len(found)})


@router.get("/lineage")
@needs(Role.READER)
def lineage(request: Request, by: By) -> Response:
    """List which tables, files and columns others come from."""
    return answer(request, seen_lineage(by, by.lake.lineage()))


@router.get("/metrics")
@needs(Role.READER, everything=True)
def metrics(request: Request, by: By) -> Response:
    """List the numbers of the lake and of its tables, as `lakeward metrics --json` does."""
    return answer(request, by.lake.metrics())


@router.get("/branches")
@needs(Role.READER, everything=True)
def branches(request: Request, by: By) -> Response:
    """List the named branches with the tables that they have."""
    return answer(request, {"branches": [one.info() for one in by.lake.branches()]})


@router.get("/runs/{run}")
@needs(Role.READER, everything=True)
def run(request: Request, by: By, run: str) -> Response:
    """Show a run of a pipeline: its state, what it wrote, and from what."""
    return answer(request, by.lake.run_record(run))


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
    """List who did what to the tables, newest first."""

    def read(moment: str | None, count: int) -> list[Any]:
        return by.lake.audit(
            table=table,
            actor=actor,
            action=action,
            since=since,
            until=moment or until,
            limit=count,
        )

    found, more = page_after(read, cursor, limit)
    return answer(request, {"entries": [e for e in found if by.sees(e.table)], "next": more})


@router.get("/violations")
@needs(Role.READER)
def violations(request: Request, by: By, table: Name = None, limit: Limit = 100) -> Response:
    """List violations of constraints, newest first, of transactions that failed too."""
    found = by.lake.violations(table=table, limit=limit)
    return answer(request, {"violations": [v for v in found if by.sees(v.table)]})


@router.get("/policies")
@needs(Role.READER, everything=True)
def policies(request: Request, by: By, history: bool = False, pattern: Name = None) -> Response:
    """List the policies that are set for patterns of tables."""
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
    """Check the log against itself and against the published files; nothing is changed."""
    return answer(request, by.lake.doctor(tables=table))


@router.get("/tokens")
@needs(Role.ADMIN, everything=True)
def tokens(request: Request, by: By) -> Response:
    """List the access tokens, without their secrets."""
    return answer(request, {"tokens": by.lake.tokens()})


def seen_transactions(by: Caller, limit: int) -> list[dict[str, Any]]:
    """The newest transactions that are about tables open to the caller."""
    found = (seen_record(by, r) for r in by.lake.transactions(limit=limit))
    return [one for one in found if one is not None]


def seen_tags(by: Caller) -> list[Tag]:
    """The tags of tables that are all open to the caller."""
    return [tag for tag in by.lake.tags() if all(map(by.sees, tag.versions))]


def seen_jobs(by: Caller, **wanted: Any) -> list[JobRecord]:
    """Runs of maintenance on tables that are open to the caller."""
    found = by.lake.jobs(**wanted)
    return [j for j in found if (by.sees_everything if j.table is None else by.sees(j.table))]


def seen_record(by: Caller, record: TransactionRecord) -> dict[str, Any] | None:
    """A transaction with the tables that are open to the caller; None if there is none."""
    if by.sees_everything:
        return dict(to_json(record))
    versions = {name: v for name, v in record.versions.items() if by.sees(name)}
    return {**to_json(record), "versions": versions} if versions else None
