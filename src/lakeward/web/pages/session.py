"""Signing in with a token, signing out, and the files that pages need."""

from __future__ import annotations

from importlib.resources import files
from typing import Annotated, Final
from urllib.parse import parse_qs

from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse

from lakeward.web.access import COOKIE, caller_of, needs
from lakeward.web.pages.rendering import HTML, rendered
from lakeward.web.pages.viewed import COOKIE as VIEWED

router = APIRouter(include_in_schema=False)
_STATIC: Final = {
    "htmx-4.0.0.min.js": "text/javascript",
    "dashboard.js": "text/javascript",
    "dashboard.css": "text/css",
    "icon.svg": "image/svg+xml",
}
_SECONDS: Final = 12 * 3600
Next = Annotated[str, Query(max_length=500)]


@router.get("/login")
@needs(None)
def login_page(request: Request, next: Next = "/") -> Response:
    """Show the form that asks for a token."""
    return Response(
        rendered(request, "login", {"next": _local(next), "wrong": False}), media_type=HTML
    )


@router.post("/login")
@needs(None)
async def login(request: Request) -> Response:
    """Set a valid token as a cookie that scripts cannot read and other sites cannot use."""
    form = parse_qs((await request.body()).decode("utf-8", "replace"))
    secret, place = form.get("token", [""])[0].strip(), _local(form.get("next", ["/"])[0])
    if not secret or not (await run_in_threadpool(caller_of, request, secret)).is_known:
        text = rendered(request, "login", {"next": place, "wrong": True})
        return Response(text, 401, media_type=HTML)
    answer = RedirectResponse(place, 303)
    answer.set_cookie(
        COOKIE,
        secret,
        max_age=_SECONDS,
        httponly=True,
        samesite="strict",
        secure=request.app.state.settings.public_name is not None,
    )
    return answer


@router.post("/logout")
@needs(None)
def logout(request: Request) -> Response:  # noqa: ARG001  as endpoints are called
    """Delete the cookies with the token and with the tables that were viewed."""
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(COOKIE)
    answer.delete_cookie(VIEWED)
    return answer


@router.get("/static/{name}")
@needs(None)
def static(name: str) -> Response:
    """Return a static file that pages use; 404 for any other."""
    kind = _STATIC.get(name)
    if kind is None:
        raise HTTPException(404)
    content = files("lakeward.web").joinpath("static", name).read_bytes()
    return Response(content, media_type=kind, headers={"cache-control": "public, max-age=3600"})


def _local(place: str) -> str:
    """Return `place` if it is a path of this service; the start page if it leads elsewhere."""
    is_local = place.startswith("/") and not place.startswith(("//", "/\\"))
    return place if is_local and place.isprintable() else "/"
