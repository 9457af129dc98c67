"""Relations of DuckDB as rows, in a process that has both libraries."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

_PROGRAM = """
import sys

sys.path.append(sys.argv[1])

import duckdb

import lakeward as lw

lake = lw.open(sys.argv[2])
rows = duckdb.sql("SELECT range::INTEGER AS id, 'n' || range AS name FROM range(300000)")
print(lake.create("x", like=rows).schema)
with lake.transaction() as tx:
    tx.append("x", rows)
    tx.append("x", duckdb.sql("SELECT sum(range) AS id, 'sum' AS name FROM range(3)"))
    done = tx.merge("x", duckdb.sql("SELECT 1 AS id, 'one' AS name"), on="id")
found = lake.table("x").to_arrow(where="id <= 3")
print(found.num_rows, done.updated, lake.table("x").to_arrow(columns=["id"]).num_rows)
try:
    lake.transaction().append("x", duckdb.sql("SELECT 9999999999 AS id, 'a' AS name"))
except ValueError as error:
    print(error.what)
"""


@pytest.mark.peers
def test_relations_are_taken_as_rows(tmp_path: Path) -> None:
    packages = next((ROOT / ".venv-peers" / "lib").glob("python*/site-packages"), None)
    if packages is None:
        pytest.skip("run `make peers` for DuckDB")
    command = [sys.executable, "-c", _PROGRAM, str(packages), str(tmp_path / "lake")]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.stdout.splitlines() == [
        "id: int32",
        "name: string",
        "5 1 300001",
        "Column id of x is int32; 9999999999 in row 0 does not fit it.",
    ], done.stderr
