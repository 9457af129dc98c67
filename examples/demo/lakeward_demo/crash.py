"""A process that sells a plum and is killed at a named step of the commit.

Run as `python -m lakeward_demo.crash LAKE STEP TRANSACTION ORDER`.
"""

from __future__ import annotations

import sys

from lakeward.lake.lake import Lake
from lakeward_demo.dying import die_at
from lakeward_demo.shop import sell


def main(target: str, step: str, transaction_id: str, number: int) -> None:
    """Sell, and die on the way."""
    lake = Lake(target, create=False)
    die_at(step)
    with lake.transaction(transaction_id=transaction_id, message="the last plum") as tx:
        sell(tx, number, "plum", 1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
