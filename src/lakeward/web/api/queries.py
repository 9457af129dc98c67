"""Endpoints for queries over the tables that a caller has access to, and for changed rows.

With `Accept: application/vnd.apache.arrow.stream` the response is an Arrow IPC stream of all rows.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack
from itertools import islice
from typing import Annotated, Any

import pyarrow as pa
from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from lakeward.lake.records import LakeChange, first_rows
from lakeward.model.parameter_values import of_texts
from lakeward.model.records import to_json
from lakeward.model.roles import Role
from lakeward.web.access import By, Caller, needs
from lakeward.web.answers import JSON, Cursor, Limit, Param, answer, cursor_of, encoded, place_of
from lakeward.web.api.body import Body
from lakeward.web.api.rows import ARROW, batches, streamed
from lakeward.web.queries import Queries

router = APIRouter(prefix="/api/v1", tags=["queries"])
Bound = Annotated[
    str | None, Query(max_length=128, description="A version, a time, a tag or a transaction.")
]


class Asking(Body):
    """A query; `query` and `params` are the arguments of `lake.sql`, `limit` is for JSON.

    A value that JSON lacks is an object: `{"type": "date", "value": "2026-01-31"}`.
    """

    query: Annotated[str, Field(max_length=100_000)]
    params: dict[str, Any] | list[Any] | None = None
    limit: Annotated[int, Field(ge=1, le=10_000)] = 1000


@router.post("/sql")
@needs(Role.READER)
def sql(request: Request, by: By, body: Asking) -> Response:
    """Run a query over the tables that the caller has access to, all at one cut."""
    queries: Queries = request.app.state.queries
    with ExitStack() as stack:
        reader = stack.enter_context(queries.run(by, body.query, body.params))
        if ARROW in request.headers.get("accept", ""):
            return streamed(_until_end(stack.pop_all(), reader))
        return _rows(reader, body.limit)


@router.get("/tables/{table}/changes")
@needs(Role.READER)
def changes(
    request: Request,
    by: By,
    table: str,
    since: Annotated[str, Query(max_length=128, description="The first version, or a time, …")],
    until: Bound = None,
    columns: Annotated[list[str] | None, Query(max_length=1000)] = None,
    where: Annotated[str | None, Query(max_length=10_000)] = None,
    param: Param = None,
    key: Annotated[list[str] | None, Query(description="Columns that tell rows apart.")] = None,
    limit: Limit = 1000,
) -> Response:
    """Read the rows that a range of versions inserted, updated and deleted."""
    reader = by.table(table).changes(
        since=_place(since),
        until=None if until is None else _place(until),
        columns=columns,
        where=where,
        params=of_texts(param),
        key=key,
    )
    if ARROW in request.headers.get("accept", ""):
        return streamed(batches(reader))
    with reader:
        return _rows(reader, limit)


@router.get("/changes")
@needs(Role.READER)
def lake_changes(
    request: Request,
    by: By,
    since: Bound = None,
    table: Annotated[list[str] | None, Query(max_length=1000)] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """List committed transactions in the order of their commits, with the versions they made."""
    place = place_of(cursor, after=int)
    names = None if table is None else by.check_all(table)
    found = by.lake.changes(
        since=None if place is not None or since is None else _place(since),
        after=None if place is None else place["after"],
        tables=names,
    )
    page = list(islice(found, limit + 1))
    more = cursor_of(after=page[limit - 1].position) if len(page) > limit else None
    shown = (_seen(by, change) for change in page[:limit])
    return answer(request, {"transactions": [one for one in shown if one], "next": more})


def _seen(by: Caller, change: LakeChange) -> dict[str, Any] | None:
    """Return a transaction with only the tables that the caller has access to; None if none."""
    found = change.tables.items()
    versions = {name: one.version for name, one in found if by.sees(one.name_now)}
    if not versions:
        return None
    return {
        "position": change.position,
        "transaction_id": change.transaction_id,
        "timestamp": change.timestamp,
        "actor": change.actor,
        "message": change.message,
        "versions": versions,
    }


def _rows(reader: pa.RecordBatchReader, limit: int) -> Response:
    """Return the first rows of a reader as JSON; values of rows are not redacted."""
    return Response(encoded(to_json(first_rows(reader, limit))), media_type=JSON)


def _until_end(stack: ExitStack, reader: pa.RecordBatchReader) -> Generator[bytes]:
    with stack:
        yield from batches(reader)


def _place(text: str) -> int | str:
    """Return the text of a version as a number; return any other text unchanged."""
    return int(text) if text.removeprefix("-").isdecimal() else text
