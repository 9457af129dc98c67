"""How many functions the main paths call: the part of their cost that no busy machine changes.

When a bound is exceeded, print the names in `note` before and after the change to see what it added
to the path. Do that work only where its feature is used, keep results that cannot change
(`lakeward.model.definition.known`), and read each row of the store once. Raise a bound only for
work that every such call needs, and say in the commit what it is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest

import lakeward as lw

ROWS = pa.table({"id": list(range(100)), "v": [float(i) for i in range(100)]})
MOST = {
    "append": 765,
    "append to two tables": 1295,
    "append to Iceberg": 4550,
    "read with a condition": 1010,
}
_COMMITS = 12
"""Before the count, so that caches are filled. Each Iceberg commit adds a manifest to its list."""


@pytest.mark.parametrize("path", MOST)
def test_a_path_calls_no_more_functions_than_before(path: str, tmp_path: Path) -> None:
    with lw.open(tmp_path / "lake") as lake:
        for name in ("d", "e"):
            lake.create(name, ROWS.schema)
        lake.create("i", ROWS.schema, format="iceberg")

        def append(*names: str) -> None:
            with lake.transaction() as tx:
                for name in names:
                    tx.append(name, ROWS)

        paths: dict[str, Callable[[], object]] = {
            "append": lambda: append("d"),
            "append to two tables": lambda: append("d", "e"),
            "append to Iceberg": lambda: append("i"),
            "read with a condition": lambda: lake.table("d").to_arrow(where="id = 5"),
        }
        append("d", "e", "i")
        for _ in range(_COMMITS):
            paths[path]()
        assert min(_calls(paths[path]) for _ in range(3)) <= MOST[path]


def _calls(action: Callable[[], object]) -> int:
    """Count the calls of Python functions and of built-in ones in this thread."""
    found = 0

    def note(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal found
        found += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(before)
    return found
