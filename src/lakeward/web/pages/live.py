"""The stream of server-sent events that tells open pages when the lake has changed."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import StreamingResponse

from lakeward.model.roles import Role
from lakeward.web.access import needs
from lakeward.web.watching import Watch

router = APIRouter(include_in_schema=False)


@router.get("/events")
@needs(Role.READER)
async def events(request: Request) -> StreamingResponse:
    """Stream an event `changed` after each change of the lake, as server-sent events."""
    watch: Watch = request.app.state.watch
    return StreamingResponse(watch.events(), media_type="text/event-stream")
