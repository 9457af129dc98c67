"""Records as JSON answers, page by page.

A request for the next page has a cursor: a text in the answer before, which says where that page
begins. It is no secret and gives no access.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Annotated, Any

import orjson
from fastapi import Query, Request, Response

from lakeward.errors import InvalidInput
from lakeward.model.records import to_json

if TYPE_CHECKING:
    from lakeward.web.hiding import Hiding

JSON = "application/json"
Limit = Annotated[int, Query(ge=1, le=1000, description="At most so many entries.")]
Cursor = Annotated[
    str | None, Query(max_length=500, description="`next` of the page before; none for the first.")
]


def answer(request: Request, record: Any, *, status: int = 200) -> Response:
    """A record as JSON, without paths and secrets of the server."""
    return Response(encoded(hiding_of(request).deeply(to_json(record))), status, media_type=JSON)


def encoded(value: Any) -> bytes:
    """JSON text of plain values."""
    return orjson.dumps(value)


def hiding_of(request: Request) -> Hiding:
    """The `Hiding` of the lake that is served."""
    hiding: Hiding = request.app.state.hiding
    return hiding


def cursor_of(**place: Any) -> str:
    """A cursor that holds named values."""
    return base64.urlsafe_b64encode(orjson.dumps(place)).decode().rstrip("=")


def place_of(cursor: str | None, **kinds: type) -> dict[str, Any] | None:
    """The named values of a cursor, each of the kind given; None for the first page.

    Raises:
        InvalidInput: The text is no cursor of this list.
    """
    if cursor is None:
        return None
    try:
        place = orjson.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if isinstance(place, dict) and {k: type(v) for k, v in place.items()} == kinds:
            return place
    except (ValueError, binascii.Error):
        pass
    what = "The cursor is none that this list gave."
    raise InvalidInput(what, hint="Ask without `cursor` for the first page.", parameter="cursor")
