"""The tables that a browser showed last, kept in a cookie of that browser.

A cookie can have any content, so its names are shown only if they are tables that the caller has
access to.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final
from urllib.parse import quote, unquote

from fastapi import Request, Response

COOKIE: Final = "lakeward_viewed"
_BETWEEN: Final = "|"
_MOST: Final = 10
_MOST_CHARACTERS: Final = 2000
_SECONDS: Final = 30 * 86_400


def viewed(request: Request, known: Collection[str]) -> list[str]:
    """Return the names in `known` of the tables that the browser showed last, newest first."""
    return [name for name in _kept(request) if name in known]


def remember(request: Request, response: Response, table: str) -> None:
    """Put a table first in the cookie that a response sets."""
    before = _kept(request)
    if before[:1] == [table]:
        return
    names = [table, *(name for name in before if name != table)][:_MOST]
    text = _encoded(names)
    while len(text) > _MOST_CHARACTERS:
        names.pop()
        text = _encoded(names)
    response.set_cookie(
        COOKIE,
        text,
        max_age=_SECONDS,
        httponly=True,
        samesite="strict",
        secure=request.app.state.settings.public_name is not None,
    )


def _kept(request: Request) -> list[str]:
    text = request.cookies.get(COOKIE, "")
    if not text or len(text) > _MOST_CHARACTERS:
        return []
    return list(dict.fromkeys(map(unquote, text.split(_BETWEEN))))[:_MOST]


def _encoded(names: list[str]) -> str:
    return _BETWEEN.join(quote(name, safe="") for name in names)
