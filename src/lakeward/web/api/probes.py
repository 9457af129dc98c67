"""Liveness and readiness probes, and the metrics that Prometheus scrapes."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from lakeward.errors import LakewardError
from lakeward.model.roles import Role
from lakeward.web.access import By, needs
from lakeward.web.answers import answer
from lakeward.web.threads import run_probe

router = APIRouter(include_in_schema=False)


@router.get("/healthz")
@needs(None)
async def alive(request: Request) -> Response:
    """Respond that the process is alive, without a thread, so however busy they are."""
    return answer(request, {"status": "alive"})


@router.get("/readyz")
@needs(None)
async def ready(request: Request) -> Response:
    """Respond whether the store can be read: with status 200 or 503."""
    try:
        await run_probe(request.app.state.lake.stats)
    except LakewardError:
        return answer(request, {"status": "not ready"}, status=503)
    return answer(request, {"status": "ready"})


@router.get("/metrics")
@needs(Role.READER, everything=True)
def metrics(by: By) -> Response:
    """Return the metrics of the lake as text, as `lakeward metrics` prints them."""
    from lakeward.integrations.prometheus import CONTENT_TYPE, exposition

    return Response(exposition(by.lake.metrics()), media_type=CONTENT_TYPE)
