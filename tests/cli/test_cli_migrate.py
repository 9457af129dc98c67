"""`lakeward migrate`: what it says, and its exit codes."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.console import run


@pytest.mark.parametrize("change", ["changed", "deleted"])
def test_sources_that_changed_since_are_reported_and_no_success(
    tmp_path: Path, change: str
) -> None:
    source = tmp_path / "in"
    source.mkdir()
    for name in ("a", "b"):
        pq.write_table(pa.table({"id": [1]}), source / f"{name}.parquet")
    command = ("migrate", source, "t", "--lake", tmp_path / "lake")
    run("init", "--lake", tmp_path / "lake")
    assert run(*command).code == 0
    assert run(*command).code == 19

    if change == "deleted":
        (source / "a.parquet").unlink()
    else:
        os.utime(source / "a.parquet", (1, 1))

    told = run(*command)
    assert told.code == 9
    assert f"{change.capitalize()} since it was taken in: a.parquet" in told.out
    assert run(*command, "--dry-run").code == 0
