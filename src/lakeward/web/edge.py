"""Middleware around the application: request ids, limits and headers.

Each request gets an id, which is in the response and in the log. On loopback, a request whose
`Host` is not a name of the server is refused: otherwise a web page could reach a service on its
reader's machine by a name that resolves to it. A change that a page of another site requests is
refused.
Bodies are limited in size and in time. Headers of every response forbid scripts of other sites.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time
from typing import TYPE_CHECKING, Final

from starlette.requests import cookie_parser

from lakeward.web.access import COOKIE as TOKEN_COOKIE
from lakeward.web.access import KNOWN
from lakeward.web.answers import encoded
from lakeward.web.rates import Rates, Users
from lakeward.web.settings import Settings, is_loopback

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

UPLOAD_TYPES: Final = (
    b"application/vnd.apache.arrow.stream",
    b"application/vnd.apache.parquet",
)
_LOG: Final = logging.getLogger("lakeward.web")
_ID: Final = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_SAFE: Final = ("GET", "HEAD", "OPTIONS")
_TOKEN_IN_BODY: Final = ("/login", "/iceberg/v1/oauth/tokens")
_HEADERS: Final = (
    (
        b"content-security-policy",
        (
            b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
            b" connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        ),
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)


class _Refused(Exception):
    """The body of a request is too large, or did not arrive in time."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


class Edge:
    """The outermost middleware of the service."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._settings = settings
        self._rates = Rates(settings.rate, settings.burst)
        self._strangers = Rates(settings.strangers_rate, settings.strangers_burst)
        self._users = Users()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        request_id = _request_id(headers)
        scope["request_id"] = request_id
        began, status = time.monotonic(), 0
        body = _Body(self._settings, headers, receive)

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                kept = [*message["headers"], (b"x-request-id", request_id.encode()), *_HEADERS]
                known = {name.lower() for name, _ in message["headers"]}
                if b"cache-control" not in known:
                    kept.append((b"cache-control", b"no-store"))
                message = {**message, "headers": kept}
            await send(message)

        async def answer_unless_refused(message: Message) -> None:
            # The application takes a body that ends early for a broken one, and would say so.
            if body.refusal is None or status:
                await answer(message)

        try:
            self._check(scope, headers)
            self._check_rate(scope, headers)
            body.check_length()
            await self._app(scope, body.receive, answer_unless_refused)
            if body.refusal is not None and not status:
                raise body.refusal
        except _Refused as refused:
            await _refuse(answer, scope, refused, request_id)
        except Exception:  # noqa: BLE001  whatever it is, it was logged and ends here
            # The application has logged it without secrets; the server would print all of it.
            if not status:
                failed = _Refused(500, "The service made a mistake.")
                await _refuse(answer, scope, failed, request_id)
        finally:
            shown = _shown(scope)
            if shown is not None and KNOWN in scope:
                self._users.remember(shown, known=bool(scope[KNOWN]))
            spent = (time.monotonic() - began) * 1000
            # A line feed in the path would begin a line of the log that the caller wrote.
            path = scope["path"].encode("unicode_escape").decode()
            _LOG.info("%s %s %s %d %.0f ms", request_id, scope["method"], path, status, spent)

    def _check_rate(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        """Raise `_Refused` if a token or address sends too many requests or unknown tokens."""
        shown, address = _shown(scope), self._address(scope, headers)
        is_stranger = shown is not None and not self._users.knows(shown)
        if scope["path"] in _TOKEN_IN_BODY and scope["method"] not in _SAFE:
            # The token in the body may be a guess, whoever sends it.
            is_stranger = True
        if not self._rates.takes(shown or address) or (
            is_stranger and not self._strangers.takes(address)
        ):
            raise _Refused(429, "You make too many requests. Send them more slowly.")

    def _address(self, scope: Scope, headers: dict[bytes, bytes]) -> bytes:
        """Return a caller's address; behind a proxy on this machine, the address it forwards."""
        own = str((scope.get("client") or ("",))[0])
        seen = headers.get(b"x-forwarded-for", b"").rpartition(b",")[2].strip()
        is_proxied = self._settings.public_name is not None and is_loopback(own)
        return seen if seen and is_proxied else own.encode()

    def _check(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        host = headers.get(b"host", b"").decode("latin-1")
        if not self._settings.answers_to(_without_port(host)):
            raise _Refused(421, "The service listens on this machine only, by its own names.")
        if scope["method"] in _SAFE:
            return
        origin = headers.get(b"origin", b"").decode("latin-1")
        is_other = bool(origin) and origin.partition("://")[2] != host
        if is_other or headers.get(b"sec-fetch-site") in (b"cross-site", b"same-site"):
            raise _Refused(403, "A page of another site asked for this change.")


class _Body:
    """The body of a request; reading it raises `_Refused` if it is too large or too late."""

    def __init__(self, settings: Settings, headers: dict[bytes, bytes], receive: Receive) -> None:
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        self._most = settings.max_upload if kind in UPLOAD_TYPES else settings.max_json
        self._said = headers.get(b"content-length", b"0")
        self._deadline = time.monotonic() + settings.body_seconds
        self._receive = receive
        self._size = 0
        self._is_whole = False
        self.refusal: _Refused | None = None

    def check_length(self) -> None:
        """Refuse a body whose `Content-Length` is too large, before any of it is read."""
        if not self._said.isdigit() or int(self._said) > self._most:
            raise self._too_large()

    async def receive(self) -> Message:
        """Receive the next part of the body; raise `_Refused` if it is too large or too late."""
        if self._is_whole:
            return await self._receive()
        try:
            async with asyncio.timeout(max(0.0, self._deadline - time.monotonic())):
                message = await self._receive()
        except TimeoutError as error:
            detail = "The body of the request did not arrive in time."
            self.refusal = _Refused(408, detail)
            raise self.refusal from error
        if message["type"] == "http.request":
            self._size += len(message.get("body", b""))
            self._is_whole = not message.get("more_body", False)
        if self._size > self._most:
            self.refusal = self._too_large()
            raise self.refusal
        return message

    def _too_large(self) -> _Refused:
        return _Refused(413, f"The body of the request may have {self._most:,} bytes.")


def _shown(scope: Scope) -> bytes | None:
    """Return the authorization header or the token in a cookie, unchecked; None without.

    If a request has several, it is the one that the application checks. Other cookies change from
    page to page, so they do not identify a caller.
    """
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    for name, value in headers:
        if name == b"authorization":
            return value or None
    found: str | None = None
    for name, value in headers:
        if name == b"cookie":
            found = cookie_parser(value.decode("latin-1")).get(TOKEN_COOKIE, found)
    return found.encode("latin-1", "replace") if found else None


def _request_id(headers: dict[bytes, bytes]) -> str:
    given = headers.get(b"x-request-id", b"")
    return given.decode() if _ID.fullmatch(given) else secrets.token_hex(8)


def _without_port(host: str) -> str:
    return host.rpartition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]


async def _refuse(send: Send, scope: Scope, refused: _Refused, request_id: str) -> None:
    body = encoded(
        {
            "type": "urn:lakeward:error:Refused",
            "title": "Request refused",
            "status": refused.status,
            "detail": refused.detail,
            "instance": scope["path"],
            "request_id": request_id,
        }
    )
    headers = [(b"content-type", b"application/problem+json"), (b"connection", b"close")]
    if refused.status == 429:
        headers.append((b"retry-after", b"1"))
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
