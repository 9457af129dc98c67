"""Runs queries of users, each in a separate process with limits of time and memory."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from lakeward import errors
from lakeward.errors import InvalidInput, LakewardError, StoreUnavailable
from lakeward.lake.reopening import storage_options_of
from lakeward.web.query_worker import END, FAILED
from lakeward.web.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeward.lake.lake import Lake
    from lakeward.web.access import Caller

_PATIENCE_SECONDS: Final = 2.0


class Queries:
    """Runs queries over one lake, a limited number at a time.

    Args:
        target: The path or URL that the lake was opened with.
        lake: The lake.
        settings: Settings with the limits of queries.
    """

    def __init__(self, target: str, lake: Lake, settings: Settings) -> None:
        self._lake = {
            "target": target,
            "warehouse": lake.warehouse,
            "storage_options": storage_options_of(lake),
        }
        self._settings = settings
        self._free = threading.BoundedSemaphore(settings.queries)

    @contextmanager
    def run(self, by: Caller, query: str, params: Any) -> Iterator[pa.RecordBatchReader]:
        """Run a query over the tables that the caller has access to; yield a reader of its rows.

        The process is killed at the end of the `with` block. The errors below can also be raised
        while the rows are read; the reader ends without error only if the query did.

        Raises:
            StoreUnavailable: Too many queries are running.
            InvalidInput: The query is wrong, or exceeds its limit of time or memory.
            LakewardError: Another error of the lake in the process of the query.
        """
        import pyarrow as pa

        if not self._free.acquire(timeout=_PATIENCE_SECONDS):
            what = "Too many queries run at this moment."
            raise StoreUnavailable(what, hint="Send it again in a moment.")
        is_freed = threading.Lock()

        def free() -> None:
            if is_freed.acquire(blocking=False):
                self._free.release()

        try:
            with self._process(self._asked(by, query, params), free) as process:
                output = _Output(process)
                try:
                    reader = pa.ipc.open_stream(output)
                except (pa.ArrowException, OSError) as error:
                    raise output.why() from error
                yield pa.RecordBatchReader.from_batches(reader.schema, output.batches(reader))
        finally:
            free()

    @contextmanager
    def _process(
        self, asked: dict[str, Any], free: Callable[[], None]
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Start the process of a query; kill it at its time limit or at the end of the block.

        At the time limit `free` is called, so that a client that does not read on keeps no place.
        """
        command = [sys.executable, "-m", "lakeward.web.query_worker"]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:  # noqa: S603  our own program

            def end() -> None:
                process.kill()
                free()

            timer = threading.Timer(self._settings.query_seconds, end)
            timer.daemon = True
            timer.start()
            try:
                assert process.stdin is not None  # noqa: S101  as it was started
                with process.stdin as stdin:
                    # Not by orjson, which refuses integers of more than 64 bits.
                    stdin.write(json.dumps(asked).encode())
                yield process
            finally:
                timer.cancel()
                process.kill()

    def _asked(self, by: Caller, query: str, params: Any) -> dict[str, Any]:
        return {
            **self._lake,
            "query": query,
            "params": params,
            "actor": by.name,
            "tables": [pattern.text for pattern in by.tables_open],
            "memory": self._settings.query_memory,
            "seconds": self._settings.query_seconds,
        }


class _Output:
    """The output of a query's process, as a file object for Arrow."""

    closed = False

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None  # noqa: S101  as it was started
        assert process.stderr is not None  # noqa: S101  as it was started
        self._process = process
        self._stdout, self._stderr = process.stdout, process.stderr

    def read(self, size: int = -1) -> bytes:
        """Read `size` bytes; fewer only at the end of the output."""
        return self._stdout.read(size)

    def readable(self) -> bool:
        """Return True, as Arrow requires."""
        return True

    def batches(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a reader of this output; raise an error if it is incomplete."""
        import pyarrow as pa

        try:
            yield from reader
        except (pa.ArrowException, OSError) as error:
            raise self.why() from error
        if self._stdout.read() != END or self._process.wait() != 0:
            raise self.why()

    def why(self) -> LakewardError:
        """Return the error because of which the output of the process is incomplete."""
        said = self._stderr.read()
        if self._process.wait() == FAILED:
            return _error(said)
        what = "The query needs more time or memory than one query may have."
        return InvalidInput(what, hint="Read less, or ask for it in parts.")


def _error(said: bytes) -> LakewardError:
    """Return the error that a process wrote as JSON at the end of its standard error."""
    found = json.loads(said[said.rfind(b'{"kind":') :])
    kind = getattr(errors, found["kind"], LakewardError)
    facts = {k: v for k, v in found["facts"].items() if k not in ("what", "hint")}
    made: LakewardError = kind(found["what"], hint=found["hint"], **facts)
    return made
