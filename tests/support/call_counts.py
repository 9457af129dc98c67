"""Count the functions that the main paths call, and print the counts as JSON.

A process of its own: other tests leave hooks and caches in theirs, which change the counts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pyarrow as pa

import lakeward as lw

ROWS = pa.table({"id": list(range(100)), "v": [float(i) for i in range(100)]})
_COMMITS = 12
"""Before the count, so that caches are filled. Each Iceberg commit adds a manifest to its list."""


def counts(target: str) -> dict[str, int]:
    """The smallest of three counts for each path, on a new lake at `target`."""
    with lw.open(target) as lake:
        for name in ("d", "e"):
            lake.create(name, ROWS.schema)
        lake.create("i", ROWS.schema, format="iceberg")

        def append(*names: str) -> None:
            with lake.transaction() as tx:
                for name in names:
                    tx.append(name, ROWS)

        paths: dict[str, Callable[[], object]] = {
            "read with a condition": lambda: lake.table("d").to_arrow(where="id = 5"),
            "append": lambda: append("d"),
            "append to two tables": lambda: append("d", "e"),
            "append to Iceberg": lambda: append("i"),
        }
        append("d", "e", "i")
        found = {}
        for path, action in paths.items():
            for _ in range(_COMMITS):
                action()
            found[path] = min(_calls(action) for _ in range(3))
        return found


def _calls(action: Callable[[], object]) -> int:
    """Count the calls of Python functions and of built-in ones in this thread."""
    found = 0

    def note(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal found
        found += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    return found


if __name__ == "__main__":
    print(json.dumps(counts(sys.argv[1])))
