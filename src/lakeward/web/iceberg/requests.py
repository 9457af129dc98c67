"""Helpers of the endpoints of the Iceberg REST catalog: bodies, names, keys and responses."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final

import orjson
from fastapi import Depends, Header, Request, Response

from lakeward.errors import InvalidInput
from lakeward.model.names import TableName
from lakeward.model.namespaces import joined
from lakeward.web.access import Caller
from lakeward.web.answers import JSON, encoded

PREFIX: Final = "/iceberg/v1"
LEVELS: Final = "\x1f"
"""The separator between the levels of a namespace in a URL."""
_KEY: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")


def _key(key: Annotated[str | None, Header(alias="Idempotency-Key")] = None) -> str | None:
    if key is not None and not _KEY.fullmatch(key):
        what = "The Idempotency-Key has not the form of one."
        raise InvalidInput(what, hint="Use up to 128 letters, digits, '_' and '-'.")
    return key


Key = Annotated[str | None, Depends(_key)]
"""The type of the parameter by which an endpoint gets the `Idempotency-Key` of a change."""


def _body(depth: int) -> Callable[[Request], Awaitable[dict[str, Any]]]:
    async def read(request: Request) -> dict[str, Any]:
        try:
            body = orjson.loads(await request.body())
        except orjson.JSONDecodeError as error:
            raise InvalidInput("The body is no JSON.") from error  # noqa: EM101
        if not isinstance(body, dict):
            raise InvalidInput("The body is no JSON object.")  # noqa: EM101
        if not _is_within(body, depth):
            raise InvalidInput(f"The body is nested deeper than {depth} levels.")  # noqa: EM102
        return body

    return read


def _is_within(body: Any, depth: int) -> bool:
    """Return whether a body has at most `depth` levels."""
    level = [body]
    for _ in range(depth):
        inside = [one.values() if isinstance(one, dict) else one for one in level]
        level = [one for each in inside for one in each if isinstance(one, dict | list)]
        if not level:
            return True
    return False


# Functions that call themselves for each level of a schema or a filter handle these depths.
Body = Annotated[dict[str, Any], Depends(_body(100))]
"""The type of the parameter by which an endpoint gets the JSON object of a request."""
ScanBody = Annotated[dict[str, Any], Depends(_body(200))]
"""The same for scans, whose filters have a level for each of several conditions."""


def answer(body: dict[str, Any]) -> Response:
    """Return a JSON response, with paths, because clients read the files themselves."""
    return Response(encoded(body), media_type=JSON)


def nothing() -> Response:
    """Return a response without a body."""
    return Response(status_code=204)


def levels(namespace: str) -> list[str]:
    """Return the levels of a namespace in a URL."""
    return namespace.split(LEVELS)


def namespace_of(namespace: str) -> str:
    """Return a namespace in a URL as it is written in names of tables."""
    return joined(levels(namespace))


def name_of(by: Caller, namespace: list[str], name: Any) -> TableName:
    """Return the lake's name of a table or a view; check that the caller has access to it."""
    if not isinstance(name, str) or not all(isinstance(level, str) for level in namespace):
        raise InvalidInput("The request names no table.")  # noqa: EM101
    found = by.lake.iceberg_catalog().name_of(namespace, name)
    by.check(str(found))
    return found


def identified(by: Caller, body: dict[str, Any], place: str) -> TableName:
    """Return the name of the table or view in the entry `place` of a request's body."""
    found = body.get(place)
    if not isinstance(found, dict) or not isinstance(found.get("namespace"), list):
        raise InvalidInput(f"The request has no `{place}`.")  # noqa: EM102
    return name_of(by, found["namespace"], found.get("name"))


def page(
    found: list[Any], size: int | None, token: str | None, name: Callable[[Any], str]
) -> tuple[list[Any], str | None]:
    """Return a page of a list that is sorted by name, and the token of the next page.

    A token is the last name of the previous page. Without a size, the list is one page.
    """
    rest = [one for one in found if not token or name(one) > token]
    if size is None or len(rest) <= size:
        return rest, None
    return rest[:size], name(rest[size - 1])
