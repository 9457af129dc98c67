"""Rows that a client sent, as an Arrow IPC stream or a Parquet file, read with bounded memory.

A small body can have rows of any size: by compression, by dictionaries, or by lengths that are not
true. A plain stream of Arrow, whose rows are as large as its bytes, is read as it is. Everything
else is decoded in a separate process with limits of memory and time, which gives the rows in slices
of bounded size, and is killed when the rows are too large.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from lakeward.engines.arrow import received_worker
from lakeward.engines.arrow.ipc_metadata import is_plain
from lakeward.engines.arrow.received_worker import PARQUET
from lakeward.engines.arrow.slices import slices, weight
from lakeward.engines.arrow.too_large import TooLarge, too_many
from lakeward.errors import InvalidInput, StoreUnavailable

_PATIENCE_SECONDS: Final = 10.0
_HINT: Final = (
    "Send fewer rows in a request, or an Arrow IPC stream without compression and dictionaries."
)
_UNREADABLE: Final = (pa.ArrowException, OSError, EOFError, UnicodeError, OverflowError)
"""What reading a body may raise."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of reading the rows of one body.

    Attributes:
        rows: The most bytes of all rows in memory; unlimited if None.
        memory: The most bytes of address space of the process that decodes them.
        seconds: The most seconds of CPU time of this process.
        free: Counts how many more processes may run; unlimited if None.
    """

    rows: int | None = None
    memory: int = 2 << 30
    seconds: int = 120
    free: threading.Semaphore | None = None


@contextmanager
def read_received(data: Any, form: str, limits: Limits) -> Generator[pa.RecordBatchReader]:
    """Yield a reader of the rows of a body.

    Args:
        data: The body, as bytes or another buffer.
        form: `parquet`, or `arrow` for an Arrow IPC stream.
        limits: The limits.

    Raises:
        TooLarge: The rows are too large in memory.
        InvalidInput: The body is not of its form.
        StoreUnavailable: Too many bodies are decoded at this moment.
    """
    body = pa.py_buffer(data)
    refusals: list[InvalidInput] = []
    is_open = False
    try:
        with ExitStack() as stack:
            if form != PARQUET and is_plain(body):
                found = pa.ipc.open_stream(pa.BufferReader(body))
                batches = _checked(found, limits, refusals)
            else:
                decoder = stack.enter_context(_decoder(body, form, limits))
                found = decoder.opened()
                batches = decoder.batches(found, refusals)
            noted = _noted(batches, form, refusals)
            reader = pa.RecordBatchReader.from_batches(found.schema, noted)
            is_open = True
            yield reader
    except _UNREADABLE as error:
        if refusals:
            # Arrow keeps the text of an error that passes through it, not the error.
            raise refusals[0] from error
        if is_open:
            # The block failed, not the body: perhaps after it committed the rows.
            raise
        raise _unreadable(form) from error


def _noted(
    batches: Iterable[pa.RecordBatch], form: str, refusals: list[InvalidInput]
) -> Iterator[pa.RecordBatch]:
    """Yield the batches; if they cannot be read, make sure that `refusals` has the reason."""
    try:
        yield from batches
    except _UNREADABLE:
        if not refusals:
            refusals.append(_unreadable(form))
        raise


def _checked(
    batches: Iterable[pa.RecordBatch], limits: Limits, refusals: list[InvalidInput]
) -> Iterator[pa.RecordBatch]:
    """Yield slices of batches after full validation, because offsets in a body may be wrong."""
    size = 0
    for batch in batches:
        batch.validate(full=True)
        for part in slices(batch):
            size += weight(part)
            if limits.rows is not None and size > limits.rows:
                refusals.append(too_many(limits.rows))
                raise refusals[0]
            yield part


def _unreadable(form: str) -> InvalidInput:
    kind = "a Parquet file" if form == PARQUET else "an Arrow IPC stream"
    what = f"The body cannot be read as {kind}. Nothing was written."
    return InvalidInput(what, hint="Send a whole Arrow IPC stream or Parquet file.")


@contextmanager
def _decoder(body: pa.Buffer, form: str, limits: Limits) -> Iterator[_Decoder]:
    """Start a process that decodes a body; kill it at the end of the block.

    It counts until it has given all rows, because the block may then wait for a lock of a table.
    """
    if limits.free is not None and not limits.free.acquire(timeout=_PATIENCE_SECONDS):
        what = "Too many uploads are decoded at this moment."
        raise StoreUnavailable(what, hint="Send it again in a moment.")
    asked = {"form": form, "rows": limits.rows, "memory": limits.memory, "seconds": limits.seconds}
    command = [sys.executable, "-m", received_worker.__name__, json.dumps(asked)]
    pipe = subprocess.PIPE
    with ExitStack() as counted:
        if limits.free is not None:
            counted.callback(limits.free.release)
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:  # noqa: S603  our own program
            try:
                yield _Decoder(process, body, form, counted.close)
            finally:
                process.kill()


class _Decoder:
    """A process that decodes a body."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        body: pa.Buffer,
        form: str,
        done: Callable[[], None],
    ) -> None:
        assert process.stdin is not None  # noqa: S101  as it was started
        assert process.stdout is not None  # noqa: S101  as it was started
        assert process.stderr is not None  # noqa: S101  as it was started
        self._process, self._form, self._done = process, form, done
        self._stdout, self._stderr = process.stdout, process.stderr
        try:
            # It reads all of the body before it writes.
            with process.stdin as stdin:
                stdin.write(body)
        except BrokenPipeError as error:
            raise self._why() from error

    def opened(self) -> pa.RecordBatchReader:
        """Return a reader of what the process writes; raise an error if it failed before."""
        try:
            return pa.ipc.open_stream(self._stdout)
        except (pa.ArrowException, OSError) as error:
            raise self._why() from error

    def batches(
        self, reader: pa.RecordBatchReader, refusals: list[InvalidInput]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows; if they are incomplete, raise the error and add it to `refusals`."""
        try:
            yield from reader
            is_complete = self._stdout.read() == received_worker.END
        except (pa.ArrowException, OSError):
            is_complete = False
        if not is_complete:
            refusals.append(self._why())
            raise refusals[0]
        self._done()

    def _why(self) -> InvalidInput:
        """Return the error because of which the process did not write all rows."""
        # Otherwise a process that has more to write would not end.
        self._stdout.close()
        said, status = self._stderr.read(), self._process.wait()
        if status == received_worker.TOO_LARGE:
            found = json.loads(said[said.rfind(b'{"what":') :])
            return TooLarge(found["what"], hint=found["hint"])
        if status in received_worker.OUT_OF_TIME or b"bad_alloc" in said:
            what = "The body needs more time or memory to be decoded than one request may have."
            return TooLarge(what, hint=_HINT)
        return _unreadable(self._form)
