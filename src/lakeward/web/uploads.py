"""Rows in the body of a request: an Arrow IPC stream or a Parquet file, kept in a temporary file.

The whole body arrives before the lake is used, so a slow or broken upload keeps no transaction
open.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from hashlib import sha256
from mmap import ACCESS_READ, mmap
from typing import IO, TYPE_CHECKING, Annotated, Final

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool

from lakeward.errors import InvalidInput
from lakeward.lake.received import Limits, read_received

if TYPE_CHECKING:
    import pyarrow as pa

STREAM: Final = "application/vnd.apache.arrow.stream"
PARQUET: Final = "application/vnd.apache.parquet"
_IN_MEMORY: Final = 8 << 20


class Upload:
    """The complete body of a request, to be read as rows."""

    def __init__(self, kind: str, body: bytes | mmap, limits: Limits) -> None:
        self._kind = kind
        self._body = body
        self._limits = limits

    @property
    def form(self) -> str:
        """The format of the body: `parquet` or `arrow`."""
        return "parquet" if self._kind == PARQUET else "arrow"

    def digest(self) -> str:
        """Return the SHA-256 digest of the body, with its content type."""
        found = sha256(self._kind.encode())
        found.update(self._body)
        return found.hexdigest()

    def checked_bytes(self) -> bytes:
        """Check that all rows can be read; return the body. Raise `InvalidInput` if they cannot."""
        with self.reader() as reader:
            for _ in reader:
                pass
        return bytes(self._body)

    @contextmanager
    def reader(self) -> Generator[pa.RecordBatchReader]:
        """Yield a reader of the rows.

        Raises:
            InvalidInput: The body is not of its content type, or the rows are too large in memory.
            StoreUnavailable: Too many bodies are decoded at this moment.
        """
        with read_received(self._body, self.form, self._limits) as reader:
            yield reader


async def _uploaded(request: Request) -> AsyncIterator[Upload]:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in (STREAM, PARQUET):
        what = "The body of the request has no type that rows can be read from."
        raise InvalidInput(what, hint=f"Send {STREAM} or {PARQUET}.")
    with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as body:
        async for part in request.stream():
            await run_in_threadpool(body.write, part)
        # A slow client holds no turn while it sends.
        async with request.app.state.turns.upload():
            yield Upload(kind, await run_in_threadpool(_whole, body), request.app.state.limits)


def _whole(body: IO[bytes]) -> bytes | mmap:
    """Return the bytes of a temporary file; if it is on disk, without reading it into memory."""
    size = body.tell()
    body.seek(0)
    return body.read() if size <= _IN_MEMORY else mmap(body.fileno(), size, access=ACCESS_READ)


Uploaded = Annotated[Upload, Depends(_uploaded, scope="function")]
"""The type of the parameter by which an endpoint gets uploaded rows."""
