"""Compaction after commits, for tables whose policy has `auto_compaction`.

Small files are compacted in tiers: files of about one size become one that is many times larger, so
that a row is rewritten only a few times before it is in a file of the target size, however small
commits are. The files of the next tier are not touched until there are as many of them.
"""

from __future__ import annotations

from statistics import median_low
from typing import Final

from lakeward.maintain.optimize.choice import is_small
from lakeward.maintain.optimize.planning import target_size
from lakeward.read.snapshot import TableSnapshot

ENOUGH: Final = 50
"""The number of small files from which on they are compacted."""
_TIER: Final = 32
"""How many times larger a file of the next tier is; less than the number of files compacted."""


def size_of_next_tier(snapshot: TableSnapshot) -> int | None:
    """Return the size of files into which to compact small files; None if there are too few."""
    target = target_size(snapshot.log_head, snapshot.definition)
    sizes = [f.size for f in snapshot.plan() if is_small(f, target)]
    if len(sizes) < ENOUGH:
        return None
    return min(target, _TIER * median_low(sizes))
