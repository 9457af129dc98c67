"""Endpoints for measurements of tables and of the lake: statistics, quality, service levels."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from lakeward.model.roles import Role
from lakeward.web.access import By, needs
from lakeward.web.answers import answer
from lakeward.web.seen import seen_levels, seen_quality

router = APIRouter(prefix="/api/v1", tags=["measures"])
Moment = Annotated[str | None, Query(max_length=128, description="ISO 8601.")]


@router.get("/quality")
@needs(Role.READER)
def quality(request: Request, by: By) -> Response:
    """Show the last measurements of the expectations of all tables that have some."""
    return answer(request, {"tables": seen_quality(by)})


@router.get("/sla")
@needs(Role.READER)
def sla(request: Request, by: By) -> Response:
    """Show the service levels, how far they are met, and the rest of their error budgets."""
    return answer(request, {"service_levels": seen_levels(by)})


@router.get("/snapshot")
@needs(Role.READER)
def snapshot(
    request: Request,
    by: By,
    at: Annotated[str | None, Query(max_length=128, description="A time, a tag, …")] = None,
) -> Response:
    """Show the version of each table at one consistent cut."""
    with by.lake.snapshot(at=at) as cut:
        now = cut.names_now
        versions = {name: v for name, v in cut.versions.items() if by.sees(now[name])}
        facts = {"moment": cut.moment, "tag": cut.tag, "position": cut.position}
        names = {name: now[name] for name in versions}
        ids = {one.name: one.log_head.table_id for one in cut if one.name in versions}
        more = {"versions": versions, "names_now": names, "table_ids": ids}
        return answer(request, {**facts, **more})


@router.get("/audit/verify")
@needs(Role.ADMIN, everything=True)
def verify_audit(request: Request, by: By) -> Response:
    """Check that no entry of the audit trail was changed, removed, inserted or reordered."""
    return answer(request, by.lake.verify_audit())


@router.get("/tables/{table}/statistics")
@needs(Role.READER)
def statistics(
    request: Request,
    by: By,
    table: str,
    version: Annotated[int | None, Query(ge=0)] = None,
) -> Response:
    """Show rows, files and bytes of a version, and nulls and bounds of its columns."""
    return answer(request, by.table(table).statistics(version=version))


@router.get("/tables/{table}/versions")
@needs(Role.READER)
def versions(
    request: Request, by: By, table: str, since: Moment = None, until: Moment = None
) -> Response:
    """List the versions of a time range, oldest first."""
    found = by.table(table).versions(since=since, until=until)
    return answer(request, {"table": table, "versions": found})
