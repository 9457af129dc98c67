"""DuckLake as a contender: a worker process in `.venv-peers`, because it needs its own DuckDB."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakeward.model.closing import Closing

PROJECT = Path(__file__).resolve().parent.parent
PYTHON = PROJECT / ".venv-peers" / "bin" / "python"


class DuckLake(Closing):
    """A DuckLake table in a worker process.

    Args:
        directory: Where it shall be; must not exist.
        catalog: `duckdb` or `sqlite`: what kind of file holds its log.
        data: What every append appends.
    """

    def __init__(self, directory: Path, catalog: str, data: pa.Table) -> None:
        if not PYTHON.exists():
            message = "There is no .venv-peers; `make peers` makes it."
            raise SystemExit(message)
        handed = directory.with_suffix(".arrow")
        with pa.ipc.new_file(handed, data.schema) as sink:
            sink.write_table(data)
        self._process = subprocess.Popen(
            [PYTHON, "-m", "benchmarks.ducklake_worker"],
            cwd=PROJECT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._ask("open", directory=str(directory), catalog=catalog, rows=str(handed))

    def append(self) -> float:
        """Append once; the seconds that the worker measured."""
        return float(self._ask("append"))

    def append_two(self) -> float:
        """Append to two tables in one transaction; the seconds that the worker measured."""
        return float(self._ask("append_two"))

    def count(self) -> int:
        """How many rows the table has."""
        return int(self._ask("count"))

    def close(self) -> None:
        """Let the worker end."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(timeout=30)

    def _ask(self, what: str, **rest: Any) -> Any:
        to, back = self._process.stdin, self._process.stdout
        if to is None or back is None:
            message = "the worker has no pipes"
            raise AssertionError(message)
        to.write(json.dumps({"do": what, **rest}) + "\n")
        to.flush()
        line = back.readline()
        if not line:
            message = f"The DuckLake worker ended with code {self._process.wait()}."
            raise RuntimeError(message)
        return json.loads(line)
