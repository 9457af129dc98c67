"""Liveness and readiness probes for monitoring."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from lakeward.errors import LakewardError
from lakeward.web.access import needs
from lakeward.web.answers import answer

router = APIRouter(include_in_schema=False)


@router.get("/healthz")
@needs(None)
def alive(request: Request) -> Response:
    """Say that the process answers."""
    return answer(request, {"status": "alive"})


@router.get("/readyz")
@needs(None)
def ready(request: Request) -> Response:
    """Say whether the store answers, and nothing else about it."""
    try:
        request.app.state.lake.stats()
    except LakewardError:
        return answer(request, {"status": "not ready"}, status=503)
    return answer(request, {"status": "ready"})
