"""Rows in the body of a request: an Arrow IPC stream or a Parquet file, kept in a temporary file.

The whole body arrives before the lake is used, so a slow or broken upload keeps no transaction
open.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Generator, Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import IO, TYPE_CHECKING, Annotated, Any, Final

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool

from lakeward.errors import InvalidInput

if TYPE_CHECKING:
    import pyarrow as pa

STREAM: Final = "application/vnd.apache.arrow.stream"
PARQUET: Final = "application/vnd.apache.parquet"
_IN_MEMORY: Final = 8 << 20


class Upload:
    """The complete body of a request, to be read as rows."""

    def __init__(self, kind: str, body: IO[bytes], most: int) -> None:
        self._kind = kind
        self._body = body
        self._most = most
        self._refusal: InvalidInput | None = None

    @property
    def form(self) -> str:
        """The format of the body: `parquet` or `arrow`."""
        return "parquet" if self._kind == PARQUET else "arrow"

    def digest(self) -> str:
        """Return the SHA-256 digest of the body, with its content type."""
        self._body.seek(0)
        found = sha256(self._kind.encode())
        while part := self._body.read(1 << 20):
            found.update(part)
        return found.hexdigest()

    def checked_bytes(self) -> bytes:
        """Check that all rows can be read; return the body. Raise `InvalidInput` if they cannot."""
        with self.reader() as reader:
            for _ in reader:
                pass
        self._body.seek(0)
        return self._body.read()

    @contextmanager
    def reader(self) -> Generator[pa.RecordBatchReader]:
        """Yield a reader of the rows.

        Raises:
            InvalidInput: The body is not of its content type, or the rows are too large in memory.
        """
        import pyarrow as pa

        self._body.seek(0)
        try:
            with self._opened() as reader:
                yield reader
        except (pa.ArrowException, OSError, EOFError, UnicodeError, OverflowError) as error:
            if self._refusal is not None:
                # Arrow keeps the text of an error that passes through it, not the error.
                raise self._refusal from error
            what = f"The body cannot be read as {self._kind}. Nothing was written."
            raise InvalidInput(
                what, hint="Send a whole Arrow IPC stream or Parquet file."
            ) from error

    def _opened(self) -> Any:
        import pyarrow as pa
        from pyarrow import parquet

        if self._kind == STREAM:
            reader = pa.ipc.open_stream(self._body)
            return pa.RecordBatchReader.from_batches(reader.schema, self._checked(reader))
        file = parquet.ParquetFile(self._body)
        batches = self._checked(file.iter_batches())
        return pa.RecordBatchReader.from_batches(file.schema_arrow, batches)

    def _checked(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield batches after full validation, because offsets in an uploaded file may be wrong."""
        size = 0
        for batch in batches:
            batch.validate(full=True)
            size += batch.nbytes
            if size > self._most:
                what = f"The rows have more than {self._most:,} bytes in memory."
                hint = "Nothing was written. Send them in several requests."
                self._refusal = InvalidInput(what, hint=hint)
                raise self._refusal
            yield batch


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
            yield Upload(kind, body, request.app.state.settings.max_rows)


Uploaded = Annotated[Upload, Depends(_uploaded, scope="function")]
"""The type of the parameter by which an endpoint gets uploaded rows."""
