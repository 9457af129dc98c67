"""When pyiceberg is loaded: before a commit takes locks, for which other writers would wait."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import lakeward as lw

_COMMIT = """
import sys
import lakeward as lw

with lw.open(sys.argv[1]) as lake, lake.transaction() as tx:
    tx.append("t", [{"id": 1}])
    before = set(sys.modules)
    tx.commit()
    print(sorted(name for name in set(sys.modules) - before if name.startswith("pyiceberg")))
"""


def test_the_first_commit_of_a_process_loads_pyiceberg_before_it_takes_locks(
    tmp_path: Path,
) -> None:
    with lw.open(tmp_path) as lake:
        lake.create("t", {"id": "int64"}, format="iceberg")
    command = [sys.executable, "-c", _COMMIT, str(tmp_path)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.stdout.strip() == "[]", found.stderr
