"""The program of a process that runs one query of a user.

The process has limits of time and memory, and is killed when it reaches them, so that an endless or
very large query does not affect others. It reads the query from standard input, as JSON, and writes
the rows as an Arrow IPC stream to standard output, or an error as JSON to standard error. After the
stream it writes `END`, unless the query failed: a stream that stops between two batches looks
complete to a reader.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import pyarrow as pa

from lakeward.errors import LakewardError, TableNotFound
from lakeward.model.names import TableName
from lakeward.model.parameter_values import of_json
from lakeward.model.policy.patterns import Pattern
from lakeward.model.records import to_json

FAILED = 3
"""The exit code of a query that raised an error of Lakeward."""
END = b"lakeward: end of the query"
"""The bytes after the stream of a query that ran without error."""


def main() -> int:
    """Run the query that standard input describes; return the exit code."""
    asked = json.loads(sys.stdin.buffer.read())
    _limit(asked["memory"], asked["seconds"])
    try:
        _run(asked)
    except LakewardError as error:
        said = {
            "kind": type(error).__name__,
            "what": error.what,
            "hint": error.hint,
            "facts": to_json(error.facts),
        }
        sys.stderr.buffer.write(json.dumps(said, separators=(",", ":")).encode())
        return FAILED
    return 0


def _run(asked: dict[str, Any]) -> None:
    from lakeward.lake.lake import Lake

    params = of_json(asked["params"])
    patterns = [Pattern.parse(text) for text in asked["tables"]]

    def is_open(name: TableName) -> bool:
        return any(pattern.matches(name) for pattern in patterns)

    with Lake(
        asked["target"],
        warehouse=asked["warehouse"],
        storage_options=asked["storage_options"],
        create=False,
        actor=asked["actor"],
        repair=False,
    ) as lake:
        # A table that is not open to the user is not found, as one that does not exist.
        found = lake.tables_of_query(asked["query"], params, among=is_open)
        if lake.tables_of_query(asked["query"], params) != found:
            what = "The query names a table in a case that two tables have."
            raise TableNotFound(what, hint="Write names in the case that the tables have.")
        result = lake.sql(asked["query"], params)
        reader = result.to_reader()
        # Not in a `with` block: at an error, that would write a valid end of the stream.
        writer = pa.ipc.new_stream(sys.stdout.buffer, reader.schema)
        for batch in reader:
            writer.write_batch(batch)
            sys.stdout.buffer.flush()
        writer.close()
    sys.stdout.buffer.write(END)
    sys.stdout.buffer.flush()


def _limit(memory: int, seconds: float) -> None:
    """Limit the memory of this process, in bytes, and its CPU time, to four times `seconds`."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    processor = int(seconds * 4) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (processor, processor))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    sys.exit(main())
