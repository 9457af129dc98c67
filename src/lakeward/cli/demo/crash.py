"""A process that sells a plum and is killed at a named step of the commit.

Run as `python -m lakeward.cli.demo.crash LAKE STEP TRANSACTION ORDER`.
"""

from __future__ import annotations

import os
import signal
import sys

from lakeward.cli.demo.shop import sell
from lakeward.lake.lake import Lake
from lakeward.model import steps


def main(target: str, step: str, transaction_id: str, number: int) -> None:
    """Sell, and die on the way."""
    lake = Lake(target, create=False)

    def die(reached: str) -> None:
        if reached == step:
            os.kill(os.getpid(), signal.SIGKILL)

    steps.observe(die)
    with lake.transaction(transaction_id=transaction_id, message="the last plum") as tx:
        sell(tx, number, "plum", 1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
