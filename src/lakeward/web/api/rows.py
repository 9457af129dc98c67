"""Rows of a table at one version: a page as JSON, or all of them as an Arrow IPC stream.

A cursor names the version that its first page had, so pages of one reading are of one version,
whatever is committed meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response
from starlette.responses import StreamingResponse

from lakeward.model.records import to_json
from lakeward.model.roles import Role
from lakeward.web.access import By, needs
from lakeward.web.answers import JSON, Cursor, Limit, cursor_of, encoded, place_of
from lakeward.web.places import SnapshotAt, version_of

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeward.lake.records import TableSnapshot

ARROW: Final = "application/vnd.apache.arrow.stream"
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
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """Read a page of rows as JSON; with `Accept: application/vnd.apache.arrow.stream` all rows."""
    place = place_of(cursor, version=int, offset=int)
    source = by.table(table)
    found = at.of(source) if place is None else source.at(version=version_of(at, place))
    if ARROW in request.headers.get("accept", ""):
        return _stream(found, columns, where)
    offset = 0 if place is None else place["offset"]
    page = found.page(columns=columns, where=where, offset=offset, limit=limit)
    end = offset + page.data.num_rows
    more = cursor_of(version=found.version, offset=end) if page.more else None
    return Response(encoded({**to_json(page), "next": more}), media_type=JSON)


def _stream(found: TableSnapshot, columns: list[str] | None, where: str | None) -> Response:
    # Made here, so that what is wrong with the request is answered as an error.
    reader = found.to_reader(columns=columns, where=where)
    headers = {"x-lakeward-version": str(found.version)}
    return StreamingResponse(_batches(reader), media_type=ARROW, headers=headers)


def _batches(reader: pa.RecordBatchReader) -> Iterator[bytes]:
    import pyarrow as pa

    sink = _Pieces()
    with reader, pa.ipc.new_stream(sink, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
            yield sink.take()
    yield sink.take()


class _Pieces:
    """A file object that keeps written bytes until `take` returns them."""

    closed = False

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, piece: Any) -> int:
        """Keep a piece."""
        self._pieces.append(bytes(piece))
        return len(self._pieces[-1])

    def flush(self) -> None:
        """Do nothing: pieces are kept as they come."""

    def take(self) -> bytes:
        """Return the bytes written since the last call."""
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)
