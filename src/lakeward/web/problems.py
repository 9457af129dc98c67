"""Error responses: problem details by RFC 9457, with the class, hint and facts of the error.

The response for a Lakeward error has its message, without paths and secrets. For any other
exception the response has only the request's id, under which the log has the details.
"""

from __future__ import annotations

import logging
import traceback
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse

from lakeward import errors
from lakeward.errors import LakewardError
from lakeward.lake.received import TooLarge
from lakeward.lake.rest_namespaces import NotEmpty
from lakeward.lake.rest_signing import NotSigned
from lakeward.web.access import Forbidden, Unauthenticated
from lakeward.web.answers import encoded, hiding_of
from lakeward.web.iceberg.problems import for_iceberg
from lakeward.web.pages.rendering import HTML, link, rendered, wants_page

MEDIA_TYPE: Final = "application/problem+json"
_LOG: Final = logging.getLogger("lakeward.web")
_STATUS: Final[dict[type[LakewardError], int]] = {
    Unauthenticated: 401,
    Forbidden: 403,
    errors.ReadOnlyLake: 403,
    errors.NotFound: 404,
    errors.AlreadyExists: 409,
    errors.Conflict: 409,
    errors.TransactionClosed: 409,
    errors.PublicationBlocked: 409,
    NotEmpty: 409,
    NotSigned: 403,
    errors.SchemaMismatch: 422,
    errors.ConstraintViolation: 422,
    errors.PolicyViolation: 422,
    errors.ExpectationFailed: 422,
    errors.Refused: 422,
    TooLarge: 413,
    errors.InvalidInput: 400,
    errors.Locked: 423,
    errors.MissingExtra: 501,
    errors.StoreUnavailable: 503,
    errors.OutcomeUnknown: 503,
}
_REASONS: Final = {400: "Bad request", 404: "Not found", 405: "Method not allowed"}


def status_of(error: LakewardError) -> int:
    """Return the status code of an error: that of its nearest base class with one, else 500."""
    return next((_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS), 500)


def problem(
    request: Request, status: int, kind: str, title: str, detail: str, **more: Any
) -> Response:
    """Return a response with problem details, in the form for the client: JSON, Iceberg or page."""
    body = {
        "type": f"urn:lakeward:error:{kind}",
        "title": title,
        "status": status,
        "detail": detail,
        "instance": request.url.path,
        "request_id": request.scope.get("request_id"),
        **{name: value for name, value in more.items() if value is not None},
    }
    if request.url.path.startswith("/iceberg/"):
        return for_iceberg(request.url.path, status, kind, detail, more.get("facts") or {})
    if wants_page(request):
        return _as_page(request, body)
    headers = {"www-authenticate": 'Bearer realm="lakeward"'} if status == 401 else {}
    return Response(encoded(body), status, headers, MEDIA_TYPE)


def _as_page(request: Request, body: dict[str, Any]) -> Response:
    """Return problem details as a page; redirect to the login page if a token is missing."""
    if body["status"] == 401:
        asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(link("/login", next=asked), 303)
    text = rendered(request, "problem", {"problem": body})
    return Response(text, body["status"], media_type=HTML)


def of_error(request: Request, error: LakewardError) -> Response:
    """Return a response for a Lakeward error; log it if its status is 500 or more."""
    hide = hiding_of(request)
    status, kind = status_of(error), type(error).__name__
    caller = getattr(request.state, "caller", None)
    # What to do about a missing thing names others, which may not be open to the caller.
    is_open = caller is not None and caller.sees_everything
    hint = error.hint if is_open or not isinstance(error, errors.NotFound) else None
    if status >= 500:
        _LOG.error("%s %s", request.scope.get("request_id"), hide.text(str(error)))
    return problem(
        request,
        status,
        kind,
        _words(kind),
        hide.text(error.what),
        hint=None if hint is None else hide.text(hint),
        retryable=error.retryable,
        facts=hide.deeply(_plain(error.facts)),
    )


def install(app: FastAPI) -> None:
    """Register handlers that respond to every exception with problem details."""

    @app.exception_handler(LakewardError)
    def _known(request: Request, error: Exception) -> Response:
        assert isinstance(error, LakewardError)  # noqa: S101  as it is registered
        return of_error(request, error)

    @app.exception_handler(RequestValidationError)
    def _invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)  # noqa: S101  as it is registered
        # What was sent is not sent back.
        wrong = [
            {"at": [str(part)[:100] for part in one["loc"]], "what": str(one["msg"])[:200]}
            for one in error.errors()[:20]
        ]
        detail = "The request does not have the form that this address takes."
        return problem(request, 400, "InvalidInput", "Invalid input", detail, errors=wrong)

    @app.exception_handler(HTTPException)
    def _http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101  as it is registered
        title = _REASONS.get(error.status_code, "HTTP error")
        answer = problem(request, error.status_code, "Http", title, str(error.detail))
        answer.headers.update(error.headers or {})
        return answer

    @app.exception_handler(Exception)
    def _unexpected(request: Request, error: Exception) -> Response:
        hide = hiding_of(request)
        request_id = request.scope.get("request_id")
        text = "".join(traceback.format_exception(error))
        _LOG.error("%s %s", request_id, hide.text(text))
        detail = "The service made a mistake. Its log has more under the id of this request."
        return problem(request, 500, "Unexpected", "Unexpected error", detail)


def _words(kind: str) -> str:
    """Return a class's name in words: `Table not found` for `TableNotFound`."""
    spaced = "".join(f" {c.lower()}" if c.isupper() else c for c in kind).strip()
    return spaced[:1].upper() + spaced[1:]


def _plain(facts: dict[str, Any]) -> dict[str, Any]:
    from lakeward.model.records import to_json

    found: dict[str, Any] = to_json(facts)
    return found
