"""The program of a process that decodes the body of one request, with limits of memory and time.

It reads the body from standard input, and writes the rows to standard output: an Arrow IPC stream
in slices of bounded size, without compression and dictionaries, and then `END`. If the rows are too
large it ends with the exit code `TOO_LARGE` and the error as JSON on standard error, and with any
other code if the body cannot be read.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow as pa

PARQUET: Final = "parquet"
END: Final = b"lakeward: end of the rows"
TOO_LARGE: Final = 3
_UNREADABLE: Final = 4
OUT_OF_TIME: Final = (-signal.SIGXCPU, -signal.SIGKILL)
"""The statuses of a process that reached its limit of CPU time."""
_SCHEMA_BYTES: Final = 16 << 20
_ROWS: Final = 1 << 16
"""The rows of a Parquet file that are decoded at once, if there is enough memory for them."""


def main() -> int:
    """Decode standard input; return the exit code."""
    asked = json.loads(sys.argv[1])
    # A pool that reserves address space beforehand would reach the limit.
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"
    _limit(asked["memory"], asked["seconds"])
    import pyarrow as pa

    from lakeward.engines.arrow.too_large import TooLarge

    try:
        _write(pa.py_buffer(sys.stdin.buffer.read()), asked["form"], asked["rows"])
    except MemoryError:
        what = "The body needs more memory to be decoded than one request may have."
        hint = "Send smaller batches or row groups, or fewer rows in a request."
        return _say(TooLarge(what, hint=hint))
    except TooLarge as error:
        return _say(error)
    except (pa.ArrowException, OSError, EOFError, ValueError, OverflowError):
        return _UNREADABLE
    return 0


def _say(error: Any) -> int:
    said = {"what": error.what, "hint": error.hint}
    sys.stderr.write(json.dumps(said, separators=(",", ":")))
    return TOO_LARGE


def _write(body: pa.Buffer, form: str, most: int | None) -> None:
    import pyarrow as pa

    from lakeward.engines.arrow.slices import plain_schema, weight, written_out
    from lakeward.engines.arrow.too_large import too_many, too_many_columns

    schema, batches = _opened_parquet(body) if form == PARQUET else _opened_stream(body)
    if schema.serialize().size > _SCHEMA_BYTES:
        raise too_many_columns(_SCHEMA_BYTES)
    output, size = sys.stdout.buffer, 0
    # Not in a `with` block: at an error, that would write a valid end of the stream.
    writer = pa.ipc.new_stream(output, plain_schema(schema))
    for batch in batches:
        # Offsets and indices in a body may be wrong.
        batch.validate(full=True)
        for part in written_out(batch):
            size += weight(part)
            if most is not None and size > most:
                raise too_many(most)
            writer.write_batch(part)
    writer.close()
    output.write(END)
    output.flush()


def _opened_stream(body: pa.Buffer) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    import pyarrow as pa

    options = pa.ipc.IpcReadOptions(use_threads=False)
    reader = pa.ipc.open_stream(pa.BufferReader(body), options=options)
    return reader.schema, iter(reader)


def _opened_parquet(body: pa.Buffer) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    import pyarrow as pa
    from pyarrow import parquet

    def batches() -> Iterator[pa.RecordBatch]:
        done, rows = 0, _ROWS
        while True:
            with parquet.ParquetFile(pa.BufferReader(body)) as file:
                try:
                    before = done
                    for batch in file.iter_batches(rows, use_threads=False):
                        new = batch.slice(min(before, batch.num_rows))
                        before -= batch.num_rows - new.num_rows
                        if new.num_rows:
                            yield new
                        done += new.num_rows
                    return
                except MemoryError:
                    if rows == 1:
                        raise
                    rows = max(1, rows // 16)

    with parquet.ParquetFile(pa.BufferReader(body)) as file:
        return file.schema_arrow, batches()


def _limit(memory: int, seconds: int) -> None:
    """Limit the memory of this process, in bytes, and its CPU time."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    sys.exit(main())
