"""Responses: records as JSON, and cursors of lists that are returned page by page.

A request for the next page has the cursor of the previous response, which encodes where the next
page begins. A cursor is not secret and gives no access.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Annotated, Any, Final

import orjson
from fastapi import Query, Request, Response

from lakeward.errors import InvalidInput
from lakeward.model.records import to_json

if TYPE_CHECKING:
    from lakeward.web.hiding import Hiding

JSON = "application/json"
Limit = Annotated[int, Query(ge=1, le=1000, description="At most so many entries.")]
_LARGEST: Final = 2**63 - 1
Cursor = Annotated[
    str | None, Query(max_length=500, description="`next` of the page before; none for the first.")
]
Param = Annotated[
    list[str] | None,
    Query(
        max_length=100,
        description="A value for `:name` in the condition, `name=text` or `name:type=value`;"
        " types are int, float, decimal, bool, date, timestamp, bytes, null and json.",
    ),
]


def answer(request: Request, record: Any, *, status: int = 200) -> Response:
    """Return a response with a record as JSON, without paths and secrets of the server."""
    return Response(encoded(hiding_of(request).deeply(to_json(record))), status, media_type=JSON)


def encoded(value: Any) -> bytes:
    """Return plain values as JSON text."""
    return orjson.dumps(value)


def hiding_of(request: Request) -> Hiding:
    """Return the `Hiding` of the lake that is served."""
    hiding: Hiding = request.app.state.hiding
    return hiding


def cursor_of(**place: Any) -> str:
    """Encode named values, at which the next page begins, as the cursor of a listing."""
    return base64.urlsafe_b64encode(orjson.dumps(place)).decode().rstrip("=")


def place_of(cursor: str | None, **kinds: type) -> dict[str, Any] | None:
    """Return the named values of a cursor, which must have these types; None without a cursor.

    Raises:
        InvalidInput: The text is not a cursor with these names and types.
    """
    if cursor is None:
        return None
    try:
        place = orjson.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if isinstance(place, dict) and {k: type(v) for k, v in place.items()} == kinds:
            numbers = [v for v in place.values() if isinstance(v, int)]
            if all(0 <= number <= _LARGEST for number in numbers):
                return place
    except (ValueError, binascii.Error):
        pass
    what = "The cursor is none that this list gave."
    raise InvalidInput(what, hint="Ask without `cursor` for the first page.", parameter="cursor")
