"""Maintenance of one table: optimize, vacuum, expire and checkpoint, planned or run."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import Field

from lakeward.model.roles import Role
from lakeward.web.access import By, needs
from lakeward.web.answers import answer
from lakeward.web.api.body import Body
from lakeward.web.threads import ChangingRoute

router = APIRouter(prefix="/api/v1/tables", tags=["maintenance"], route_class=ChangingRoute)
Time = Annotated[str, Field(max_length=20)]


class _Upkeep(Body):
    dry_run: bool = False


class Optimizing(_Upkeep):
    """The fields are the arguments of `table.optimize`."""

    zorder: list[str] | None = None
    hilbert: list[str] | None = None
    sort: list[str] | None = None
    where: str | None = None
    target_size: str | None = None
    purge: bool = False
    budget: Time = "10m"


class Vacuuming(_Upkeep):
    """The fields are the arguments of `table.vacuum`; a retention below 7 days is refused."""

    retention: Time | None = None
    budget: Time = "10m"


class Expiring(_Upkeep):
    """The fields are the arguments of `table.expire`."""

    retention: Time | None = None
    budget: Time = "10m"


class Checkpointing(_Upkeep):
    """The fields are the arguments of `table.checkpoint`."""

    budget: Time = "10m"


@router.post("/{table}/optimize")
@needs(Role.ADMIN)
def optimize(request: Request, by: By, table: str, body: Optimizing) -> Response:
    """Compact small files, or cluster rows by columns; the rows do not change."""
    return answer(request, by.table(table).optimize(**body.model_dump()))


@router.post("/{table}/vacuum")
@needs(Role.ADMIN)
def vacuum(request: Request, by: By, table: str, body: Vacuuming) -> Response:
    """Delete files that no version within the retention, and nothing else, needs."""
    return answer(request, by.table(table).vacuum(**body.model_dump()))


@router.post("/{table}/expire")
@needs(Role.ADMIN)
def expire(request: Request, by: By, table: str, body: Expiring) -> Response:
    """Delete published metadata that other engines no longer need."""
    return answer(request, by.table(table).expire(**body.model_dump()))


@router.post("/{table}/checkpoint")
@needs(Role.ADMIN)
def checkpoint(request: Request, by: By, table: str, body: Checkpointing) -> Response:
    """Write a checkpoint of the newest version."""
    return answer(request, by.table(table).checkpoint(**body.model_dump()))
