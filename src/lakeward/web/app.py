"""The ASGI application: all routes, behind one check of access.

Routes that FastAPI would add by default are turned off, because they would bypass the check.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from starlette.types import ASGIApp

from lakeward.lake.received import Limits
from lakeward.model.roles import Role
from lakeward.web import problems
from lakeward.web.access import authorize, needs
from lakeward.web.answers import JSON, encoded
from lakeward.web.api import lake as lake_api
from lakeward.web.api import (
    measures,
    probes,
    queries,
    rows,
    tables,
    transactions,
    upkeep,
    writes,
)
from lakeward.web.edge import Edge
from lakeward.web.examining import Examinations
from lakeward.web.hiding import Hiding
from lakeward.web.iceberg import namespaces as iceberg_namespaces
from lakeward.web.iceberg import session as iceberg_session
from lakeward.web.iceberg import signing as iceberg_signing
from lakeward.web.iceberg import tables as iceberg_tables
from lakeward.web.iceberg import views as iceberg_views
from lakeward.web.iceberg.description import describe_bodies
from lakeward.web.iceberg.requests import PREFIX
from lakeward.web.openid import Provider
from lakeward.web.pages import lake as lake_pages
from lakeward.web.pages import lineage, live, overview, session
from lakeward.web.pages import table as table_pages
from lakeward.web.queries import Queries
from lakeward.web.settings import Settings
from lakeward.web.turns import Turns, take_turn
from lakeward.web.watching import Watch

if TYPE_CHECKING:
    from lakeward.lake.lake import Lake

ROUTERS: tuple[APIRouter, ...] = (
    probes.router,
    lake_api.router,
    tables.router,
    rows.router,
    queries.router,
    measures.router,
    writes.router,
    transactions.router,
    upkeep.router,
    iceberg_session.router,
    iceberg_namespaces.router,
    iceberg_tables.router,
    iceberg_signing.router,
    iceberg_views.router,
    session.router,
    live.router,
)
PAGES: tuple[APIRouter, ...] = (
    overview.router,
    table_pages.router,
    lake_pages.router,
    lineage.router,
)


def application(
    lake: Lake,
    target: str,
    settings: Settings | None = None,
    *,
    stopping: Callable[[], bool] = lambda: False,
) -> ASGIApp:
    """Return the service of a lake, as an ASGI application.

    Args:
        lake: The lake, which the caller closes when the service has ended.
        target: The path or URL that the lake was opened with; its password is hidden in
            responses.
        settings: The settings of the service; the defaults if None.
        stopping: Returns whether the server is shutting down, so that streams end first.
    """
    chosen = settings or Settings()
    return Edge(routes(lake, target, chosen, stopping), chosen)


def routes(
    lake: Lake, target: str, settings: Settings, stopping: Callable[[], bool] = lambda: False
) -> FastAPI:
    """Return the application with its routes and access check, without the middleware."""
    from importlib.metadata import version

    app = FastAPI(
        title="Lakeward",
        version=version("lakeward"),
        description="The REST API of a lake. Errors are problem details by RFC 9457.",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        dependencies=[Depends(authorize)],
    )
    app.state.lake, app.state.settings = lake, settings
    app.state.limits = Limits(
        settings.max_rows,
        settings.decoder_memory,
        free=threading.BoundedSemaphore(settings.decoders),
    )
    app.state.queries = Queries(target, lake, settings)
    app.state.provider = None if settings.openid is None else Provider(**settings.openid)
    app.state.hiding = Hiding(lake, target)
    app.state.watch = Watch(lake, stopping)
    app.state.turns = Turns()
    app.state.examinations = Examinations()
    problems.install(app)
    for router in (*ROUTERS, _about):
        app.include_router(router)
    for router in PAGES:
        app.include_router(router, dependencies=[Depends(take_turn, scope="function")])
    return app


_about = APIRouter(include_in_schema=False)


@_about.get("/api/v1/openapi.json")
@needs(Role.READER)
def openapi(request: Request) -> Response:
    """Return the OpenAPI description of the REST API."""
    return Response(encoded(_described(request, "/api/")), media_type=JSON)


@_about.get(f"{PREFIX}/openapi.json")
@needs(Role.READER)
def iceberg_openapi(request: Request) -> Response:
    """Return the OpenAPI description of the Iceberg REST catalog."""
    described = describe_bodies(_described(request, PREFIX))
    return Response(encoded(described), media_type=JSON)


def _described(request: Request, below: str) -> dict[str, Any]:
    """Return the OpenAPI description of the routes below a path."""
    described: dict[str, Any] = request.app.openapi()
    paths = {path: one for path, one in described["paths"].items() if path.startswith(below)}
    return {**described, "paths": paths}
