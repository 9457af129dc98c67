"""The endpoint for rows of a table at one version: a page as JSON, or all as an Arrow IPC stream.

A cursor contains the version of the first page, so all pages that follow each other are of one
version, whatever is committed meanwhile.
"""

from __future__ import annotations

from collections.abc import Generator
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, Final

import anyio
from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from lakeward.model.parameter_values import of_texts
from lakeward.model.records import to_json
from lakeward.model.roles import Role
from lakeward.web.access import By, needs
from lakeward.web.answers import JSON, Cursor, Limit, Param, cursor_of, encoded, place_of
from lakeward.web.places import SnapshotAt

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeward.lake.records import TableSnapshot

ARROW: Final = "application/vnd.apache.arrow.stream"
_INCOMPLETE: Final = b"\xff\xff\xff\xff\x08\x00\x00\x00"
"""The beginning of a message of an Arrow IPC stream that promises 8 bytes of metadata."""
router = APIRouter(prefix="/api/v1/tables", tags=["rows"])


@router.get("/{table}/rows")
@needs(Role.READER)
def rows(
    request: Request,
    by: By,
    table: str,
    at: SnapshotAt,
    columns: Annotated[list[str] | None, Query(max_length=1000)] = None,
    where: Annotated[str | None, Query(max_length=10_000, description="A SQL condition.")] = None,
    param: Param = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """Read a page of rows as JSON; with `Accept: application/vnd.apache.arrow.stream` all rows."""
    place = place_of(cursor, version=int, offset=int)
    found = at.of(by.table(table), place)
    params = of_texts(param)
    if ARROW in request.headers.get("accept", ""):
        return _stream(found, columns, where, params)
    offset = 0 if place is None else place["offset"]
    page = found.page(columns=columns, where=where, params=params, offset=offset, limit=limit)
    end = offset + page.data.num_rows
    more = cursor_of(version=found.version, offset=end) if page.more else None
    return Response(encoded({**to_json(page), "next": more}), media_type=JSON)


def _stream(
    found: TableSnapshot,
    columns: list[str] | None,
    where: str | None,
    params: dict[str, Any] | None,
) -> Response:
    # Made here, so that what is wrong with the request is answered as an error.
    reader = found.to_reader(columns=columns, where=where, params=params)
    headers = {"x-lakeward-version": str(found.version)}
    return streamed(batches(reader), headers)


def streamed(pieces: Generator[bytes], headers: dict[str, str] | None = None) -> Response:
    """Return a response of pieces of an Arrow IPC stream.

    The first piece is made here, so that an error before it is answered with its status.
    """
    return _Streamed(next(pieces), pieces, headers)


class _Streamed(StreamingResponse):
    """A response that closes the iterator of its pieces, also if the client breaks off.

    Otherwise the iterator, and what it has opened, would live until the next garbage collection.
    """

    def __init__(
        self, first: bytes, pieces: Generator[bytes], headers: dict[str, str] | None
    ) -> None:
        super().__init__(chain((first,), pieces), media_type=ARROW, headers=headers)
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            with anyio.CancelScope(shield=True):
                await run_in_threadpool(self._pieces.close)


def batches(reader: pa.RecordBatchReader) -> Generator[bytes]:
    """Yield the rows of a reader as pieces of an Arrow IPC stream.

    After an error the last piece is the beginning of a message without the rest, and then the error
    is raised: an Arrow reader would take a stream that ends between two messages for complete.
    """
    import pyarrow as pa

    sink = _Pieces()
    has_begun = False
    try:
        with reader, pa.ipc.new_stream(sink, reader.schema) as writer:
            for batch in reader:
                writer.write_batch(batch)
                yield sink.take()
                has_begun = True
    except Exception:
        if has_begun:
            yield _INCOMPLETE
        raise
    yield sink.take()


class _Pieces:
    """A file object that keeps written bytes until `take` returns them."""

    closed = False

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, piece: Any) -> int:
        """Keep a piece; return its size."""
        self._pieces.append(bytes(piece))
        return len(self._pieces[-1])

    def flush(self) -> None:
        """Do nothing: `take` returns all written pieces."""

    def take(self) -> bytes:
        """Return the bytes written since the last call."""
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)
