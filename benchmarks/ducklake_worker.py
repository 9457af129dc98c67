"""DuckLake in a process and an environment of its own, driven by lines of JSON.

It imports nothing of ours but the sync, because it runs where Lakeward is not installed. It
measures its own work, so that the pipe is in no number.

A request is `{"do": "open", …}`, or does `append`, `append_two` or `count` without anything more,
and gets one line back.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import duckdb
import pyarrow as pa
from duckdb_extensions import import_extension

from benchmarks.sync import sync_new


class Worker:
    """One DuckLake with one table.

    DuckLake keeps data of very few rows in its catalog; a hundred rows it writes as a Parquet file,
    and that default is left as it is.
    """

    def __init__(self, *, directory: str, catalog: str, rows: str) -> None:
        root = Path(directory)
        root.mkdir(parents=True)
        self._connection = duckdb.connect()
        import_extension("ducklake")
        self._connection.execute("LOAD ducklake")
        where = f"ducklake:{root}/catalog.ducklake"
        if catalog == "sqlite":
            import_extension("sqlite_scanner")
            self._connection.execute("LOAD sqlite_scanner")
            where = f"ducklake:sqlite:{root}/catalog.sqlite"
        self._connection.execute(f"ATTACH '{where}' AS lake (DATA_PATH '{root}/data')")
        self._connection.execute("USE lake")
        for name in ("t", "u"):
            self._connection.execute(f"CREATE TABLE {name} (id BIGINT, v DOUBLE, s VARCHAR)")
        with pa.ipc.open_file(rows) as source:
            self._connection.register("incoming", source.read_all())
        self._data = root / "data"
        self._seen: set[Path] = set()

    def append(self) -> float:
        """Append and commit, then sync what DuckLake did not; the seconds it took."""
        return self._timed("INSERT INTO t FROM incoming")

    def append_two(self) -> float:
        """The same to two tables in one transaction."""
        return self._timed(
            "BEGIN", "INSERT INTO t FROM incoming", "INSERT INTO u FROM incoming", "COMMIT"
        )

    def _timed(self, *statements: str) -> float:
        started = perf_counter()
        for statement in statements:
            self._connection.execute(statement)
        taken = perf_counter() - started
        found = set(self._data.rglob("*.parquet"))
        new, self._seen = found - self._seen, found
        if not new:
            message = "the append wrote no data file"
            raise RuntimeError(message)
        return taken + sync_new(new)

    def count(self) -> int:
        """How many rows the table has."""
        rows = self._connection.execute("SELECT count(*) FROM t").fetchall()
        return int(rows[0][0])


def main() -> None:
    """Answer requests until there are no more."""
    worker: Worker | None = None
    for line in sys.stdin:
        request: dict[str, Any] = json.loads(line)
        match request.pop("do"):
            case "open":
                worker = Worker(**request)
                answer: float = 0
            case "append" if worker is not None:
                answer = worker.append()
            case "append_two" if worker is not None:
                answer = worker.append_two()
            case "count" if worker is not None:
                answer = worker.count()
            case other:
                message = f"cannot {other}"
                raise ValueError(message)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
