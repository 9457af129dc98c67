"""How many functions the main paths call: the part of their cost that no busy machine changes.

When a bound is exceeded, print the names in `note` of `tests/support/call_counts.py` before and
after the change to see what it added to the path. Do that work only where its feature is used, keep
results that cannot change (`lakeward.model.definition.known`), and read each row of the store once.
Raise a bound only for work that every such call needs, and say in the commit what it is.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("call counts")
MOST = {
    "append": 770,
    "append to two tables": 1298,
    "append to Iceberg": 4550,
    "read with a condition": 1013,
}


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """The counts of a new process, in which no other test has left anything."""
    lake = tmp_path_factory.mktemp("counted") / "lake"
    ran = subprocess.run(
        [sys.executable, "-m", "tests.support.call_counts", str(lake)],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=True,
    )
    counts: dict[str, int] = json.loads(ran.stdout)
    assert counts.keys() == MOST.keys()
    return counts


@pytest.mark.parametrize("path", MOST)
def test_a_path_calls_no_more_functions_than_before(path: str, counted: dict[str, int]) -> None:
    assert counted[path] <= MOST[path]
